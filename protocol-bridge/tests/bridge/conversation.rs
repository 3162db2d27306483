//! The conversation, and what the human does beside the model.

use linn_bus_test::run;
use linn_services_test::Reply;
use serde_json::json;

use crate::kit::{World, first, text_of, types};

#[test]
fn undo_takes_the_last_prompt_back_6_18() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("one"), Reply::text("two"), Reply::text("three")]).await;
        for prompt in ["first", "second"] {
            world.prompt(prompt).await;
            world.until("done").await;
        }
        world.send(json!({ "type": "undo" })).await;
        let events = world.until("history").await;
        assert_eq!(types(&events), ["work_state", "history"]);
        let expected = json!([{ "role": "user", "content": "first" }, { "role": "assistant", "content": "one" }]);
        assert_eq!(events[1]["messages"], expected);
        assert!(events[1]["tokens_in"].is_u64());
        world.send(json!({ "type": "undo" })).await;
        assert_eq!(world.event("history").await["messages"], json!([]));
        world.prompt("third").await;
        assert_eq!(text_of(&world.until("done").await), "three");
        assert_eq!(linn_services_test::request_of(&world.model.requests()[2]), ["user: third"]);
    });
}

#[test]
fn history_has_calls_and_results_in_the_shape_of_chat_5_1() {
    run(async |root| {
        let call = Reply::text("Look.").and_call("c1", "echo", json!({ "text": "x" }));
        let mut world = World::new(root, [call, Reply::text("Done.")]).await;
        world.add_tools();
        world.prompt("hi").await;
        world.until("done").await;
        world.send(json!({ "type": "init" })).await;
        let history = world.event("history").await;
        assert_eq!(
            history["messages"],
            json!([
                { "role": "user", "content": "hi" },
                { "role": "assistant", "content": "Look.", "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "echo", "arguments": "{\"text\":\"x\"}" } },
                ] },
                { "role": "tool", "tool_call_id": "c1", "content": "echo: x" },
                { "role": "assistant", "content": "Done." },
            ])
        );
    });
}

#[test]
fn images_go_with_a_prompt_and_show_in_the_history_6_1() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("a cat")]).await;
        let url = "data:image/png;base64,AAAA";
        world.send(json!({ "type": "send", "prompt": "what?", "model": "mock-model", "images": [url] })).await;
        world.until("done").await;
        world.send(json!({ "type": "init" })).await;
        let history = world.event("history").await;
        let parts = json!([{ "type": "text", "text": "what?" }, { "type": "image_url", "image_url": { "url": url } }]);
        assert_eq!(history["messages"][0]["content"], parts);
    });
}

#[test]
fn clear_and_reset_empty_the_conversation_and_keep_the_session_4_2() {
    for command in ["clear", "reset"] {
        run(async |root| {
            let mut world = World::new(root, [Reply::text("one"), Reply::text("two")]).await;
            world.prompt("first").await;
            let before = world.until("done").await;
            world.send(json!({ "type": command })).await;
            let events = world.until("reset").await;
            assert_eq!(types(&events), ["work_state", "reset"]);
            assert_eq!(events[1]["session_id"], before[0]["session_id"]);
            world.prompt("second").await;
            world.until("done").await;
            assert_eq!(linn_services_test::request_of(&world.model.requests()[1]), ["user: second"]);
        });
    }
}

#[test]
fn a_forced_compaction_6_14() {
    run(async |root| {
        let summary = "<summary>\nAll is well.\n</summary>";
        let replies =
            (0..4).map(|n| Reply::text(&"long answer ".repeat(200 + n)).without_usage()).chain([Reply::text(summary)]);
        let mut world = World::new(root, replies).await;
        world.send(json!({ "type": "compact" })).await;
        let events = world.until("compacted").await;
        assert_eq!(first(&events, "info")["message"], "nothing to compact yet");
        for _ in 0..4 {
            world.prompt(&"a long question ".repeat(100)).await;
            world.until("done").await;
        }
        world.send(json!({ "type": "compact", "instructions": "Keep names." })).await;
        let events = world.until("compacted").await;
        assert_eq!(types(&events), ["compacting", "compacted"]);
        assert_eq!((&events[0]["trigger"], events[0].get("run_id")), (&json!("manual"), None));
        for name in ["before_tokens", "context_window", "threshold_tokens", "hard_limit_tokens", "utilization_pct"] {
            assert!(events[0][name].is_u64(), "{name}");
        }
        let done = &events[1];
        assert!(done["after_tokens"].as_u64() < done["before_tokens"].as_u64(), "{done}");
        assert!(done["summary_chars"].as_u64().unwrap() > 0);
        assert_eq!(done["within_limit"], true);
        let stats = {
            world.send(json!({ "type": "stats" })).await;
            world.event("stats").await
        };
        assert_eq!(stats["compactions"], 1);
    });
}

#[test]
fn a_compaction_that_fails_is_answered_all_the_same_6_14() {
    run(async |root| {
        let replies = (0..4).map(|n| Reply::text(&"long answer ".repeat(200 + n)).without_usage());
        let mut world = World::new(root, replies).await;
        for _ in 0..4 {
            world.prompt(&"a long question ".repeat(100)).await;
            world.until("done").await;
        }
        world.send(json!({ "type": "compact" })).await;
        let events = world.until("compacted").await;
        assert_eq!(types(&events), ["compacting", "info", "compacted"]);
        let done = &events[2];
        assert_eq!((&done["summary_chars"], &done["before_tokens"]), (&json!(0), &done["after_tokens"]));
    });
}

#[test]
fn without_a_shell_a_command_of_the_human_says_so_6_19() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.send(json!({ "type": "user_bash", "command": "  " })).await;
        assert_eq!(world.event("error").await["message"], "empty bash command");
        world.send(json!({ "type": "user_bash", "command": "ls" })).await;
        let told = world.event("bash_execution").await;
        assert_eq!((&told["ok"], &told["exclude_from_context"]), (&json!(false), &json!(true)));
    });
}
