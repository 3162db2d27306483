//! Sections 4.8 and 4.3: what front ends do with script plugins and their logins, command by command.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{Client, Setup, calls, of, said, server, text, types};

/// Writes a plugin: its manifest, and scripts that may be executed.
fn put(folder: &Path, manifest: &Value, scripts: &[(&str, &str)]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("plugin.json"), manifest.to_string()).unwrap();
    for (name, script) in scripts {
        let file = folder.join(name);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn project(folder: &Path, name: &str) -> PathBuf {
    folder.join(".catalyst-code/plugins").join(name)
}

/// A plugin with a command that greets, a hook and a tool.
fn greeter() -> Value {
    json!({
        "name": "greeter", "version": "2.1", "description": "Greets.",
        "hooks": { "post_tool": { "script": "hook.sh" }, "pre_tool": { "script": "hook.sh" } },
        "tools": [{ "name": "wave", "script": "wave.sh", "kind": "readonly" }],
        "commands": [{ "name": "greet", "description": "Greets.", "script": "greet.sh" }],
        "disable_tools": ["fetch"], "system_prompt": "Be kind.",
    })
}

const GREETER: &[(&str, &str)] = &[
    ("hook.sh", "cat >/dev/null; echo '{\"allow\":true}'\n"),
    ("wave.sh", "cat >/dev/null; echo '{\"output\":\"o/\"}'\n"),
    (
        "greet.sh",
        "input=$(cat)\ncase $input in *'\"args\":\"nobody\"'*) echo '{\"error\":\"nobody is there\"}';; \
         *) echo '{\"output\":\"hello\",\"notify\":\"greeting\",\"status\":\"busy\"}';; esac\n",
    ),
];

#[test]
fn a_plugin_is_installed_used_disabled_enabled_reloaded_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    put(&folder.path().join("source"), &greeter(), GREETER);
    let server = server([]);
    let mut client = Client::within(folder, &server, Setup::default());
    let source = client.path("source").display().to_string();

    client.send(json!({ "type": "install_plugin", "path": source, "scope": "workspace" }));
    let installed = client.event("plugin_installed");
    let place = project(&client.path("").canonicalize().unwrap(), "greeter");
    for (field, value) in [
        ("name", json!("greeter")),
        ("version", json!("2.1")),
        ("description", json!("Greets.")),
        ("scope", json!("workspace")),
        ("path", json!(place.display().to_string())),
    ] {
        assert_eq!(installed[field], value, "{installed:#}");
    }
    let mut hooks: Vec<&str> = installed["hooks"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    hooks.sort_unstable();
    assert_eq!(hooks, ["post_tool", "pre_tool"]);

    // A second time it is there already, and what is not there is named as it was given.
    client.send(json!({ "type": "install_plugin", "path": source }));
    let error = client.event("plugin_error");
    assert_eq!(
        (&error["name"], error["message"].as_str()),
        (&json!(source), Some("plugin 'greeter' is already installed; remove it first or use a different name"))
    );
    client.send(json!({ "type": "install_plugin", "path": "nowhere", "scope": "moon" }));
    let error = client.event("plugin_error");
    assert_eq!(error["message"], "unknown plugin scope 'moon' (use 'global' or 'workspace')", "{error}");

    client.send(json!({ "type": "list_plugins" }));
    let events = client.until("plugin_commands");
    assert_eq!(types(&events), ["plugins_list", "plugin_commands"]);
    let listed = events[0]["plugins"][0].clone();
    for (field, value) in [
        ("hooks", json!(["post_tool", "pre_tool"])),
        ("tools", json!(["wave"])),
        ("commands", json!(["greet"])),
        ("disable_tools", json!(["fetch"])),
        ("has_oauth", json!(false)),
        ("has_memory_provider", json!(false)),
        ("has_system_prompt", json!(true)),
        ("enabled", json!(true)),
    ] {
        assert_eq!(listed[field], value, "{listed:#}");
    }

    client.send(json!({ "type": "plugin_command", "name": "/greet", "args": "you" }));
    let mut told = client.until_where("the greeting", |it| it["message"] == "hello");
    told.retain(|it| matches!(it["type"].as_str(), Some("info" | "plugin_status")));
    assert_eq!(types(&told), ["info", "plugin_status", "info"], "{told:#?}");
    assert_eq!((&told[0]["message"], &told[1]["text"]), (&json!("[greeter] greeting"), &json!("busy")));
    client.send(json!({ "type": "plugin_command", "name": "greet", "args": "nobody" }));
    assert_eq!(client.event("error")["message"], "plugin command 'greet': nobody is there");

    client.send(json!({ "type": "disable_plugin", "name": "greeter" }));
    assert_eq!(client.event("plugin_disabled")["name"], "greeter");
    client.send(json!({ "type": "list_plugin_commands" }));
    let commands = client.event("plugin_commands");
    assert!(!commands["commands"].as_array().unwrap().iter().any(|it| it["plugin"] == "greeter"), "{commands}");
    client.send(json!({ "type": "plugin_command", "name": "greet" }));
    assert_eq!(client.event("error")["message"], "unknown plugin command 'greet'");
    client.send(json!({ "type": "enable_plugin", "name": "greeter" }));
    assert_eq!(client.event("plugin_enabled")["name"], "greeter");

    // What was written meanwhile holds from the reload on.
    let mut changed = greeter();
    changed["version"] = "2.2".into();
    std::fs::write(place.join("plugin.json"), changed.to_string()).unwrap();
    client.send(json!({ "type": "reload_plugins" }));
    let events = client
        .until_where("the summary", |it| it["message"].as_str().is_some_and(|it| it.starts_with("plugins reloaded:")));
    let events: Vec<Value> = events.into_iter().filter(|it| it["type"] != "plugin_status").collect();
    assert_eq!(types(&events), ["plugins_list", "plugin_commands", "info"], "{events:#?}");
    // It is of the workspace and changed, so what was installed is asked about anew unless all are trusted, as here.
    assert_eq!(events[0]["plugins"][0]["version"], "2.2");
    assert_eq!(events[2]["message"], "plugins reloaded: 1 loaded, 0 skipped, 0 errors");

    client.send(json!({ "type": "remove_plugin", "name": "greeter" }));
    assert_eq!(client.event("plugin_removed")["name"], "greeter");
    assert!(!place.exists());
    for command in ["remove_plugin", "enable_plugin", "disable_plugin"] {
        client.send(json!({ "type": command, "name": "greeter" }));
        let error = client.event("plugin_error");
        assert_eq!((&error["name"], &error["message"]), (&json!("greeter"), &json!("plugin 'greeter' not found")));
    }
    client.send(json!({ "type": "list_plugins" }));
    assert_eq!(client.event("plugins_list")["plugins"], json!([]));
}

#[test]
fn a_prompt_command_begins_a_turn_with_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = json!({
        "name": "researcher", "version": "1",
        "commands": [{ "name": "research", "description": "Researches.", "prompt_file": "research.md" }],
    });
    let place = project(folder.path(), "researcher");
    put(&place, &manifest, &[]);
    std::fs::write(place.join("research.md"), "{{args}}").unwrap();
    let server = server([text("It is so.")]);
    let mut client = Client::within(folder, &server, Setup::default());

    client.send(json!({ "type": "list_plugin_commands" }));
    let commands = client.event("plugin_commands");
    let expected =
        json!({ "name": "research", "description": "Researches.", "plugin": "researcher", "mode": "agent_turn" });
    assert!(commands["commands"].as_array().unwrap().contains(&expected), "{commands}");

    client.send(json!({ "type": "plugin_command", "name": "research", "args": " " }));
    let usage = "/research requires a request. Usage: /research <research request>";
    assert_eq!(client.event("error")["message"], usage);

    client.send(json!({ "type": "plugin_command", "name": "research", "args": "owls {{workspace}}" }));
    let events = client.until("done");
    assert_eq!(of(&events, "info")[0]["message"], "/research owls {{workspace}} — starting agent turn");
    assert_eq!(said(&events), "It is so.");
    let messages = server.requests()[0].json()["messages"].clone();
    let asked = messages.as_array().unwrap().iter().rfind(|it| it["role"] == "user").unwrap().clone();
    assert!(asked.to_string().contains("owls {{workspace}}"), "what the user wrote is no template: {asked}");
}

#[test]
fn script_20_21_a_command_that_runs_holds_up_no_other_and_is_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = json!({
        "name": "slow", "version": "1", "commands": [{ "name": "crawl", "script": "crawl.sh", "timeout_ms": 600_000 }],
    });
    put(&project(folder.path(), "slow"), &manifest, &[("crawl.sh", "echo $$ > pid; sleep 1000\n")]);
    let server = server([]);
    let mut client = Client::within(folder, &server, Setup::default());
    client.send(json!({ "type": "plugin_command", "name": "crawl" }));
    client.send(json!({ "type": "list_plugins" }));
    client.until("plugins_list");
    client.send(json!({ "type": "abort" }));
    let aborted = client.until_where("the abort of the command", |it| it["message"] == "/crawl was aborted");
    assert!(!aborted.is_empty());
    client.send(json!({ "type": "list_plugins" }));
    client.until("plugins_list");
}

#[test]
fn trust_is_asked_for_denied_and_asked_for_again_when_a_byte_changed() {
    let folder = tempfile::tempdir().unwrap();
    let place = project(folder.path(), "greeter");
    put(&place, &greeter(), GREETER);
    let server = server([]);
    let setup = || Setup { arguments: vec!["--no-trust-project-plugins".to_owned()], ..Setup::default() };
    let mut client = Client::within(folder, &server, setup());
    // Whoever begins is asked at once.
    let names: Vec<&str> = client.seen.iter().map(|it| it["type"].as_str().unwrap()).take(3).collect();
    assert_eq!(names, ["ready", "protocol_hello", "plugin_trust_prompt"]);
    assert_eq!(of(&client.seen, "plugin_trust_prompt")[0]["plugins"][0]["decision"], "");
    assert_eq!(of(&client.seen, "ready")[0]["plugins_skipped"], json!(["greeter"]));

    client.send(json!({ "type": "plugin_trust_decisions", "decisions": { "greeter": "maybe" } }));
    let expected = "plugin_trust_decisions: invalid value for greeter (expected \"trust\" or \"deny\")";
    assert_eq!(client.event("error")["message"], expected);

    client.send(json!({ "type": "plugin_trust_prompt" }));
    let entry = client.event("plugin_trust_prompt")["plugins"][0].clone();
    for (field, value) in [
        ("name", json!("greeter")),
        ("version", json!("2.1")),
        ("description", json!("Greets.")),
        ("path", json!(place.canonicalize().unwrap().display().to_string())),
        ("decision", json!("")),
    ] {
        assert_eq!(entry[field], value, "{entry:#}");
    }
    client.send(json!({ "type": "plugin_trust_decisions", "decisions": { "greeter": "deny" } }));
    let applied = client.event("plugin_trust_applied");
    assert_eq!(
        (&applied["trusted"], &applied["denied"], &applied["loaded"]),
        (&json!([]), &json!(["greeter"]), &json!(0))
    );
    client.until("plugin_commands");
    client.send(json!({ "type": "plugin_command", "name": "greet" }));
    assert_eq!(client.event("error")["message"], "unknown plugin command 'greet'");

    client.send(json!({ "type": "plugin_trust_decisions", "decisions": { "greeter": "trust" } }));
    assert_eq!(client.event("plugin_trust_applied")["trusted"], json!(["greeter"]));
    client.until("plugin_commands");
    client.send(json!({ "type": "plugin_command", "name": "greet" }));
    client.until_where("the greeting", |it| it["message"] == "hello");

    // The decision lies with the user, not in the repository, and holds for the next start.
    assert!(!std::fs::read_dir(project(&client.path(""), "")).unwrap().any(|it| it.unwrap().file_name() != "greeter"));
    let folder = client.leave();
    let mut client = Client::within(folder, &server, setup());
    assert_eq!(of(&client.seen, "ready")[0]["plugins"], json!(["greeter"]));
    let script = place.join("greet.sh");
    let bytes = std::fs::read_to_string(&script).unwrap() + "#";
    std::fs::write(&script, bytes).unwrap();
    client.send(json!({ "type": "plugin_command", "name": "greet" }));
    let error = client.event("error")["message"].as_str().unwrap().to_owned();
    assert!(error.contains("the files of its plugin changed since they were trusted"), "{error}");
    let folder = client.leave();
    let client = Client::within(folder, &server, setup());
    let ready = of(&client.seen, "ready")[0];
    assert_eq!((&ready["plugins"], &ready["plugins_skipped"]), (&json!([]), &json!(["greeter"])));
}

/// A plugin that logs in: by a code that is `good`, or by polling if `flow` says so. Its token is in the file it is told.
fn login(base_url: &str, flow: &str) -> (Value, String) {
    let manifest = json!({
        "name": "login", "version": "1",
        "oauth": {
            "provider_id": "owls", "label": "Owls", "base_url": base_url, "script": "o.sh", "login_timeout_ms": 60_000,
        },
    });
    let script = format!(
        r#"input=$(cat)
token=${{input#*'"token_path":"'}}
token=${{token%%'"'*}}
case $input in
*'"action":"login"'*) echo '{{"url":"https://owls.example/go","code":"OW-LS","flow":"{flow}","message":"Go there."}}';;
*'"action":"complete"'*'"code":"bad"'* | *'"code":"bad"'*'"action":"complete"'*) echo '{{"ok":false,"error":"no such code"}}';;
*'"action":"complete"'*) mkdir -p "${{token%/*}}"; echo secret-token > "$token"; echo '{{"ok":true}}';;
*'"action":"token"'*) printf '{{"access_token":"%s","expires_at":99999999999}}' "$(cat "$token")";;
*'"action":"clear"'*) cat "$token" > cleared; echo '{{"ok":true}}';;
esac
"#
    );
    (manifest, script)
}

/// Nobody can open a browser there.
fn headless() -> Setup {
    Setup { variables: vec![("NO_BROWSER".to_owned(), "1".to_owned())], ..Setup::default() }
}

#[test]
fn a_login_by_a_code_is_prompted_for_completed_used_and_logged_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = server([calls(&[("c1", "list_dir", json!({ "path": "." }))]), text("Hoo.")]);
    let (manifest, script) = login(&server.base_url(), "manual");
    put(&project(folder.path(), "login"), &manifest, &[("o.sh", &script)]);
    let mut client = Client::within(folder, &server, headless());

    client.send(json!({ "type": "list_provider_presets" }));
    let presets = client.event("provider_presets");
    let owls = presets["presets"].as_array().unwrap().iter().find(|it| it["id"] == "owls").unwrap();
    assert_eq!(
        (&owls["label"], &owls["supportsOauth"], &owls["loggedIn"]),
        (&json!("Owls"), &json!(true), &json!(false))
    );

    client.send(json!({ "type": "oauth_code", "code": "x" }));
    let nothing = client.event("error")["message"].as_str().unwrap().to_owned();
    assert!(nothing.starts_with("No pending OAuth login. Run /login first"), "{nothing}");
    client.send(json!({ "type": "login_oauth", "preset": "nobody" }));
    let nobody = client.event("error")["message"].as_str().unwrap().to_owned();
    assert!(nobody.starts_with("'nobody' has no plugin OAuth login"), "{nobody}");

    client.send(json!({ "type": "login_oauth", "preset": "owls" }));
    let events = client.until_where("the wait for a code", |it| {
        it["message"].as_str().is_some_and(|it| it.starts_with("OAuth login awaiting a code."))
    });
    assert_eq!(types(&events), ["info", "oauth_prompt", "info"], "{events:#?}");
    assert_eq!(events[0]["message"], "starting OAuth login for Owls…");
    let prompt = &events[1];
    assert_eq!(
        (&prompt["url"], &prompt["code"], &prompt["message"]),
        (&json!("https://owls.example/go"), &json!("OW-LS"), &json!("Go there."))
    );

    client.send(json!({ "type": "oauth_code", "code": "bad" }));
    let expected = "OAuth code exchange failed: no such code (pending login restored — try /oauth-code again with the \
                    correct code)";
    assert_eq!(client.event("error")["message"], expected);
    client.send(json!({ "type": "oauth_code", "code": "good" }));
    let events = client.until_where("the end of the login", |it| {
        it["message"].as_str().is_some_and(|it| it.starts_with("OAuth ready:"))
    });
    let told = of(&events, "info");
    assert_eq!(
        told[0]["message"],
        "logged into Owls via OAuth — you're signed in. Pick a model with /models if needed."
    );
    assert_eq!(of(&events, "authed")[0]["ok"], true);
    let changed = of(&events, "provider_changed")[0];
    assert_eq!(
        (&changed["provider"], &changed["kind"], &changed["has_key"]),
        (&json!("owls"), &json!("openai"), &json!(true))
    );

    // The token goes along with requests, and nowhere else.
    client.send(json!({ "type": "send", "prompt": "go", "model": "mock-model", "provider": "owls" }));
    client.until("done");
    let asked = server.requests();
    assert_eq!(asked.last().unwrap().header("authorization"), Some("Bearer secret-token"));
    assert!(!client.seen.iter().any(|it| it.to_string().contains("secret-token")));

    client.send(json!({ "type": "logout", "provider": "owls" }));
    client.until("provider_changed");
    let token = client.path("home/.config/catalyst-code/oauth/owls.json");
    crate::client::wait(async {
        while token.exists() {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(std::fs::read_to_string(client.path("cleared")).unwrap(), "secret-token\n", "section 20, 17");
}

#[test]
fn a_login_of_a_device_goes_on_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let server = server([]);
    let (manifest, script) = login(&server.base_url(), "device_code");
    put(&project(folder.path(), "login"), &manifest, &[("o.sh", &script)]);
    let mut client = Client::within(folder, &server, headless());
    client.send(json!({ "type": "login_oauth", "preset": "owls" }));
    let events = client.until_where("the end of the login", |it| {
        it["message"].as_str().is_some_and(|it| it.starts_with("OAuth ready:"))
    });
    assert_eq!(of(&events, "oauth_prompt")[0]["code"], "OW-LS");
    assert_eq!(of(&events, "authed")[0]["ok"], true);
}

#[test]
fn a_hook_that_fails_refuses_and_the_user_is_told_which_plugin_which_hook_and_what() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = json!({ "name": "guard", "version": "1", "hooks": { "pre_bash": { "script": "g.sh" } } });
    put(&project(folder.path(), "guard"), &manifest, &[("g.sh", "cat > seen; echo boom >&2; exit 3\n")]);
    let server = server([calls(&[("c1", "bash", json!({ "command": "touch made" }))]), text("Over.")]);
    let mut client = Client::within(folder, &server, Setup::default());
    client.prompt("go");
    let events = client.until("done");
    let result = of(&events, "tool_result")[0];
    let why = "hook 'pre_bash' exited with exit status: 3: boom";
    assert_eq!(result["ok"], false);
    assert!(result["output"].as_str().unwrap().contains(why), "{result}");
    let told = of(&events, "info").iter().any(|it| {
        it["message"].as_str().is_some_and(|it| it.contains("[guard]") && it.contains(why) && it.contains("refused"))
    });
    assert!(told, "{events:#?}");
    assert!(!client.path("made").exists());
    let seen: Value = serde_json::from_str(&std::fs::read_to_string(client.path("seen")).unwrap()).unwrap();
    assert_eq!(seen["session_id"], client.path("session.jsonl").display().to_string());
    assert_eq!(seen["workspace"], client.path("").display().to_string().trim_end_matches('/'));
}

#[test]
fn script_20_5_an_error_answers_a_command_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = server([text("Still here.")]);
    let (manifest, script) = login(&server.base_url(), "manual");
    let place = project(folder.path(), "login");
    put(&place, &manifest, &[("o.sh", &script)]);
    let mut client = Client::within(folder, &server, headless());
    let begins = |client: &mut Client, begin: &str| {
        let message = client.event("error")["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(begin), "{message}");
    };
    client.send(json!({ "type": "login_oauth", "preset": "nobody" }));
    begins(&mut client, "'nobody' has no plugin OAuth login");
    client.send(json!({ "type": "oauth_code", "code": "x" }));
    begins(&mut client, "No pending OAuth login.");
    client.send(json!({ "type": "logout", "provider": "owls" }));
    begins(&mut client, "not logged into 'owls'");

    // A login whose plugin goes while it waits for its code.
    client.send(json!({ "type": "login_oauth", "preset": "owls" }));
    client.until("oauth_prompt");
    client.send(json!({ "type": "disable_plugin", "name": "login" }));
    client.until("plugin_disabled");
    client.send(json!({ "type": "oauth_code", "code": "good" }));
    begins(&mut client, "no plugin OAuth provider for 'owls' — pending login discarded");

    client.prompt("are you there?");
    assert_eq!(said(&client.until("done")), "Still here.");
    let (_, status) = client.close();
    assert!(status.success(), "{status}");
}

#[test]
fn r046_r047_scripts_at_the_end_of_a_turn_cannot_keep_it_going_and_ask_for_no_request() {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in [
        ("blocks", "cat >/dev/null; echo '{\"allow\":false,\"reason\":\"tests fail\",\"notify\":\"heard\"}'\n"),
        ("fails", "exit 127\n"),
    ] {
        let manifest = json!({ "name": name, "version": "1", "hooks": { "turn_end": { "script": "t.sh" } } });
        put(&project(folder.path(), name), &manifest, &[("t.sh", script)]);
    }
    let server = server([text("Done.")]);
    let mut client = Client::within(folder, &server, Setup::default());
    client.prompt("go");
    assert_eq!(said(&client.until("done")), "Done.");
    let told = |client: &Client, what: &str| {
        client.seen.iter().any(|it| it["message"].as_str().is_some_and(|it| it.contains(what)))
    };
    let failed = "[fails] hook 'turn_end' exited with exit status: 127";
    while !(told(&client, "[blocks] heard") && told(&client, failed)) {
        client.event("info");
    }
    assert_eq!(server.requests().len(), 1);
    let (_, status) = client.close();
    assert!(status.success(), "{status}");
}

#[test]
fn r041_an_abort_ends_the_hook_that_a_turn_waits_for_and_all_it_started() {
    for point in ["pre_input", "turn_start", "pre_turn", "pre_agent_start", "pre_context", "pre_tool", "post_tool"] {
        let folder = tempfile::tempdir().unwrap();
        let manifest =
            json!({ "name": "slow", "version": "1", "hooks": { point: { "script": "s.sh", "timeout_ms": 600_000 } } });
        let script = "sleep 600 & echo \"$$ $!\" > pids.new; mv pids.new pids; wait\n";
        put(&project(folder.path(), "slow"), &manifest, &[("s.sh", script)]);
        let server = server([calls(&[("c1", "list_dir", json!({ "path": "." }))]), text("Over.")]);
        let mut client = Client::within(folder, &server, Setup::default());
        client.prompt("go");
        let file = client.path("pids");
        let pids = crate::client::until_some(|| std::fs::read_to_string(&file).ok());
        client.send(json!({ "type": "abort" }));
        client.until("aborted");
        for pid in pids.split_whitespace() {
            let stat = Path::new("/proc").join(pid).join("stat");
            // It is gone, or dead and about to be reaped.
            let is_over =
                || std::fs::read_to_string(&stat).map_or(true, |it| it.contains(") Z ") || it.contains(") X "));
            crate::client::until_some(|| is_over().then_some(()));
        }
        let (_, status) = client.close();
        assert!(status.success(), "{point}: {status}");
    }
}

#[test]
fn script_20_2_overrides_and_tools_that_are_taken_away_hold_side_by_side_and_within_bulk() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "secret").unwrap();
    let manifest = json!({
        "name": "reader", "version": "1", "disable_tools": ["grep"],
        "tools": [{ "name": "read_file", "script": "r.sh", "kind": "readonly", "override": true }],
    });
    put(&project(folder.path(), "reader"), &manifest, &[("r.sh", "cat >/dev/null; echo redacted\n")]);
    let read = || json!({ "path": "a.txt" });
    let inner = json!([
        { "name": "read_file", "args": read() },
        { "name": "grep", "args": { "pattern": "secret" } },
        { "name": "read_file", "args": read() },
    ]);
    let server = server([
        calls(&[
            ("c1", "read_file", read()),
            ("c2", "read_file", read()),
            ("c3", "grep", json!({ "pattern": "secret" })),
        ]),
        calls(&[("c0", "load_tools", json!({ "tools": ["bulk"] }))]),
        calls(&[("c4", "bulk", json!({ "calls": inner }))]),
        text("Over."),
    ]);
    let mut client = Client::within(folder, &server, Setup::default());
    client.prompt("go");
    let events = client.until("done");
    let output = |id: &str| {
        let result = of(&events, "tool_result").into_iter().find(|it| it["id"] == id).unwrap();
        (result["ok"].as_bool().unwrap(), result["output"].as_str().unwrap().to_owned())
    };
    for id in ["c1", "c2"] {
        assert_eq!(output(id), (true, "redacted".to_owned()), "{id}");
    }
    let (is_ok, why) = output("c3");
    assert!(!is_ok && !why.contains("secret"), "{why}");
    let (_, all) = output("c4");
    assert_eq!(all.matches("redacted").count(), 2, "{all}");
    assert!(!all.contains("secret"), "{all}");
    let offered = server.requests()[0].json()["tools"].clone();
    let names: Vec<&str> =
        offered.as_array().unwrap().iter().map(|it| it["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|it| **it == "read_file").count(), 1, "one schema: {names:?}");
    assert!(!names.contains(&"grep"), "{names:?}");
}

#[test]
fn script_10_memories_that_a_plugin_keeps_are_saved_listed_forgotten_and_refreshed() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = json!({ "name": "keeper", "version": "1", "memory_provider": { "script": "m.sh" } });
    let script = r#"input=$(cat)
printf '%s\n' "$input" >> asked
case $input in
*'"action":"inject"'*) printf '{"injection":"%s"}' "$(cat injection 2>/dev/null)";;
*'"action":"save"'*) echo '{"ok":true,"id":"m-1"}';;
*'"action":"list"'*) if [ -e broken ]; then echo '{"ok":false,"output":"no disk"}'; else echo '{"entries":[{"id":"m-1","name":"x"}]}'; fi;;
*'"action":"forget"'*'"id":"m-1"'* | *'"id":"m-1"'*'"action":"forget"'*) echo '{"ok":true}';;
*) echo '{"ok":false,"error":"no such memory"}';;
esac
"#;
    put(&project(folder.path(), "keeper"), &manifest, &[("m.sh", script)]);
    let server = server([]);
    let mut client = Client::within(folder, &server, Setup::default());
    client.send(
        json!({ "type": "save_memory", "text": "owls live in the old barn", "tags": ["fact"], "scope": "global" }),
    );
    let saved = client.event("memory_saved");
    assert_eq!((&saved["id"], &saved["message"]), (&json!("m-1"), &json!("memory saved")));
    let asked = std::fs::read_to_string(client.path("asked")).unwrap();
    let asked: Vec<Value> = asked.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let args = asked.iter().find(|it| it["action"] == "save").unwrap()["args"].clone();
    assert!(args["name"].as_str().unwrap().starts_with("owls live in the old ["), "{args}");
    assert_eq!((&args["type"], &args["scope"]), (&json!("fact"), &json!("global")));
    assert_eq!(args["content"], "owls live in the old barn");

    client.send(json!({ "type": "list_memory" }));
    let listed = client.event("memory_list");
    assert_eq!((&listed["entries"], &listed["count"]), (&json!([{ "id": "m-1", "name": "x" }]), &json!(1)));
    client.send(json!({ "type": "forget_memory", "id": "m-1" }));
    let forgot = client.event("memory_saved");
    assert_eq!((forgot.get("id"), &forgot["message"]), (None, &json!("forgot memory 'm-1'")));
    client.send(json!({ "type": "forget_memory", "id": "m-2" }));
    assert_eq!(client.event("error")["message"], "forget_memory failed: no such memory");
    std::fs::write(client.path("broken"), "").unwrap();
    client.send(json!({ "type": "list_memory" }));
    let events = client.until("memory_list");
    assert_eq!(of(&events, "error")[0]["message"], "list_memory failed: no disk");
    assert_eq!(events.last().unwrap()["count"], 0);

    for (injection, told) in [
        ("the barn", "memory refreshed: memories injected"),
        ("the barn", "memory unchanged; system prompt kept intact (preserving prefix cache)"),
        ("", "memory refreshed: no memories found"),
    ] {
        std::fs::write(client.path("injection"), injection).unwrap();
        client.send(json!({ "type": "refresh_memory" }));
        client.until_where(told, |it| it["message"] == told);
    }
}
