//! Plugins that a repository brings.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::support::{PluginFolder, Running, World, answers, run};

fn say(names: &[(&str, &str)]) -> BTreeMap<String, String> {
    names.iter().map(|(name, said)| ((*name).to_owned(), (*said).to_owned())).collect()
}

fn undecided(running: &Running) -> Vec<String> {
    running.admin.undecided().unwrap().into_iter().map(|it| it.name).collect()
}

fn entries(running: &Running) -> Vec<(String, String)> {
    running.admin.trust_entries().unwrap().into_iter().map(|it| (it.name, it.decision)).collect()
}

fn store(world: &World) -> std::path::PathBuf {
    world.home().join(".config/catalyst-code/plugin-trust.json")
}

/// A plugin of the repository that refuses every call.
fn gate(world: &World, name: &str) -> PluginFolder {
    let deny = answers(&json!({ "allow": false, "reason": name }));
    PluginFolder::new(world.project(name), name).with("description", json!("A gate.")).hook("pre_tool", &deny)
}

#[test]
fn script_15_r055_nothing_of_a_repository_runs_before_it_is_trusted() {
    run(async |world| {
        let ran = world.base.join("ran");
        gate(&world, "a").hook("session_start", &format!("touch '{}'", ran.display()));
        gate(&world, "b");
        world.echo("any");
        let running = world.start().await;
        let _agent = world.agent("main").await;
        assert_eq!(world.says("any", json!({})).await, "{}");
        assert!(running.names().is_empty() && !ran.exists());
        assert_eq!(undecided(&running), ["a", "b"]);
        let shown = serde_json::to_value(running.admin.undecided().unwrap()).unwrap();
        let path = world.project("a").display().to_string();
        let expected =
            json!({ "name": "a", "version": "1.0.0", "description": "A gate.", "path": path, "decision": "" });
        assert_eq!(shown[0], expected);

        let decided = running.admin.decide(say(&[("a", "trust"), ("b", "deny"), ("unknown", "trust")])).await.unwrap();
        assert_eq!(decided.trusted, ["a", "unknown"]);
        assert_eq!((decided.denied, decided.loaded), (vec!["b".to_owned()], 1));
        assert!(world.says("any", json!({})).await.ends_with(": a"));
        assert!(undecided(&running).is_empty());
        assert_eq!(entries(&running), [("a".into(), "trust".into()), ("b".into(), "deny".into())]);

        // Who changes his mind.
        running.admin.decide(say(&[("a", "deny"), ("b", "trust")])).await.unwrap();
        assert!(world.says("any", json!({})).await.ends_with(": b"));
        assert_eq!(running.names(), ["b"]);
    });
}

#[test]
fn script_15_a_value_that_is_none_changes_nothing() {
    run(async |world| {
        gate(&world, "a");
        let running = world.start().await;
        let error = running.admin.decide(say(&[("a", "trust"), ("b", "maybe"), ("c", "")])).await.unwrap_err();
        let expected = "plugin_trust_decisions: invalid value for b, c (expected \"trust\" or \"deny\")";
        assert_eq!(error.to_string(), expected);
        assert_eq!(undecided(&running), ["a"]);
        assert!(!store(&world).exists());
    });
}

#[test]
fn script_20_10_r055_trust_is_gone_with_the_first_byte_that_changed() {
    run(async |world| {
        let plugin = gate(&world, "a").script("lib.sh", "# helps");
        world.echo("any");
        let running = world.start().await;
        running.admin.decide(say(&[("a", "trust")])).await.unwrap();
        assert!(world.says("any", json!({})).await.ends_with(": a"));

        // While it runs: its scripts are not run any more, and what they were asked about is refused.
        fs::write(plugin.path.join("lib.sh"), "# helps!").unwrap();
        let said = world.says("any", json!({})).await;
        assert!(said.contains("the files of its plugin changed since they were trusted"), "{said}");
        running.admin.reload().await.unwrap();
        assert!(running.names().is_empty());
        assert_eq!(undecided(&running), ["a"]);

        // What is as it was is trusted as it was.
        fs::write(plugin.path.join("lib.sh"), "# helps").unwrap();
        running.admin.reload().await.unwrap();
        assert_eq!(running.names(), ["a"]);
        assert!(world.says("any", json!({})).await.ends_with(": a"));
        for change in ["new file", "permission", "link"] {
            match change {
                "new file" => fs::write(plugin.path.join("more"), "").unwrap(),
                "permission" => crate::support::program(&plugin.path.join("plain"), ""),
                _ => std::os::unix::fs::symlink("lib.sh", plugin.path.join("link")).unwrap(),
            }
            running.admin.reload().await.unwrap();
            assert_eq!(undecided(&running), ["a"], "{change}");
            running.admin.decide(say(&[("a", "trust")])).await.unwrap();
            assert_eq!(running.names(), ["a"], "{change}");
        }
    });
}

#[test]
fn script_16_decisions_hold_for_the_next_start_and_for_their_project_alone() {
    run(async |mut world| {
        gate(&world, "a");
        let running = world.start().await;
        running.admin.decide(say(&[("a", "trust")])).await.unwrap();
        running.fiber.dispose().await.unwrap();
        let running = world.start().await;
        assert_eq!(running.names(), ["a"]);
        let file: Value = serde_json::from_slice(&fs::read(store(&world)).unwrap()).unwrap();
        let (work, path) = (world.work().display().to_string(), world.project("a").display().to_string());
        assert_eq!(file["projects"][&work], json!({ path: "trust" }));
        running.fiber.dispose().await.unwrap();

        // The same files in another place are others.
        let other = world.base.join("other");
        fs::rename(world.work(), &other).unwrap();
        world.config.workspace = Some(other);
        let running = world.start().await;
        assert_eq!(undecided(&running), ["a"]);
    });
}

#[test]
fn script_20_11_a_store_that_cannot_be_read_trusts_nothing_and_is_set_aside() {
    run(async |world| {
        gate(&world, "a");
        fs::create_dir_all(store(&world).parent().unwrap()).unwrap();
        fs::write(store(&world), "{ half").unwrap();
        let running = world.start().await;
        assert_eq!(undecided(&running), ["a"]);
        let failures = running.admin.failures().unwrap();
        assert!(failures[0].path.ends_with("plugin-trust.json") && failures[0].reason.contains("cannot be read"));
        running.admin.decide(say(&[("a", "trust")])).await.unwrap();
        assert_eq!(running.names(), ["a"]);
        let aside = store(&world).with_extension("corrupt-1.json");
        assert_eq!(fs::read_to_string(aside).unwrap(), "{ half");
        assert!(running.admin.failures().unwrap().is_empty());
    });
}

#[test]
fn script_16_what_others_keep_in_the_store_stays() {
    run(async |world| {
        gate(&world, "a");
        fs::create_dir_all(store(&world).parent().unwrap()).unwrap();
        let before = json!({ "projects": { "/other": { "/other/p": "deny" } }, "of_later_versions": [1] });
        fs::write(store(&world), before.to_string()).unwrap();
        let running = world.start().await;
        running.admin.decide(say(&[("a", "trust")])).await.unwrap();
        let file: Value = serde_json::from_slice(&fs::read(store(&world)).unwrap()).unwrap();
        assert_eq!(
            (&file["projects"]["/other"], &file["of_later_versions"]),
            (&before["projects"]["/other"], &json!([1]))
        );
    });
}

#[test]
fn script_2_3_a_decision_without_a_digest_asks_again_and_a_denial_stays() {
    run(async |world| {
        gate(&world, "a");
        gate(&world, "b");
        fs::create_dir_all(store(&world).parent().unwrap()).unwrap();
        let (a, b) = (world.project("a").display().to_string(), world.project("b").display().to_string());
        let file = json!({ "projects": { world.work().display().to_string(): { a: "trust", b: "deny" } } });
        fs::write(store(&world), file.to_string()).unwrap();
        let running = world.start().await;
        assert_eq!(undecided(&running), ["a"]);
        assert_eq!(entries(&running)[1], ("b".into(), "deny".into()));
    });
}

#[test]
fn script_2_3_a_file_in_the_repository_trusts_nothing() {
    run(async |world| {
        let plugin = gate(&world, "a");
        fs::write(plugin.path.join(".catalyst-plugin-user-installed"), "").unwrap();
        let running = world.start().await;
        assert_eq!(undecided(&running), ["a"]);
    });
}

#[test]
fn script_2_3_a_link_in_the_repository_gains_nothing_from_its_target() {
    run(async |world| {
        let target = world.base.join("elsewhere/p");
        PluginFolder::new(target.clone(), "p");
        fs::create_dir_all(world.project("x").parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&target, world.project("p")).unwrap();
        let running = world.start().await;
        assert_eq!(undecided(&running), ["p"]);
        running.admin.decide(say(&[("p", "trust")])).await.unwrap();
        assert_eq!(running.names(), ["p"]);
    });
}

#[test]
fn script_2_3_with_the_flag_everything_runs_and_denials_do_nothing() {
    run(async |mut world| {
        gate(&world, "a");
        let running = world.start().await;
        running.admin.decide(say(&[("a", "deny")])).await.unwrap();
        running.fiber.dispose().await.unwrap();
        world.config.trust_project = Some(true);
        let running = world.start().await;
        assert_eq!(running.names(), ["a"]);
        assert_eq!(entries(&running), [("a".into(), "deny".into())]);
    });
}

#[test]
fn script_2_3_plugins_of_the_user_need_no_trust_wherever_their_folder_is() {
    run(async |mut world| {
        world.config.workspace = Some(world.base.clone());
        world.plugin("p");
        let running = world.start().await;
        assert_eq!(running.names(), ["p"]);
        assert!(running.admin.trust_entries().unwrap().is_empty());
    });
}
