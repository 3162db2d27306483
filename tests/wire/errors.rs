//! Sections 6.11 and 6.12: endpoints that fail.

use linn_model_server::{Answer, Wire};
use serde_json::json;

use crate::client::{Client, of, said, server, text, types};

#[test]
fn provider_retry_then_success_preserves_event_order() {
    let busy = Answer::status("429 Too Many Requests", "slow down").header("retry-after-ms", "50");
    let server = server([busy, text("fine")]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let names: Vec<_> = types(&events);
    let at = |name: &str| names.iter().position(|it| *it == name).unwrap();
    assert!(at("http_retry") < at("delta") && at("delta") < at("done"), "{names:?}");
    let retry = of(&events, "http_retry")[0];
    assert_eq!((&retry["attempt"], &retry["status"], &retry["backoff_ms"]), (&json!(1), &json!(429), &json!(50)));
    assert!(of(&events, "error").is_empty());
}

#[test]
fn provider_504_gateway_timeout_retries_then_succeeds() {
    let server = server([Answer::status("504 Gateway Timeout", "").header("retry-after-ms", "50"), text("fine")]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    assert_eq!(of(&events, "http_retry")[0]["status"], 504);
    assert_eq!((said(&events).as_str(), of(&events, "error").len()), ("fine", 0));
}

#[test]
fn a_busy_endpoint_is_asked_again_when_it_says_and_given_up_after_four_attempts() {
    let busy = || {
        Answer::status("503 Service Unavailable", r#"{"error":{"message":"overloaded"}}"#).header("retry-after", "0")
    };
    let server = server([busy(), busy(), text("fine"), busy(), busy(), busy(), busy()]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let retries: Vec<_> = of(&events, "http_retry")
        .iter()
        .map(|it| (it["attempt"].clone(), it["status"].clone(), it["backoff_ms"].clone()))
        .collect();
    assert_eq!(retries, [(json!(1), json!(503), json!(50)), (json!(2), json!(503), json!(50))]);
    assert_eq!((said(&events).as_str(), of(&events, "error").len()), ("fine", 0));
    client.prompt("again");
    let events = client.until("done");
    assert_eq!(of(&events, "http_retry").len(), 3);
    let errors = of(&events, "error");
    let message = errors[0]["message"].as_str().unwrap();
    assert!(errors.len() == 1 && message.starts_with("HTTP 503 Service Unavailable: "), "{errors:?}");
    let names = types(&events);
    assert_eq!(names[names.len() - 2..], ["error", "done"]);
}

#[test]
fn provider_midstream_body_drop_retries_after_partial_and_succeeds() {
    let frames = Wire::OpenAi.text_frames(&["par", "tial"]);
    let server = server([Answer::stream(frames[..1].to_vec()).dropped(), text("whole")]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let retry = of(&events, "http_retry")[0];
    assert_eq!(retry["discard_partial"], true, "{retry}");
    assert_eq!(retry["reason"], "retryable stream error after partial output");
    assert_eq!(said(&events), "parwhole");
    assert!(of(&events, "error").is_empty());
    // What was taken back is no part of the history.
    client.send(json!({ "type": "undo" }));
    client.until("history");
}

#[test]
fn provider_authentication_error_is_fatal_and_redacted() {
    let body = r#"{"error":{"message":"invalid api key: Bearer sk-very-secret"}}"#;
    let server = server([Answer::status("401 Unauthorized", body)]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let errors = of(&events, "error");
    assert_eq!(errors.len(), 1, "{events:#?}");
    let message = errors[0]["message"].as_str().unwrap();
    assert!(message.contains("401") || message.contains("authentication"), "{message}");
    let all = client.seen.iter().map(ToString::to_string).collect::<String>();
    assert!(!all.to_lowercase().contains("bearer") && !all.contains("sk-very-secret"));
    assert!(of(&events, "http_retry").is_empty());
}

#[test]
fn an_error_of_the_endpoint_is_told_once_and_the_next_turn_works() {
    let server = server([Answer::status("400 Bad Request", r#"{"error":{"message":"no such thing"}}"#), text("fine")]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    let events = client.until("done");
    let message = of(&events, "error")[0]["message"].as_str().unwrap();
    assert!(message.starts_with("HTTP 400 Bad Request: ") && message.contains("no such thing"), "{message}");
    client.prompt("again");
    assert_eq!(said(&client.until("done")), "fine");
}
