//! Questions to the human.

use std::time::Duration;

use linn_bus_test::{run, run_with};
use linn_services::approval::ApprovalMode;
use linn_services_test::Reply;
use serde_json::{Value, json};

use crate::kit::{Setup, World, all, first, types};

fn script() -> [Reply; 2] {
    [Reply::call("c1", "write", json!({ "text": "a", "path": "src/main.rs" })), Reply::text("ok")]
}

fn approve(request: &Value, decision: &str) -> Value {
    json!({ "type": "approve", "request_id": request["request_id"], "decision": decision })
}

#[test]
fn yes_runs_the_call_6_7() {
    run(async |root| {
        let mut world = World::new(root, script()).await;
        world.add_tools();
        world.prompt("hi").await;
        let before = world.until("approval_request").await;
        assert_eq!(types(&before)[types(&before).len() - 2..], ["tool_call", "approval_request"]);
        let request = before.last().unwrap();
        assert_eq!(request["tool"], "write");
        assert_eq!(request["tool_call_id"], "c1");
        assert_eq!(
            (&request["risk"], &request["requested_permission"]),
            (&json!("destructive"), &json!("destructive"))
        );
        assert_eq!(request["request_id"], "apv-1-c1");
        assert_eq!(request["run_id"], before[0]["run_id"]);
        let args: Value = serde_json::from_str(request["args"].as_str().unwrap()).unwrap();
        assert_eq!(args, json!({ "text": "a", "path": "src/main.rs" }));
        assert!(request["created_at"].is_u64() && request["session_id"].is_string());
        let status = world.status().await;
        assert_eq!(status["pending_approvals"], 1);
        world.send(approve(request, "yes")).await;
        let events = world.until("done").await;
        assert_eq!(first(&events, "tool_result")["status"], "success");
    });
}

#[test]
fn no_and_unknown_words_deny_the_call_and_the_turn_goes_on_6_7() {
    for word in ["no", "perhaps"] {
        run(async |root| {
            let mut world = World::new(root, script()).await;
            world.add_tools();
            world.prompt("hi").await;
            let request = world.event("approval_request").await;
            world.send(approve(&request, word)).await;
            let events = world.until("done").await;
            let result = first(&events, "tool_result");
            assert_eq!((&result["ok"], &result["status"]), (&json!(false), &json!("denied")));
            assert_eq!(world.model.requests().len(), 2);
            world.send(approve(&request, "yes")).await;
            let error = world.event("error").await;
            let expected = "unknown, expired, or already resolved approval request: apv-1-c1";
            assert_eq!(error["message"], expected);
        });
    }
}

#[test]
fn always_permits_the_whole_class_6_7() {
    run(async |root| {
        let mut world = World::new(root, script().into_iter().chain(script())).await;
        world.add_tools();
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        world.send(approve(&request, "always")).await;
        let events = world.until("done").await;
        assert_eq!(first(&events, "approval_changed")["mode"], "destructive:always");
        world.prompt("again").await;
        let events = world.until("done").await;
        assert!(all(&events, "approval_request").is_empty());
    });
}

#[test]
fn allow_session_permits_the_tool_6_7() {
    run(async |root| {
        let mut world = World::new(root, script()).await;
        world.add_tools();
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        world.send(approve(&request, "allow_session")).await;
        let events = world.until("done").await;
        let changed = first(&events, "approval_changed");
        assert_eq!(
            (&changed["mode"], &changed["tool"], &changed["pattern"]),
            (&json!("allow_pattern"), &json!("write"), &json!("*"))
        );
        assert_eq!(first(&events, "tool_result")["ok"], true);
    });
}

#[test]
fn allow_pattern_permits_what_fits_and_denies_what_reaches_further_6_7() {
    run(async |root| {
        let mut world = World::new(root, script().into_iter().chain(script())).await;
        world.add_tools();
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        let mut reply = approve(&request, "allow_pattern");
        reply["pattern"] = json!("*");
        world.send(reply.clone()).await;
        let events = world.until("done").await;
        assert_eq!(
            first(&events, "error")["message"],
            "approval pattern exceeds or does not match the requested scope"
        );
        assert_eq!(first(&events, "tool_result")["status"], "denied");

        world.prompt("again").await;
        let request = world.event("approval_request").await;
        reply["request_id"] = request["request_id"].clone();
        reply["pattern"] = json!("src/*");
        world.send(reply).await;
        let events = world.until("done").await;
        let changed = first(&events, "approval_changed");
        assert_eq!((&changed["tool"], &changed["pattern"]), (&json!("write"), &json!("src/*")));
        assert_eq!(first(&events, "tool_result")["status"], "success");
    });
}

#[test]
fn an_approval_expires_after_fifteen_minutes_6_7() {
    run_with(async |root, time| {
        let mut world = World::new(root, script()).await;
        world.add_tools();
        time.hold_clock();
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        time.advance(Duration::from_secs(15 * 60)).await;
        let events = world.until("done").await;
        let expired = first(&events, "approval_expired");
        assert_eq!((&expired["request_id"], &expired["tool_call_id"]), (&request["request_id"], &json!("c1")));
        assert_eq!(first(&events, "tool_result")["status"], "denied");
        time.release_clock();
    });
}

#[test]
fn mode_always_asks_about_reading_too_and_never_about_nothing_6_6() {
    run(async |root| {
        let call = || Reply::call("c1", "echo", json!({ "text": "a" }));
        let script = [call(), Reply::text("ok"), call(), Reply::text("ok")];
        let mut world = World::with(root, script, Setup { mode: ApprovalMode::Always, ..Setup::default() }).await;
        world.add_tools();
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        assert_eq!(request["risk"], "readonly");
        world.send(approve(&request, "yes")).await;
        world.until("done").await;
        world.send(json!({ "type": "set_approval", "mode": "never" })).await;
        assert_eq!(world.event("approval_changed").await["mode"], "never");
        world.prompt("hi").await;
        assert!(all(&world.until("done").await, "approval_request").is_empty());
    });
}

fn ask() -> [Reply; 2] {
    let questions = json!({ "questions": [
        { "id": "color", "prompt": "Which color?", "type": "select", "options": ["red", "blue"] },
        { "id": "why", "prompt": "Why?", "type": "text", "placeholder": "because" },
    ] });
    [Reply::call("c1", "ask", questions), Reply::text("ok")]
}

#[test]
fn ask_waits_for_the_human_6_8() {
    run(async |root| {
        let mut world = World::new(root, ask()).await;
        world.prompt("hi").await;
        let request = world.event("ask_request").await;
        assert_eq!(
            request["questions"],
            json!([
                { "id": "color", "prompt": "Which color?", "type": "select", "options": ["red", "blue"],
                  "allowCustom": false, "required": false, "placeholder": "" },
                { "id": "why", "prompt": "Why?", "type": "text", "options": null,
                  "allowCustom": false, "required": false, "placeholder": "because" },
            ])
        );
        let answers = json!({ "color": "red" });
        world.send(json!({ "type": "ask_reply", "request_id": request["request_id"], "answers": answers })).await;
        let events = world.until("done").await;
        let result = first(&events, "tool_result");
        assert_eq!(result["output"], "User answered:\n- color (Which color?): red\n- why (Why?): (skipped)");
        assert_eq!(result["ok"], true);
    });
}

#[test]
fn ask_can_be_skipped_and_answered_once_6_8() {
    run(async |root| {
        let mut world = World::new(root, ask()).await;
        world.prompt("hi").await;
        let request = world.event("ask_request").await;
        let reply = json!({ "type": "ask_reply", "request_id": request["request_id"], "answers": null });
        world.send(reply.clone()).await;
        let events = world.until("done").await;
        let output = first(&events, "tool_result")["output"].as_str().unwrap().to_owned();
        assert!(output.starts_with("The user skipped the questions."), "{output}");
        world.send(reply).await;
        assert_eq!(world.event("error").await["message"], "no pending ask for id ask-1");
        world.send(json!({ "type": "sudo_reply", "request_id": "sudo-9", "approved": true })).await;
        assert_eq!(world.event("error").await["message"], "no pending sudo request for id sudo-9");
        world.send(json!({ "type": "intercom_reply", "request_id": "i", "reply": "x" })).await;
        assert_eq!(world.event("error").await["message"], "no pending intercom ask for id i");
    });
}

#[test]
fn questions_that_cannot_be_asked_are_an_error_6_8() {
    run(async |root| {
        let mut world =
            World::new(root, [Reply::call("c1", "ask", json!({ "questions": [] })), Reply::text("ok")]).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        let message = first(&events, "error")["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("ask validation failed:"), "{message}");
    });
}
