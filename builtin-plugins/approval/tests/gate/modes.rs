//! Modes, rules about paths, restricted paths, other listeners.

use std::sync::Arc;

use linn_bus::{Context, Fault, Plugin};
use linn_bus_test::{leak_check, run};
use linn_plugin_approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn_services::approval::{ApprovalMode, ApprovalModes};
use linn_services::events::{ApprovalChanged, ToolsAmend, ToolsPreExecute};
use linn_services::fs::Fs;
use linn_services::tools::{AmendDecision, PreToolDecision};
use serde_json::json;

use crate::links::Links;
use crate::support::{Desk, agent, rules};

#[test]
fn each_mode_asks_about_its_calls() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        for (mode, asked) in [
            (ApprovalMode::Never, [false, false, false]),
            (ApprovalMode::Destructive, [true, false, false]),
            (ApprovalMode::Always, [true, true, true]),
        ] {
            desk.modes.set_mode(mode).unwrap();
            assert_eq!(desk.modes.mode().unwrap(), mode);
            for (tool, is_asked) in ["write_file", "read_file", "finish"].into_iter().zip(asked) {
                let outcome = desk.path(tool, "a.txt").await;
                assert_eq!((outcome.was_asked(), outcome.has_run), (is_asked, !is_asked), "{mode:?} {tool}");
            }
        }
        let unknown = desk.path("no_such_tool", "a").await;
        assert!(
            !unknown.was_asked() && unknown.text.contains("unknown tool"),
            "nobody is asked about what does not exist"
        );
    });
}

#[test]
fn restricted_paths_are_asked_about_also_where_a_call_reads() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&["read_file(.git/config)"], &[], &[])).await;
        let outcome = desk.path("read_file", ".env").await;
        assert!(outcome.was_asked() && !outcome.has_run);
        assert_eq!(outcome.reason(), "`.env` is restricted");
        assert!(desk.path("grep", ".env").await.ran_unasked());
        assert!(desk.path("read_file", ".git/config").await.ran_unasked(), "an allow rule comes first");
        desk.modes.set_mode(ApprovalMode::Never).unwrap();
        assert!(desk.path("read_file", ".env").await.ran_unasked());
    });
}

#[test]
fn links_are_followed_before_a_path_is_judged() {
    run(async |root| {
        let config = rules(&["*(docs/*)"], &["*(secret/*)"], &[]);
        let desk = Desk::new(&root, config).await;
        let links =
            Links(&[("notes", ".env"), ("docs/link", "src/a.rs"), ("open", "secret/key"), ("docs/same", "docs/b")]);
        root.provide::<dyn Fs>(Arc::new(links)).unwrap();
        assert!(desk.path("read_file", "notes").await.was_asked());
        assert!(desk.path("write_file", "docs/a").await.ran_unasked());
        assert!(desk.path("write_file", "docs/same").await.ran_unasked());
        assert!(desk.path("write_file", "docs/link").await.was_asked());
        assert!(desk.path("read_file", "open").await.was_denied());
    });
}

#[test]
fn every_path_of_a_call_has_to_be_allowed() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&["*(src/*)"], &[], &[])).await;
        let rename = |from: &str, to: &str| desk.call("rename", json!({ "from": from, "to": to }));
        assert!(rename("src/a", "src/b").await.ran_unasked());
        assert!(rename("src/a", "b").await.was_asked());
        assert!(rename("a", "src/b").await.was_asked());
        assert!(desk.path("edit", "src/../b").await.was_asked());
        assert!(desk.path("edit", "./src//b").await.ran_unasked());
        let aside = desk.call("write_file", json!({ "path": "src/a", "files": [{ "path": "b" }] })).await;
        assert!(aside.was_asked());
    });
}

#[test]
fn rules_come_in_their_order() {
    run(async |root| {
        let config = rules(
            &["Write_File(src/*)", "bash(npm run build)"],
            &["write_file(src/gen/*)", "bash(npm *)", "*(*.key)"],
            &["read_file(private/*)", "*(src/*)"],
        );
        let desk = Desk::new(&root, config).await;
        assert!(desk.path("write_file", "src/a").await.ran_unasked(), "allow before ask");
        assert!(desk.path("write_file", "src/gen/a").await.was_denied(), "the narrower rule");
        assert!(desk.bash("npm run build").await.ran_unasked(), "the narrower rule");
        assert!(desk.bash("npm install").await.was_denied());
        assert!(desk.bash("NPM install").await.was_denied());
        assert!(desk.path("read_file", "a.key").await.was_denied());
        let asked = desk.path("read_file", "private/a").await;
        assert!(asked.was_asked());
        assert_eq!(asked.reason(), "rule read_file(private/*) asks");
        desk.modes.set_mode(ApprovalMode::Never).unwrap();
        assert!(desk.path("read_file", "private/a").await.was_asked(), "ask rules hold in every mode");
        assert!(desk.path("write_file", "src/gen/a").await.was_denied());
    });
}

#[test]
fn a_deny_says_which_rule() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&[], &["bash(touch *)"], &[])).await;
        let outcome = desk.bash("touch pwned").await;
        assert_eq!(outcome.text, "Error: tool call 'bash' denied by permission rule bash(touch *)");
    });
}

#[test]
fn r044_a_rule_judges_the_rewritten_call() {
    run(async |root| {
        let config = ApprovalGateConfig { mode: ApprovalMode::Never, ..rules(&[], &["bash(touch *)"], &[]) };
        let desk = Desk::new(&root, config).await;
        root.on(|it: &ToolsAmend| {
            it.replace(json!({ "command": "touch pwned" }), "hook");
            AmendDecision::Proceed
        })
        .unwrap();
        assert!(desk.bash("ls").await.was_denied());
    });
}

/// A hook that always decides the same.
struct Hook;

impl Plugin for Hook {
    const NAME: &'static str = "hook";
    type Config = PreToolDecision;
    type Needs = ();
    async fn start(ctx: &Context, decision: PreToolDecision, (): ()) -> Result<(), Fault> {
        ctx.on(move |_: &ToolsPreExecute| decision.clone())?;
        Ok(())
    }
}

#[test]
fn r045_the_strongest_opinion_holds_whoever_comes_first() {
    let decisions = [
        (PreToolDecision::Deny { reason: "no".to_owned() }, false),
        (PreToolDecision::Ask { reason: Some("hook asks".to_owned()) }, true),
    ];
    for (decision, is_asked) in decisions {
        for is_before in [true, false] {
            run(async |root| {
                if is_before {
                    root.mount::<Hook>(decision.clone()).unwrap().running().await.unwrap();
                }
                let desk = Desk::new(&root, rules(&["bash(ls)"], &[], &[])).await;
                if !is_before {
                    root.mount::<Hook>(decision.clone()).unwrap().running().await.unwrap();
                }
                let outcome = desk.bash("ls").await;
                assert!(!outcome.has_run);
                assert_eq!(outcome.was_asked(), is_asked);
                if is_asked {
                    assert_eq!(outcome.reason(), "hook asks");
                }
            });
        }
    }
}

#[test]
fn r133_rules_hold_for_the_agents_that_work_for_an_agent() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&[], &["bash(touch *)"], &[])).await;
        let child = agent(&root, "child", Some(&desk.agent)).await;
        let outcome = desk.call_of(&child, "bash", json!({ "command": "touch pwned" })).await;
        assert!(outcome.was_denied());
        let outcome = desk.call_of(&child, "write_file", json!({ "path": "a" })).await;
        assert_eq!(outcome.asked[0].agent, child);
    });
}

#[test]
fn changes_are_told() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        let heard = linn_bus_test::Recorder::new();
        heard.listen::<ApprovalChanged>(&root).unwrap();
        desk.modes.set_mode(ApprovalMode::Always).unwrap();
        assert_eq!(heard.heard::<ApprovalChanged>(), [ApprovalChanged::Mode { mode: ApprovalMode::Always }]);
    });
}

#[test]
fn the_gate_leaves_nothing_behind() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let gate = ctx.mount::<ApprovalGatePlugin>(ApprovalGateConfig::default()).unwrap();
            gate.running().await.unwrap();
            assert!(ctx.get::<dyn ApprovalModes>().is_some());
            gate.dispose().await.unwrap();
        })
        .await;
    });
}

#[test]
fn the_config_is_read_with_its_names() {
    let config = json!({ "mode": "never", "allow": ["bash(git *)"], "deny": [], "ask": ["*"] });
    let config: ApprovalGateConfig = serde_json::from_value(config).unwrap();
    assert_eq!((config.mode, config.allow.len(), config.ask.len()), (ApprovalMode::Never, 1, 1));
    assert_eq!(serde_json::from_value::<ApprovalGateConfig>(json!({})).unwrap(), ApprovalGateConfig::default());
    assert!(serde_json::from_value::<ApprovalGateConfig>(json!({ "mdoe": "never" })).is_err());
}
