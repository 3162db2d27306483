//! How runs are ended from outside.

use linn_bus_test::run;
use linn_services_test::{Gate, Reply};
use serde_json::{Value, json};

use crate::kit::{World, all, first, text_of, types};

#[test]
fn abort_in_mid_stream_6_9() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("never the rest").held_at(&gate), Reply::text("next")]).await;
        world.prompt("hi").await;
        gate.reached().await;
        let delta = world.event("delta").await;
        world.send(json!({ "type": "abort" })).await;
        let events = world.until("aborted").await;
        let cancelled = first(&events, "run_cancelled");
        assert_eq!((&cancelled["reason"], &cancelled["run_id"]), (&json!("abort"), &delta["run_id"]));
        assert_eq!((&cancelled["forced_abort"], &cancelled["cleanup_failures"]), (&json!(false), &json!(0)));
        assert!(cancelled["duration_ms"].is_u64());
        assert_eq!(cancelled.get("sequence"), None);
        gate.open();
        world.prompt("go on").await;
        let events = world.until("done").await;
        assert_eq!(text_of(&events), "next");
        assert!(events.iter().all(|it| it["run_id"] != delta["run_id"]));
    });
}

#[test]
fn abort_while_idle_is_aborted_alone_4_1() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.send(json!({ "type": "abort" })).await;
        assert_eq!(world.next().await["type"], "aborted");
    });
}

#[test]
fn abort_in_a_tool_gives_no_result_6_9() {
    run(async |root| {
        let gate = Gate::new();
        let calls = Reply::call("c1", "slow", json!({ "text": "a" })).and_call("c2", "slow", json!({ "text": "b" }));
        let mut world = World::new(root, [calls, Reply::text("next")]).await;
        world.add_gated_tool("slow", &gate);
        world.prompt("hi").await;
        gate.reached().await;
        world.send(json!({ "type": "abort" })).await;
        let mut events = world.until("aborted").await;
        world.prompt("go on").await;
        events.extend(world.until("done").await);
        assert!(all(&events, "tool_result").is_empty());
        let status = world.status().await;
        assert_eq!((&status["run_id"], &status["resources"]), (&Value::Null, &json!([])));
        assert!(status["discarded_stale_results"].as_u64().unwrap() > 0);
        assert_eq!(status["last_cancellation"]["reason"], "abort");
    });
}

#[test]
fn abort_in_a_wave_gives_no_result_of_those_that_are_done_either_6_4() {
    run(async |root| {
        let gate = Gate::new();
        let calls = Reply::call("c1", "echo", json!({ "text": "a" })).and_call("c2", "slow", json!({ "text": "b" }));
        let mut world = World::new(root, [calls]).await;
        world.add_tools();
        world.add_gated_tool("slow", &gate);
        world.prompt("hi").await;
        gate.reached().await;
        let log = || linn_services_test::log_of(world.agent().session());
        while !log().contains(&"tool/result".to_owned()) {
            world.root.sleep(std::time::Duration::from_millis(1)).await.unwrap();
        }
        world.send(json!({ "type": "abort" })).await;
        let events = world.until("aborted").await;
        assert_eq!(all(&events, "tool_call").len(), 2);
        assert!(all(&events, "tool_result").is_empty());
    });
}

#[test]
fn r130_cancel_with_an_open_approval() {
    run(async |root| {
        let mut world = World::new(root, [Reply::call("c1", "write", json!({ "text": "a" }))]).await;
        world.add_tools();
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        world.send(json!({ "type": "abort" })).await;
        let events = world.until("aborted").await;
        assert_eq!(first(&events, "run_cancelled")["reason"], "abort");
        world.send(json!({ "type": "approve", "request_id": request["request_id"], "decision": "yes" })).await;
        let message = world.event("error").await["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("unknown, expired"), "{message}");
        let log = linn_services_test::log_of(world.agent().session());
        assert!(log.contains(&"turn/end{aborted \"abort\"}".to_owned()), "{log:?}");
        assert_eq!(world.status().await["pending_approvals"], 0);
    });
}

#[test]
fn abort_drops_the_prompt_that_waits_6_13() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate), Reply::text("three")]).await;
        world.prompt("first").await;
        gate.reached().await;
        world.prompt("second").await;
        world.event("info").await;
        world.send(json!({ "type": "abort" })).await;
        world.until("aborted").await;
        gate.open();
        assert_eq!(world.status().await["run_id"], Value::Null);
        world.prompt("third").await;
        assert_eq!(text_of(&world.until("done").await), "three");
        assert_eq!(world.model.requests().len(), 2);
    });
}

#[test]
fn steer_cancels_and_starts_again_6_10() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate), Reply::text("two")]).await;
        world.prompt("first").await;
        gate.reached().await;
        let old = world.event("delta").await;
        world.send(json!({ "type": "steer", "prompt": "other way", "model": "mock-model" })).await;
        let events = world.until("done").await;
        let told: Vec<_> = types(&events).into_iter().filter(|it| *it != "delta").collect();
        assert_eq!(told, ["steer", "run_cancelled", "aborted", "work_state", "metrics", "cost_update", "done"]);
        let cancelled = first(&events, "run_cancelled");
        assert_eq!((&cancelled["reason"], &cancelled["run_id"]), (&json!("steering"), &old["run_id"]));
        assert_eq!((cancelled.get("duration_ms"), cancelled.get("forced_abort")), (None, None));
        assert_eq!(events.last().unwrap()["sequence"], 6);
        assert!(text_of(&events).ends_with("two"));
        gate.open();
    });
}

#[test]
fn steer_while_idle_is_a_prompt_and_an_unknown_model_is_refused_4_1() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("hi")]).await;
        world.send(json!({ "type": "steer", "prompt": "x", "model": "mock-model" })).await;
        let events = world.until("done").await;
        assert_eq!(types(&events), ["steer", "delta", "delta", "metrics", "cost_update", "done"]);
        world.send(json!({ "type": "steer", "prompt": "x", "model": "nobody" })).await;
        assert_eq!(types(&world.until("done").await), ["error", "done"]);
    });
}

#[test]
fn reset_during_a_run_6_15() {
    run(async |root| {
        let mut world =
            World::new(root, [Reply::text("before"), Reply::call("c1", "write", json!({ "text": "a" }))]).await;
        world.add_tools();
        world.prompt("remember me").await;
        let session = world.until("done").await[0]["session_id"].clone();
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        world.send(json!({ "type": "reset" })).await;
        let events = world.until("reset").await;
        assert_eq!(types(&events), ["run_cancelled", "work_state", "reset"]);
        assert_eq!((&events[0]["reason"], &events[0]["run_id"]), (&json!("reset"), &request["run_id"]));
        assert_eq!(events[1]["goal"], "");
        assert_eq!(events[2]["session_id"], session);
        world.send(json!({ "type": "approve", "request_id": request["request_id"], "decision": "yes" })).await;
        assert!(world.event("error").await["message"].as_str().unwrap().contains("unknown"));
        assert!(world.agent().session().messages().is_empty());
        world.send(json!({ "type": "undo" })).await;
        assert_eq!(world.event("history").await["messages"], json!([]));
    });
}

#[test]
fn a_turn_that_somebody_else_cancels_is_told_as_cancelled() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate)]).await;
        world.prompt("first").await;
        gate.reached().await;
        world.agent().cancel(Some("a plugin wants so")).unwrap();
        let events = world.until("aborted").await;
        let told = types(&events);
        assert_eq!(told[told.len() - 2..], ["run_cancelled", "aborted"]);
        assert_eq!(world.status().await["run_id"], Value::Null);
    });
}
