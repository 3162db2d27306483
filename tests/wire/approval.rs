//! Sections 6.6 to 6.8: what waits for a human.

use linn_model_server::ModelServer;
use serde_json::{Value, json};

use crate::client::{Client, Setup, calls, of, server, text};

fn writing() -> ModelServer {
    server([calls(&[("c1", "write_file", json!({ "path": "new.txt", "content": "fresh" }))]), text("Over.")])
}

/// A client that is asked about everything, and the request about the first call.
fn asked(server: &ModelServer) -> (Client, Value) {
    let mut client = Client::with(server, Setup { approval: "always", ..Setup::default() });
    client.prompt("write");
    let request = client.event("approval_request");
    (client, request)
}

fn answer(client: &mut Client, request: &Value, decision: &str) {
    client.send(json!({ "type": "approve", "request_id": request["request_id"], "decision": decision }));
}

#[test]
fn approval_executes_destructive_tool_with_bound_identity() {
    let server = writing();
    let (mut client, request) = asked(&server);
    let hello = of(&client.seen, "protocol_hello")[0]["session_id"].clone();
    assert_eq!((&request["tool"], &request["session_id"]), (&json!("write_file"), &hello));
    assert!(request["run_id"].as_str().unwrap().starts_with("run-"), "{request}");
    assert_eq!((&request["tool_call_id"], &request["risk"]), (&json!("c1"), &json!("destructive")));
    assert_eq!(request["requested_permission"], "destructive");
    assert!(request["created_at"].is_u64() && request["args"].as_str().unwrap().contains("new.txt"), "{request}");
    assert!(request["diff"].as_str().unwrap().contains("+fresh"), "{request}");
    let id = request["request_id"].as_str().unwrap();
    assert!(id.starts_with("apv-") && id.ends_with("-c1"), "{id}");
    assert!(!client.path("new.txt").exists());
    answer(&mut client, &request, "yes");
    let events = client.until("done");
    let result = of(&events, "tool_result")[0];
    assert_eq!((&result["ok"], &result["status"]), (&json!(true), &json!("success")));
    assert_eq!(std::fs::read(client.path("new.txt")).unwrap(), b"fresh");
}

#[test]
fn approval_denial_has_stable_status_and_does_not_execute_tool() {
    let server = writing();
    let (mut client, request) = asked(&server);
    answer(&mut client, &request, "no");
    let events = client.until("done");
    let result = of(&events, "tool_result")[0];
    assert_eq!((&result["ok"], &result["status"]), (&json!(false), &json!("denied")));
    assert_eq!(result["output"], "tool call 'write_file' was denied by the user");
    assert!(!client.path("new.txt").exists());
}

#[test]
fn always_escalates_the_kind_and_allow_session_the_tool() {
    for (decision, mode, tool) in
        [("always", "destructive:always", None), ("allow_session", "allow_pattern", Some("write_file"))]
    {
        let twice = |n: u32| calls(&[("c1", "write_file", json!({ "path": format!("{n}.txt"), "content": "x" }))]);
        let server = server([twice(1), text("One."), twice(2), text("Two.")]);
        let (mut client, request) = asked(&server);
        answer(&mut client, &request, decision);
        let events = client.until("done");
        let changed = of(&events, "approval_changed")[0];
        assert_eq!(changed["mode"], mode, "{changed}");
        assert_eq!(changed.get("tool").and_then(Value::as_str), tool, "{changed}");
        client.prompt("again");
        let events = client.until("done");
        assert!(of(&events, "approval_request").is_empty(), "{decision}: {events:#?}");
        assert!(client.path("2.txt").exists());
    }
}

#[test]
fn a_pattern_is_held_to_the_scope_of_the_call() {
    let server = writing();
    let (mut client, request) = asked(&server);
    let id = &request["request_id"];
    client.send(json!({ "type": "approve", "request_id": id, "decision": "allow_pattern", "pattern": "/etc/*" }));
    let events = client.until("done");
    let told = of(&events, "error")[0];
    assert_eq!(told["message"], "approval pattern exceeds or does not match the requested scope");
    assert_eq!(of(&events, "tool_result")[0]["status"], "denied");

    let server = writing();
    let (mut client, request) = asked(&server);
    let id = &request["request_id"];
    client.send(json!({ "type": "approve", "request_id": id, "decision": "allow_pattern", "pattern": "new*" }));
    let events = client.until("done");
    let changed = of(&events, "approval_changed")[0];
    assert_eq!((&changed["mode"], &changed["pattern"]), (&json!("allow_pattern"), &json!("new*")));
    assert!(client.path("new.txt").exists());
}

#[test]
fn reset_during_approval_invalidates_request_and_prevents_execution() {
    let server = writing();
    let (mut client, request) = asked(&server);
    client.send(json!({ "type": "reset" }));
    let events = client.until("reset");
    let cancelled = of(&events, "run_cancelled")[0];
    assert_eq!((&cancelled["reason"], &cancelled["run_id"]), (&json!("reset"), &request["run_id"]));
    answer(&mut client, &request, "yes");
    let late = client.event("error");
    let message = late["message"].as_str().unwrap();
    assert!(message.contains("unknown, expired, or already resolved approval request"), "{message}");
    assert!(!client.path("new.txt").exists());
}

#[test]
fn the_mode_can_be_changed_while_it_runs() {
    let server = writing();
    let mut client = Client::with(&server, Setup { approval: "always", ..Setup::default() });
    assert_eq!(client.ask(json!({ "type": "set_approval", "mode": "never" }), "approval_changed")["mode"], "never");
    client.prompt("write");
    let events = client.until("done");
    assert!(of(&events, "approval_request").is_empty());
    assert_eq!(
        client.ask(json!({ "type": "set_approval", "mode": "what" }), "approval_changed")["mode"],
        "destructive"
    );
}

#[test]
fn questions_are_asked_and_answered() {
    let questions = json!({ "questions": [
        { "id": "color", "prompt": "Which color?", "type": "select", "options": ["red", "blue"] },
        { "id": "why", "prompt": "Why?", "type": "text" },
    ] });
    let server = server([calls(&[("c1", "ask", questions)]), text("Thanks.")]);
    let mut client = Client::start(&server);
    client.prompt("ask me");
    let request = client.event("ask_request");
    assert!(request["request_id"].as_str().unwrap().starts_with("ask-"), "{request}");
    let question = &request["questions"][0];
    assert_eq!(
        (&question["id"], &question["prompt"], &question["type"]),
        (&json!("color"), &json!("Which color?"), &json!("select"))
    );
    assert_eq!(question["options"], json!(["red", "blue"]));
    client.send(json!({ "type": "ask_reply", "request_id": request["request_id"], "answers": { "color": "red" } }));
    let events = client.until("done");
    let output = of(&events, "tool_result")[0]["output"].as_str().unwrap().to_owned();
    assert_eq!(output, "User answered:\n- color (Which color?): red\n- why (Why?): (skipped)");
    client.send(json!({ "type": "ask_reply", "request_id": "ask-99", "answers": null }));
    assert_eq!(client.event("error")["message"], "no pending ask for id ask-99");
}

#[test]
fn sudo_is_asked_for_and_can_be_declined() {
    let server = server([calls(&[("c1", "bash", json!({ "command": "sudo true" }))]), text("Fine.")]);
    let mut client = Client::with(&server, Setup { approval: "always", ..Setup::default() });
    client.prompt("go");
    let request = client.event("approval_request");
    answer(&mut client, &request, "yes");
    let request = client.event("sudo_request");
    assert_eq!(request["command"], "sudo true");
    client.send(json!({ "type": "sudo_reply", "request_id": request["request_id"], "approved": false }));
    let events = client.until("done");
    let result = of(&events, "tool_result")[0];
    assert_eq!(result["ok"], true, "{result}");
    assert!(result["output"].as_str().unwrap().starts_with("The user declined the sudo request"), "{result}");
    client.send(json!({ "type": "sudo_reply", "request_id": "sudo-99", "approved": true, "password": "hunter2" }));
    let error = client.event("error");
    assert_eq!(error["message"], "no pending sudo request for id sudo-99");
    assert!(!client.seen.iter().any(|it| it.to_string().contains("hunter2")));
}
