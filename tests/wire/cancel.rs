//! Sections 6.9, 6.10 and 6.15: what ends a run before its time.

use linn_model_server::{Answer, Gate, ModelServer, Wire};
use serde_json::{Value, json};

use crate::client::{Client, calls, check_sequences, of, said, server, text, types, until_some};

/// Says "old " and waits; then what is scripted behind it.
fn held(gate: &Gate, then: impl IntoIterator<Item = Answer>) -> ModelServer {
    let frames = Wire::OpenAi.text_frames(&["old ", "late"]);
    let first = Answer::stream(frames[..1].to_vec()).and_wait(gate).and(frames[1..].to_vec());
    server([first].into_iter().chain(then))
}

/// A client in the middle of a run, and the id of that.
fn streaming(server: &ModelServer) -> (Client, Value) {
    let mut client = Client::start(server);
    client.prompt("one");
    let run = client.event("delta")["run_id"].clone();
    (client, run)
}

#[test]
fn abort_during_stream_cancels_old_run_and_allows_next_turn() {
    let gate = Gate::new();
    let server = held(&gate, [text("new")]);
    let (mut client, run) = streaming(&server);
    client.send(json!({ "type": "abort" }));
    client.prompt("two");
    let events = client.until("aborted");
    let cancelled = of(&events, "run_cancelled")[0];
    assert_eq!((&cancelled["run_id"], &cancelled["reason"]), (&run, &json!("abort")));
    assert!(cancelled.get("sequence").is_none(), "{cancelled}");
    assert!(of(&events, "done").is_empty());
    gate.open();
    let events = client.until("done");
    assert_eq!(said(&events), "new", "{events:#?}");
    assert!(events.iter().filter_map(|it| it.get("run_id")).all(|it| *it != run));
    check_sequences(&client.seen);
}

#[test]
fn abort_without_a_run_is_answered_all_the_same() {
    let server = server([]);
    let mut client = Client::start(&server);
    client.send(json!({ "type": "abort" }));
    assert_eq!(types(&client.until("aborted")), ["aborted"]);
}

#[test]
fn new_session_during_stream_rejects_old_deltas_and_remains_usable() {
    let gate = Gate::new();
    let server = held(&gate, [text("new")]);
    let (mut client, run) = streaming(&server);
    let status = client.ask(json!({ "type": "runtime_status" }), "runtime_status");
    let resources = status["resources"].as_array().unwrap();
    let turn = resources.iter().find(|it| it["label"] == "foreground_agent_turn").unwrap();
    assert_eq!((&turn["run_id"], &turn["cancelled"], &turn["kind"]), (&run, &json!(false), &json!("task")));
    let old = status["session_id"].clone();
    client.send(json!({ "type": "new_session" }));
    let events = client.until("info");
    let order: Vec<_> = types(&events).into_iter().filter(|it| *it != "delta").collect();
    assert_eq!(order, ["run_cancelled", "work_state", "session_changed", "reset", "info"]);
    let cancelled = of(&events, "run_cancelled")[0];
    assert_eq!(
        (&cancelled["run_id"], &cancelled["reason"], &cancelled["session_id"]),
        (&run, &json!("new_session"), &old)
    );
    let changed = of(&events, "session_changed")[0];
    assert_ne!(changed["session_id"], old);
    assert_eq!(changed["new"], true);
    assert!(events.last().unwrap()["message"].as_str().unwrap().starts_with("started new session: "));
    gate.open();
    client.prompt("two");
    let events = client.until("done");
    assert_eq!(said(&events), "new");
    for event in events.iter().filter(|it| it.get("sequence").is_some()) {
        assert_eq!(event["session_id"], changed["session_id"], "{event}");
        assert_ne!(event["run_id"], run);
    }
    let status = client.ask(json!({ "type": "runtime_status" }), "runtime_status");
    assert_eq!((&status["last_cancellation"]["run_id"], &status["run_id"]), (&run, &Value::Null));
}

#[test]
fn reset_during_a_run_keeps_the_session_and_drops_the_queue() {
    let gate = Gate::new();
    let server = held(&gate, [text("new")]);
    let (mut client, run) = streaming(&server);
    let session = client.seen.last().unwrap()["session_id"].clone();
    client.prompt("queued");
    client.until("info");
    client.send(json!({ "type": "reset" }));
    let events = client.until("reset");
    assert_eq!(types(&events), ["run_cancelled", "work_state", "reset"]);
    assert_eq!((&events[0]["run_id"], &events[2]["session_id"]), (&run, &session));
    client.prompt("two");
    let events = client.until("done");
    assert_eq!(said(&events), "new");
    let body: Value = serde_json::from_slice(&server.requests().last().unwrap().body).unwrap();
    let asked = body["messages"].to_string();
    assert!(asked.contains("two") && !asked.contains("queued") && !asked.contains("one"), "{asked}");
}

#[test]
fn steer_cancels_the_run_and_starts_another() {
    let gate = Gate::new();
    let server = held(&gate, [text("new")]);
    let (mut client, run) = streaming(&server);
    client.send(json!({ "type": "steer", "prompt": "rather this", "model": "mock-model" }));
    let events = client.until("aborted");
    assert_eq!(types(&events), ["steer", "run_cancelled", "aborted"]);
    assert_eq!(events[0]["prompt"], "rather this");
    assert_eq!((&events[1]["reason"], &events[1]["run_id"]), (&json!("steering"), &run));
    let events = client.until("done");
    assert_eq!(said(&events), "new");
    assert!(events.iter().all(|it| it["run_id"] != run));
    let body: Value = serde_json::from_slice(&server.requests().last().unwrap().body).unwrap();
    assert!(body["messages"].to_string().contains("rather this"));
}

#[test]
fn abort_during_bash_cancels_subprocess_resource_promptly() {
    let server =
        server([calls(&[("c1", "bash", json!({ "command": "echo $$ > pid; exec sleep 1000" }))]), text("never")]);
    let mut client = Client::start(&server);
    client.prompt("run");
    let run = client.event("tool_call")["run_id"].clone();
    // The command is there when its pid is.
    let pid =
        until_some(|| std::fs::read_to_string(client.path("pid")).ok().and_then(|it| it.trim().parse::<i32>().ok()));
    client.send(json!({ "type": "abort" }));
    let events = client.until("aborted");
    assert_eq!(of(&events, "run_cancelled")[0]["run_id"], run);
    assert!(of(&events, "tool_result").is_empty());
    let status = client.ask(json!({ "type": "runtime_status" }), "runtime_status");
    let left =
        status["resources"].as_array().unwrap().iter().filter(|it| it["run_id"] == run && it["cancelled"] == false);
    assert_eq!(left.count(), 0, "{status:#}");
    until_some(|| rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).err());
}

#[test]
fn new_session_during_bash_terminates_old_process_and_new_session_works() {
    let server =
        server([calls(&[("c1", "bash", json!({ "command": "echo $$ > pid; exec sleep 1000" }))]), text("new")]);
    let mut client = Client::start(&server);
    client.prompt("run");
    let run = client.event("tool_call")["run_id"].clone();
    let pid =
        until_some(|| std::fs::read_to_string(client.path("pid")).ok().and_then(|it| it.trim().parse::<i32>().ok()));
    client.send(json!({ "type": "new_session" }));
    let events = client.until("session_changed");
    assert_eq!(of(&events, "run_cancelled")[0]["run_id"], run);
    let session = events.last().unwrap()["session_id"].clone();
    client.prompt("two");
    let events = client.until("done");
    assert!(
        events
            .iter()
            .filter(|it| it.get("sequence").is_some())
            .all(|it| it["session_id"] == session && it["run_id"] != run)
    );
    until_some(|| rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).err());
}
