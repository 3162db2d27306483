//! Section 4.8: script plugins.

use serde_json::{Value, json};

use crate::client::{Client, Setup, calls, of, server, text, types};

/// A plugin of the repository with a tool, a command and a hook that forbids a path.
fn put_plugin(client_folder: &std::path::Path, name: &str) {
    let folder = client_folder.join(".catalyst-code/plugins").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({
        "name": name, "version": "1.0.0", "description": "A plugin of a test.",
        "hooks": { "pre_write": { "script": "guard.sh", "pass_args": true } },
        "tools": [{
            "name": "shout", "description": "Shouts.", "script": "shout.sh",
            "parameters": { "type": "object", "properties": { "text": { "type": "string" } } },
        }],
        "commands": [{ "name": "hello", "description": "Says hello.", "script": "hello.sh" }],
    });
    std::fs::write(folder.join("plugin.json"), manifest.to_string()).unwrap();
    let scripts = [
        (
            "guard.sh",
            "#!/bin/sh\nline=$(cat)\ncase \"$line\" in *secret*) echo '{\"allow\":false,\"reason\":\"not this file\"}';; *) echo '{\"allow\":true}';; esac\n",
        ),
        ("shout.sh", "#!/bin/sh\ncat >/dev/null\necho '{\"ok\":true,\"output\":\"LOUD\"}'\n"),
        ("hello.sh", "#!/bin/sh\ncat >/dev/null\necho '{\"ok\":true,\"output\":\"hello there\"}'\n"),
    ];
    for (file, script) in scripts {
        let file = folder.join(file);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_plugin_of_the_repository_is_listed_and_its_tool_hook_and_command_run() {
    let folder = tempfile::tempdir().unwrap();
    put_plugin(folder.path(), "tester");
    let refused = calls(&[("c1", "write_file", json!({ "path": "secret.txt", "content": "x" }))]);
    let server = server([calls(&[("c0", "shout", json!({ "text": "a" }))]), refused, text("Over.")]);
    let mut client = Client::within(folder, &server, Setup::default());
    assert_eq!(of(&client.seen, "ready")[0]["plugins"], json!(["tester"]));

    client.send(json!({ "type": "list_plugins" }));
    let events = client.until("plugin_commands");
    let plugin = &of(&events, "plugins_list")[0]["plugins"][0];
    for (field, value) in [
        ("name", json!("tester")),
        ("version", json!("1.0.0")),
        ("enabled", json!(true)),
        ("hooks", json!(["pre_write"])),
        ("tools", json!(["shout"])),
        ("commands", json!(["hello"])),
        ("scope", json!("workspace")),
    ] {
        assert_eq!(plugin[field], value, "{plugin:#}");
    }
    let command = &events.last().unwrap()["commands"][0];
    assert_eq!(
        (&command["name"], &command["plugin"], &command["mode"]),
        (&json!("hello"), &json!("tester"), &json!("script"))
    );

    client.send(json!({ "type": "plugin_command", "name": "hello" }));
    assert!(client.event("info")["message"].as_str().unwrap().contains("hello there"));

    client.prompt("go");
    let events = client.until("done");
    let results = of(&events, "tool_result");
    assert_eq!(
        (&results[0]["ok"], results[0]["output"].as_str().unwrap().contains("LOUD")),
        (&json!(true), true),
        "{results:#?}"
    );
    assert_eq!(results[1]["ok"], false);
    assert!(results[1]["output"].as_str().unwrap().contains("not this file"), "{results:#?}");
    assert!(!client.path("secret.txt").exists());

    client.send(json!({ "type": "disable_plugin", "name": "tester" }));
    assert_eq!(client.event("plugin_disabled")["name"], "tester");
    client.send(json!({ "type": "plugin_command", "name": "hello" }));
    assert_eq!(client.event("error")["message"], "unknown plugin command 'hello'");
    client.send(json!({ "type": "remove_plugin", "name": "nobody" }));
    assert_eq!(client.event("plugin_error")["name"], "nobody");
}

#[test]
fn an_untrusted_plugin_waits_for_a_decision() {
    let folder = tempfile::tempdir().unwrap();
    put_plugin(folder.path(), "tester");
    let server = server([]);
    let setup = Setup { arguments: vec!["--no-trust-project-plugins".to_owned()], ..Setup::default() };
    let mut client = Client::within(folder, &server, setup);
    let ready = of(&client.seen, "ready")[0].clone();
    assert_eq!((&ready["plugins"], &ready["plugins_skipped"]), (&json!([]), &json!(["tester"])));
    let asked = of(&client.seen, "plugin_trust_prompt")[0]["plugins"][0].clone();
    assert_eq!((&asked["name"], &asked["decision"]), (&json!("tester"), &json!("")), "{asked}");

    client.send(json!({ "type": "plugin_trust_decisions", "decisions": { "tester": "perhaps" } }));
    let error = client.event("error");
    assert!(error["message"].as_str().unwrap().starts_with("plugin_trust_decisions: invalid value for"), "{error}");
    client.send(json!({ "type": "plugin_trust_decisions", "decisions": { "tester": "trust" } }));
    let events = client.until("plugin_commands");
    assert_eq!(types(&events), ["plugin_trust_applied", "plugins_list", "plugin_commands"]);
    assert_eq!((&events[0]["trusted"], &events[0]["loaded"]), (&json!(["tester"]), &json!(1)));
    client.send(json!({ "type": "reload_plugins" }));
    let told = client.event("info");
    assert_eq!(told["message"], "plugins reloaded: 1 loaded, 0 skipped, 0 errors", "{told}");
}

#[test]
fn plugin_tool_timeout_is_bounded_and_reported_with_stable_status() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join(".catalyst-code/plugins/slow");
    std::fs::create_dir_all(&plugin).unwrap();
    let manifest = json!({
        "name": "slow", "version": "1", "description": "Slow.",
        "tools": [{ "name": "crawl", "description": "Crawls.", "script": "crawl.sh", "timeout_ms": 200, "parameters": { "type": "object" } }],
    });
    std::fs::write(plugin.join("plugin.json"), manifest.to_string()).unwrap();
    std::fs::write(plugin.join("crawl.sh"), "#!/bin/sh\nsleep 1000\n").unwrap();
    std::fs::set_permissions(plugin.join("crawl.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = server([calls(&[("c1", "crawl", json!({}))]), text("Over.")]);
    let mut client = Client::within(folder, &server, Setup::default());
    client.prompt("go");
    let events = client.until("done");
    let result = of(&events, "tool_result")[0];
    assert_eq!((&result["ok"], &result["status"]), (&Value::from(false), &json!("timed_out")), "{result}");
    assert!(result["output"].as_str().unwrap().contains("timed out"), "{result}");
}
