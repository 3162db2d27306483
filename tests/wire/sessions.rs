//! Section 4.2: conversations and sessions.

use serde_json::{Value, json};

use crate::client::{Client, of, said, server, text, types};

#[test]
fn sessions_are_made_listed_named_pinned_loaded_and_deleted() {
    let server = server([text("First."), text("Second."), text("Third.")]);
    let mut client = Client::start(&server);
    client.prompt("one");
    client.until("done");
    let first = client.ask(json!({ "type": "stats" }), "stats")["session_file"].as_str().unwrap().to_owned();
    client.send(json!({ "type": "new_session", "path": "second.jsonl" }));
    let changed = client.event("session_changed");
    let second = changed["path"].as_str().unwrap().to_owned();
    assert!(second.ends_with("second.jsonl") && std::path::Path::new(&second).is_absolute(), "{second}");
    client.until("info");
    client.prompt("two");
    client.until("done");

    let listed = client.ask(json!({ "type": "list_sessions" }), "sessions");
    let sessions = listed["sessions"].as_array().unwrap().clone();
    assert_eq!(sessions.len(), 2, "{listed:#}");
    let current = sessions.iter().find(|it| it["current"] == true).unwrap();
    assert_eq!((&current["title"], &current["messages"]), (&json!("two"), &json!(2)), "{current}");
    assert!(current["mtime"].as_u64().unwrap() < 100_000_000_000, "seconds: {current}");

    client.send(json!({ "type": "rename_session", "path": first, "title": "  The first  " }));
    assert_eq!(client.event("session_renamed")["title"], "The first");
    client.send(json!({ "type": "rename_session", "path": first, "title": " " }));
    assert_eq!(client.event("error")["message"], "session title cannot be empty");
    client.send(json!({ "type": "pin_session", "path": first, "pinned": true }));
    assert_eq!(client.event("session_pinned")["pinned"], true);
    let listed = client.ask(json!({ "type": "list_sessions" }), "sessions");
    assert_eq!(
        (&listed["sessions"][0]["title"], &listed["sessions"][0]["pinned"]),
        (&json!("The first"), &json!(true))
    );

    client.send(json!({ "type": "delete_session", "path": second }));
    assert_eq!(client.event("error")["message"], "cannot delete the active session; start or load another first");
    client.send(json!({ "type": "load_session", "path": first }));
    let events = client.until("info");
    assert_eq!(types(&events), ["session_changed", "reset", "work_state", "history", "info"]);
    assert_eq!(events[0]["new"], false);
    assert_eq!(events[3]["messages"].as_array().unwrap().len(), 2);
    assert_eq!(events[4]["message"], format!("loaded 2 messages from {first}"));
    client.send(json!({ "type": "delete_session", "path": second }));
    assert_eq!(client.event("session_deleted")["path"], second);
    assert!(!std::path::Path::new(&second).exists());

    client.prompt("three");
    assert_eq!(said(&client.until("done")), "Third.");
    let body: Value = serde_json::from_slice(&server.requests().last().unwrap().body).unwrap();
    let asked = body["messages"].to_string();
    assert!(asked.contains("one") && asked.contains("First.") && !asked.contains("Second."), "{asked}");
}

#[test]
fn a_session_of_a_later_version_is_refused_and_nothing_changes() {
    let server = server([]);
    let mut client = Client::start(&server);
    std::fs::write(client.path("new.jsonl"), "{\"_session_version\":3}\n").unwrap();
    client.send(json!({ "type": "load_session", "path": "new.jsonl" }));
    let failed = client.event("session_change_failed");
    assert_eq!(failed["path"], "new.jsonl");
    assert!(failed["message"].as_str().unwrap().contains("newer than supported"), "{failed}");
    let stats = client.ask(json!({ "type": "stats" }), "stats");
    assert!(stats["session_file"].as_str().unwrap().ends_with("session.jsonl"));
}

#[test]
fn undo_takes_the_last_prompt_back_and_reset_everything() {
    let server = server([text("First."), text("Second."), text("Third.")]);
    let mut client = Client::start(&server);
    for prompt in ["one", "two"] {
        client.prompt(prompt);
        client.until("done");
    }
    client.send(json!({ "type": "undo" }));
    let events = client.until("history");
    assert_eq!(types(&events), ["work_state", "history"]);
    let messages = events[1]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{messages:?}");
    client.prompt("three");
    client.until("done");
    let body: Value = serde_json::from_slice(&server.requests().last().unwrap().body).unwrap();
    assert!(!body["messages"].to_string().contains("two"), "{body:#}");
    client.send(json!({ "type": "reset" }));
    client.until("reset");
    let stats = client.ask(json!({ "type": "stats" }), "stats");
    assert_eq!(
        (&stats["messages"], &stats["turns"], &stats["tokens_out"]),
        (&json!(0), &json!(0), &json!(0)),
        "{stats}"
    );
    client.send(json!({ "type": "undo" }));
    assert_eq!(client.event("history")["messages"], json!([]));
}

#[test]
fn basic_text_turns_can_be_compacted_with_ordered_events() {
    let server = server([text("First."), text("Second.")]);
    let mut client = Client::start(&server);
    client.send(json!({ "type": "compact" }));
    let events = client.until("info");
    assert_eq!(of(&events, "info")[0]["message"], "nothing to compact yet");
    for prompt in ["one", "two"] {
        client.prompt(prompt);
        client.until("done");
    }
    client.send(json!({ "type": "compact" }));
    let events = client.until("compacted");
    let names = types(&events);
    let at = |name: &str| names.iter().position(|it| *it == name).unwrap();
    assert!(at("compacting") < at("compacted"), "{names:?}");
    let compacted = events.last().unwrap();
    assert!(compacted["after_tokens"].is_u64() && compacted["before_tokens"].is_u64(), "{compacted}");
    assert_eq!(compacted["summary_chars"], 0, "the script has no summary");
}
