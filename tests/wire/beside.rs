//! `abort` while something goes on beside a turn or instead of one, and what is asked of features that are not there.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use linn_model_server::{Answer, Gate, Wire};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use crate::client::{Client, Setup, calls, of, said, server, text, types, until_some, wait};
use crate::compaction::uncounted;

/// A script that anybody may run.
fn script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn pid_in(path: &Path) -> Pid {
    let read = || std::fs::read_to_string(path).ok()?.trim().parse::<i32>().ok();
    Pid::from_raw(until_some(read)).unwrap()
}

fn until_gone(pid: Pid) {
    until_some(|| test_kill_process(pid).err());
}

/// Aborts, and looks that nothing is left that runs.
fn abort(client: &mut Client) -> Vec<Value> {
    client.send(json!({ "type": "abort" }));
    let mut events = client.until("aborted");
    client.send(json!({ "type": "runtime_status" }));
    events.extend(client.until("runtime_status"));
    let left = events.last().unwrap()["resources"].as_array().unwrap();
    assert!(left.iter().all(|it| it["cancelled"] == true), "{left:?}");
    events
}

#[test]
fn abort_ends_a_discovery_of_models() {
    let gate = Gate::new();
    let server = server([text("hi")]);
    let mut client = Client::start(&server);
    server.on_get("*", Answer::json(&json!({ "data": [] })).held_at(&gate));
    client.send(json!({ "type": "discover_provider_models", "base_url": server.base_url() }));
    client.until("info");
    wait(gate.reached());
    client.send(json!({ "type": "abort" }));
    let preview = client.event("provider_models_preview");
    assert!(preview["error"].as_str().unwrap().contains("aborted"), "{preview}");
    gate.open();
    client.prompt("hello");
    assert_eq!(said(&client.until("done")), "hi");
}

#[test]
fn abort_ends_a_refresh_of_models() {
    let gate = Gate::new();
    let server = server([text("hi")]);
    let mut client = Client::start(&server);
    server.on_get("*", Answer::json(&json!({ "data": [] })).held_at(&gate));
    client.send(json!({ "type": "refresh_models" }));
    wait(gate.reached());
    abort(&mut client);
    gate.open();
    client.prompt("hello");
    assert_eq!(said(&client.until("done")), "hi");
}

#[test]
fn abort_ends_a_compaction_and_leaves_the_history_as_it_is() {
    let gate = Gate::new();
    let server = server(
        (0..4).map(|_| uncounted(&"long answer ".repeat(200))).chain([text("never").held_at(&gate), text("next")]),
    );
    let mut client = Client::start(&server);
    for _ in 0..4 {
        client.prompt(&"a long question ".repeat(100));
        client.until("done");
    }
    client.send(json!({ "type": "compact" }));
    client.until("compacting");
    wait(server.asked(5));
    client.send(json!({ "type": "abort" }));
    let events = client.until_where("compacted", |it| it["type"] == "compacted");
    let compacted = events.last().unwrap();
    assert_eq!(compacted["before_tokens"], compacted["after_tokens"], "{events:#?}");
    gate.open();
    client.prompt("and now?");
    assert_eq!(said(&client.until("done")), "next");
    let body: Value = serde_json::from_slice(&server.requests().last().unwrap().body).unwrap();
    assert!(body["messages"].to_string().matches("a long question").count() >= 4);
}

#[test]
fn abort_ends_a_login_and_the_script_that_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join(".catalyst-code/plugins/waiter");
    let manifest = json!({
        "name": "waiter", "version": "1.0.0", "description": "Waits.",
        "oauth": { "provider_id": "waiter", "label": "Waiter", "base_url": "https://api.example.com/v1", "script": "login.sh" },
    });
    let pid_file = folder.path().join("pid");
    script(&plugin.join("login.sh"), &format!("#!/bin/sh\necho $$ > {}\nexec sleep 1000\n", pid_file.display()));
    std::fs::write(plugin.join("plugin.json"), manifest.to_string()).unwrap();
    let server = server([text("hi")]);
    let mut client = Client::within(folder, &server, Setup::default());
    client.send(json!({ "type": "login_oauth", "preset": "waiter" }));
    assert_eq!(client.event("info")["message"], "starting OAuth login for Waiter…");
    let pid = pid_in(&pid_file);
    abort(&mut client);
    until_gone(pid);
    client.prompt("hello");
    assert_eq!(said(&client.until("done")), "hi");
}

#[test]
fn cancellation_mid_readonly_wave_kills_owned_subprocesses_and_emits_no_results() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("Cargo.toml"), "").unwrap();
    }
    script(&folder.path().join("bin/cargo"), "#!/bin/sh\necho $$ > pid\nexec sleep 1000\n");
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    let both = [("c1", "diagnostics", json!({ "path": "a" })), ("c2", "diagnostics", json!({ "path": "b" }))];
    let loading = calls(&[("c0", "load_tools", json!({ "tools": ["diagnostics"] }))]);
    let server = server([loading, calls(&both), text("next")]);
    let setup = Setup { variables: vec![("PATH".to_owned(), path)], ..Setup::default() };
    let mut client = Client::within(folder, &server, setup);
    client.prompt("check");
    client.until_where("the second call", |it| it["type"] == "tool_call" && it["id"] == "c2");
    let pids = ["a", "b"].map(|it| pid_in(&client.path(it).join("pid")));
    let events = abort(&mut client);
    assert_eq!(of(&events, "run_cancelled")[0]["reason"], "abort");
    assert!(of(&events, "tool_result").is_empty(), "{events:#?}");
    pids.into_iter().for_each(until_gone);
    client.prompt("next");
    let events = client.until("done");
    assert_eq!((said(&events).as_str(), of(&events, "tool_result").len()), ("next", 0));
}

#[test]
fn what_acts_on_features_that_are_not_there_says_what_is_missing() {
    let server = server([]);
    let mut client = Client::start(&server);
    for (command, answer, words) in [
        (json!({ "type": "start_goal", "goal": "write it", "model": "mock-model" }), "error", "goals"),
        (json!({ "type": "approve_goal_plan" }), "error", "requires phase plan_ready (got idle)"),
        (json!({ "type": "cancel_goal" }), "info", "no active goal to cancel"),
        (
            json!({ "type": "intercom_reply", "request_id": "i-1", "reply": "yes" }),
            "error",
            "no pending intercom ask for id i-1",
        ),
        (json!({ "type": "create_checkpoint" }), "error", "checkpoint"),
        (json!({ "type": "restore_checkpoint", "id": "cp-1" }), "error", "checkpoint"),
        (json!({ "type": "save_memory", "text": "x" }), "error", "memor"),
        (json!({ "type": "set_vision_config" }), "error", "models that see"),
        (json!({ "type": "prepare_sandbox" }), "sandbox_error", "sandbox"),
        (json!({ "type": "search_marketplace_skills", "query": "x" }), "skill_marketplace_error", "marketplace"),
    ] {
        client.send(command.clone());
        let event = client.event(answer);
        let told = event["message"].as_str().or(event["error"].as_str()).unwrap();
        assert!(told.contains(words), "{command}: {told}");
    }
    client.send(json!({ "type": "revise_goal", "feedback": "x", "model": "mock-model" }));
    assert_eq!(types(&client.until("done")), ["error", "done"]);
}

#[test]
fn a_model_that_calls_a_tool_which_is_not_there_learns_that_and_goes_on() {
    let server = server([calls(&[("c1", "subagent", json!({ "task": "x" }))]), text("Then not.")]);
    let mut client = Client::start(&server);
    client.prompt("delegate");
    let events = client.until("done");
    let result = of(&events, "tool_result")[0];
    assert_eq!((&result["ok"], &result["status"]), (&json!(false), &json!("failed")), "{result}");
    assert!(result["output"].as_str().unwrap().contains("subagent"), "{result}");
    assert_eq!(said(&events), "Then not.");
    let asked = server.requests()[0].body.clone();
    assert!(!String::from_utf8(asked).unwrap().contains("\"subagent\""), "it was not offered");
}

#[test]
fn an_anthropic_endpoint_streams_and_calls_tools_as_well() {
    let both = [("c1", "list_dir", json!({ "path": "." }))];
    let server = server([Wire::Anthropic.calls(&both), Wire::Anthropic.text(&["Em", "pty."])]);
    let mut client = Client::start(&server);
    client.send(json!({
        "type": "add_custom_provider", "name": "claude", "kind": "anthropic", "base_url": server.base_url(), "api_key": "k",
        "models_override": { "m": { "thinking_levels": ["low", "high"], "reasoning": true } },
    }));
    client.until("provider_presets");
    client.send(json!({ "type": "send", "prompt": "look", "model": "claude:m", "reasoning_effort": "turbo" }));
    let events = client.until("done");
    assert_eq!(said(&events), "Empty.", "{events:#?}");
    assert_eq!(of(&events, "tool_result").len(), 1);
}
