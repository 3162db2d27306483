//! Sections 6.1 to 6.5 and 6.13: turns as they go.

use linn_model_server::{Answer, Gate, Wire};
use serde_json::{Value, json};

use crate::client::{Client, Setup, calls, check_sequences, of, said, server, text, types, wait};

#[test]
fn a_plain_turn() {
    let server = server([Wire::OpenAi.text(&["Hel", "lo."])]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let names = types(&events);
    assert_eq!(names[names.len() - 3..], ["metrics", "cost_update", "done"], "{names:?}");
    assert_eq!(said(&events), "Hello.");
    assert!(events.iter().all(|it| it["run_id"].as_str().is_some_and(|it| it.starts_with("run-"))), "{events:#?}");
    check_sequences(&events);
    let metrics = events.iter().find(|it| it.get("elapsed_ms").is_some()).unwrap();
    assert_eq!(
        (&metrics["prompt_tokens"], &metrics["tokens_out"], &metrics["tokens_in"]),
        (&json!(10), &json!(5), &json!(15))
    );
    assert_eq!((&metrics["model"], &metrics["cached_tokens"]), (&json!("mock-model"), &json!(0)));
    let cost = of(&events, "cost_update")[0];
    assert_eq!(
        (&cost["tokens_in"], &cost["tokens_out"], &cost["estimated_usd"]),
        (&json!(10), &json!(5), &Value::Null)
    );
    let request = &server.requests()[0];
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["model"], &body["stream"]), (&json!("mock-model"), &json!(true)));
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
}

#[test]
fn thinking_is_no_text_of_the_answer() {
    let frames = [
        json!({ "choices": [{ "index": 0, "delta": { "reasoning_content": "Let me see." } }] }),
        json!({ "choices": [{ "index": 0, "delta": { "content": "<think>more</think>Done." } }] }),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
    ];
    let frames = frames.iter().map(|it| format!("data: {it}\n\n")).chain(["data: [DONE]\n\n".to_owned()]);
    let server = server([Answer::stream(frames)]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let thought: String = of(&events, "thinking").iter().map(|it| it["text"].as_str().unwrap()).collect();
    assert_eq!((thought.as_str(), said(&events).as_str()), ("Let me see.more", "Done."));
}

#[test]
fn one_tool_call() {
    let server = server([calls(&[("c1", "read_file", json!({ "path": "a.txt" }))]), text("It says hello.")]);
    let mut client = Client::start(&server);
    std::fs::write(client.path("a.txt"), "hello\n").unwrap();
    client.prompt("read");
    let events = client.until("done");
    let names: Vec<_> = types(&events).into_iter().filter(|it| !["delta", "info", "work_state"].contains(it)).collect();
    let expected = [
        "tool_call_start",
        "tool_call_name",
        "tool_call_args",
        "tool_call",
        "tool_result",
        "metrics",
        "cost_update",
        "done",
    ];
    assert_eq!(names, expected);
    let call = of(&events, "tool_call")[0];
    assert_eq!(
        (&call["id"], &call["name"], &call["args"]),
        (&json!("c1"), &json!("read_file"), &json!(r#"{"path":"a.txt"}"#))
    );
    let result = of(&events, "tool_result")[0];
    assert_eq!((&result["id"], &result["ok"], &result["status"]), (&json!("c1"), &json!(true), &json!("success")));
    assert!(result["output"].as_str().unwrap().contains("hello"), "{result}");
    check_sequences(&events);
    let body: Value = serde_json::from_slice(&server.requests()[1].body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["role"], &last["tool_call_id"]), (&json!("tool"), &json!("c1")));
}

#[test]
fn multiple_readonly_tools_complete_as_one_ordered_wave() {
    let both = [("c1", "read_file", json!({ "path": "a.txt" })), ("c2", "read_file", json!({ "path": "b.txt" }))];
    let server = server([calls(&both), text("Both.")]);
    let mut client = Client::start(&server);
    std::fs::write(client.path("a.txt"), "first\n").unwrap();
    std::fs::write(client.path("b.txt"), "second\n").unwrap();
    client.prompt("read");
    let events = client.until("done");
    let order: Vec<_> = events
        .iter()
        .filter(|it| it["type"] == "tool_call" || it["type"] == "tool_result")
        .map(|it| (it["type"].as_str().unwrap(), it["id"].as_str().unwrap()))
        .collect();
    assert_eq!(order, [("tool_call", "c1"), ("tool_call", "c2"), ("tool_result", "c1"), ("tool_result", "c2")]);
    let results = of(&events, "tool_result");
    assert!(results[0]["output"].as_str().unwrap().contains("first"));
    assert!(results[1]["output"].as_str().unwrap().contains("second"));
    assert!(of(&events, "file_change").is_empty());
}

#[test]
fn one_readonly_tool_failure_does_not_cancel_the_ordered_wave() {
    let both = [("c1", "read_file", json!({ "path": "a.txt" })), ("c2", "read_file", json!({ "path": "none.txt" }))];
    let server = server([calls(&both), text("One.")]);
    let mut client = Client::start(&server);
    std::fs::write(client.path("a.txt"), "first\n").unwrap();
    client.prompt("read");
    let events = client.until("done");
    let statuses: Vec<_> = of(&events, "tool_result").iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["success", "failed"]);
    assert_eq!(said(&events), "One.");
}

#[test]
fn multiple_writes_execute_sequentially_in_model_order() {
    let both = [
        ("c1", "write_file", json!({ "path": "a.txt", "content": "first" })),
        ("c2", "write_file", json!({ "path": "b.txt", "content": "second" })),
    ];
    let server = server([calls(&both), text("Both.")]);
    let mut client = Client::start(&server);
    client.prompt("write");
    let events = client.until("done");
    let order: Vec<_> = events
        .iter()
        .filter(|it| ["tool_call", "tool_result", "file_change"].contains(&it["type"].as_str().unwrap()))
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["tool_call", "tool_result", "file_change", "tool_call", "tool_result", "file_change"]);
    let change = of(&events, "file_change")[0];
    assert_eq!((&change["path"], &change["tool"]), (&json!("a.txt"), &json!("write_file")));
    assert!(change["unified_diff"].as_str().unwrap().contains("+first"), "{change}");
    assert!(of(&events, "tool_result")[0]["diff"].as_str().unwrap().contains("+first"));
    assert_eq!(std::fs::read(client.path("a.txt")).unwrap(), b"first");
    assert_eq!(std::fs::read(client.path("b.txt")).unwrap(), b"second");
}

#[test]
fn a_second_send_is_queued_a_third_is_refused_and_the_queued_one_runs_by_itself() {
    let gate = Gate::new();
    let server = server([text("first").held_at(&gate), text("second")]);
    let mut client = Client::start(&server);
    client.prompt("one");
    wait(server.asked(1));
    client.prompt("two");
    let queued = client.event("info");
    assert_eq!(queued["message"], "prompt queued; will run after the current turn");
    client.prompt("three");
    let refused = client.event("error");
    assert_eq!(refused["message"], "a prompt is already queued; send abort first or wait");
    gate.open();
    let first = client.until("done");
    let second = client.until("done");
    assert_eq!((said(&first).as_str(), said(&second).as_str()), ("first", "second"));
    let run = |events: &[Value]| events.last().unwrap()["run_id"].clone();
    assert_ne!(run(&first), run(&second));
    check_sequences(&first);
    check_sequences(&second);
}

#[test]
fn the_next_send_after_done_starts_at_once_and_a_queue_can_be_cleared() {
    let server = server((0..20).map(|n| text(&format!("answer {n}"))));
    let mut client = Client::start(&server);
    for n in 0..20 {
        client.prompt("again");
        let events = client.until("done");
        assert_eq!(said(&events), format!("answer {n}"));
        assert!(of(&events, "info").is_empty(), "nothing was queued: {events:#?}");
    }
    assert_eq!(client.ask(json!({ "type": "clear_queue" }), "info")["message"], "queue already empty");
}

#[test]
fn an_unknown_model_is_an_error_and_a_done() {
    let server = server([]);
    let mut client = Client::start(&server);
    client.send(json!({ "type": "send", "prompt": "hi", "model": "gpt-0" }));
    let events = client.until("done");
    assert_eq!(events[events.len() - 2]["message"], "unknown model: gpt-0");
    assert!(server.requests().is_empty());
}

#[test]
fn without_a_key_nothing_is_asked() {
    let server = server([]);
    let mut client = Client::with(&server, Setup { key: false, ..Setup::default() });
    client.prompt("hi");
    let events = client.until("done");
    // A provider that names a variable wants its key, also on this machine.
    let error = of(&events, "error")[0]["message"].as_str().unwrap();
    assert!(
        error == "no API key set for provider 'protocol_harness'; use /login to log in"
            || error.starts_with("unknown model"),
        "{error}"
    );
    assert!(server.requests().is_empty());
}

#[test]
fn a_prompt_brings_files_of_the_workspace_along_and_no_others_up_to_its_limits() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("x.txt");
    std::fs::write(&secret, "from outside").unwrap();
    let server = server([text("Read.")]);
    // Where nothing is asked about tools may read all files; what a prompt mentions is held to the workspace.
    let mut client = Client::start(&server);
    std::os::unix::fs::symlink(&secret, client.path("link.txt")).unwrap();
    for n in 0..5 {
        std::fs::write(client.path(&format!("f{n}.txt")), format!("{n}").repeat(20 << 10)).unwrap();
    }
    let files = (0..5).map(|n| format!("@f{n}.txt")).collect::<Vec<_>>().join(" ");
    client.prompt(&format!("see @{} and @link.txt, {files}!", secret.display()));
    let events = client.until("done");
    let attached =
        of(&events, "info").iter().find_map(|it| it["message"].as_str().filter(|it| it.starts_with("attached")));
    // 64 KiB of files go along, and each has 20.
    assert_eq!(attached, Some("attached 3 file(s) from @mentions: f0.txt, f1.txt, f2.txt"));
    let asked = String::from_utf8(server.requests()[0].body.clone()).unwrap();
    assert!(!asked.contains("from outside") && asked.contains("@f4.txt!"), "{}", asked.len());
}
