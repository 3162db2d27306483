//! What can be registered, and who sees it.

use linn_bus::{Context, Fault, Svc};
use linn_bus_test::{leak_check, run};
use serde_json::json;

use super::support::{Kit, Notes, call_of, counting, echo, says, text, tool};
use crate::events::ToolsChange;
use crate::ids::ToolName;
use crate::tools::{ToolClaim, ToolRestriction, Tools, ToolsPlugin};

fn names(kit: &Kit, scope: Option<&linn_bus::ScopeKey>) -> Vec<String> {
    kit.tools.visible(scope).unwrap().iter().map(|it| it.name().to_string()).collect()
}

fn allow(names: &[&str]) -> ToolRestriction {
    ToolRestriction { allow: Some(names.iter().map(|it| ToolName::from(*it)).collect()), deny: None }
}

fn deny(names: &[&str]) -> ToolRestriction {
    ToolRestriction { allow: None, deny: Some(names.iter().map(|it| ToolName::from(*it)).collect()) }
}

#[test]
fn tl_18_a_name_is_taken_once_in_a_layer() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        let error = kit.tools.register(&root, echo("a")).unwrap_err();
        assert_eq!(error.code(), "DUPLICATE_TOOL");
        assert_eq!(
            error.to_string(),
            "a tool `a` is registered already; to change it for one agent, register it through the context of the agent"
        );
        let agent = kit.agent("ada");
        kit.tools.register(agent.context(), says("a", "for ada")).unwrap();
        let error = kit.tools.register(agent.context(), echo("a")).unwrap_err();
        assert_eq!(error.to_string(), "a tool `a` is registered already for this agent");
    });
}

#[test]
fn tl_18_a_tool_of_an_agent_shadows_in_either_order() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (ada, bob) = (kit.agent("ada"), kit.agent("bob"));
        kit.register(says("before", "all"));
        kit.tools.register(ada.context(), says("before", "ada")).unwrap();
        kit.tools.register(ada.context(), says("after", "ada")).unwrap();
        kit.register(says("after", "all"));
        for name in ["before", "after"] {
            assert_eq!(text(&kit.execute(call_of(&ada, name, json!({}))).await), "ada");
            assert_eq!(text(&kit.execute(call_of(&bob, name, json!({}))).await), "all");
            assert_eq!(text(&kit.call(name, json!({})).await), "all");
        }
    });
}

#[test]
fn tl_19_restrictions_hold_together_and_can_be_lifted() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        for name in ["a", "b", "c", "d"] {
            kit.register(echo(name));
        }
        let (ada, bob) = (kit.agent("ada"), kit.agent("bob"));
        kit.tools.register(ada.context(), echo("own")).unwrap();
        let allowing = kit.tools.restrict(ada.context(), allow(&["a", "b", "c"])).unwrap();
        let denying = kit.tools.restrict(ada.context(), deny(&["b", "own"])).unwrap();

        assert_eq!(names(&kit, Some(ada.key())), ["a", "c", "own"]);
        assert_eq!(names(&kit, Some(bob.key())), ["a", "b", "c", "d"]);
        assert_eq!(names(&kit, None), ["a", "b", "c", "d"]);
        let schemas: Vec<_> = kit.tools.schemas(Some(ada.key())).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(schemas, ["a", "c", "own"]);
        let hidden = kit.execute(call_of(&ada, "b", json!({}))).await;
        assert_eq!(hidden.error.as_ref().unwrap().code, "UNKNOWN_TOOL");
        assert_eq!(text(&hidden), "Error: unknown tool: `b`; there are: a, c, own");
        assert!(!kit.execute(call_of(&bob, "b", json!({}))).await.is_error);

        allowing.dispose().await;
        assert_eq!(names(&kit, Some(ada.key())), ["a", "c", "d", "own"]);
        denying.dispose().await;
        assert_eq!(names(&kit, Some(ada.key())), ["a", "b", "c", "d", "own"]);
    });
}

#[test]
fn tl_20_restrictions_without_sense_are_errors() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        let agent = kit.agent("ada");
        let codes = [
            kit.tools.restrict(&root, allow(&["a"])),
            kit.tools.restrict(agent.context(), ToolRestriction::default()),
            kit.tools.restrict(agent.context(), allow(&["a", "b"])),
        ]
        .map(|it| it.unwrap_err().code());
        assert_eq!(codes, ["RESTRICTION_UNSCOPED", "RESTRICTION_EMPTY", "RESTRICTION_UNKNOWN"]);
        assert_eq!(names(&kit, Some(agent.key())), ["a"]);
    });
}

#[test]
fn tl_20_a_restriction_may_name_what_another_one_hides() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        kit.register(echo("b"));
        let agent = kit.agent("ada");
        kit.tools.restrict(agent.context(), deny(&["a"])).unwrap();
        kit.tools.restrict(agent.context(), deny(&["a", "b"])).unwrap();
        assert!(names(&kit, Some(agent.key())).is_empty());
    });
}

#[test]
fn tl_21_a_failing_listener_takes_the_tool_back() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let objecting = root.on(|_: &ToolsChange| Err::<(), _>(Fault::msg("no more tools"))).unwrap();
        let error = kit.tools.register(&root, echo("a")).unwrap_err();
        assert_eq!(error.code(), "CHANGE_REFUSED");
        assert!(error.to_string().contains("no more tools"), "{error}");
        assert!(names(&kit, None).is_empty());
        objecting.dispose();
        kit.register(echo("a"));
        assert_eq!(names(&kit, None), ["a"]);
    });
}

#[test]
fn tl_22_a_tool_is_what_it_was_when_it_was_registered() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let mut mine = says("a", "first");
        kit.register(mine.clone());
        mine.schema.description = "changed".to_owned();
        mine.body = says("a", "second").body;
        assert_eq!(kit.tools.schemas(None).unwrap()[0].description, "a");
        assert_eq!(text(&kit.call("a", json!({})).await), "first");
    });
}

#[test]
fn every_change_is_told() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let agent = kit.agent("ada");
        let notes = Notes::default();
        let (told, tools, key) = (notes.clone(), kit.tools.clone(), agent.key().clone());
        root.on(move |_: &ToolsChange| {
            let names: Vec<_> = tools.visible(Some(&key)).unwrap().iter().map(|it| it.name().to_string()).collect();
            told.add(names.join(" "));
        })
        .unwrap();
        kit.register(echo("a"));
        let b = kit.tools.register(&root, echo("b")).unwrap();
        let only_a = kit.tools.restrict(agent.context(), allow(&["a"])).unwrap();
        only_a.dispose().await;
        b.dispose().await;
        assert_eq!(notes.take(), ["a", "a b", "a", "a b", "a"]);
    });
}

#[test]
fn the_name_of_the_tool_that_runs_code_is_reserved() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let error = kit.tools.register(&root, echo("run_code")).unwrap_err();
        assert_eq!(error.code(), "RESERVED_TOOL");
    });
}

#[test]
fn parameters_have_to_be_a_schema_of_an_object() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let bad = [
            json!([]),
            json!({ "type": "string" }),
            json!({ "type": "object", "properties": { "a": { "type": 7 } } }),
            json!({ "type": "object", "properties": { "a": { "$ref": "https://example.org/elsewhere.json" } } }),
        ];
        for parameters in bad {
            let mut tool = echo("a");
            tool.schema.parameters = parameters.clone();
            let error = kit.tools.register(&root, tool).unwrap_err();
            assert_eq!(error.code(), "BAD_SCHEMA", "{parameters}");
            assert!(error.to_string().starts_with("the parameters of tool `a` are no JSON schema"), "{error}");
        }
    });
}

/// Registers a tool `a` that says the version.
struct Versioned;

impl linn_bus::Plugin for Versioned {
    const NAME: &'static str = "versioned";
    type Config = &'static str;
    type Needs = Svc<dyn Tools>;
    async fn start(ctx: &Context, version: &'static str, tools: Self::Needs) -> Result<(), Fault> {
        tools.register(ctx, says("a", version))?;
        Ok(())
    }
}

#[test]
fn a_version_in_the_wings_takes_over_the_names_of_the_one_before() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let old = root.mount::<Versioned>("one").unwrap();
        old.running().await.unwrap();
        let prepared = root.prepare_for::<Versioned>(&old, "two").unwrap();
        prepared.fiber().settled().await.unwrap();
        assert_eq!(text(&kit.call("a", json!({})).await), "one");

        let notes = Notes::default();
        let told = notes.clone();
        root.on(move |_: &ToolsChange| told.add("change")).unwrap();
        let switched = prepared.switch().await.unwrap();
        assert_eq!(text(&kit.call("a", json!({})).await), "two");
        switched.old_gone().await.unwrap();
        assert_eq!(names(&kit, None), ["a"]);
        assert_eq!(notes.take(), ["change"]);
    });
}

#[test]
fn nothing_is_left_of_a_plugin_with_tools() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        leak_check(&root, async |ctx| {
            let fiber = ctx.mount::<Versioned>("one").unwrap();
            fiber.running().await.unwrap();
            assert_eq!(text(&kit.call("a", json!({})).await), "one");
            fiber.dispose().await.unwrap();
            assert!(names(&kit, None).is_empty());
        })
        .await;
    });
}

#[test]
fn nothing_is_left_of_the_registry() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let fiber = ctx.mount::<ToolsPlugin>(()).unwrap();
            fiber.running().await.unwrap();
            let tools = ctx.get::<dyn Tools>().unwrap();
            let (tool, _) = counting("a");
            let handle = tools.register(ctx, tool).unwrap();
            fiber.dispose().await.unwrap();
            handle.dispose().await;
        })
        .await;
    });
}

#[test]
fn two_harnesses_do_not_see_each_other() {
    run(async |one| {
        let kit = Kit::new(&one).await;
        kit.register(tool("a", |_| Ok("one".into())));
        run(async |other| {
            let kit = Kit::new(&other).await;
            assert!(names(&kit, None).is_empty());
        });
        assert_eq!(names(&kit, None), ["a"]);
    });
}

#[test]
fn script_20_2_a_contributed_tool_gives_way_or_takes_the_place_for_everybody() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (ada, bob) = (kit.agent("ada"), kit.agent("bob"));
        let contribute = |name, says_what, claim| kit.tools.contribute(&root, says(name, says_what), claim).unwrap();
        contribute("free", "first", ToolClaim::FreeName);
        contribute("free", "second", ToolClaim::FreeName);
        contribute("bash", "gives way", ToolClaim::FreeName);
        kit.register(says("bash", "built in"));
        kit.tools.register(ada.context(), says("bash", "ada's own")).unwrap();
        assert_eq!(text(&kit.call("free", json!({})).await), "first");
        assert_eq!(text(&kit.call("bash", json!({})).await), "built in");
        assert_eq!(text(&kit.execute(call_of(&ada, "bash", json!({}))).await), "ada's own");

        let replaced = contribute("bash", "in place", ToolClaim::InPlace);
        contribute("bash", "in place too", ToolClaim::InPlace);
        contribute("new", "plain", ToolClaim::InPlace);
        for agent in [&ada, &bob] {
            assert_eq!(text(&kit.execute(call_of(agent, "bash", json!({}))).await), "in place");
        }
        assert_eq!(names(&kit, None), ["bash", "free", "new"]);
        kit.tools.restrict(bob.context(), deny(&["bash"])).unwrap();
        assert_eq!(names(&kit, Some(bob.key())), ["free", "new"]);
        replaced.dispose().await;
        assert_eq!(text(&kit.call("bash", json!({})).await), "in place too");
    });
}

#[test]
fn script_20_2_withheld_tools_are_there_for_nobody() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let ada = kit.agent("ada");
        kit.register(echo("a"));
        kit.register(echo("b"));
        kit.tools.register(ada.context(), echo("a")).unwrap();
        kit.tools.contribute(&root, echo("a"), ToolClaim::InPlace).unwrap();
        let watch = linn_bus_test::Recorder::new();
        watch.note(&root, |_: &ToolsChange| ()).unwrap();
        let withheld = kit.tools.withhold(&root, vec!["a".into(), "unknown".into()]).unwrap();
        assert_eq!(names(&kit, None), ["b"]);
        assert_eq!(names(&kit, Some(ada.key())), ["b"]);
        assert_eq!(kit.execute(call_of(&ada, "a", json!({}))).await.error.unwrap().code, "UNKNOWN_TOOL");
        withheld.dispose().await;
        assert_eq!(names(&kit, None), ["a", "b"]);
        assert_eq!(watch.names(), ["tools/change", "tools/change"]);
    });
}
