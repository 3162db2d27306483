//! What the harness tells by itself.

use linn_bus_test::run;
use linn_services::compaction::ContextBudget;
use linn_services::events::{
    CompactionDigest, LlmEffortReplaced, LlmRetry, SessionSaved, SessionUnsaved, SettingsChanged,
};
use linn_services_test::{Gate, Reply};
use serde_json::json;

use crate::kit::{World, first};

#[test]
fn attempts_that_fail_are_told_in_the_run_that_asks_6_11() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate)]).await;
        world.prompt("hi").await;
        gate.reached().await;
        world.until("delta").await;
        let retry = LlmRetry {
            session_id: Some(world.agent().session().id().clone()),
            model: "mock-model".into(),
            attempt: 1,
            status: Some(504),
            reason: None,
            backoff_ms: 500,
            discard_partial: false,
        };
        world.root.emit(&LlmRetry { session_id: Some("another".into()), attempt: 7, ..retry.clone() });
        world.root.emit(&retry);
        let told = world.event("http_retry").await;
        assert_eq!((&told["attempt"], &told["status"], &told["backoff_ms"]), (&json!(1), &json!(504), &json!(500)));
        assert!(told["run_id"].is_string());
        assert_eq!((told.get("discard_partial"), told.get("reason")), (None, None));
        let reason = Some("retryable stream error after partial output".to_owned());
        world.root.emit(&LlmRetry { status: None, reason: reason.clone(), discard_partial: true, ..retry });
        let told = world.event("http_retry").await;
        assert_eq!((&told["discard_partial"], &told["reason"]), (&json!(true), &json!(reason)));
        gate.open();
        world.until("done").await;
    });
}

#[test]
fn an_effort_that_is_replaced_is_told_8_3() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate)]).await;
        world.prompt("hi").await;
        gate.reached().await;
        let session_id = Some(world.agent().session().id().clone());
        let (requested, used) = ("extreme".to_owned(), "high".to_owned());
        world.root.emit(&LlmEffortReplaced { session_id, model: "p:mock-model".into(), requested, used });
        let told = world.event("info").await;
        assert_eq!(told["message"], "reasoning effort 'extreme' not supported by model 'mock-model'; using 'high'");
        gate.open();
    });
}

#[test]
fn cut_results_are_told_6_14() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate)]).await;
        world.prompt("hi").await;
        gate.reached().await;
        let budget =
            ContextBudget { context_window: 100, digest_tokens: 70, hard_limit_tokens: 90, ..Default::default() };
        let agent = world.agent();
        world.root.emit(&CompactionDigest { agent, n_results: 3, tokens_before: 75, tokens_after: 60, budget });
        let told = world.event("digested").await;
        assert_eq!((&told["results"], &told["trigger"]), (&json!(3), &json!("pressure")));
        assert_eq!((&told["before_tokens"], &told["after_tokens"]), (&json!(75), &json!(60)));
        assert_eq!((&told["threshold_tokens"], &told["utilization_pct"]), (&json!(70), &json!(75)));
        assert!(told["run_id"].is_string());
        gate.open();
    });
}

#[test]
fn settings_that_change_and_sessions_that_are_not_saved_are_told() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.root.emit(&SettingsChanged { name: "auto_compact".to_owned(), value: json!(false) });
        let told = world.event("config_changed").await;
        assert_eq!((&told["key"], &told["value"]), (&json!("auto_compact"), &json!(false)));
        let session = world.agent().session().clone();
        let owner = session.owner();
        world.root.emit(&SessionUnsaved { session, owner, n_records: 3, why: "the disk is full".to_owned() });
        let told = world.event("info").await;
        assert!(told["message"].as_str().unwrap().contains("the disk is full"));
    });
}

#[test]
fn each_turn_that_is_not_saved_is_told_once_and_so_is_what_ends_unsaved() {
    run(async |root| {
        let mut world = World::new(root, ["one", "two", "three", "four"].map(Reply::text)).await;
        let session = world.agent().session().clone();
        let unsaved = |n_records| SessionUnsaved {
            owner: session.owner(),
            session: session.clone(),
            n_records,
            why: "the disk is full".to_owned(),
        };
        let n_told = |events: &[serde_json::Value]| {
            events.iter().filter(|it| it["type"] == "info" && it.to_string().contains("the disk is full")).count()
        };
        world.root.emit(&unsaved(3));
        assert_eq!(n_told(&world.until("info").await), 1);
        for turn in 0..2 {
            world.prompt("hi").await;
            assert_eq!(n_told(&world.until("done").await), 1, "turn {turn}");
        }
        world.root.emit(&SessionSaved { session: session.clone(), owner: session.owner() });
        assert!(world.event("info").await["message"].as_str().unwrap().contains("saved again"));
        world.prompt("hi").await;
        assert_eq!(n_told(&world.until("done").await), 0);
        world.root.emit(&unsaved(1));
        world.event("info").await;
        world.front.hang_up();
        let told = world.event("info").await;
        assert!(told["message"].as_str().unwrap().contains("could not be saved: the disk is full"), "{told}");
        world.handle.ended().await;
    });
}

#[test]
fn a_turn_that_a_plugin_begins_is_a_run_as_well() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("hi"), Reply::text("by myself")]).await;
        world.prompt("hi").await;
        world.until("done").await;
        let source = linn_services::model::MessageSource::plugin("timer");
        let content = vec!["wake up".into()];
        world.agent().send(linn_services::agent::Prompt { content, source }).unwrap();
        let events = world.until("done").await;
        assert!(first(&events, "delta")["run_id"].as_str().unwrap().starts_with("run-"));
        assert_eq!(events[0]["sequence"], 1);
    });
}
