//! Every rule of the manifest, with its words.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::*;
use crate::manifest::{CommandKind, DetectPath};

/// A folder with scripts of all kinds.
fn folder() -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().canonicalize().unwrap().join("plugin");
    fs::create_dir_all(folder.join("sub")).unwrap();
    for (name, mode) in [("ok.sh", 0o755), ("sub/ok.sh", 0o700), ("plain.sh", 0o644), ("prompt.md", 0o644)] {
        fs::write(folder.join(name), "x").unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(folder.join("large.md"), "x".repeat(262_145)).unwrap();
    fs::write(temp.path().join("outside.sh"), "x").unwrap();
    fs::set_permissions(temp.path().join("outside.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("../outside.sh", folder.join("link.sh")).unwrap();
    std::os::unix::fs::symlink("sub/ok.sh", folder.join("inside.sh")).unwrap();
    (temp, folder)
}

fn read_text(text: &str) -> Reading {
    let (_temp, folder) = folder();
    fs::write(folder.join("plugin.json"), text).unwrap();
    read(&folder)
}

/// A manifest with these fields beside name and version.
fn with(fields: &Value) -> Reading {
    let Value::Object(mut manifest) = json!({ "name": "p", "version": "1" }) else { unreachable!() };
    manifest.extend(fields.as_object().unwrap().clone());
    read_text(&Value::Object(manifest).to_string())
}

fn refused(fields: &Value) -> String {
    with(fields).verdict().expect_err(&format!("{fields} is accepted")).0
}

fn accepted(fields: &Value) -> Manifest {
    with(fields).verdict().unwrap_or_else(|it| panic!("{fields}: {it}"))
}

#[test]
fn script_3_1_a_minimal_manifest_and_what_is_taken_for_granted() {
    let manifest = accepted(&json!({ "unknown": { "key": 1 } }));
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("p", "1"));
    assert!(manifest.hooks.is_empty() && manifest.capabilities.is_empty() && manifest.description.is_empty());
    accepted(&json!({ "version": "", "protocol_version": 0 }));
    accepted(&json!({ "protocol_version": null, "capabilities": null, "oauth": null, "memory_provider": null }));
}

#[test]
fn script_3_1_what_a_manifest_may_not_say() {
    for (fields, expected) in [
        (json!({ "name": "" }), "plugin name is empty"),
        (json!({ "name": ".." }), "plugin name contains a path separator: \"..\""),
        (json!({ "name": "a/b" }), "plugin name contains a path separator: \"a/b\""),
        (json!({ "name": "a\\b" }), "plugin name contains a path separator: \"a\\b\""),
        (json!({ "protocol_version": 99 }), "plugin protocol version 99 is newer than supported (1)"),
        (json!({ "capabilities": ["fly", "swim"] }), "plugin declares unknown capabilities: fly, swim"),
    ] {
        assert_eq!(refused(&fields), expected, "{fields}");
    }
    for fields in [
        json!({ "description": null }),
        json!({ "system_prompt": null }),
        json!({ "hooks": null }),
        json!({ "tools": null }),
        json!({ "disable_tools": null }),
        json!({ "protocol_version": -1 }),
        json!({ "hooks": { "pre_tool": { "script": "ok.sh", "timeout_ms": -5 } } }),
        json!({ "hooks": { "pre_tool": { "script": "ok.sh", "timeout_ms": 1.5 } } }),
        json!({ "hooks": { "pre_tool": { "script": "ok.sh", "pass_args": null } } }),
        json!({ "hooks": { "pre_tool": {} } }),
    ] {
        assert!(refused(&fields).starts_with("plugin.json parse error: "), "{fields}");
    }
    for text in ["", "{", "[]", r#"{"name":"p","name":"q","version":"1"}"#, r#"{"name":"p"}"#, "\u{feff}nothing"] {
        let problem = read_text(text).verdict().unwrap_err().0;
        assert!(problem.starts_with("plugin.json parse error: "), "{text}: {problem}");
    }
    let problem = read(std::path::Path::new("/nonexistent")).verdict().unwrap_err().0;
    assert!(problem.starts_with("cannot read plugin.json: "), "{problem}");
}

#[test]
fn r049_a_mark_and_line_ends_of_other_systems_are_read() {
    read_text("\u{feff}{\r\n\"name\": \"p\",\r\n\"version\": \"1\"\r\n}\r\n").verdict().unwrap();
}

#[test]
fn script_2_4_20_24_where_scripts_may_be_and_that_they_are_files() {
    let hook = |script: &str| json!({ "hooks": { "pre_tool": { "script": script } } });
    let tool = |script: &str| json!({ "tools": [{ "name": "t", "script": script }] });
    for script in ["ok.sh", "./sub/ok.sh", "inside.sh"] {
        accepted(&hook(script));
        accepted(&tool(script));
    }
    for (script, expected) in [
        ("../outside.sh", "escapes the plugin directory"),
        ("sub/../ok.sh", "escapes the plugin directory"),
        ("link.sh", "escapes the plugin directory"),
        ("/bin/sh", "escapes the plugin directory"),
        ("missing.sh", "does not exist"),
        ("plain.sh", "is not executable (try chmod +x)"),
        // A folder has these permissions too.
        ("", "is not a regular file"),
        (".", "is not a regular file"),
        ("sub", "is not a regular file"),
    ] {
        let of_hook = format!("hook script \"{script}\" {expected}: hook 'pre_tool' of plugin 'p'");
        assert_eq!(refused(&hook(script)), of_hook);
        assert_eq!(refused(&tool(script)), format!("script \"{script}\" {expected}: tool 't' of plugin 'p'"));
    }
    // By its full name it is the same file.
    let (_temp, folder) = folder();
    let script = folder.join("ok.sh").display().to_string();
    let manifest = json!({ "name": "p", "version": "1", "hooks": { "pre_tool": { "script": script } } });
    fs::write(folder.join("plugin.json"), manifest.to_string()).unwrap();
    read(&folder).verdict().unwrap();
}

#[test]
fn script_3_2_hooks_have_their_timeouts_and_unknown_points_are_passed_over() {
    let reading = with(&json!({ "hooks": {
        "pre_bash": { "script": "ok.sh" }, "post_bash": { "script": "ok.sh", "pass_args": true },
        "turn_end": { "script": "ok.sh", "timeout_ms": 7 }, "before_tol": { "script": "missing" },
    } }));
    assert_eq!(reading.warnings, ["unknown hook point 'before_tol' in plugin 'p'; skipping"]);
    let manifest = reading.verdict().unwrap();
    let hook = |point| (manifest.hooks[&point].timeout.as_millis(), manifest.hooks[&point].pass_args);
    assert_eq!(hook(HookPoint::PreBash), (5_000, false));
    assert_eq!(hook(HookPoint::PostBash), (30_000, true));
    assert_eq!(hook(HookPoint::TurnEnd), (7, false));
}

#[test]
fn script_3_3_tools() {
    let manifest = accepted(&json!({ "tools": [
        { "name": "a", "script": "ok.sh" },
        { "name": "b", "script": "ok.sh", "kind": "readonly", "timeout_ms": 9, "override": true, "parameters": { "x": 1 } },
    ] }));
    let [a, b] = &manifest.tools[..] else { panic!() };
    assert_eq!((a.class, a.timeout.as_millis(), a.is_override), (ToolClass::Destructive, 30_000, false));
    assert_eq!(a.parameters, json!({ "type": "object", "properties": {} }));
    assert_eq!((b.class, b.timeout.as_millis(), b.is_override), (ToolClass::ReadOnly, 9, true));
    assert_eq!(b.parameters, json!({ "x": 1 }));
    let expected = "tool 'a' has invalid kind 'weird' (use 'readonly' or 'destructive')";
    assert_eq!(refused(&json!({ "tools": [{ "name": "a", "script": "ok.sh", "kind": "weird" }] })), expected);
    let expected = "plugin declares a tool with an empty name";
    assert_eq!(refused(&json!({ "tools": [{ "name": "", "script": "ok.sh" }] })), expected);
}

#[test]
fn script_3_4_commands() {
    let manifest = accepted(&json!({ "commands": [
        { "name": " /go ", "script": "ok.sh", "prompt_file": " " },
        { "name": "ask", "prompt_file": "prompt.md", "mode": "agent_turn", "script": null },
        { "name": "/", "script": "missing" },
        { "name": "plugin-trust", "script": "ok.sh", "mode": "script", "timeout_ms": 5 },
    ] }));
    let names: Vec<&str> = manifest.commands.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["go", "ask", "plugin-trust"]);
    assert!(matches!(&manifest.commands[0].body, CommandKind::Script { timeout, .. } if timeout.as_secs() == 30));
    assert!(matches!(&manifest.commands[1].body, CommandKind::Prompt { .. }));
    for (command, expected) in [
        (
            json!({ "name": "/help", "script": "ok.sh" }),
            "command 'help' collides with a reserved builtin slash command",
        ),
        (
            json!({ "name": "c", "script": "ok.sh", "prompt_file": "prompt.md" }),
            "command 'c' declares both `script` and `prompt_file`; use exactly one",
        ),
        (json!({ "name": "c", "script": " " }), "command 'c' declares neither `script` nor `prompt_file`; set one"),
        (
            json!({ "name": "c", "script": "ok.sh", "mode": "x" }),
            "command 'c' has `script` but mode=\"x\" (expected \"script\")",
        ),
        (
            json!({ "name": "c", "prompt_file": "prompt.md", "mode": "script" }),
            "command 'c' has `prompt_file` but mode=\"script\" (expected \"agent_turn\")",
        ),
        (
            json!({ "name": "c", "prompt_file": "/etc/passwd" }),
            "prompt_file \"/etc/passwd\" must be relative to the plugin directory: command 'c' of plugin 'p'",
        ),
        (
            json!({ "name": "c", "prompt_file": "../x" }),
            "prompt_file \"../x\" escapes the plugin directory: command 'c' of plugin 'p'",
        ),
        (
            json!({ "name": "c", "prompt_file": "none.md" }),
            "prompt_file \"none.md\" does not exist or is unreadable: command 'c' of plugin 'p'",
        ),
        (
            json!({ "name": "c", "prompt_file": "sub" }),
            "prompt_file \"sub\" is not a regular file: command 'c' of plugin 'p'",
        ),
        (
            json!({ "name": "c", "prompt_file": "large.md" }),
            "prompt_file \"large.md\" exceeds the 262144 byte limit: command 'c' of plugin 'p'",
        ),
    ] {
        assert_eq!(refused(&json!({ "commands": [command] })), expected);
    }
}

#[test]
fn script_3_5_logins() {
    let login = |more: Value| {
        let mut entry = Map::from_iter([
            ("provider_id".to_owned(), json!("o")),
            ("base_url".to_owned(), json!("https://x")),
            ("script".to_owned(), json!("ok.sh")),
        ]);
        entry.extend(more.as_object().unwrap().clone());
        entry.retain(|_, value| *value != json!("absent"));
        json!({ "oauth": entry })
    };
    let entry = accepted(&login(json!({}))).oauth.unwrap();
    assert_eq!((entry.label.as_str(), entry.kind.as_str(), entry.token_file.as_str()), ("o", "openai", "o.json"));
    assert_eq!((entry.login_timeout.as_secs(), entry.token_timeout.as_secs()), (120, 30));
    assert!(entry.login.is_some() && entry.complete.is_some() && entry.clear.is_some() && entry.detect.is_none());
    let own = json!({
        "script": "absent", "token_script": "ok.sh", "login_script": "sub/ok.sh", "label": "Oh", "kind": "anthropic",
        "headers": [["A", "b"]], "detect_path": " .x/y ", "env_passthrough": ["OK_1", "_x"],
    });
    let entry = accepted(&login(own)).oauth.unwrap();
    assert!(entry.clear.is_none() && entry.complete.is_none() && entry.login.is_some());
    assert_eq!(entry.detect, Some(DetectPath::Home(".x/y".into())));
    assert_eq!(entry.headers, [("A".to_owned(), "b".to_owned())]);
    for codex in ["$CODEX_HOME/auth.json", "~/.codex/auth.json"] {
        assert_eq!(accepted(&login(json!({ "detect_path": codex }))).oauth.unwrap().detect, Some(DetectPath::Codex));
    }
    let bad_variable = |name: &str| {
        format!(
            "oauth provider 'o' env_passthrough entry '{name}' is invalid or secret-looking \
             (KEY/TOKEN/SECRET/PASSWORD/CREDENTIAL names are not allowed)"
        )
    };
    for (more, expected) in [
        (json!({ "provider_id": "" }), "oauth provider_id is empty".to_owned()),
        (
            json!({ "kind": "other" }),
            "oauth provider 'o' has invalid kind 'other' (use 'openai' or 'anthropic')".to_owned(),
        ),
        (json!({ "base_url": "" }), "oauth provider 'o' has an empty base_url".to_owned()),
        (json!({ "token_path": "a/b" }), "oauth provider 'o' token_path must be one relative filename".to_owned()),
        (json!({ "token_path": "../b" }), "oauth provider 'o' token_path must be one relative filename".to_owned()),
        (json!({ "token_path": "b/" }), "oauth provider 'o' token_path must be one relative filename".to_owned()),
        (json!({ "provider_id": "a/b" }), "oauth provider 'a/b' token_path must be one relative filename".to_owned()),
        (json!({ "detect_path": " " }), "oauth detect_path must not be empty".to_owned()),
        (
            json!({ "detect_path": "/x" }),
            "oauth detect_path '/x' must be relative, $CODEX_HOME/auth.json, or ~/.codex/auth.json".to_owned(),
        ),
        (json!({ "detect_path": "a/../b" }), "oauth detect_path 'a/../b' may not contain '..'".to_owned()),
        (json!({ "env_passthrough": ["My_Token"] }), bad_variable("My_Token")),
        (json!({ "env_passthrough": ["1A"] }), bad_variable("1A")),
        (json!({ "env_passthrough": [""] }), bad_variable("")),
        (
            json!({ "script": "absent", "login_script": "ok.sh" }),
            "oauth provider 'o' has no token script: set 'script' (handles all actions) or 'token_script'".to_owned(),
        ),
        (
            json!({ "login_script": "plain.sh" }),
            "script \"plain.sh\" is not executable (try chmod +x): login of plugin 'p'".to_owned(),
        ),
    ] {
        assert_eq!(refused(&login(more)), expected);
    }
}

#[test]
fn script_3_6_memory_providers() {
    let entry =
        accepted(&json!({ "memory_provider": { "script": "ok.sh", "timeout_ms": 3 } })).memory_provider.unwrap();
    assert_eq!(entry.timeout.as_millis(), 3);
    assert_eq!(refused(&json!({ "memory_provider": { "script": " " } })), "memory_provider.script is empty");
    assert_eq!(
        refused(&json!({ "memory_provider": { "script": "no" } })),
        "script \"no\" does not exist: memory provider of plugin 'p'"
    );
}

#[test]
fn script_4_capabilities_are_inferred_or_have_to_be_declared() {
    let of = |fields: &Value| accepted(fields).capabilities.join(" ");
    let hook =
        |point: &str, pass_args: bool| json!({ "hooks": { point: { "script": "ok.sh", "pass_args": pass_args } } });
    let runs = "execute_subprocess";
    for (fields, expected) in [
        (hook("pre_bash", false), runs.to_owned()),
        (hook("pre_bash", true), format!("{runs} receive_tool_arguments")),
        (hook("pre_input", false), format!("{runs} receive_prompts")),
        (hook("pre_context", false), format!("{runs} receive_prompts")),
        (hook("pre_turn", false), format!("{runs} receive_prompts")),
        (hook("turn_start", false), format!("{runs} receive_prompts")),
        (hook("post_tool", false), format!("{runs} receive_model_responses")),
        // 20.15: they are given results as well.
        (hook("post_bash", false), format!("{runs} receive_model_responses")),
        (hook("turn_end", false), format!("{runs} receive_model_responses")),
        (hook("pre_agent_start", false), runs.to_owned()),
        (hook("unknown_point", false), runs.to_owned()),
        (
            json!({ "tools": [{ "name": "t", "script": "ok.sh", "kind": "readonly" }] }),
            format!("{runs} read_workspace register_tools"),
        ),
        (json!({ "tools": [{ "name": "t", "script": "ok.sh" }] }), format!("{runs} register_tools write_workspace")),
        (json!({ "commands": [{ "name": "c", "prompt_file": "prompt.md" }] }), "register_commands".to_owned()),
        (json!({ "commands": [{ "name": "", "script": "x" }] }), format!("{runs} register_commands")),
        (json!({ "memory_provider": { "script": "ok.sh" } }), format!("{runs} register_memory_backend")),
        (
            json!({ "oauth": { "provider_id": "o", "base_url": "u", "script": "ok.sh" } }),
            format!("access_network access_secrets {runs} register_providers"),
        ),
        (json!({ "disable_tools": ["x"], "system_prompt": "x" }), String::new()),
    ] {
        assert_eq!(of(&fields), expected, "{fields}");
    }
    let tool = json!([{ "name": "t", "script": "ok.sh" }]);
    let declared = |names: Value| json!({ "tools": tool, "capabilities": names });
    let expected =
        "plugin is denied because its manifest is missing required capabilities: register_tools, write_workspace";
    assert_eq!(refused(&declared(json!(["execute_subprocess"]))), expected);
    assert!(refused(&declared(json!([]))).ends_with("execute_subprocess, register_tools, write_workspace"));
    let all = json!(["write_workspace", "register_tools", "execute_subprocess", "access_network", "register_tools"]);
    assert_eq!(of(&declared(all)), "access_network execute_subprocess register_tools write_workspace");
    // What manifests of today declare is enough still.
    let mut post = hook("post_bash", false);
    post["capabilities"] = json!(["execute_subprocess"]);
    assert_eq!(of(&post), "execute_subprocess");
}

#[test]
fn a_check_tells_every_problem_in_one_go_and_the_first_is_why_it_is_rejected() {
    let fields = json!({
        "name": "a/b", "protocol_version": 2, "capabilities": ["fly"],
        "hooks": { "pre_tool": { "script": "missing.sh" }, "pre_tol": { "script": "x" } },
        "tools": [{ "name": "", "script": "plain.sh", "kind": "odd" }],
        "commands": [{ "name": "help", "script": "../x" }, { "name": "" }],
        "oauth": { "provider_id": "", "base_url": "", "kind": "odd" },
        "memory_provider": { "script": "" },
    });
    let reading = with(&fields);
    let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "plugin name contains a path separator: \"a/b\"",
            "plugin protocol version 2 is newer than supported (1)",
            "plugin declares unknown capabilities: fly",
            "hook script \"missing.sh\" does not exist: hook 'pre_tool' of plugin 'a/b'",
            "plugin declares a tool with an empty name",
            "tool '' has invalid kind 'odd' (use 'readonly' or 'destructive')",
            "script \"plain.sh\" is not executable (try chmod +x): tool '' of plugin 'a/b'",
            "command 'help' collides with a reserved builtin slash command",
            "script \"../x\" escapes the plugin directory: command 'help' of plugin 'a/b'",
            "oauth provider_id is empty",
            "oauth provider '' has invalid kind 'odd' (use 'openai' or 'anthropic')",
            "oauth provider '' has an empty base_url",
            "oauth provider '' has no token script: set 'script' (handles all actions) or 'token_script'",
            "memory_provider.script is empty",
        ]
    );
    assert_eq!(reading.warnings.len(), 2);
    assert_eq!(refused(&fields), problems[0]);

    // Also where types are wrong in several places: each with its key and its line, and none of them twice.
    let text = r#"{
  "version": 1, "description": null,
  "tools": [{ "script": "ok.sh" },
    { "name": "t", "script": "none" }, 7],
  "hooks": { "pre_tool": { "script": "ok.sh",
    "timeout_ms": -1 }, "pre_bash": { "script": "ok.sh", "script": "ok.sh" } },
  "system_prompt": "a", "oauth": [], "system_prompt": "b"
}"#;
    let problems: Vec<String> = read_text(text).problems.iter().map(ToString::to_string).collect();
    let of_types = [
        "name: missing",
        "version: invalid type: integer `1`, expected a string at line 2 column 14",
        "description: invalid type: null, expected a string at line 2 column 35",
        "system_prompt: it is there more than once",
        "hooks.pre_tool: invalid value: integer `-1`, expected u64 at line 6 column 20",
        "hooks.pre_bash: duplicate field `script` at line 6 column 65",
        "tools[0]: missing field `name` at line 3 column 33",
        "tools[2]: invalid type: integer `7`, expected an object at line 4 column 40",
        "oauth: invalid length 0, expected an object at line 7 column 35",
    ];
    let expected = of_types.map(|it| format!("plugin.json parse error: {it}"));
    assert_eq!(problems[..expected.len()], expected, "{problems:#?}");
    assert_eq!(problems[expected.len()..], ["script \"none\" does not exist: tool 't'"]);

    // What is no JSON has one place.
    let problems: Vec<String> = read_text("{ \"name\": ").problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["plugin.json parse error: EOF while parsing a value at line 1 column 10"]);
    let expected = name_of(Path::new("/a/folder"), &Loose::default());
    assert_eq!(expected, "folder");
}

#[test]
fn script_3_1_a_name_is_one_line() {
    for name in ["two\nlines", "bell\u{7}", "nul\0"] {
        let problem = refused(&json!({ "name": name }));
        assert!(problem.contains("must be a single directory name"), "{problem}");
    }
}
