//! What is found, listed, enabled, reloaded and left behind.

use std::fs;

use linn_bus_test::leak_check;
use linn_plugin_script_plugins::{ScriptPluginsConfig, ScriptPluginsPlugin};
use linn_services::events::PluginsChange;
use linn_services::plugin_admin::{PluginAdmin, PluginScope};
use linn_services::tools::Tools;
use serde_json::json;

use crate::support::{PluginFolder, answers, run};

#[test]
fn script_14_a_plugin_is_listed_with_what_it_declares() {
    run(async |world| {
        world
            .plugin("p")
            .hook("pre_tool", "x")
            .hook("post_bash", "x")
            .with("description", json!("Does it."))
            .with("system_prompt", json!("Be."))
            .with("disable_tools", json!(["web"]))
            .with("tools", json!([{ "name": "t", "script": "s.sh" }]))
            .with("commands", json!([{ "name": "c", "script": "s.sh" }]))
            .with("memory_provider", json!({ "script": "s.sh" }))
            .with("oauth", json!({ "provider_id": "o", "base_url": "u", "script": "s.sh" }))
            .script("s.sh", "echo '{}'");
        world.plugin("minimal");
        let running = world.start().await;
        let listed = serde_json::to_value(running.admin.list().unwrap()).unwrap();
        let path = |name| world.global(name).display().to_string();
        assert_eq!(
            listed[1],
            json!({
                "name": "p", "version": "1.0.0", "enabled": true, "description": "Does it.",
                "hooks": ["post_bash", "pre_tool"], "tools": ["t"], "commands": ["c"], "disable_tools": ["web"],
                "has_oauth": true, "has_memory_provider": true, "has_system_prompt": true, "path": path("p"), "scope": "global",
            })
        );
        assert_eq!(
            listed[0],
            json!({
                "name": "minimal", "version": "1.0.0", "enabled": true, "description": "", "hooks": [], "tools": [],
                "commands": [], "disable_tools": [], "has_oauth": false, "has_memory_provider": false,
                "has_system_prompt": false, "path": path("minimal"), "scope": "global",
            })
        );
    });
}

#[test]
fn script_2_2_r054_one_bad_plugin_stops_no_other() {
    run(async |world| {
        world.plugin("good");
        world.plugin("typo").with("hooks", json!({ "before_tol": { "script": "missing" } }));
        world.plugin("broken").with("hooks", json!({ "pre_tool": { "script": "missing.sh" } }));
        fs::create_dir_all(world.global("no-json")).unwrap();
        fs::write(world.global("no-json").join("plugin.json"), "{").unwrap();
        fs::create_dir_all(world.global("no-plugin")).unwrap();
        fs::write(world.global("a-file"), "").unwrap();
        let running = world.start().await;
        assert_eq!(running.names(), ["good", "typo"]);
        let failures: Vec<_> = running.admin.failures().unwrap().into_iter().map(|it| it.reason).collect();
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert_eq!(failures[0], "hook script \"missing.sh\" does not exist: hook 'pre_tool' of plugin 'broken'");
        assert!(failures[1].starts_with("plugin.json parse error: "));
        let check = running.admin.check(&world.global("typo").display().to_string()).await.unwrap();
        assert_eq!(check.warnings, ["unknown hook point 'before_tol' in plugin 'typo'; skipping"]);
    });
}

#[test]
fn script_2_1_of_two_folders_with_one_name_the_first_counts_and_the_other_is_told() {
    run(async |world| {
        PluginFolder::new(world.global("a"), "same").with("version", json!("a"));
        PluginFolder::new(world.global("b"), "same").with("version", json!("b"));
        let running = world.start().await;
        assert_eq!(running.admin.list().unwrap()[0].version, "a");
        assert!(running.admin.failures().unwrap()[0].reason.starts_with("plugin 'same' is in "));
    });
}

#[test]
fn script_20_12_what_was_enabled_and_disabled_holds_for_the_next_start() {
    run(async |mut world| {
        for name in ["a", "b", "c"] {
            world.plugin(name).hook("pre_tool", &answers(&json!({ "allow": false, "reason": name })));
        }
        world.config.disabled = vec!["b".to_owned()];
        world.echo("any");
        let running = world.start().await;
        let enabled = |admin: &linn_bus::Svc<dyn PluginAdmin>| -> Vec<String> {
            admin.list().unwrap().into_iter().filter(|it| it.enabled).map(|it| it.name).collect()
        };
        assert_eq!(enabled(&running.admin), ["a", "c"]);
        running.admin.disable("a").await.unwrap();
        running.admin.enable("b").await.unwrap();
        assert!(world.says("any", json!({})).await.ends_with("denied by plugin 'b' hook 'pre_tool': b"));
        running.admin.disable("b").await.unwrap();
        running.admin.enable("b").await.unwrap();
        running.fiber.dispose().await.unwrap();
        let running = world.start().await;
        assert_eq!(enabled(&running.admin), ["b", "c"]);
        for verb in ["enable", "disable", "remove"] {
            let done = match verb {
                "enable" => running.admin.enable("x").await,
                "disable" => running.admin.disable("x").await,
                _ => running.admin.remove("x").await,
            };
            assert_eq!(done.unwrap_err().to_string(), "plugin 'x' not found");
        }
    });
}

#[test]
fn script_14_reload_takes_what_is_new_changed_and_gone_and_keeps_flags() {
    run(async |world| {
        let gate = |name: &str| answers(&json!({ "allow": false, "reason": name }));
        world.plugin("b").hook("pre_tool", &gate("b"));
        world.plugin("off");
        world.echo("any");
        let running = world.start().await;
        running.admin.disable("off").await.unwrap();
        let changes = linn_bus_test::Recorder::new();
        changes.note(&world.root, |_: &PluginsChange| ()).unwrap();
        world.plugin("a").hook("pre_tool", &gate("a"));
        let reloaded = running.admin.reload().await.unwrap();
        assert_eq!((reloaded.loaded, reloaded.skipped, reloaded.errors), (3, 0, 0));
        assert!(world.says("any", json!({})).await.ends_with(": a"), "in the place of its name");
        assert!(!running.admin.list().unwrap()[2].enabled);
        fs::remove_dir_all(world.global("a")).unwrap();
        world.plugin("b").hook("pre_tool", &gate("b, anew"));
        running.admin.reload().await.unwrap();
        assert_eq!(running.names(), ["b", "off"]);
        assert!(world.says("any", json!({})).await.ends_with(": b, anew"));
        assert_eq!(changes.names(), ["plugins/change", "plugins/change"]);
    });
}

#[test]
fn script_20_9_removing_a_linked_plugin_removes_the_link_and_what_was_decided() {
    run(async |world| {
        let target = world.base.join("elsewhere/target");
        PluginFolder::new(target.clone(), "linked");
        fs::create_dir_all(world.global("x").parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&target, world.global("link")).unwrap();
        world.plugin("plain");
        let running = world.start().await;
        assert_eq!(running.names(), ["linked", "plain"]);
        running.admin.disable("linked").await.unwrap();
        running.admin.remove("linked").await.unwrap();
        running.admin.remove("plain").await.unwrap();
        assert!(
            target.join("plugin.json").exists() && !world.global("link").exists() && !world.global("plain").exists()
        );
        assert!(running.names().is_empty());
        let state = fs::read_to_string(world.home().join(".config/catalyst-code/plugin-state.json")).unwrap();
        assert!(!state.contains("linked"), "{state}");
    });
}

#[test]
fn script_20_9_a_plugin_that_cannot_be_removed_is_there_whole_and_runs_on() {
    run(async |world| {
        let plugin = world.plugin("p").hook("pre_tool", &answers(&json!({ "allow": false, "reason": "shut" })));
        world.echo("any");
        // What was decided cannot be forgotten: a file is in the way of the folder.
        fs::write(world.home().join(".config"), "").unwrap();
        let running = world.start().await;
        let error = running.admin.remove("p").await.unwrap_err();
        assert!(error.to_string().starts_with("cannot keep what was decided about plugins"), "{error}");
        assert!(running.admin.list().unwrap()[0].enabled);
        assert!(world.says("any", json!({})).await.ends_with(": shut"), "the gate is shut still");
        assert!(plugin.path.join("plugin.json").exists() && plugin.path.join("hooks/pre_tool.sh").exists());
        let beside = fs::read_dir(plugin.path.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "nothing is left beside it");

        fs::remove_file(world.home().join(".config")).unwrap();
        running.admin.remove("p").await.unwrap();
        assert_eq!(world.says("any", json!({})).await, "{}");
        assert_eq!(fs::read_dir(plugin.path.parent().unwrap()).unwrap().count(), 0);
    });
}

#[test]
fn script_2_1_a_plugin_of_the_workspace_stands_in_front_of_one_of_the_user() {
    run(async |mut world| {
        world.config.trust_project = Some(true);
        world.plugin("same").with("version", json!("1.0.0"));
        PluginFolder::new(world.project("same"), "same").with("version", json!("9.9.9"));
        let running = world.start().await;
        let listed = running.admin.list().unwrap();
        assert_eq!((listed[0].version.as_str(), listed[0].scope), ("9.9.9", PluginScope::Workspace));
        running.admin.remove("same").await.unwrap();
        assert_eq!(running.admin.list().unwrap()[0].version, "1.0.0", "what it stood in front of is there again");
    });
}

#[test]
fn many_plugins_keep_the_order_of_their_names_however_they_come() {
    run(async |world| {
        world.echo("any");
        let running = world.start().await;
        // Each comes before the last one: the room between two places is used up on the way.
        let names: Vec<String> = (0..24).rev().map(|n| format!("p{n:02}")).collect();
        for name in &names {
            world
                .plugin(name)
                .with("tools", json!([{ "name": "t", "script": "t.sh", "override": true }]))
                .script("t.sh", &format!("echo {name}"));
            running.admin.reload().await.unwrap();
            assert_eq!(world.says("t", json!({})).await, *name);
        }
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |world| {
        world
            .plugin("p")
            .hook("pre_tool", &answers(&json!({ "allow": true })))
            .with("system_prompt", json!("x"))
            .with("tools", json!([{ "name": "t", "script": "t.sh" }]))
            .with("commands", json!([{ "name": "c", "script": "t.sh" }]))
            .with("disable_tools", json!(["x"]))
            .with("memory_provider", json!({ "script": "t.sh" }))
            .script("t.sh", "echo '{}'");
        let tools = world.root.get::<dyn Tools>().unwrap();
        leak_check(&world.root, async |ctx| {
            let plugin = ctx.mount::<ScriptPluginsPlugin>(world.config.clone()).unwrap();
            plugin.running().await.unwrap();
            assert_eq!(tools.visible(None).unwrap().len(), 2, "its own, and that for memories");
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_config_that_is_wrong_is_named() {
    run(async |world| {
        let config = ScriptPluginsConfig { workspace: Some("a/b".into()), ..ScriptPluginsConfig::default() };
        let plugin = world.root.mount::<ScriptPluginsPlugin>(config).unwrap();
        let error = format!("{:#}", plugin.running().await.unwrap_err());
        assert!(error.contains("workspace: a/b is no absolute path"), "{error}");
    });
    let error = serde_json::from_value::<ScriptPluginsConfig>(json!({ "dirs": "x" })).unwrap_err();
    assert!(error.to_string().contains("unknown field `dirs`"), "{error}");
}

#[test]
fn without_a_runtime_the_plugin_says_what_it_needs() {
    linn_bus_test::run(async |root| {
        let config = ScriptPluginsConfig { environment: Some(Default::default()), ..ScriptPluginsConfig::default() };
        let plugin = root.mount::<ScriptPluginsPlugin>(config).unwrap();
        let error = format!("{:#}", plugin.running().await.unwrap_err());
        assert!(error.contains("tokio runtime with I/O"), "{error}");
    });
}
