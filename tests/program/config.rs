//! `linn config`, and that what is set holds.

use serde_json::{Value, json};

use crate::stage::{Stage, calls, says, stderr, stdout};

#[test]
fn values_are_listed_with_the_file_and_line_they_come_from() {
    let stage = Stage::new();
    stage.write("home/.config/linn/linn.toml", "shell.timeout_secs = 60\n");
    stage.write("work/.linn/linn.toml", "stream.idle_timeout_secs = 90\napproval = 'never'\n");
    let work = stage.path("work");
    let arguments = ["config", "--workspace", work.to_str().unwrap(), "--set", "model=m"];
    let output = stage.linn(&arguments);
    let shown = stdout(&output);
    assert!(shown.contains("shell.timeout_secs = 60"), "{shown}{}", stderr(&output));
    assert!(shown.contains("linn.toml:1:22 (user)"), "{shown}");
    assert!(shown.contains("stream.idle_timeout_secs = 90") && shown.contains("model = \"m\""), "{shown}");
    // A repository does not decide what needs no approval; that it tried is told, and is the exit code.
    assert!(!shown.contains("approval ="), "{shown}");
    assert!(shown.contains("linn.toml:2:12") && shown.contains("approval"), "{shown}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn one_key_says_what_it_wins_over_and_json_says_the_same() {
    let stage = Stage::new();
    stage.write("home/.config/linn/linn.toml", "shell.timeout_secs = 60\n");
    let shown = stdout(&stage.linn(&["config", "shell.timeout_secs", "--set", "shell.timeout_secs=5"]));
    assert!(shown.contains("shell.timeout_secs = 5") && shown.contains("wins over 60 from"), "{shown}");
    let output = stage.linn(&["config", "shell", "--json"]);
    let shown: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let keys: Vec<_> = shown["keys"].as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"shell.timeout_secs") && keys.contains(&"shell.deny"), "{keys:?}");
    assert_eq!(shown["problems"], json!([]));
    let output = stage.linn(&["config", "no.such"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("there is no key `no.such`"), "{}", stderr(&output));
}

#[test]
fn keys_are_never_shown() {
    let stage = Stage::new();
    stage.write("home/.config/linn/linn.toml", "api_key = 'sk-secret'\n[provider_keys]\na = 'sk-other'\n");
    for arguments in [&["config"][..], &["config", "--json"], &["config", "api_key"], &["config", "--all"]] {
        let output = stage.linn(arguments);
        assert!(!stdout(&output).contains("sk-") && !stderr(&output).contains("sk-"), "{}", stdout(&output));
    }
}

#[test]
fn what_the_configuration_says_holds_for_a_run() {
    let stage = Stage::new();
    let model =
        stage.recording("r", &[calls("c", "write_file", &json!({ "path": "new.txt", "content": "x" })), says("ok")]);
    stage.write("home/.config/linn/linn.toml", &format!("model = '{model}'\napproval = 'never'\n"));
    let (work, sessions) = (stage.path("work"), stage.path("sessions"));
    let arguments = ["run", "hi", "--workspace", work.to_str().unwrap(), "--sessions", sessions.to_str().unwrap()];
    let output = stage.linn(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(std::fs::read(stage.path("work/new.txt")).unwrap(), b"x");
}

#[test]
fn without_a_model_a_run_says_how_to_name_one() {
    let stage = Stage::new();
    let output = stage.linn(&["run", "hi"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--model"), "{}", stderr(&output));
}
