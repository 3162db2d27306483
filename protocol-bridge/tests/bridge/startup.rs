//! The first words.

use linn_bus_test::run;
use linn_services_test::Reply;
use serde_json::{Value, json};

use crate::kit::{World, first, types};

#[test]
fn init_is_answered_in_order_2_2() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.send(json!({ "type": "init" })).await;
        let events = world.until("agents").await;
        assert_eq!(types(&events), ["ready", "protocol_hello", "skills", "agents"]);
        assert!(events.iter().all(|it| it["protocol_version"] == 2));
        assert!(events.iter().all(|it| it.get("run_id").is_none() && it.get("sequence").is_none()));
        let session = events[0]["session_id"].as_str().unwrap();
        let groups: Vec<_> = session.split('-').collect();
        assert_eq!((groups[0], groups[1].len(), groups[2].len()), ("session", 16, 16));
    });
}

#[test]
fn ready_has_every_field_of_2_3() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.send(json!({ "type": "init" })).await;
        let ready = world.event("ready").await;
        type IsRight = fn(&Value) -> bool;
        let kinds: &[(&str, IsRight)] = &[
            ("models", Value::is_array),
            ("authed", Value::is_boolean),
            ("anyLoggedIn", Value::is_boolean),
            ("workspace", Value::is_string),
            ("approval", Value::is_string),
            ("base_url", Value::is_string),
            ("provider", Value::is_string),
            ("providerKind", Value::is_string),
            ("providers", Value::is_array),
            ("providerPresets", Value::is_array),
            ("bash_timeout_secs", Value::is_u64),
            ("auto_compact", Value::is_boolean),
            ("context_compact_at", Value::is_number),
            ("context_digest_at", Value::is_number),
            ("sandbox", Value::is_string),
            ("shell", Value::is_string),
            ("sandboxImage", Value::is_string),
            ("sandboxCpus", Value::is_u64),
            ("sandboxMemoryMb", Value::is_u64),
            ("sandboxNetworkMode", Value::is_string),
            ("sandboxReady", Value::is_boolean),
            ("resumed_messages", Value::is_u64),
            ("plugins", Value::is_array),
            ("plugins_skipped", Value::is_array),
        ];
        for (name, is_right) in kinds {
            assert!(is_right(&ready[*name]), "{name}: {}", ready[*name]);
        }
        let model = &ready["models"][0];
        assert_eq!(model["id"], "mock-model");
        for name in ["id", "name", "reasoning", "context_window", "max_tokens", "thinking_levels", "vision", "provider"]
        {
            assert!(!model[name].is_null(), "{name}");
        }
        assert_eq!((&ready["approval"], &ready["workspace"]), (&json!("destructive"), &json!("/")));
    });
}

#[test]
fn hello_echoes_the_client_and_tolerates_unknown_capabilities_2_5() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        let client = json!({ "name": "test", "version": "9", "capabilities": ["run_ids", "from_the_future"] });
        world.send(json!({ "type": "init", "protocol_version": 7, "client": client, "extra": 1 })).await;
        let hello = world.event("protocol_hello").await;
        assert_eq!((&hello["client"], &hello["client_protocol_version"]), (&client, &json!(7)));
        assert_eq!(hello["min_client"], "0.2.0");
        let capabilities = json!([
            "protocol_v2",
            "run_ids",
            "session_ids",
            "event_sequence",
            "stale_event_rejection",
            "worktree",
            "checkpoint",
            "file_change",
            "audit",
            "routing",
            "allow_pattern",
            "cost_update",
        ]);
        assert_eq!(hello["capabilities"], capabilities);

        world.send(json!({ "type": "init" })).await;
        let hello = world.event("protocol_hello").await;
        assert_eq!((&hello["client"], &hello["client_protocol_version"]), (&Value::Null, &Value::Null));
    });
}

#[test]
fn commands_are_served_before_init_2_1() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("hi")]).await;
        world.prompt("hello").await;
        let events = world.until("done").await;
        assert!(first(&events, "done")["run_id"].as_str().unwrap().starts_with("run-"));
    });
}

#[test]
fn what_is_listed_is_empty_and_what_acts_says_what_is_missing() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        let lists = [
            ("list_sessions", "sessions"),
            ("stats", "stats"),
            ("list_memory", "memory_list"),
            ("list_plugins", "plugins_list"),
            ("list_plugin_commands", "plugin_commands"),
            ("get_vision_config", "vision_config"),
            ("list_skills", "skills"),
            ("list_agents", "agents"),
            ("list_checkpoints", "checkpoints"),
            ("goal_status", "goal_state"),
            ("get_sandbox_status", "sandbox_status"),
            ("list_provider_presets", "provider_presets"),
            ("plugin_trust_prompt", "plugin_trust_prompt"),
            ("list_marketplace_skills", "skill_marketplace_state"),
            ("usage", "usage"),
            ("context", "context_breakdown"),
            ("runtime_status", "runtime_status"),
        ];
        for (command, answer) in lists {
            world.send(json!({ "type": command })).await;
            assert_eq!(world.next().await["type"], answer, "{command}");
            if command == "list_plugins" {
                assert_eq!(world.next().await["type"], "plugin_commands");
            }
        }
        let acts = [
            json!({ "type": "create_checkpoint" }),
            json!({ "type": "save_memory", "text": "x" }),
            json!({ "type": "set_vision_config" }),
            json!({ "type": "set_key", "api_key": "sk-secret" }),
            json!({ "type": "login", "preset": "umans", "api_key": "sk-secret" }),
            json!({ "type": "set_config", "key": "auto_compact", "value": true }),
            json!({ "type": "start_goal", "goal": "mend everything", "model": "mock-model" }),
            json!({ "type": "plugin_trust_decisions", "decisions": {} }),
        ];
        for command in acts {
            world.send(command.clone()).await;
            let answer = world.next().await;
            assert_eq!(answer["type"], "error", "{command}");
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains("needs") && message.contains("no plugin that is mounted"), "{message}");
            assert!(!message.contains("sk-secret"));
        }
    });
}
