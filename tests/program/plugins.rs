//! `linn plugin`, `linn events` and `linn doctor`.

use serde_json::{Value, json};

use crate::stage::{Stage, says, stderr, stdout};

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

/// Writes a plugin of scripts whose hooks do `what`.
fn scripts(stage: &Stage, folder: &str, hooks: &Value, what: &str) {
    let name = folder.rsplit('/').next().unwrap();
    stage.write(&format!("{folder}/plugin.json"), &json!({ "name": name, "version": "1", "hooks": hooks }).to_string());
    stage.write(&format!("{folder}/h.sh"), what);
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(stage.path(&format!("{folder}/h.sh")), permissions).unwrap();
}

#[test]
fn r055_scripts_of_a_workspace_run_once_they_are_trusted_and_until_a_byte_of_them_changes() {
    let stage = Stage::new();
    let ran = stage.path("hook_ran");
    // What a human says waits until the plugin has heard of the session.
    let hooks = json!({ "session_start": { "script": "h.sh" }, "pre_input": { "script": "h.sh" } });
    let touches = format!("touch '{}'\necho '{{\"allow\":true}}'\n", ran.display());
    scripts(&stage, "work/.catalyst-code/plugins/gate", &hooks, &touches);
    let run = || {
        let model = stage.recording("r", &[says("Hello.")]);
        let output = stage.run("hi", &model, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (stderr(&output), std::fs::remove_file(&ran).is_ok())
    };
    let work = stage.path("work");
    let linn = |arguments: &[&str]| stage.linn(&[arguments, &["--workspace", work.to_str().unwrap()]].concat());
    let listed = || stdout(&linn(&["plugin", "list"]));

    let (told, has_run) = run();
    assert!(!has_run && told.contains("skipping project-scoped plugin 'gate'"), "{told}");
    assert!(told.contains("linn plugin trust gate"), "{told}");
    assert!(listed().contains("plugins/gate, waits for your trust"), "{}", listed());
    let all: Value = serde_json::from_str(&stdout(&linn(&["plugin", "list", "--json"]))).unwrap();
    assert_eq!((&all["waiting"][0]["name"], &all["waiting"][0]["decision"]), (&json!("gate"), &json!("")));

    let trusted = linn(&["plugin", "trust", "gate"]);
    assert_eq!(trusted.status.code(), Some(0), "{}", stderr(&trusted));
    let said = stdout(&trusted);
    assert!(said.contains("plugins/gate is trusted with exactly what it holds now"), "{said}");
    assert!(listed().contains("plugins/gate, enabled"), "{}", listed());
    let (told, has_run) = run();
    assert!(has_run && !told.contains("skipping"), "{told}");

    stage.write("work/.catalyst-code/plugins/gate/h.sh", &(touches.clone() + "#"));
    let (told, has_run) = run();
    assert!(!has_run && told.contains("skipping project-scoped plugin 'gate'"), "{told}");
    // By its folder, too.
    let folder = stage.path("work/.catalyst-code/plugins/gate");
    assert_eq!(linn(&["plugin", "trust", folder.to_str().unwrap()]).status.code(), Some(0));
    assert!(run().1);

    let nothing = linn(&["plugin", "trust", "nothing"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("nothing of the workspace is called `nothing`"), "{}", stderr(&nothing));
}

#[test]
fn r054_what_is_wrong_with_scripts_is_told_at_the_start_and_the_good_ones_run() {
    let stage = Stage::new();
    let ran = stage.path("hook_ran");
    let of = |script: &str, point: &str| json!({ point: { "script": script } });
    let folder = "home/.catalyst-code/plugins";
    let touches = format!("touch '{}'\necho '{{\"allow\":true}}'\n", ran.display());
    scripts(&stage, &format!("{folder}/typo"), &of("h.sh", "before_tol"), "");
    scripts(&stage, &format!("{folder}/missing"), &of("none.sh", "pre_input"), "");
    scripts(&stage, &format!("{folder}/good"), &of("h.sh", "pre_input"), &touches);
    let model = stage.recording("r", &[says("Hello.")]);
    let output = stage.run("hi", &model, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = stderr(&output);
    for warning in [
        "unknown hook point 'before_tol' in plugin 'typo'; skipping",
        "failed to load plugin in \"missing\": hook script \"none.sh\" does not exist: hook 'pre_input' of plugin 'missing'",
    ] {
        assert_eq!(told.matches(warning).count(), 1, "{told}");
    }
    assert!(ran.exists());
    // Who wants it strict asks before.
    for (name, code) in [("good", 0), ("missing", 1)] {
        let checked = stage.linn(&["plugin", "check", stage.path(&format!("{folder}/{name}")).to_str().unwrap()]);
        assert_eq!(checked.status.code(), Some(code), "{name}");
    }
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
