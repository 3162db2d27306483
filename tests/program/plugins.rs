//! `linn plugin`, `linn events` and `linn doctor`.

use serde_json::{Value, json};

use crate::stage::{Stage, stderr, stdout};

#[test]
fn plugins_of_the_program_are_listed_and_can_be_left_out_and_configured() {
    let stage = Stage::new();
    let shown = stdout(&stage.linn(&["plugin", "list"]));
    assert!(shown.contains("agent-loop") && shown.contains("linn-plugin-agent-loop"), "{shown}");
    let listed: Value = serde_json::from_str(&stdout(&stage.linn(&["plugin", "list", "--json"]))).unwrap();
    assert!(listed["native"].as_array().unwrap().iter().any(|it| it["name"] == "compaction"));

    stage.write(
        "home/.config/linn/linn.toml",
        "[[plugins]]\nid = 'agent-loop'\nconfig = { max_forced_continues = 'x' }\n",
    );
    let output = stage.linn(&["plugin", "list"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("agent-loop") && stderr(&output).contains("max_forced_continues"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_entry_of_a_plugin_that_there_is_not_is_told_and_the_rest_runs() {
    let stage = Stage::new();
    stage.write("home/.config/linn/linn.toml", "[[plugins]]\nid = 'mine'\nplugin = 'word-conut'\n");
    let model = stage.recording("r", &[crate::stage::says("Hello there.")]);
    let output = stage.run("hi", &model, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("there is no plugin `word-conut`"), "{}", stderr(&output));
}

#[test]
fn a_folder_of_scripts_is_checked_and_everything_wrong_is_told_at_once() {
    let stage = Stage::new();
    let manifest = json!({ "name": "Bad Name", "version": "", "description": "x", "hooks": { "pre_nothing": { "script": "a.sh" }, "pre_bash": { "script": "../out.sh" } } });
    stage.write("plugin/plugin.json", &manifest.to_string());
    let output = stage.linn(&["plugin", "check", stage.path("plugin").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).lines().count() >= 2, "{}", stdout(&output));
    let output = stage.linn(&["plugin", "check", stage.path("plugin/plugin.json").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!stderr(&output).is_empty());
}

#[test]
fn events_are_listed_with_mode_and_scope() {
    let stage = Stage::new();
    let shown = stdout(&stage.linn(&["events"]));
    assert!(shown.contains("tools/pre-execute  waterfall, scoped"), "{shown}");
    assert!(!shown.contains("internal/"));
    let listed: Value = serde_json::from_str(&stdout(&stage.linn(&["events", "--json"]))).unwrap();
    assert!(listed.as_array().unwrap().iter().any(|it| it["name"] == "llm/stream" && it["scoped"] == false));
}

#[test]
fn the_doctor_says_what_is_wrong() {
    let stage = Stage::new();
    let output = stage.linn(&["doctor", "--offline"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("no provider is configured"), "{}", stdout(&output));
    let provider = "[[providers]]\nname = 'far'\nbase_url = 'https://example.invalid/v1'\napi_key_env = 'FAR_KEY'\n";
    stage.write("home/.config/linn/linn.toml", &format!("{provider}[shell]\ntimeout_sec = 1\n"));
    let output = stage.linn(&["doctor", "--offline"]);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("`far` has no key") && shown.contains("did you mean"), "{shown}");
}
