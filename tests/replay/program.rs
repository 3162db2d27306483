//! The program records what a model streams, and plays it back in its place.

use std::path::Path;
use std::process::{Command, Output};

use linn_model_server::{ModelServer, Wire};
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "the program is what is tested")]
fn linn(folder: &Path, model: &[&str], sessions: &str) -> Output {
    let (work, sessions) = (folder.join("work"), folder.join(sessions));
    let mut command = Command::new(env!("CARGO_BIN_EXE_linn"));
    command.args(["run", "Write it down.", "--approve", "never", "--json"]).args(model);
    command.arg("--workspace").arg(work).arg("--sessions").arg(sessions);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", folder.join("home")).env("TMPDIR", folder).current_dir(folder);
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

/// What was logged, without what is of one run alone: the time, and how the stream was cut.
fn logged(output: &Output) -> Vec<Value> {
    let events = String::from_utf8(output.stdout.clone()).unwrap();
    let events = events.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let records = events.filter(|it| it["event"] == "session/event").map(|it| it["data"]["record"].clone());
    let records = records.map(|mut it| {
        it["time"].take();
        // The name of the model is that of the recording when it is played.
        it.pointer_mut("/data/header/config/model").map(Value::take);
        it
    });
    records.collect()
}

fn assert_done(output: &Output) {
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn what_the_program_recorded_from_an_endpoint_is_played_back_without_it_to_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["work", "home", "first", "again"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let call = json!({ "path": "note.txt", "content": "written by the model\n" });
    let script = [Wire::OpenAi.calls(&[("call_1", "write_file", call)]), Wire::OpenAi.text(&["It is ", "written."])];
    let server = ModelServer::start(script).unwrap();
    let tape = folder.path().join("tape.jsonl");
    let tape = tape.to_str().unwrap();
    let url = server.base_url();
    let first = linn(folder.path(), &["--model", "mock-model", "--base-url", &url, "--record", tape], "first");
    assert_done(&first);
    let note = folder.path().join("work/note.txt");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "written by the model\n");
    assert_eq!((server.requests().len(), server.n_left()), (2, 0));
    let recorded = std::fs::read_to_string(tape).unwrap();
    assert_eq!(recorded.lines().next().unwrap(), r#"{"linn_recording":1}"#);
    assert_eq!(recorded.matches("{\"request\":").count(), 2, "{recorded}");

    // Without the endpoint, and on the workspace as it was.
    drop(server);
    std::fs::remove_file(&note).unwrap();
    let again = linn(folder.path(), &["--model", &format!("replay:{tape}")], "again");
    assert_done(&again);
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "written by the model\n");
    let (first, again) = (logged(&first), logged(&again));
    assert!(first.len() > 12, "{first:?}");
    assert_eq!(first, again);
}
