//! Hooks that are asked before something happens.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use linn_bus::{ListenerError, Next};
use linn_services::events::{ToolsAmend, ToolsPreExecute};
use linn_services::tools::{AmendDecision, PreToolDecision, Tool, ToolFailure};
use serde_json::{Map, Value, json};

use crate::support::{answers, call_of, keeps, kept, run, text};

#[test]
fn script_20_1_pre_write_is_asked_before_every_tool_that_writes() {
    run(async |world| {
        world.plugin("p").hook("pre_write", &answers(&json!({ "allow": false, "reason": "closed" })));
        let names = ["write_file", "edit", "patch", "bulk_write", "bulk_edit", "delete", "rename", "mkdir"];
        names.iter().for_each(|it| world.echo(it));
        world.echo("read_file");
        let _running = world.start().await;
        for name in names {
            let result = world.call(name, json!({})).await;
            let expected = format!("Error: tool call '{name}' denied by plugin 'p' hook 'pre_write': closed");
            assert_eq!((result.is_error, text(&result)), (true, expected));
        }
        assert_eq!(world.says("read_file", json!({})).await, "{}");
    });
}

#[test]
fn script_7_2_the_hook_of_a_kind_comes_before_that_of_every_tool_and_plugins_in_the_order_of_their_names() {
    run(async |world| {
        let log = world.base.join("log");
        // Written down in another order than that of their names.
        for name in ["b", "a"] {
            let logs = |what: &str| {
                format!("cat >/dev/null; echo '{name} {what}' >> '{}'; echo '{{\"allow\":true}}'", log.display())
            };
            world
                .plugin(name)
                .hook("pre_bash", &logs("pre_bash"))
                .hook("pre_tool", &logs("pre_tool"))
                .hook("post_bash", &logs("post_bash"))
                .hook("post_tool", &logs("post_tool"));
        }
        world.echo("bash");
        let _running = world.start().await;
        world.call("bash", json!({})).await;
        let expected =
            "a pre_bash\nb pre_bash\na pre_tool\nb pre_tool\na post_bash\nb post_bash\na post_tool\nb post_tool\n";
        assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
    });
}

#[test]
fn script_6_4_r042_each_sees_the_arguments_as_amended_so_far() {
    run(async |world| {
        let seen = world.base.join("seen");
        world.plugin("a").hook_with(
            "pre_tool",
            &format!("sleep 0.2\n{}", answers(&json!({ "allow": true, "modify": { "x": 1, "gone": null } }))),
            json!({ "pass_args": true }),
        );
        world.plugin("b").hook_with(
            "pre_tool",
            &keeps(&seen, &json!({ "allow": true, "modify": { "y": 2 } })),
            json!({ "pass_args": true }),
        );
        // What is no object changes nothing.
        world.plugin("c").hook("pre_tool", &answers(&json!({ "allow": true, "modify": [1] })));
        world.echo("any");
        let _running = world.start().await;
        let result = world.says("any", json!({ "x": 0, "keep": true, "gone": "here" })).await;
        let result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(result, json!({ "x": 1, "keep": true, "gone": null, "y": 2 }));
        assert_eq!(kept(&seen)[0]["args"], json!({ "x": 1, "keep": true, "gone": null }));
    });
}

#[test]
fn r042_two_hooks_that_rewrite_one_key_come_in_their_order_whichever_is_slower() {
    run(async |world| {
        let seen = world.base.join("seen");
        world.echo("bash");
        let running = world.start().await;
        for (first, second) in [("sleep 0.05", ""), ("", "sleep 0.05")] {
            let says = |says: &str| json!({ "allow": true, "modify": { "command": format!("echo {says}") } });
            let first = format!("{first}\n{}", answers(&says("ONE")));
            let second = format!("{second}\n{}", keeps(&seen, &says("TWO")));
            world.plugin("a").hook("pre_bash", &first);
            world.plugin("b").hook_with("pre_bash", &second, json!({ "pass_args": true }));
            running.admin.reload().await.unwrap();
            for _ in 0..20 {
                let result = world.says("bash", json!({ "command": "true" })).await;
                assert_eq!(result, r#"{"command":"echo TWO"}"#);
            }
        }
        let seen = kept(&seen);
        assert_eq!(seen.len(), 40);
        assert!(seen.iter().all(|it| it["args"]["command"] == "echo ONE"), "each sees what the one before made of it");
    });
}

#[test]
fn script_6_1_without_pass_args_a_script_sees_no_arguments() {
    run(async |world| {
        let seen = world.base.join("seen");
        world.plugin("p").hook("pre_tool", &keeps(&seen, &json!({ "allow": true })));
        world.echo("any");
        let _running = world.start().await;
        let agent = world.agent("main").await;
        world.tools.execute(call_of(agent.agent(), "any", json!({ "secret": 1 }))).await.unwrap();
        let seen = kept(&seen);
        assert!(seen[0].get("args").is_none() && seen[0].get("result").is_none());
        assert_eq!(seen[0]["session_id"], "main");
    });
}

#[test]
fn script_20_14_r044_whoever_judges_a_call_judges_the_amended_arguments() {
    run(async |world| {
        world.plugin("p").hook("pre_bash", &answers(&json!({ "allow": true, "modify": { "command": "touch pwned" } })));
        world.echo("bash");
        let _running = world.start().await;
        let judged = Arc::new(Mutex::new(Vec::new()));
        let log = judged.clone();
        world
            .root
            .on(move |it: &ToolsPreExecute| {
                let command = it.execution.arguments()["command"].as_str().unwrap_or_default().to_owned();
                log.lock().unwrap().push(command.clone());
                if command.starts_with("touch") {
                    PreToolDecision::Deny { reason: "no touching".to_owned() }
                } else {
                    PreToolDecision::Allow
                }
            })
            .unwrap();
        assert_eq!(world.says("bash", json!({ "command": "ls" })).await, "Error: no touching");
        assert_eq!(*judged.lock().unwrap(), ["touch pwned"]);
    });
}

#[test]
fn script_20_13_what_a_call_is_amended_to_decides_its_result_however_often_it_is_made() {
    run(async |world| {
        let n = world.base.join("n");
        let script = format!(
            "cat >/dev/null; echo x >> '{0}'; echo '{{\"allow\":true,\"modify\":{{\"path\":\"'$(wc -l < '{0}')'\"}}}}'",
            n.display()
        );
        world.plugin("p").hook("pre_read", &script);
        let read = async |arguments: Map<String, Value>, _| {
            Ok::<_, ToolFailure>(format!("read {}", arguments["path"].as_str().unwrap_or_default().trim()))
        };
        world.tools.register(&world.root, Tool::new("read_file", "", read).read_only()).unwrap();
        let _running = world.start().await;
        for n in 1..=2 {
            assert_eq!(world.says("read_file", json!({ "path": "same" })).await, format!("read {n}"));
        }
    });
}

#[test]
fn r045_deny_wins_wherever_it_comes_from() {
    run(async |world| {
        world.plugin("a").hook("pre_tool", &answers(&json!({ "allow": true, "reason": "fine with me" })));
        world.plugin("b").hook("pre_tool", &answers(&json!({ "allow": false, "reason": "never" })));
        world.plugin("c").hook("pre_tool", &answers(&json!({ "allow": true })));
        world.echo("any");
        let _running = world.start().await;
        let expected = "Error: tool call 'any' denied by plugin 'b' hook 'pre_tool': never";
        assert_eq!(world.says("any", json!({})).await, expected);
        // Also where a listener that is no script allows everything.
        world
            .root
            .first()
            .on(async |_: &ToolsAmend, next: Next<'_, ToolsAmend>| -> Result<AmendDecision, ListenerError> {
                next.run().await
            })
            .unwrap();
        assert_eq!(world.says("any", json!({})).await, expected);
    });
}

#[test]
fn r045_deny_wins_whichever_is_slower() {
    run(async |world| {
        world.echo("any");
        let running = world.start().await;
        let says = |is_allowed: bool| answers(&json!({ "allow": is_allowed, "reason": "said" }));
        for (is_first_allowed, denier) in [(true, "b"), (false, "a")] {
            for (first, second) in [("", "sleep 0.1\n"), ("sleep 0.1\n", "")] {
                world.plugin("a").hook("pre_tool", &format!("{first}{}", says(is_first_allowed)));
                world.plugin("b").hook("pre_tool", &format!("{second}{}", says(!is_first_allowed)));
                running.admin.reload().await.unwrap();
                let expected = format!("Error: tool call 'any' denied by plugin '{denier}' hook 'pre_tool': said");
                assert_eq!(world.says("any", json!({})).await, expected);
            }
        }
    });
}

#[test]
fn r036_a_gate_whose_script_cannot_be_started_any_more_refuses_and_is_told() {
    run(async |world| {
        let allow = "#!/bin/sh\necho '{\"allow\":true}'\n";
        let hooks = json!({ "pre_tool": { "script": "gate" } });
        let plugin = world.plugin("p").script("gate", allow).with("hooks", hooks);
        world.echo("any");
        let _running = world.start().await;
        assert_eq!(world.says("any", json!({})).await, "{}");
        let gate = plugin.path.join("gate");
        let began = format!("hook 'pre_tool' wait error: failed to spawn script \"{}\": ", gate.display());
        for change in ["no program", "gone"] {
            match change {
                "gone" => std::fs::remove_file(&gate).unwrap(),
                _ => std::fs::set_permissions(&gate, std::fs::Permissions::from_mode(0o644)).unwrap(),
            }
            let denied = world.says("any", json!({})).await;
            let expected = format!("Error: tool call 'any' denied by plugin 'p' hook 'pre_tool': {began}");
            assert!(denied.starts_with(&expected), "{change}: {denied}");
            let told = world.told();
            assert!(told.len() == 1 && told[0].starts_with(&format!("warning [p] {began}")), "{change}: {told:?}");
        }
    });
}

#[test]
fn r049_an_answer_with_a_mark_and_line_ends_of_other_systems_refuses() {
    run(async |world| {
        let script = "cat >/dev/null; printf '\\xef\\xbb\\xbf{\"allow\":false,\"reason\":\"marked\"}\\r\\n'";
        world.plugin("p").hook("pre_tool", script);
        world.echo("any");
        let _running = world.start().await;
        let expected = "Error: tool call 'any' denied by plugin 'p' hook 'pre_tool': marked";
        assert_eq!(world.says("any", json!({})).await, expected);
    });
}

#[test]
fn script_6_3_r034_r035_r036_a_hook_that_fails_refuses_and_the_user_is_told() {
    run(async |world| {
        let cases = [
            (
                "pre_bash",
                "bash",
                "cat >/dev/null; echo 'Traceback: boom' >&2; exit 1",
                "exited with exit status: 1: Traceback: boom",
            ),
            ("pre_write", "edit", "exit 127", "exited with exit status: 127: "),
            (
                "pre_read",
                "grep",
                "printf '{\"decision\":'",
                "returned invalid JSON: EOF while parsing a value at line 1 column 12",
            ),
            ("pre_tool", "any", "true", "returned empty stdout"),
            (
                "pre_tool",
                "logs",
                "cat >/dev/null; echo 'loading profile...'; echo '{\"allow\":false,\"reason\":\"policy\"}'",
                "returned invalid JSON: expected value at line 1 column 1",
            ),
            (
                "pre_tool",
                "two",
                "cat >/dev/null; echo 'bad envelope' >&2; exit 2",
                "exited with exit status: 2: bad envelope",
            ),
            ("pre_tool", "killed", "kill -9 $$", "exited with signal: 9 (SIGKILL): "),
            ("pre_tool", "valid", "echo '{\"allow\":true}'; exit 1", "exited with exit status: 1: "),
        ];
        for (point, tool, script, _) in cases {
            // Each in a plugin of its own, so that one does not refuse for the other.
            world.plugin(&format!("of-{tool}")).hook(point, script);
            world.echo(tool);
        }
        let running = world.start().await;
        for (_, tool, ..) in cases {
            running.admin.disable(&format!("of-{tool}")).await.unwrap();
        }
        for (point, tool, _, why) in cases {
            running.admin.enable(&format!("of-{tool}")).await.unwrap();
            let expected =
                format!("Error: tool call '{tool}' denied by plugin 'of-{tool}' hook '{point}': hook '{point}' {why}");
            assert_eq!(world.says(tool, json!({})).await, expected);
            let told = format!("warning [of-{tool}] hook '{point}' {why}; what it was asked about is refused");
            assert_eq!(world.told(), [told]);
            running.admin.disable(&format!("of-{tool}")).await.unwrap();
        }
    });
}

#[test]
fn script_6_3_a_hook_that_answers_too_late_refuses() {
    run(async |world| {
        world.plugin("p").hook_with("pre_tool", "echo '{\"allow\":true}'; sleep 300", json!({ "timeout_ms": 150 }));
        world.echo("any");
        let _running = world.start().await;
        let expected =
            "Error: tool call 'any' denied by plugin 'p' hook 'pre_tool': hook 'pre_tool' timed out after 150ms";
        assert_eq!(world.says("any", json!({})).await, expected);
    });
}

#[test]
fn script_20_25_an_answer_without_allow_refuses_with_a_reason() {
    run(async |world| {
        world.plugin("p").hook("pre_tool", &answers(&json!({})));
        world.echo("any");
        let _running = world.start().await;
        let expected = "Error: tool call 'any' denied by plugin 'p' hook 'pre_tool': response has no boolean \"allow\"";
        assert_eq!(world.says("any", json!({})).await, expected);
    });
}

#[test]
fn script_7_2_calls_of_what_is_not_there_reach_no_hook() {
    run(async |world| {
        let seen = world.base.join("seen");
        world.plugin("p").hook("pre_tool", &keeps(&seen, &json!({ "allow": true })));
        let _running = world.start().await;
        let result = world.call("nothing", json!({})).await;
        assert_eq!(result.error.unwrap().code, "UNKNOWN_TOOL");
        assert!(kept(&seen).is_empty());
    });
}

#[test]
fn r052_r133_every_call_of_every_agent_is_asked_about_once() {
    run(async |world| {
        let seen = world.base.join("seen");
        let deny = json!({ "allow": false, "reason": "no" });
        world
            .plugin("p")
            .hook("pre_tool", &keeps(&seen, &deny))
            .with("tools", json!([{ "name": "of_plugin", "script": "t.sh" }]))
            .script("t.sh", "echo ran");
        world.echo("bash");
        let _running = world.start().await;
        let (main, child) = (world.agent("main").await, world.agent("child").await);
        for agent in [main.agent(), child.agent()] {
            for tool in ["bash", "of_plugin"] {
                assert!(world.tools.execute(call_of(agent, tool, json!({}))).await.unwrap().is_error);
            }
        }
        let seen: Vec<_> = kept(&seen).iter().map(|it| format!("{} {}", it["session_id"], it["tool"])).collect();
        let expected = ["\"main\" \"bash\"", "\"main\" \"of_plugin\"", "\"child\" \"bash\"", "\"child\" \"of_plugin\""];
        assert_eq!(seen, expected);
    });
}

#[test]
fn a_gate_that_is_reloaded_is_asked_still() {
    run(async |world| {
        world.plugin("p").hook("pre_tool", &answers(&json!({ "allow": false, "reason": "old" })));
        world.echo("any");
        let running = world.start().await;
        assert!(world.says("any", json!({})).await.ends_with("old"));
        world.plugin("p").hook("pre_tool", &answers(&json!({ "allow": false, "reason": "new" })));
        assert_eq!(running.admin.reload().await.unwrap().loaded, 1);
        assert!(world.says("any", json!({})).await.ends_with("new"));
        // A slip of the pen does not open the gate; it is told.
        std::fs::write(world.global("p").join("plugin.json"), "{").unwrap();
        assert_eq!(running.admin.reload().await.unwrap().errors, 1);
        assert!(world.says("any", json!({})).await.ends_with("new"));
    });
}
