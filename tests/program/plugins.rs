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

#[test]
fn plugins_of_the_program_are_disabled_and_enabled_in_the_file_of_the_user() {
    let stage = Stage::new();
    let file = "home/.config/linn/linn.toml";
    stage.write(file, "# Mine.\n[shell]\ntimeout_secs = 7 # seconds\n");
    let output = stage.linn(&["plugin", "disable", "web"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("entry `web` is disabled"), "{}", stdout(&output));
    let kept = std::fs::read_to_string(stage.path(file)).unwrap();
    assert!(kept.starts_with("# Mine.\n[shell]\ntimeout_secs = 7 # seconds\n"), "{kept}");
    let seen: Value = serde_json::from_str(&stdout(&stage.linn(&["inspect", "--json"]))).unwrap();
    let has = |seen: &Value, name: &str| seen["fibers"].as_array().unwrap().iter().any(|it| it["name"] == name);
    assert!(has(&seen, "todo") && !has(&seen, "web"));

    assert_eq!(stage.linn(&["plugin", "enable", "web"]).status.code(), Some(0));
    let seen: Value = serde_json::from_str(&stdout(&stage.linn(&["inspect", "--json"]))).unwrap();
    assert!(has(&seen, "web"));
    let kept = std::fs::read_to_string(stage.path(file)).unwrap();
    assert_eq!(kept.matches("id = \"web\"").count(), 1, "{kept}");
}

#[test]
fn what_cannot_be_done_with_a_plugin_is_told_with_what_can() {
    let stage = Stage::new();
    let fails = |arguments: &[&str]| {
        let output = stage.linn(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stdout(&output));
        stderr(&output)
    };
    for command in ["enable", "disable", "remove", "reload"] {
        let said = fails(&["plugin", command, "no-such"]);
        assert!(said.contains("no-such") && said.contains("linn plugin list"), "{said}");
    }
    assert!(fails(&["plugin", "remove", "web"]).contains("linn plugin disable web"));
    assert!(fails(&["plugin", "reload", "web"]).contains("part of the program"));
    assert!(!stage.path("home/.config/linn/linn.toml").exists());
    // What the command line says wins, and that is told.
    stage.write("work/.linn/linn.toml", "[[plugins]]\nid = 'theirs'\nplugin = 'todo'\n");
    let work = stage.path("work");
    let said = fails(&["plugin", "disable", "theirs", "--workspace", work.to_str().unwrap()]);
    assert!(said.contains(".linn/linn.toml") && said.contains("change it there"), "{said}");
}

#[test]
fn scripts_are_installed_disabled_and_removed_like_libraries() {
    let stage = Stage::new();
    let manifest = json!({ "name": "polite", "version": "1.0.0", "description": "Says please.", "hooks": { "pre_bash": { "script": "ask.sh" } } });
    stage.write("polite/plugin.json", &manifest.to_string());
    stage.write("polite/ask.sh", "#!/bin/sh\necho '{}'\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(stage.path("polite/ask.sh"), executable).unwrap();
    }
    let well = |arguments: &[&str]| {
        let output = stage.linn(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    };
    assert!(well(&["plugin", "install", stage.path("polite").to_str().unwrap()]).contains("installed polite"));
    assert!(well(&["plugin", "list"]).contains("polite 1.0.0"));
    well(&["plugin", "disable", "polite"]);
    assert!(well(&["plugin", "list"]).lines().any(|it| it.starts_with("polite") && it.ends_with("disabled")));
    well(&["plugin", "enable", "polite"]);
    well(&["plugin", "remove", "polite"]);
    assert!(!well(&["plugin", "list"]).contains("polite"));
}

#[test]
fn the_bus_is_shown_with_what_a_plugin_waits_for() {
    let stage = Stage::new();
    let entry = "[[plugins]]\nid = 'waits'\nplugin = 'todo'\ninject = ['session-persistence']\n";
    stage.write("home/.config/linn/linn.toml", entry);
    let output = stage.linn(&["inspect"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.contains("waits: service `session-persistence` is provided by no plugin"), "{shown}");
    assert!(shown.contains("  tools  by tools"), "{shown}");
    let seen: Value = serde_json::from_str(&stdout(&stage.linn(&["inspect", "--json"]))).unwrap();
    let fibers = seen["fibers"].as_array().unwrap();
    let waiting = fibers.iter().find(|it| it["state"] == "pending").unwrap();
    assert_eq!((&waiting["name"], &waiting["waitsFor"][0]["service"]), (&json!("todo"), &json!("session-persistence")));
    let loader = fibers.iter().find(|it| it["name"] == "loader").unwrap();
    assert_eq!(waiting["below"], loader["id"]);
    let events = seen["events"].as_array().unwrap();
    let gate = events.iter().find(|it| it["name"] == "tools/pre-execute").unwrap();
    assert!(gate["listeners"].as_array().unwrap().iter().any(|it| it["plugin"] == "approval"), "{gate}");
}

#[test]
fn commands_of_the_program_are_no_prompts() {
    let stage = Stage::new();
    let model = stage.recording("r", &[crate::stage::says("Hello there.")]);
    let sessions = stage.path("sessions");
    let arguments = ["chat", "--model", &model, "--sessions", sessions.to_str().unwrap()];
    let output = stage.linn_with(&arguments, "/plugins\n/inspect\n/plugins reload no-such\nhi\n");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.contains("linn-plugin-agent-loop") && shown.contains("events, with who listens"), "{shown}");
    // The conversation has an agent, which is a scope.
    assert!(shown.contains("scope ") && shown.contains("no library and no folder of scripts"), "{shown}");
    assert!(shown.contains("Hello there."), "{shown}");
}
