//! Sections 2 and 9: what is said first.

use linn_model_server::{Answer, Gate, ModelServer};
use serde_json::{Value, json};

use crate::client::{Client, Setup, of, server, text};

#[test]
fn real_core_negotiates_v2_over_jsonl() {
    let server = server([]);
    let mut client = Client::with(&server, Setup { init: false, ..Setup::default() });
    client.send(json!({ "type": "init", "protocol_version": 2, "client": { "name": "x", "version": "1", "capabilities": ["what is this"] } }));
    let events = client.until("agents");
    let names: Vec<_> = events.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["ready", "protocol_hello", "skills", "agents"]);
    let (ready, hello) = (&events[0], &events[1]);
    assert_eq!((hello["protocol_version"].as_u64(), hello["min_client"].as_str()), (Some(2), Some("0.2.0")));
    assert_eq!(hello["client"]["name"], "x");
    let capabilities = json!([
        "protocol_v2",
        "run_ids",
        "session_ids",
        "event_sequence",
        "stale_event_rejection",
        "worktree",
        "checkpoint",
        "file_change",
        "audit",
        "routing",
        "allow_pattern",
        "cost_update"
    ]);
    assert_eq!(hello["capabilities"], capabilities);
    let session = hello["session_id"].as_str().unwrap();
    let parts: Vec<_> = session.split('-').collect();
    assert!(parts.len() == 3 && parts[0] == "session" && parts[1].len() == 16 && parts[2].len() == 16, "{session}");
    for event in &events {
        assert_eq!((&event["protocol_version"], &event["session_id"]), (&json!(2), &json!(session)), "{event}");
        assert!(event.get("run_id").is_none() && event.get("sequence").is_none(), "{event}");
    }
    assert_eq!(ready["workspace"], client.path("").canonicalize().unwrap().to_str().unwrap());
}

/// A field, and whether a value is one of its type.
type Kind = (&'static str, fn(&Value) -> bool);

#[test]
fn ready_has_every_field_that_clients_read() {
    let server = server([]);
    let client = Client::with(&server, Setup { approval: "always", ..Setup::default() });
    let ready = of(&client.seen, "ready")[0].clone();
    let kinds: &[Kind] = &[
        ("models", Value::is_array),
        ("authed", Value::is_boolean),
        ("anyLoggedIn", Value::is_boolean),
        ("workspace", Value::is_string),
        ("approval", Value::is_string),
        ("base_url", Value::is_string),
        ("provider", Value::is_string),
        ("providerKind", Value::is_string),
        ("providers", Value::is_array),
        ("providerPresets", Value::is_array),
        ("bash_timeout_secs", Value::is_u64),
        ("auto_compact", Value::is_boolean),
        ("context_compact_at", Value::is_number),
        ("context_digest_at", Value::is_number),
        ("sandbox", Value::is_string),
        ("shell", Value::is_string),
        ("sandboxImage", Value::is_string),
        ("sandboxCpus", Value::is_u64),
        ("sandboxMemoryMb", Value::is_u64),
        ("sandboxNetworkMode", Value::is_string),
        ("sandboxReady", Value::is_boolean),
        ("resumed_messages", Value::is_u64),
        ("plugins", Value::is_array),
        ("plugins_skipped", Value::is_array),
    ];
    for (name, is_right) in kinds {
        assert!(ready.get(*name).is_some_and(is_right), "{name} of {ready:#}");
    }
    assert_eq!((&ready["approval"], &ready["provider"]), (&json!("always"), &json!("protocol_harness")));
    assert_eq!((&ready["authed"], &ready["providers"]), (&json!(true), &json!(["protocol_harness"])));
    let model = &ready["models"][0];
    assert_eq!((&model["id"], &model["provider"]), (&json!("mock-model"), &json!("protocol_harness")));
    assert_eq!((&model["context_window"], &model["max_tokens"]), (&json!(8192), &json!(1024)));
    for name in ["name", "reasoning", "thinking_levels", "vision"] {
        assert!(model.get(name).is_some(), "{name} of {model}");
    }
    let preset = &ready["providerPresets"][0];
    for name in [
        "id",
        "label",
        "kind",
        "base_url",
        "envVar",
        "altEnvs",
        "description",
        "hasKey",
        "configured",
        "loggedIn",
        "supportsOauth",
    ] {
        assert!(preset.get(name).is_some(), "{name} of {preset}");
    }
}

#[test]
fn commands_are_served_before_init_and_init_may_come_again() {
    let server = server([]);
    let mut client = Client::with(&server, Setup { init: false, ..Setup::default() });
    assert_eq!(client.ask(json!({ "type": "stats" }), "stats")["messages"], 0);
    client.send(json!({ "type": "init" }));
    let hello = client.until("agents").swap_remove(1);
    assert_eq!((&hello["client"], &hello["client_protocol_version"]), (&Value::Null, &Value::Null));
    client.send(json!({ "type": "init" }));
    assert_eq!(client.until("agents")[0]["type"], "ready");
}

/// A server whose list of models never comes.
fn without_models() -> ModelServer {
    let server = server([]);
    server.on_get("*", Answer::json(&json!({})).held_at(&Gate::new()));
    server
}

#[test]
fn what_was_asked_before_the_end_of_the_input_is_answered_also_while_models_are_looked_for() {
    let server = without_models();
    let mut client = Client::with(&server, Setup { init: false, ..Setup::default() });
    client.send(json!({ "type": "init" }));
    let (events, status) = client.close();
    let names: Vec<_> = events.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["ready", "protocol_hello", "skills", "agents"]);
    assert!(status.success());
}

#[test]
fn where_nobody_is_logged_in_the_first_answer_waits_for_nothing() {
    let server = without_models();
    let client = Client::with(&server, Setup { key: false, ..Setup::default() });
    assert_eq!(of(&client.seen, "ready")[0]["authed"], false);
}

#[test]
fn a_session_is_taken_up_where_it_was_left() {
    let server = server([text("Hello.")]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    client.until("done");
    let folder = client.leave();
    let client = Client::within(folder, &server, Setup::default());
    let history = of(&client.seen, "history");
    assert!(history.is_empty(), "it comes behind the agents");
    let mut client = client;
    let history = client.event("history");
    let messages = history["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{history:#}");
    assert_eq!((&messages[0]["role"], &messages[0]["content"]), (&json!("user"), &json!("hi")));
    assert_eq!((&messages[1]["role"], &messages[1]["content"]), (&json!("assistant"), &json!("Hello.")));
    assert!(history["tokens_in"].is_u64());
}

#[test]
fn startup_reports_and_terminalizes_interrupted_session_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = json!({ "_run": {
        "session_id": "session-1-1", "run_id": "run-1-1", "kind": "run", "state": "started", "timestamp_ms": 1,
    } });
    let tool = json!({ "_run": {
        "session_id": "session-1-1", "run_id": "run-1-1:tool:c1", "kind": "tool", "parent_run_id": "run-1-1",
        "tool_call_id": "c1", "state": "started", "timestamp_ms": 2,
    } });
    let lines = format!(
        "{}\n{}\n{run}\n{tool}\n{{\"role\":\"us",
        json!({ "_session_version": 2 }),
        json!({ "role": "user", "content": "hi" })
    );
    std::fs::write(folder.path().join("session.jsonl"), lines).unwrap();
    let server = server([]);
    let client = Client::within(folder, &server, Setup::default());
    let recovered = of(&client.seen, "session_recovered")[0].clone();
    assert_eq!(recovered["interrupted_runs"], json!(["run-1-1", "run-1-1:tool:c1"]), "{recovered:#}");
    let activity = &recovered["interrupted_activities"][1];
    assert_eq!(
        (&activity["kind"], &activity["parent_run_id"], &activity["tool_call_id"]),
        (&json!("tool"), &json!("run-1-1"), &json!("c1"))
    );
    let warnings = recovered["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|it| it.as_str().unwrap().contains("truncated")), "{recovered:#}");
    let folder = client.leave();
    let kept = std::fs::read_to_string(folder.path().join("session.jsonl")).unwrap();
    assert!(kept.contains(r#""state":"interrupted""#), "{kept}");
    // Said once.
    let client = Client::within(folder, &server, Setup::default());
    assert!(of(&client.seen, "session_recovered").is_empty(), "{:#?}", client.seen);
}
