//! What outlives the program, and what may change while it runs: questions cut off, permissions, the fence around files.

use serde_json::{Value, json};

use crate::client::{Client, Setup, calls, of, said, server, text, types};

fn asking() -> linn_model_server::Answer {
    let questions = json!({ "questions": [{ "id": "color", "prompt": "Which color?", "type": "text" }] });
    calls(&[("c1", "ask", questions)])
}

#[test]
fn a_question_that_a_restart_cut_off_is_asked_again_with_the_next_prompt() {
    let server = server([asking(), text("Blue it is.")]);
    let mut client = Client::start(&server);
    client.prompt("ask me");
    client.until("ask_request");
    let folder = client.leave();
    let mut client = Client::within(folder, &server, Setup::default());
    let told = client.event("info");
    assert!(told["message"].as_str().unwrap().starts_with("A question from the previous session was interrupted"));
    client.prompt("go on");
    let request = client.event("ask_request");
    assert_eq!(request["questions"][0]["prompt"], "Which color?");
    assert!(request["run_id"].is_string());
    client.send(json!({ "type": "ask_reply", "request_id": request["request_id"], "answers": { "color": "blue" } }));
    assert_eq!(said(&client.until("done")), "Blue it is.");
    let body: Value = serde_json::from_slice(&server.requests()[1].body).unwrap();
    let asked = body["messages"].to_string();
    assert!(asked.contains("- color (Which color?): blue") && asked.contains("go on"), "{asked}");
    // Once is enough.
    server.push(text("Yes."));
    client.prompt("sure?");
    let events = client.until("done");
    assert_eq!((said(&events).as_str(), of(&events, "ask_request").len()), ("Yes.", 0));
}

#[test]
fn a_question_that_was_cut_off_comes_with_a_session_that_is_loaded_and_can_be_skipped_or_aborted() {
    let server = server([asking(), text("Without.")]);
    let mut client = Client::start(&server);
    client.prompt("ask me");
    client.until("ask_request");
    let folder = client.leave();
    let mut client = Client::within(folder, &server, Setup::default());
    client.send(json!({ "type": "new_session", "path": "other.jsonl" }));
    client.send(json!({ "type": "load_session", "path": "session.jsonl" }));
    let is_loaded = |it: &Value| it["message"].as_str().is_some_and(|it| it.starts_with("loaded "));
    client.until_where("the session", is_loaded);
    client.prompt("go on");
    client.until("ask_request");
    client.send(json!({ "type": "abort" }));
    client.until("aborted");
    client.prompt("without it then");
    let events = client.until("done");
    assert_eq!((said(&events).as_str(), of(&events, "ask_request").len()), ("Without.", 0));
}

#[test]
fn what_was_permitted_always_is_permitted_after_a_restart_too() {
    let write = |name: &str| calls(&[("c1", "write_file", json!({ "path": name, "content": "x" }))]);
    let server = server([write("a.txt"), text("One."), write("b.txt"), text("Two.")]);
    let asks = || Setup { approval: "destructive", ..Setup::default() };
    let mut client = Client::with(&server, asks());
    client.prompt("write");
    let request = client.event("approval_request");
    client.send(json!({ "type": "approve", "request_id": request["request_id"], "decision": "always" }));
    client.until("done");
    let folder = client.leave();
    let kept = std::fs::read_to_string(folder.path().join("session.jsonl.escalations")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), json!(["destructive"]));
    let mut client = Client::within(folder, &server, asks());
    client.prompt("write");
    let events = client.until("done");
    assert!(of(&events, "approval_request").is_empty(), "{events:#?}");
    assert!(client.path("b.txt").exists());
    // A new conversation begins without it.
    server.push(write("c.txt"));
    client.send(json!({ "type": "new_session" }));
    client.until("info");
    client.prompt("write");
    client.until("approval_request");
}

#[test]
fn the_mode_of_approval_raises_and_lifts_the_fence_around_files_at_once() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("x.txt");
    std::fs::write(&file, "from outside\n").unwrap();
    let read = || calls(&[("c1", "read_file", json!({ "path": file }))]);
    let server = server([read(), text("No."), read(), text("Yes."), read(), text("No.")]);
    let mut client = Client::with(&server, Setup { approval: "destructive", ..Setup::default() });
    for (mode, is_free) in [("destructive", false), ("never", true), ("destructive", false)] {
        client.ask(json!({ "type": "set_approval", "mode": mode }), "approval_changed");
        client.prompt("read");
        let events = client.until("done");
        let output = of(&events, "tool_result")[0]["output"].as_str().unwrap().to_owned();
        assert_eq!(output.contains("from outside"), is_free, "{mode}: {output}");
        assert_eq!(output.contains("only workspace-relative paths allowed"), !is_free, "{mode}: {output}");
    }
}

#[test]
fn a_command_of_the_human_that_the_list_forbids_does_not_run() {
    let server = server([]);
    let mut client = Client::start(&server);
    client.send(json!({ "type": "user_bash", "command": "echo mkfs > made" }));
    let told = client.event("bash_execution");
    assert_eq!((&told["ok"], &told["exclude_from_context"]), (&json!(false), &json!(true)), "{told}");
    let output = told["output"].as_str().unwrap();
    assert!(output.starts_with("bash command blocked by denylist (matched 'mkfs')"), "{output}");
    assert!(!client.path("made").exists());
    assert_eq!(types(&client.seen).iter().filter(|it| **it == "error").count(), 0);
}
