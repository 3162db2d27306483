//! Sections 4.3 to 4.5: what can be looked at and set, and what later work brings.

use serde_json::json;

use crate::client::{Client, Setup, of, server, text, types};

#[test]
fn what_lists_or_reports_answers_with_its_event() {
    let server = server([]);
    let mut client = Client::start(&server);
    for (command, event) in [
        ("list_skills", "skills"),
        ("list_agents", "agents"),
        ("goal_status", "goal_state"),
        ("get_vision_config", "vision_config"),
        ("get_sandbox_status", "sandbox_status"),
        ("list_provider_presets", "provider_presets"),
        ("list_checkpoints", "checkpoints"),
        ("list_memory", "memory_list"),
        ("list_plugins", "plugins_list"),
        ("list_plugin_commands", "plugin_commands"),
        ("plugin_trust_prompt", "plugin_trust_prompt"),
        ("list_marketplace_skills", "skill_marketplace_state"),
        ("usage", "usage"),
        ("context", "context_breakdown"),
        ("runtime_status", "runtime_status"),
        ("stats", "stats"),
    ] {
        client.send(json!({ "type": command }));
        let events = client.until(event);
        assert!(of(&events, "error").is_empty(), "{command}: {events:#?}");
    }
}

#[test]
fn settings_are_set_and_told() {
    let server = server([]);
    let mut client = Client::start(&server);
    let set = |key: &str, value| json!({ "type": "set_config", "key": key, "value": value });
    let changed = client.ask(set("bash_timeout_secs", json!("45")), "config_changed");
    assert_eq!((&changed["key"], &changed["value"]), (&json!("bash_timeout_secs"), &json!(45)));
    let changed = client.ask(set("auto_compact", json!("off")), "config_changed");
    assert_eq!(changed["value"], false);
    let error = client.ask(set("no_such", json!(1)), "error");
    assert_eq!(error["message"], "unknown config key: no_such");
}

#[test]
fn an_endpoint_on_this_machine_needs_no_key() {
    let server = server([text("local")]);
    let mut client = Client::start(&server);
    client.send(
        json!({ "type": "add_custom_provider", "name": "here", "base_url": server.base_url(), "api_key_env": "" }),
    );
    let events = client.until("provider_presets");
    let names = types(&events);
    assert!(names.ends_with(&["models", "provider_presets"]), "{names:?}");
    let changed = of(&events, "provider_changed")[0];
    assert_eq!((&changed["provider"], &changed["kind"]), (&json!("here"), &json!("openai")));
    assert_eq!(of(&events, "info")[0]["message"], "added provider 'here'.");
    client.send(json!({ "type": "send", "prompt": "hi", "model": "mock-model", "provider": "here" }));
    client.until("done");
    assert_eq!(server.requests()[0].header("authorization"), None);
    let error = client.ask(json!({ "type": "set_provider", "name": "nobody" }), "error");
    assert_eq!(error["message"], "unknown provider 'nobody'; not switching");
}

#[test]
fn keys_are_taken_and_never_shown() {
    let server = server([text("fine")]);
    let mut client = Client::with(&server, Setup { key: false, ..Setup::default() });
    client.send(json!({ "type": "set_key", "api_key": "sk-runtime-secret" }));
    let events = client.until("provider_presets");
    assert_eq!(types(&events), ["authed", "models", "provider_presets"]);
    client.prompt("hi");
    client.until("done");
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-runtime-secret"));
    let error = client.ask(json!({ "type": "login", "preset": "nope" }), "error");
    assert!(
        error["message"].as_str().unwrap().starts_with("unknown provider preset 'nope'; available: umans, "),
        "{error}"
    );
    let error = client.ask(json!({ "type": "logout", "provider": "nope" }), "error");
    assert_eq!(error["message"], "not logged into 'nope'");
    let (_, status) = {
        assert!(!client.seen.iter().any(|it| it.to_string().contains("sk-runtime-secret")));
        client.close()
    };
    assert!(status.success());
}

#[test]
fn a_command_of_the_user_is_run_and_told_to_the_model() {
    let server = server([text("I see.")]);
    let mut client = Client::start(&server);
    let told = client.ask(json!({ "type": "user_bash", "command": "echo out; exit 3" }), "bash_execution");
    assert_eq!(
        (&told["command"], &told["ok"], &told["exclude_from_context"]),
        (&json!("echo out; exit 3"), &json!(false), &json!(false))
    );
    assert!(told["output"].as_str().unwrap().contains("out"), "{told}");
    let error = client.ask(json!({ "type": "user_bash", "command": " " }), "error");
    assert_eq!(error["message"], "empty bash command");
    client.prompt("well?");
    client.until("done");
    let asked = String::from_utf8(server.requests()[0].body.clone()).unwrap();
    assert!(asked.contains("Ran `echo out; exit 3`"), "{asked}");
}

#[test]
fn a_command_of_the_user_can_be_aborted() {
    let server = server([]);
    let mut client = Client::start(&server);
    client.send(json!({ "type": "user_bash", "command": "sleep 1000" }));
    client.send(json!({ "type": "abort" }));
    let mut seen = Vec::new();
    while !(seen.contains(&"bash_execution") && seen.contains(&"aborted")) {
        let events = client.until_where("either", |it| it["type"] == "bash_execution" || it["type"] == "aborted");
        seen.push(if events.last().unwrap()["type"] == "aborted" { "aborted" } else { "bash_execution" });
    }
    let told = of(&client.seen, "bash_execution")[0];
    assert_eq!((&told["ok"], &told["output"]), (&json!(false), &json!("(aborted)")), "{told}");
}
