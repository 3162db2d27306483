//! Section 6.14: histories that are made smaller, and section 6.1's budget.

use linn_model_server::{Answer, ModelServer, Wire};
use serde_json::{Value, json};

use crate::client::{Client, Setup, check_sequences, of, said, server, text, types};

/// An endpoint that does not count, so that the size of the history is what is estimated.
pub(crate) fn uncounted(text: &str) -> Answer {
    let mut frames = Wire::OpenAi.text_frames(&[text]);
    frames.remove(frames.len() - 2);
    Answer::stream(frames)
}

fn summary() -> Answer {
    let content = "<summary>\nAll is well.\n</summary>";
    Wire::OpenAi.text(&[content])
}

/// Asks until the history is long: four turns of about 18,000 tokens each in a window of 100,000.
fn long_history(client: &mut Client) {
    for _ in 0..4 {
        client.prompt(&"a long question ".repeat(2_250));
        client.until("done");
    }
}

fn long_server(then: impl IntoIterator<Item = Answer>) -> ModelServer {
    let answers = (0..4).map(|_| uncounted(&"long answer ".repeat(3_000)));
    let server = server(answers.chain(then));
    let model = json!({ "capabilities": { "context_window": 100_000, "recommended_max_tokens": 1_024 } });
    server.on_get("/v1/models/info", Answer::json(&json!({ "mock-model": model })));
    server
}

#[test]
fn an_automatic_compaction_is_told_inside_of_the_run_before_its_request() {
    let server = long_server([summary(), text("Short.")]);
    let mut client = Client::start(&server);
    long_history(&mut client);
    client.prompt(&"and one more ".repeat(6_800));
    let events = client.until("done");
    let names: Vec<_> =
        types(&events).into_iter().filter(|it| ["compacting", "compacted", "delta", "done"].contains(it)).collect();
    assert_eq!(names, ["compacting", "compacted", "delta", "done"], "{events:#?}");
    let (began, ended) = (of(&events, "compacting")[0], of(&events, "compacted")[0]);
    assert_eq!(began["trigger"], "threshold", "{began}");
    assert!(began["run_id"].is_string() && ended["run_id"] == began["run_id"], "{began}");
    for field in
        ["before_tokens", "after_tokens", "summary_chars", "context_window", "threshold_tokens", "hard_limit_tokens"]
    {
        assert!(ended[field].is_u64(), "{field}: {ended}");
    }
    assert!(ended["after_tokens"].as_u64() < ended["before_tokens"].as_u64(), "{ended}");
    assert_eq!(said(&events), "Short.");
    check_sequences(&events);
}

#[test]
fn a_context_that_the_provider_finds_too_long_is_compacted_and_asked_again() {
    let too_long = r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 8192 tokens"}}"#;
    let server = long_server([Answer::status("400 Bad Request", too_long), summary(), text("Short.")]);
    let mut client = Client::start(&server);
    long_history(&mut client);
    client.prompt("and now?");
    let events = client.until("done");
    let began = of(&events, "compacting")[0];
    assert_eq!(began["trigger"], "provider_context_length", "{began}");
    assert!(began["before_tokens"].is_u64() && began.get("context_window").is_none(), "{began}");
    assert!(of(&events, "error").is_empty(), "{events:#?}");
    assert_eq!(said(&events), "Short.");
}

#[test]
fn a_context_that_cannot_be_made_smaller_is_an_error_that_says_so() {
    let too_long = r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 8192 tokens"}}"#;
    let server = server([Answer::status("400 Bad Request", too_long)]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let message = of(&events, "error")[0]["message"].as_str().unwrap();
    let expected = "provider rejected the context and forced compaction could not reclaim enough space (";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_session_that_has_taken_its_tokens_is_asked_no_more() {
    let server = server([text("one"), text("two"), text("never")]);
    let arguments = vec!["--max-session-tokens".to_owned(), "30".to_owned()];
    let mut client = Client::with(&server, Setup { arguments, ..Setup::default() });
    for expected in ["one", "two"] {
        client.prompt("hi");
        assert_eq!(said(&client.until("done")), expected);
    }
    client.prompt("hi");
    let events = client.until("done");
    let names: Vec<_> = types(&events).into_iter().filter(|it| *it != "work_state").collect();
    assert_eq!(names, ["error", "done"]);
    assert_eq!(of(&events, "error")[0]["message"], "session token budget exhausted (30 >= 30); start a new session");
    assert_eq!(server.requests().len(), 2);
    // Another session has a budget of its own.
    client.send(json!({ "type": "new_session" }));
    client.until("info");
    client.prompt("hi");
    assert_eq!(said(&client.until("done")), "never");
    let left: Vec<&Value> = client.seen.iter().filter(|it| it["type"] == "http_retry").collect();
    assert!(left.is_empty(), "{left:?}");
}
