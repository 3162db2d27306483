//! Keys that the program was given, and rules that it cannot read.

use serde_json::json;

use crate::stage::{Stage, calls, says, stderr, stdout};

const KEY: &str = "own-key-of-the-user-1";

#[test]
fn r138_r139_a_key_of_the_configuration_is_on_no_output_in_no_trace_and_in_no_session() {
    let stage = Stage::new();
    stage.write("home/.config/linn/linn.toml", &format!("api_key = \"{KEY}\"\n"));
    stage.write("work/key.txt", &format!("{KEY}\n"));
    let reads = calls("c1", "read_file", &json!({ "path": "key.txt" }));
    let runs =
        calls("c2", "bash", &json!({ "command": format!("cat key.txt >&2; echo https://h.invalid/?apikey={KEY}") }));
    let fails = calls("c3", "read_file", &json!({ "path": format!("{KEY}.txt") }));
    let model = stage.recording("r", &[reads, runs, fails, says(&format!("It is {KEY}."))]);
    let arguments = stage.run_arguments(&format!("Tell me {KEY}."), &model, &["--json", "--approve", "never"]);
    let mut command = stage.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let output = command.env("LINN_LOG", "trace").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let (shown, told) = (stdout(&output), stderr(&output));
    assert!(shown.matches("[redacted]").count() > 8, "{shown}");
    assert!(!shown.contains(KEY), "the event stream tells it");
    assert!(!told.contains(KEY), "the human, or a trace, is told it: {told}");
    let mut n_files = 0;
    for entry in std::fs::read_dir(stage.path("sessions")).unwrap() {
        let kept = std::fs::read(entry.unwrap().path()).unwrap();
        n_files += 1;
        assert!(!String::from_utf8_lossy(&kept).contains(KEY), "a session holds it");
    }
    assert!(n_files > 0);
    for listing in [&["config", "--all"][..], &["config", "--all", "--json"], &["config", "api_key"]] {
        let listed = stage.linn(listing);
        assert!(!stdout(&listed).contains(KEY) && !stderr(&listed).contains(KEY), "{listing:?}");
    }
}

#[test]
fn a_rule_that_cannot_be_read_is_told_with_its_place_and_nothing_runs() {
    let stage = Stage::new();
    stage.write("home/.config/linn/linn.toml", "[permissions]\ndeny = [\"bash(rm *)\", \"bash(git push\"]\n");
    let model = stage.recording("r", &[says("Not asked.")]);
    let output = stage.run("hi", &model, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let told = stdout(&output) + &stderr(&output);
    assert!(told.contains("linn.toml:2:") && told.contains("`permissions.deny`"), "{told}");
    assert!(told.contains("bash(git push") && told.contains("`tool(pattern)`"), "{told}");
    assert!(!told.contains("Not asked."), "{told}");
}
