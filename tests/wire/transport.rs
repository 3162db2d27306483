//! Section 1: lines in, lines out.

use serde_json::json;

use crate::client::{Client, server, text};

fn error(client: &mut Client, line: &[u8]) -> (String, String) {
    client.send_bytes(line);
    let error = client.event("error");
    (error["code"].as_str().unwrap_or_default().to_owned(), error["message"].as_str().unwrap().to_owned())
}

#[test]
fn invalid_command_returns_structured_error_and_transport_remains_usable() {
    let server = server([]);
    let mut client = Client::start(&server);
    client.send(json!({ "type": "send", "prompt": 17 }));
    let error = client.event("error");
    assert_eq!((error["code"].as_str(), error["protocol_version"].as_u64()), (Some("invalid_command"), Some(2)));
    assert!(error["message"].as_str().unwrap().starts_with("bad command:"), "{error}");
    assert!(!error["session_id"].as_str().unwrap().is_empty());
    client.ask(json!({ "type": "runtime_status" }), "runtime_status");
}

#[test]
fn what_is_no_command_is_told_and_the_next_line_is_read() {
    let server = server([]);
    let mut client = Client::start(&server);
    let (code, message) = error(&mut client, b"not json\n");
    assert!(code == "invalid_command" && message.starts_with("bad command: "), "{message}");
    let (_, message) = error(&mut client, b"{\"type\":\"no_such\"}\n");
    assert!(message.contains("unknown variant `no_such`, expected one of"), "{message}");
    let (_, message) = error(&mut client, b"{\"type\":\"send\",\"prompt\":\"x\"}\n");
    assert!(message.contains("missing field `model`"), "{message}");
    let (code, message) = error(&mut client, b"{\"type\":\"\xff\"}\n");
    assert!(code == "invalid_command" && message.starts_with("command is not valid UTF-8: "), "{message}");
    // Blank lines, carriage returns and fields that nobody knows are no errors.
    client.send_bytes(b"\n  \t\r\n{\"type\":\"stats\",\"more\":[1]}\r\r\n");
    assert_eq!(client.until("stats").len(), 1);
}

#[test]
fn r126_a_line_of_more_than_8_mib_is_one_error_and_the_next_is_read() {
    let server = server([]);
    let mut client = Client::start(&server);
    let mut line = vec![b'x'; 9 << 20];
    line.push(b'\n');
    let (code, message) = error(&mut client, &line);
    assert_eq!((code.as_str(), message.as_str()), ("invalid_command", "command exceeds 8388608 byte limit"));
    client.send_bytes(b"{\"type\":\"stats\"}\n");
    assert_eq!(client.until("stats").len(), 1);
}

#[test]
fn half_a_line_at_the_end_of_the_input_is_a_command_still() {
    let server = server([]);
    let mut client = Client::start(&server);
    client.send_bytes(b"{\"type\":\"stats\"}");
    let (events, status) = client.close();
    assert_eq!(events[0]["type"], "stats", "{events:#?}");
    assert!(status.success());
}

#[test]
fn the_end_of_the_input_ends_a_run_and_the_program_and_keeps_the_session() {
    let gate = linn_model_server::Gate::new();
    let frames = linn_model_server::Wire::OpenAi.text_frames(&["one ", "two"]);
    let answer = linn_model_server::Answer::stream(frames[..1].to_vec()).and_wait(&gate);
    let server = server([answer, text("later")]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    client.until("delta");
    let folder = {
        let path = client.path("session.jsonl");
        let (events, status) = client.close();
        let cancelled = events.iter().find(|it| it["type"] == "run_cancelled").unwrap();
        assert_eq!(cancelled["reason"], "shutdown");
        assert!(!events.iter().any(|it| it["type"] == "done" || it["type"] == "aborted"), "{events:#?}");
        assert_eq!(status.code(), Some(0));
        path
    };
    assert!(!folder.exists(), "the folder of the test is gone with its client");
}

#[test]
fn sigterm_ends_a_run_and_the_program_as_the_end_of_the_input_does() {
    let gate = linn_model_server::Gate::new();
    let frames = linn_model_server::Wire::OpenAi.text_frames(&["one ", "two"]);
    let server = server([linn_model_server::Answer::stream(frames[..1].to_vec()).and_wait(&gate)]);
    let mut client = Client::start(&server);
    client.prompt("hi");
    client.until("delta");
    let pid = rustix::process::Pid::from_raw(i32::try_from(client.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(client.event("run_cancelled")["reason"], "shutdown");
    let (_, status) = client.close();
    assert_eq!(status.code(), Some(0));
}
