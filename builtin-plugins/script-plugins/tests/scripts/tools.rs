//! Tools of plugins, tools they replace and tools they take away; what they add to the prompt.

use linn_services::prompt::{AssembleContext, SystemPrompt};
use linn_services::tools::{Tool, ToolClass, ToolFailure};
use serde_json::{Map, Value, json};

use crate::support::{answers, call_of, keeps, kept, run, text};

#[test]
fn script_8_1_a_tool_is_told_its_arguments_and_what_it_answers_is_shown() {
    run(async |world| {
        let seen = world.base.join("seen");
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let answer = json!({ "ok": true, "output": "shown", "notify": "done", "status": "" });
        world
            .plugin("p")
            .with("tools", json!([
                { "name": "count", "description": "Counts.", "parameters": schema, "script": "t.sh", "kind": "readonly" },
                { "name": "plain", "script": "t.sh", "parameters": "nothing" },
                { "name": "fails", "script": "f.sh" },
            ]))
            .script("t.sh", &keeps(&seen, &answer))
            .script("f.sh", &answers(&json!({ "ok": true, "error": "no such thing" })));
        let _running = world.start().await;
        let agent = world.agent("main").await;
        let result = world.tools.execute(call_of(agent.agent(), "count", json!({ "n": 1 }))).await.unwrap();
        assert_eq!((text(&result).as_str(), result.is_error), ("shown", false));
        assert_eq!(world.told(), ["info [p] done", "status p: "]);
        let told = kept(&seen)[0].clone();
        assert_eq!(told["args"], json!({ "n": 1 }));
        assert_eq!(told["session_id"], "main");
        let keys: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["args", "session_id", "timestamp", "workspace"]);
        assert_eq!(world.says("fails", json!({})).await, "plugin tool 'fails': no such thing");
        // Arguments are checked before the script is asked.
        let wrong = world.call("count", json!({ "n": "one" })).await;
        assert_eq!((wrong.error.unwrap().code.as_str(), kept(&seen).len()), ("INVALID_ARGUMENTS", 1));

        let tool = |name: &str| world.tools.get(None, &name.into()).unwrap().unwrap();
        assert_eq!((tool("count").class, tool("plain").class), (ToolClass::ReadOnly, ToolClass::Destructive));
        assert_eq!(tool("count").schema.description, "Counts.");
        assert_eq!(tool("plain").schema.parameters, json!({ "type": "object", "properties": {} }));
    });
}

fn named(name: &str, says: &'static str) -> Tool {
    Tool::new(name, "Built in.", async move |_: Map<String, Value>, _| Ok::<_, ToolFailure>(says.to_owned()))
}

#[test]
fn script_8_2_a_name_that_is_taken_stays_with_who_has_it() {
    run(async |world| {
        for name in ["a", "b"] {
            world
                .plugin(name)
                .with(
                    "tools",
                    json!([
                        { "name": "bash", "script": "t.sh" }, { "name": "own", "script": "t.sh" },
                        { "name": "late", "script": "t.sh" }, { "name": "intercom", "script": "t.sh" },
                    ]),
                )
                .script("t.sh", &format!("echo of {name}"));
        }
        world.tools.register(&world.root, named("bash", "built in")).unwrap();
        let _running = world.start().await;
        // A built-in tool that comes later has its name still.
        world.tools.register(&world.root, named("late", "built in")).unwrap();
        assert_eq!(world.says("bash", json!({})).await, "built in");
        assert_eq!(world.says("late", json!({})).await, "built in");
        assert_eq!(world.says("own", json!({})).await, "of a", "the first plugin by name");
        assert!(world.tools.get(None, &"intercom".into()).unwrap().is_none());
    });
}

#[test]
fn script_20_2_20_3_the_first_that_overrides_wins_on_every_path() {
    run(async |world| {
        let tool = |is_override: bool| json!([{ "name": "bash", "script": "t.sh", "override": is_override, "kind": "readonly", "description": "Mine." }]);
        world.plugin("a").with("tools", tool(false)).script("t.sh", "echo of a");
        world.plugin("c").with("tools", tool(true)).script("t.sh", "echo of c");
        world.plugin("b").with("tools", tool(true)).script("t.sh", "echo of b");
        world.tools.register(&world.root, named("bash", "built in")).unwrap();
        let running = world.start().await;
        let (main, child) = (world.agent("main").await, world.agent("child").await);
        world.tools.register(child.agent().context(), named("bash", "the child's own")).unwrap();
        assert_eq!(world.says("bash", json!({})).await, "of b");
        for agent in [main.agent(), child.agent()] {
            let result = world.tools.execute(call_of(agent, "bash", json!({}))).await.unwrap();
            assert_eq!(text(&result), "of b");
            let schemas = world.tools.schemas(Some(agent.key())).unwrap();
            let shown: Vec<&str> = schemas.iter().map(|it| it.description.as_str()).collect();
            assert_eq!(shown, ["Mine."], "one schema");
        }
        assert_eq!(world.tools.get(None, &"bash".into()).unwrap().unwrap().class, ToolClass::ReadOnly);
        running.admin.disable("b").await.unwrap();
        assert_eq!(world.says("bash", json!({})).await, "of c");
        running.admin.disable("c").await.unwrap();
        assert_eq!(world.says("bash", json!({})).await, "built in");
        // Enabled again, it has the place of its name again.
        running.admin.enable("c").await.unwrap();
        running.admin.enable("b").await.unwrap();
        assert_eq!(world.says("bash", json!({})).await, "of b");
    });
}

#[test]
fn script_9_what_a_plugin_takes_away_is_there_for_nobody_overrides_included() {
    run(async |world| {
        world
            .plugin("a")
            .with("tools", json!([{ "name": "bash", "script": "t.sh", "override": true }]))
            .script("t.sh", "echo of a");
        world.plugin("b").with("disable_tools", json!(["bash", "unknown"]));
        world.tools.register(&world.root, named("bash", "built in")).unwrap();
        world.echo("other");
        let running = world.start().await;
        let agent = world.agent("main").await;
        for scope in [None, Some(agent.agent().key())] {
            let names: Vec<String> =
                world.tools.visible(scope).unwrap().iter().map(|it| it.name().to_string()).collect();
            assert_eq!(names, ["other"]);
        }
        assert_eq!(world.call("bash", json!({})).await.error.unwrap().code, "UNKNOWN_TOOL");
        running.admin.disable("b").await.unwrap();
        assert_eq!(world.says("bash", json!({})).await, "of a");
    });
}

#[test]
fn script_20_2_hooks_fire_for_tools_of_plugins_and_for_replaced_ones() {
    run(async |world| {
        let seen = world.base.join("seen");
        world
            .plugin("p")
            .with("tools", json!([{ "name": "bash", "script": "t.sh", "override": true }]))
            .script("t.sh", "echo replaced")
            .hook("pre_bash", &keeps(&seen, &json!({ "allow": true })))
            .hook("post_tool", &keeps(&seen, &json!({ "allow": true })));
        world.tools.register(&world.root, named("bash", "built in")).unwrap();
        let _running = world.start().await;
        assert_eq!(world.says("bash", json!({})).await, "replaced");
        let points: Vec<_> = kept(&seen).iter().map(|it| it["hook"].clone()).collect();
        assert_eq!(points, ["pre_bash", "post_tool"]);
    });
}

#[test]
fn script_11_what_plugins_add_to_the_prompt_is_framed_and_in_order() {
    run(async |world| {
        world.plugin("b").with("system_prompt", json!(" Speak of {{weather}} and {braces}. "));
        world.plugin("a").with("system_prompt", json!("Be brief."));
        world.plugin("c").with("system_prompt", json!("  "));
        let prompt = world.root.get::<dyn SystemPrompt>().unwrap();
        let shown = async |context: AssembleContext| {
            let assembly = prompt.assemble(context).await.unwrap();
            prompt.render(&assembly).unwrap().unwrap_or_default()
        };
        let before = shown(AssembleContext::default()).await;
        let running = world.start().await;
        let agent = world.agent("main").await;
        let context = AssembleContext::of_agent(agent.agent());
        let expected = "## Plugin-injected context\n\n# Plugin: a (v1.0.0)\nBe brief.\n\n\
                        # Plugin: b (v1.0.0)\nSpeak of {{weather}} and {braces}.";
        let with = shown(context.clone()).await;
        assert!(with.ends_with(expected), "{with}");
        for name in ["a", "b"] {
            running.admin.disable(name).await.unwrap();
        }
        assert_eq!(shown(context).await, before, "and it is gone with the next prompt");
    });
}
