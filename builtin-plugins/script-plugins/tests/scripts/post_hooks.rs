//! Hooks that look at results.

use linn_services::model::ContentBlock;
use linn_services::tools::{PreToolDecision, Tool, ToolFailure, ToolOutput};
use serde_json::{Map, Value, json};

use crate::support::{answers, call_of, keeps, kept, run, text};

#[test]
fn script_20_15_every_post_hook_is_given_the_result() {
    run(async |world| {
        let seen = world.base.join("seen");
        for point in ["post_bash", "post_tool"] {
            world.plugin(point).hook(point, &keeps(&seen, &json!({ "allow": false })));
        }
        let body = async |_: Map<String, Value>, _| {
            let output = ToolOutput::from("out").with_meta(json!({ "diff": "-a\n+b", "other": 1 }));
            Ok::<_, ToolFailure>(output)
        };
        world.tools.register(&world.root, Tool::new("bash", "", body)).unwrap();
        let _running = world.start().await;
        let result = world.call("bash", json!({})).await;
        assert_eq!(
            (text(&result).as_str(), result.is_error),
            ("out", false),
            "nothing can be refused after it happened"
        );
        for seen in kept(&seen) {
            assert_eq!(seen["result"], json!({ "ok": true, "output": "out", "diff": "-a\n+b" }), "{}", seen["hook"]);
            assert!(seen.get("args").is_none());
        }
    });
}

#[test]
fn script_6_4_each_sees_the_result_as_the_one_before_left_it() {
    run(async |world| {
        let seen = world.base.join("seen");
        world.plugin("a").hook(
            "post_tool",
            &answers(&json!({ "allow": true, "modify": { "output": "redacted", "ok": false, "diff": 7 } })),
        );
        world
            .plugin("b")
            .hook("post_tool", &keeps(&seen, &json!({ "allow": true, "modify": { "output": 7, "ok": "x" } })));
        let picture = ContentBlock::Image { url: "data:,".into() };
        let shown = picture.clone();
        let body = move |_: Map<String, Value>, _| {
            let output = ToolOutput::from(vec![ContentBlock::text("secret"), picture.clone()]);
            let output = output.with_meta(json!({ "diff": "d", "other": 1 }));
            async move { Ok::<_, ToolFailure>(output) }
        };
        world.tools.register(&world.root, Tool::new("any", "", body)).unwrap();
        let _running = world.start().await;
        let result = world.call("any", json!({})).await;
        assert_eq!(kept(&seen)[0]["result"], json!({ "ok": false, "output": "redacted", "diff": null }));
        assert_eq!(result.content, [ContentBlock::text("redacted"), shown]);
        assert!(result.is_error);
        assert_eq!(result.meta, Some(json!({ "diff": null, "other": 1 })));
    });
}

#[test]
fn script_6_4_hooks_behind_calls_that_run_side_by_side_run_side_by_side() {
    run(async |world| {
        // That of each call waits for that of the other.
        let base = world.base.display();
        let meets = format!(
            "case $(cat) in *'\"n\":1'*) own=1; other=2;; *) own=2; other=1;; esac\n\
             touch '{base}/'$own; until [ -e '{base}/'$other ]; do sleep 0.01; done\n\
             echo '{{\"allow\":true,\"modify\":{{\"output\":\"met\"}}}}'\n"
        );
        world.plugin("p").hook_with("post_tool", &meets, json!({ "pass_args": true }));
        world.echo("any");
        let _running = world.start().await;
        let (one, two) = (world.says("any", json!({ "n": 1 })), world.says("any", json!({ "n": 2 })));
        let (one, two) = futures_util::future::join(one, two).await;
        assert_eq!((one.as_str(), two.as_str()), ("met", "met"));
        assert!(world.told().is_empty());
    });
}

#[test]
fn script_6_5_notes_for_the_model_stand_behind_the_result() {
    run(async |world| {
        world
            .plugin("p")
            .hook("pre_bash", &answers(&json!({ "allow": true, "reason": "careful" })))
            .hook("post_bash", &answers(&json!({ "allow": true, "reason": "seen" })));
        world.echo("bash");
        let _running = world.start().await;
        let expected = "{}\n\nPlugin hooks:\n- p/pre_bash: careful\n- p/post_bash: [p] seen";
        assert_eq!(world.says("bash", json!({})).await, expected);
    });
}

#[test]
fn script_6_3_a_post_hook_that_fails_is_passed_over_and_the_user_is_told() {
    run(async |world| {
        world.plugin("p").hook("post_tool", "echo no; exit 1");
        world.echo("any");
        let _running = world.start().await;
        assert_eq!(world.says("any", json!({})).await, "{}");
        assert_eq!(
            world.told(),
            ["warning [p] hook 'post_tool' exited with exit status: 1: ; the result stays as it is"]
        );
    });
}

#[test]
fn script_6_5_no_post_hook_runs_for_a_call_that_did_not() {
    run(async |world| {
        let seen = world.base.join("seen");
        let gate =
            "input=$(cat)\ncase $input in *deny-me*) echo '{\"allow\":false}';; *) echo '{\"allow\":true}';; esac\n";
        world
            .plugin("p")
            .hook_with("pre_tool", gate, json!({ "pass_args": true }))
            .hook("post_tool", &keeps(&seen, &json!({ "allow": true })));
        world.echo("any");
        let _running = world.start().await;
        let judge = |it: &linn_services::events::ToolsPreExecute| {
            let is_refused = it.execution.arguments().get("judge").is_some();
            if is_refused { PreToolDecision::Deny { reason: "judged".into() } } else { PreToolDecision::Allow }
        };
        world.root.on(judge).unwrap();
        assert!(world.call("any", json!({ "x": "deny-me" })).await.is_error);
        assert!(world.call("any", json!({ "judge": true })).await.is_error);
        assert!(kept(&seen).is_empty());
        assert!(!world.call("any", json!({})).await.is_error);
        assert_eq!(kept(&seen).len(), 1);
    });
}

#[test]
fn r053_calls_that_fail_have_a_post_hook_too() {
    run(async |world| {
        let seen = world.base.join("seen");
        world.plugin("p").hook("post_tool", &keeps(&seen, &json!({ "allow": true })));
        let fails = async |_: Map<String, Value>, _| Err::<String, _>(ToolFailure::msg("broken"));
        world.tools.register(&world.root, Tool::new("fails", "", fails)).unwrap();
        let panics = async |_: Map<String, Value>, _| -> Result<String, ToolFailure> { panic!("worse") };
        world.tools.register(&world.root, Tool::new("panics", "", panics)).unwrap();
        let _running = world.start().await;
        world.call("fails", json!({})).await;
        assert_eq!(kept(&seen)[0]["result"], json!({ "ok": false, "output": "Error: broken", "diff": null }));
        world.call("panics", json!({})).await;
        assert_eq!(kept(&seen).len(), 2);
    });
}

#[test]
fn script_20_1_post_write_and_post_read_are_told_of_every_tool_of_their_kind() {
    run(async |world| {
        let seen = world.base.join("seen");
        world
            .plugin("p")
            .hook("post_write", &keeps(&seen, &json!({ "allow": true })))
            .hook("post_read", &keeps(&seen, &json!({ "allow": true })));
        let writing = ["write_file", "edit", "patch", "bulk_write", "bulk_edit", "delete", "rename", "mkdir"];
        let reading = ["read_file", "grep", "glob", "bulk_read"];
        writing.iter().chain(&reading).chain(&["bash", "other"]).for_each(|it| world.echo(it));
        let _running = world.start().await;
        for name in writing.iter().chain(&reading).chain(&["bash", "other"]) {
            world.call(name, json!({})).await;
        }
        let told: Vec<_> = kept(&seen).iter().map(|it| (it["hook"].clone(), it["tool"].clone())).collect();
        let expected = writing.iter().map(|it| ("post_write", it)).chain(reading.iter().map(|it| ("post_read", it)));
        assert_eq!(told, expected.map(|(hook, tool)| (json!(hook), json!(tool))).collect::<Vec<_>>());
    });
}

#[test]
fn script_6_3_r036_an_answer_that_is_no_json_is_passed_over_after_a_call_and_the_user_is_told() {
    run(async |world| {
        world.plugin("p").hook("post_tool", "cat >/dev/null; echo not json");
        world.echo("any");
        let _running = world.start().await;
        assert_eq!(world.says("any", json!({ "x": 1 })).await, "{\"x\":1}");
        let told = world.told();
        assert!(told.len() == 1 && told[0].starts_with("warning [p] hook 'post_tool'"), "{told:?}");
        assert!(told[0].ends_with("; the result stays as it is"), "{told:?}");
    });
}

#[test]
fn script_6_3_r036_an_answer_that_is_no_object_is_passed_over_after_a_call_and_the_user_is_told() {
    run(async |world| {
        world.plugin("p").hook("post_tool", "cat >/dev/null; echo '[1]'");
        world.echo("any");
        let _running = world.start().await;
        assert_eq!(world.says("any", json!({ "x": 1 })).await, "{\"x\":1}");
        let expected = "warning [p] hook 'post_tool' returned an array where a JSON object is wanted, such as \
                        {\"allow\": true}; the result stays as it is";
        assert_eq!(world.told(), [expected]);
    });
}

#[test]
fn script_5_post_hooks_run_for_the_calls_of_a_subagent() {
    run(async |world| {
        let seen = world.base.join("seen");
        world
            .plugin("p")
            .hook("post_bash", &keeps(&seen, &json!({ "allow": true, "modify": { "output": "redacted" } })))
            .hook("post_tool", &keeps(&seen, &json!({ "allow": true })));
        world.echo("bash");
        let _running = world.start().await;
        let child = world.child().await;
        let result = world.tools.execute(call_of(&child, "bash", json!({}))).await.unwrap();
        assert_eq!(text(&result), "redacted");
        let told: Vec<_> = kept(&seen).iter().map(|it| (it["hook"].clone(), it["session_id"].clone())).collect();
        assert_eq!(told, [(json!("post_bash"), json!("child")), (json!("post_tool"), json!("child"))]);
    });
}
