//! Turns: the order of their events.

use linn_bus_test::run;
use linn_services::model::{ContentBlock, FinishReason, StreamChunk};
use linn_services_test::{Gate, Reply};
use serde_json::{Value, json};

use crate::kit::{World, all, first, text_of, types};

/// All events of a run carry its id, and sequences from 1 without gaps.
fn assert_of_one_run(events: &[Value]) {
    let run = &events[0]["run_id"];
    assert!(run.as_str().unwrap().starts_with("run-"));
    for (n, event) in events.iter().enumerate() {
        assert_eq!((&event["run_id"], &event["sequence"]), (run, &json!(n + 1)), "{event}");
    }
}

#[test]
fn a_plain_turn_6_1() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("Hello there")]).await;
        world.prompt("say hello").await;
        let events = world.until("done").await;
        assert_eq!(types(&events), ["work_state", "delta", "delta", "metrics", "cost_update", "done"]);
        assert_of_one_run(&events);
        assert_eq!(text_of(&events), "Hello there");
        assert_eq!(events[0]["goal"], "say hello");
        let metrics = first(&events, "metrics");
        assert_eq!((&metrics["prompt_tokens"], &metrics["tokens_out"]), (&json!(10), &json!(5)));
        assert_eq!((&metrics["tokens_in"], &metrics["cached_tokens"]), (&json!(15), &json!(0)));
        assert_eq!(metrics["model"], "mock-model");
        assert!(metrics["elapsed_ms"].is_u64() && metrics["ttft_ms"].is_u64());
        let cost = first(&events, "cost_update");
        assert_eq!((&cost["tokens_in"], &cost["cache_hit_pct"]), (&json!(10), &json!(0.0)));
        assert_eq!(cost["estimated_usd"], Value::Null);
        let asked = world.model.requests();
        assert_eq!((asked[0].config.model.as_str(), asked[0].config.effort.as_deref()), ("mock-model", Some("medium")));
    });
}

#[test]
fn thinking_is_told_apart_6_2() {
    run(async |root| {
        let thoughts = StreamChunk::ReasoningDelta { index: 7, text: "hm".to_owned() };
        let mut world = World::new(root, [Reply::empty().and_chunk(thoughts).and_text("Yes")]).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        assert_eq!(types(&events), ["thinking", "delta", "delta", "metrics", "cost_update", "done"]);
        assert_eq!((&events[0]["text"], text_of(&events).as_str()), (&json!("hm"), "Yes"));
    });
}

#[test]
fn a_text_that_comes_as_a_whole_is_told_once() {
    run(async |root| {
        let block = ContentBlock::text("whole");
        let mut world = World::new(root, [Reply::empty().and_chunk(StreamChunk::BlockEnd { index: 0, block })]).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        assert_eq!(text_of(&events), "whole");
    });
}

#[test]
fn one_tool_call_6_3() {
    run(async |root| {
        let script = [Reply::text("Let me see.").and_call("c1", "echo", json!({ "text": "x" })), Reply::text("Done.")];
        let mut world = World::new(root, script).await;
        world.add_tools();
        world.prompt("hi").await;
        let events = world.until("done").await;
        let expected = [
            "delta",
            "delta",
            "tool_call_start",
            "tool_call_name",
            "tool_call_args",
            "tool_call",
            "tool_result",
            "delta",
            "delta",
            "metrics",
            "cost_update",
            "done",
        ];
        assert_eq!(types(&events), expected);
        assert_of_one_run(&events);
        let start = first(&events, "tool_call_start");
        assert_eq!((&start["id"], &start["index"]), (&json!("c1"), &json!(0)));
        assert_eq!(first(&events, "tool_call_name")["name"], "echo");
        assert_eq!(first(&events, "tool_call_args")["args"], r#"{"text":"x"}"#);
        let call = first(&events, "tool_call");
        assert_eq!(
            (&call["id"], &call["name"], &call["args"]),
            (&json!("c1"), &json!("echo"), &json!(r#"{"text":"x"}"#))
        );
        let result = first(&events, "tool_result");
        assert_eq!((&result["id"], &result["ok"], &result["status"]), (&json!("c1"), &json!(true), &json!("success")));
        assert_eq!(result["output"], "echo: x");
        assert_eq!(first(&events, "metrics")["tokens_out"], 10);
    });
}

#[test]
fn a_wave_is_told_calls_first_and_results_in_order_6_4() {
    run(async |root| {
        let (slow, script) = (
            Gate::new(),
            [
                Reply::call("c1", "slow", json!({ "text": "a" }))
                    .and_call("c2", "fail", json!({ "text": "b" }))
                    .and_call("c3", "echo", json!({ "text": "c" })),
                Reply::text("Done."),
            ],
        );
        let mut world = World::new(root, script).await;
        world.add_tools();
        world.add_gated_tool("slow", &slow);
        world.prompt("hi").await;
        slow.reached().await;
        slow.open();
        let events = world.until("done").await;
        let ids = |name| all(&events, name).iter().map(|it| it["id"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!((ids("tool_call"), ids("tool_result")), (vec!["c1", "c2", "c3"], vec!["c1", "c2", "c3"]));
        let told: Vec<_> = types(&events).into_iter().filter(|it| matches!(*it, "tool_call" | "tool_result")).collect();
        assert_eq!(told, ["tool_call", "tool_call", "tool_call", "tool_result", "tool_result", "tool_result"]);
        let statuses: Vec<_> = all(&events, "tool_result").iter().map(|it| it["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["success", "failed", "success"]);
    });
}

#[test]
fn writes_follow_each_other_6_5() {
    run(async |root| {
        let script = [
            Reply::call("c1", "write", json!({ "text": "a" })).and_call("c2", "write", json!({ "text": "b" })),
            Reply::text("Done."),
        ];
        let mut world = World::new(root, script).await;
        world.add_tools();
        world.send(json!({ "type": "set_approval", "mode": "never" })).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        let told: Vec<_> = types(&events).into_iter().filter(|it| matches!(*it, "tool_call" | "tool_result")).collect();
        assert_eq!(told, ["tool_call", "tool_result", "tool_call", "tool_result"]);
    });
}

#[test]
fn a_list_of_things_to_do_shows_in_the_state_of_the_work_6_3() {
    run(async |root| {
        let todos = json!({ "todos": [
            { "subject": "one", "status": "completed" },
            { "subject": "two", "status": "in_progress" },
            { "subject": "three", "status": "pending" },
        ] });
        let mut world = World::new(root, [Reply::call("c1", "todo_write", todos), Reply::text("ok")]).await;
        world.send(json!({ "type": "set_approval", "mode": "never" })).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        let state = first(&events, "work_state");
        assert_eq!(
            (&state["done"], &state["in_progress"], &state["next"]),
            (&json!(["one"]), &json!(["two"]), &json!(["three"]))
        );
        let order: Vec<_> =
            types(&events).into_iter().filter(|it| matches!(*it, "work_state" | "tool_result")).collect();
        assert_eq!(order, ["work_state", "tool_result"]);
    });
}

#[test]
fn a_failed_turn_is_told_as_error_and_done_6_11() {
    run(async |root| {
        let error = linn_services::llm::LlmError::new("AUTH", "HTTP 401 Unauthorized: no").with_status(401);
        let mut world = World::new(root, [Reply::empty().and_fail(error), Reply::text("fine")]).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        assert_eq!(types(&events), ["error", "done"]);
        assert_eq!(events[0]["message"], "HTTP 401 Unauthorized: no");
        assert_eq!(events[0].get("code"), None);
        assert_of_one_run(&events);
        world.prompt("again").await;
        assert_eq!(text_of(&world.until("done").await), "fine");
    });
}

#[test]
fn a_panic_in_a_turn_is_an_error_and_the_next_turn_runs_6_20() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("par").and_panic(), Reply::text("fine")]).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        assert!(types(&events).contains(&"error"));
        world.prompt("again").await;
        assert_eq!(text_of(&world.until("done").await), "fine");
    });
}

#[test]
fn an_unknown_model_is_an_error_and_done_4_1() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.send(json!({ "type": "send", "prompt": "x", "model": "gpt-99" })).await;
        let events = world.until("done").await;
        assert_eq!(types(&events), ["error", "done"]);
        assert_eq!(events[0]["message"], "unknown model: gpt-99");
        assert_eq!(events[0].get("run_id"), None);
    });
}

#[test]
fn an_unknown_model_while_a_run_goes_on_does_not_end_it_4_1() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("abc").held_at(&gate)]).await;
        world.prompt("hi").await;
        gate.reached().await;
        world.send(json!({ "type": "send", "prompt": "x", "model": "gpt-99" })).await;
        let events = world.until("error").await;
        gate.open();
        let rest = world.until("done").await;
        assert!(!types(&events).contains(&"done"));
        assert!(first(&rest, "done")["run_id"].is_string());
    });
}

#[test]
fn a_second_prompt_waits_and_a_third_is_refused_6_13() {
    run(async |root| {
        let gate = Gate::new();
        let script = [Reply::text("one").held_at(&gate), Reply::text("two")];
        let mut world = World::new(root, script).await;
        world.prompt("first").await;
        gate.reached().await;
        world.prompt("second").await;
        let info = world.event("info").await;
        assert_eq!(info["message"], "prompt queued; will run after the current turn");
        assert_eq!(info.get("run_id"), None);
        world.prompt("third").await;
        assert_eq!(world.event("error").await["message"], "a prompt is already queued; send abort first or wait");
        gate.open();
        let one = world.until("done").await;
        let two = world.until("done").await;
        assert_ne!(one.last().unwrap()["run_id"], two.last().unwrap()["run_id"]);
        assert_of_one_run(&two);
        assert_eq!(text_of(&two), "two");
    });
}

#[test]
fn the_next_prompt_after_done_starts_at_once_6_1() {
    run(async |root| {
        let mut world = World::new(root, (0..20).map(|n| Reply::text(&format!("answer {n}")))).await;
        for n in 0..20 {
            world.prompt("go on").await;
            let events = world.until("done").await;
            assert_eq!(text_of(&events), format!("answer {n}"));
            assert!(!types(&events).contains(&"info"), "{n}: {:?}", types(&events));
        }
    });
}

#[test]
fn the_queue_can_be_cleared_4_1() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate)]).await;
        world.prompt("first").await;
        gate.reached().await;
        world.send(json!({ "type": "clear_queue" })).await;
        assert_eq!(world.event("info").await["message"], "queue already empty");
        world.prompt("second").await;
        world.event("info").await;
        world.send(json!({ "type": "clear_queue" })).await;
        assert_eq!(world.event("info").await["message"], "queue cleared");
        gate.open();
        world.until("done").await;
        let status = world.status().await;
        assert_eq!(status["run_id"], Value::Null);
        assert_eq!(world.model.requests().len(), 1);
    });
}

#[test]
fn the_model_of_each_prompt_is_asked_with_its_effort() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("a"), Reply::text("b")]).await;
        world.prompt("x").await;
        world.until("done").await;
        world.send(json!({ "type": "send", "prompt": "y", "model": "other-model", "reasoning_effort": "high" })).await;
        let events = world.until("done").await;
        assert_eq!(first(&events, "metrics")["model"], "other-model");
        let asked = world.model.requests();
        assert_eq!((asked[1].config.model.as_str(), asked[1].config.effort.as_deref()), ("other-model", Some("high")));
    });
}

#[test]
fn what_a_retry_discards_is_told_anew() {
    run(async |root| {
        let reply = Reply::text("half").and_chunk(StreamChunk::Discard).and_text("whole");
        let mut world = World::new(root, [reply]).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        assert_eq!(text_of(&events), "halfwhole");
    });
}

#[test]
fn an_answer_that_was_cut_off_is_told_as_such() {
    run(async |root| {
        let filtered = FinishReason::Other(json!({ "kind": "content-filter" }));
        let script = [Reply::text("a").max_tokens(), Reply::text("b").finish(filtered), Reply::text("c")];
        let mut world = World::new(root, script).await;
        for why in [Some("the most tokens"), Some("\"content-filter\""), None] {
            world.prompt("hi").await;
            let events = world.until("done").await;
            let told = events.iter().find(|it| it["type"] == "info").map(|it| it["message"].as_str().unwrap());
            assert_eq!(told.is_some(), why.is_some(), "{told:?}");
            assert!(
                told.zip(why).is_none_or(|(told, why)| told.contains("was cut off") && told.contains(why)),
                "{told:?}"
            );
        }
    });
}
