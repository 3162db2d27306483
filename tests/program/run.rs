//! `linn run`.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use linn_model_server::{ModelServer, Wire};
use serde_json::{Value, json};

use crate::stage::{Stage, calls, says, stderr, stdout};

#[test]
fn a_turn_that_is_done_ends_with_0_and_shows_the_answer() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("Hello there.")]);
    let output = stage.run("hi", &model, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("Hello there."));
}

#[test]
fn a_call_that_nobody_can_be_asked_about_does_not_run_and_ends_with_3() {
    let stage = Stage::new();
    let call = calls("c", "write_file", &json!({ "path": "new.txt", "content": "x" }));
    let model = stage.recording("r", &[call, says("I could not.")]);
    let output = stage.run("write", &model, &[]);
    assert_eq!(output.status.code(), Some(3), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("no approval channel is available"), "{}", stdout(&output));
    assert!(!stage.path("work/new.txt").exists());
}

#[test]
fn with_approve_never_the_same_call_runs() {
    let stage = Stage::new();
    let call = calls("c", "write_file", &json!({ "path": "new.txt", "content": "x" }));
    let model = stage.recording("r", &[call, says("Written.")]);
    let output = stage.run("write", &model, &["--approve", "never"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(std::fs::read(stage.path("work/new.txt")).unwrap(), b"x");
}

#[test]
fn a_turn_that_fails_ends_with_1_and_says_why() {
    let stage = Stage::new();
    let call = calls("c", "list_dir", &json!({ "path": "." }));
    let model = stage.recording("r", &[call]);
    let output = stage.run("look", &model, &[]);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("✗"), "{}", stdout(&output));
}

#[test]
fn a_model_that_nobody_knows_and_a_recording_that_is_not_there_are_errors_by_name() {
    let stage = Stage::new();
    for (model, named) in [("gpt-0", "no provider is configured"), ("replay:nothing-here.jsonl", "nothing-here.jsonl")]
    {
        let output = stage.run("hi", model, &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stdout(&output).contains(named), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn wrong_use_ends_with_2() {
    let stage = Stage::new();
    assert_eq!(stage.linn(&["run"]).status.code(), Some(2));
    assert_eq!(stage.linn(&["rnu", "x"]).status.code(), Some(2));
}

#[test]
fn the_event_stream_is_one_object_a_line_and_tells_the_whole_turn() {
    let stage = Stage::new();
    let call = calls("c", "list_dir", &json!({ "path": "." }));
    let model = stage.recording("r", &[call, says("Empty.")]);
    let output = stage.run("look", &model, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    let events: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|it| it["event"].as_str().unwrap()).collect();
    for name in [
        "session/created",
        "agent/created",
        "agent/session-start",
        "agent/queued",
        "agent/status",
        "agent/prompt-submit",
        "system-prompt/assemble",
        "agent/pre-step",
        "agent/request",
        "llm/stream",
        "agent/step-result",
        "tools/amend",
        "tools/pre-execute",
        "tools/execute",
        "tools/post-execute",
        "tools/result",
        "agent/turn-continuation",
        "agent/turn-stop",
        "session/flush",
        "agent/disposed",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    let kinds = |it: &Value| it["data"]["record"]["type"].as_str().map(str::to_owned);
    let logged: Vec<String> = events.iter().filter(|it| it["event"] == "session/event").filter_map(kinds).collect();
    assert_eq!(logged.first().unwrap(), "turn/start");
    assert!(logged.contains(&"turn/end".to_owned()), "{logged:?}");
}

#[test]
fn ctrl_c_ends_the_turn_with_4_and_the_session_can_be_resumed() {
    let stage = Stage::new();
    let slow = vec![
        json!({ "request": {} }),
        json!({ "chunk": { "type": "text-delta", "index": 0, "text": "Once upon a time" } }),
        json!({ "after_ms": 600_000, "chunk": { "type": "finish", "reason": { "kind": "stop" } } }),
    ];
    let model = stage.recording("slow", &[slow]);
    let arguments = stage.run_arguments("tell me a story", &model, &[]);
    let mut command = stage.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("Once upon a time") {
        let mut piece = [0; 256];
        let n = out.read(&mut piece).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..n]);
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    out.read_to_end(&mut seen).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("aborted: interrupted"), "{seen}");

    let session = seen.rsplit("--resume ").next().unwrap().split_whitespace().next().unwrap().to_owned();
    let model = stage.recording("next", &[says("Where were we?")]);
    let output = stage.run("go on", &model, &["--resume", &session]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("Where were we?"));
}

#[test]
fn r132_an_output_that_is_closed_ends_the_turn_quietly() {
    let stage = Stage::new();
    let mut long = vec![json!({ "request": {} })];
    let line = json!({ "chunk": { "type": "text-delta", "index": 0, "text": "line after line\n" } });
    long.extend(std::iter::repeat_n(line, 20_000));
    long.push(json!({ "chunk": { "type": "finish", "reason": { "kind": "stop" } } }));
    let model = stage.recording("long", &[long]);
    let arguments = stage.run_arguments("go", &model, &[]);
    let mut command = stage.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(!stderr(&output).contains("panic"), "{}", stderr(&output));
    let kept = stage.linn(&["sessions", "--sessions", stage.path("sessions").to_str().unwrap()]);
    assert!(stdout(&kept).contains("go"), "{}", stdout(&kept));
}

#[test]
fn a_repository_cannot_choose_a_recording_as_the_model() {
    let stage = Stage::new();
    let call = calls("c", "write_file", &json!({ "path": "pwned.txt", "content": "x" }));
    let model = stage.recording("evil", &[call, says("done")]);
    stage.write("work/.linn/linn.toml", &format!("model = '{model}'\n"));
    let (work, sessions) = (stage.path("work"), stage.path("sessions"));
    let arguments = [
        "run",
        "hi",
        "--approve",
        "never",
        "--workspace",
        work.to_str().unwrap(),
        "--sessions",
        sessions.to_str().unwrap(),
    ];
    let output = stage.linn(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("chooses the recording"), "{}", stderr(&output));
    assert!(!stage.path("work/pwned.txt").exists());
}

#[test]
fn a_configuration_that_would_protect_less_than_it_says_runs_nothing() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("Not asked.")]);
    for text in ["approval = 'always'\napproval = 'never'\n", "approval = 'alwasy'\n", "[permissions]\ndeny = 3\n"] {
        stage.write("home/.config/linn/linn.toml", text);
        let output = stage.run("hi", &model, &[]);
        assert_eq!(output.status.code(), Some(1), "{text}{}", stdout(&output));
        assert!(stderr(&output).contains("nothing is run"), "{text}{}", stderr(&output));
    }
}

#[test]
fn a_session_that_cannot_be_saved_is_told_and_ends_with_1() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("Hello there.")]);
    // A folder in the place of the log: the file cannot be made, whoever runs the test.
    stage.write("sessions/blocked", "a file where a folder should be");
    let (work, sessions) = (stage.path("work"), stage.path("sessions/blocked/below"));
    let arguments = [
        "run",
        "hi",
        "--model",
        &model,
        "--workspace",
        work.to_str().unwrap(),
        "--sessions",
        sessions.to_str().unwrap(),
    ];
    let output = stage.linn(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "of a file that another process writes there is no signal to wait for")]
fn sigterm_ends_the_turn_with_4_and_the_command_that_runs() {
    let stage = Stage::new();
    let call = calls("c", "bash", &json!({ "command": "echo $$ > pid; exec sleep 1000" }));
    let model = stage.recording("r", &[call, says("never")]);
    let arguments = stage.run_arguments("go", &model, &["--approve", "never"]);
    let mut command = stage.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = std::time::Instant::now();
    let pid = loop {
        let written = std::fs::read_to_string(stage.path("work/pid")).ok();
        if let Some(pid) = written.and_then(|it| it.trim().parse::<i32>().ok()) {
            break rustix::process::Pid::from_raw(pid).unwrap();
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "the command never ran");
        std::thread::yield_now();
    };
    let own = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(own, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}{}", stdout(&output), stderr(&output));
    assert!(rustix::process::test_kill_process(pid).is_err(), "it is gone with the program");
}

#[test]
fn a_session_is_resumed_in_its_own_folder() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("One.")]);
    let output = stage.run("hi", &model, &[]);
    let shown = stdout(&output);
    let session = shown.split("--resume ").nth(1).and_then(|it| it.split_whitespace().next()).unwrap().to_owned();
    let write = calls("c", "write_file", &json!({ "path": "here.txt", "content": "x" }));
    let model = stage.recording("s", &[write, says("Two.")]);
    let sessions = stage.path("sessions");
    let fixed =
        ["--model", &model, "--sessions", sessions.to_str().unwrap(), "--approve", "never", "--resume", &session];
    let output = stage.linn(&[&["run", "go on"][..], &fixed].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stage.path("work/here.txt").exists() && !stage.path("here.txt").exists());
    let other = stage.path("home");
    let output = stage.linn(&[&["run", "go on", "--workspace", other.to_str().unwrap()][..], &fixed].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("works in"), "{}", stderr(&output));
}

#[test]
fn an_empty_prompt_is_refused() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("Not asked.")]);
    assert_eq!(stage.run("  ", &model, &[]).status.code(), Some(1));
}

#[test]
fn an_endpoint_that_the_command_line_names_is_the_only_one_that_is_asked() {
    let stage = Stage::new();
    let elsewhere = ModelServer::start([]).unwrap();
    elsewhere.otherwise(Wire::OpenAi.text(&["I should not have been asked."]));
    let base_url = elsewhere.base_url();
    let spec = format!("[[providers]]\nname = 'other'\nbase_url = '{base_url}'\napi_key_env = ''\n");
    stage.write("home/.config/linn/linn.toml", &spec);
    // A port on which nobody listens.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = stage.run("a secret", "mock-model", &["--base-url", &format!("http://{nobody}/v1")]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let output = stage.run("a secret", "mock-model", &["--base-url", "localhost:8080/v1"]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(stderr(&output).contains("http://"), "{}", stderr(&output));
    let output = stage.run("a secret", "mock-model", &["--provider", "nope"]);
    assert_ne!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stderr(&output).contains("no provider `nope`") && stderr(&output).contains("other"), "{}", stderr(&output));
    assert_eq!(elsewhere.requests().len(), 0, "what is meant for one endpoint goes to no other");

    let output = stage.run("hello", "mock-model", &["--provider", "other"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(elsewhere.requests().len(), 1);
}
