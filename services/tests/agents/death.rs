//! The end of agents.

use linn_bus_test::{leak_check, run, run_with};
use linn_services::agent::{AgentStatus, CreateAgent};
use linn_services::events::AgentDisposed;
use linn_services::prompt::{AssembleContext, Section, SystemPrompt, SystemPromptConfig, SystemPromptPlugin};
use linn_services::tools::{Tool, ToolFailure, Tools, ToolsPlugin};
use linn_services_test::Gate;
use serde_json::{Map, Value};

use crate::support::{World, setup};

#[test]
fn ag_08_a_life_ends_from_the_outside_in() {
    run(async |root| {
        let world = World::new(root).await;
        let (fiber, ctx) = world.owner().await;
        let story = world.story.clone();
        let mut options = CreateAgent::new("a", "s");
        options.setup = setup(async move |ctx| {
            let told = story.clone();
            ctx.on(move |_: &AgentDisposed| told.add("own agent/disposed"))?;
            ctx.effect("of the agent", |fx| fx.defer(move || story.add("scope unwound")))?;
            Ok(())
        });
        world.agents.create(&ctx, options).await.unwrap();
        let (story, agents, sessions) = (world.story.clone(), world.agents.clone(), world.sessions.clone());
        world
            .root
            .on(move |e: &AgentDisposed| {
                let listed = agents.get(e.agent.id()).unwrap().is_some();
                let stored = sessions.get(e.agent.session().id()).unwrap().is_some();
                story.add(format!("agent/disposed: listed {listed}, session stored {stored}"));
            })
            .unwrap();
        world.story.clear();
        fiber.dispose().await.unwrap();
        let expected =
            ["stop", "agent/disposed: listed false, session stored true", "own agent/disposed", "scope unwound"];
        assert_eq!(world.story.lines(), expected);
        world.assert_nothing_is_left();
    });
}

#[test]
fn ag_09_all_who_end_an_agent_wait_for_the_same_end() {
    run(async |root| {
        let world = World::new(root).await;
        let (fiber, ctx) = world.owner().await;
        let (gate, story) = (Gate::new(), world.story.clone());
        let mut options = CreateAgent::new("a", "s");
        let at = gate.clone();
        options.setup = setup(async move |ctx| {
            ctx.effect("slow", |fx| {
                fx.defer_async(async move {
                    at.pass().await;
                    story.add("scope unwound");
                })
            })?;
            Ok(())
        });
        let handle = world.agents.create(&ctx, options).await.unwrap();
        world.story.clear();
        let waiters: Vec<_> = (0..2)
            .map(|n| {
                let (handle, story) = (handle.clone(), world.story.clone());
                let end = async move {
                    handle.dispose().await;
                    story.add(format!("waiter {n}"));
                };
                world.root.spawn(end).unwrap()
            })
            .collect();
        let story = world.story.clone();
        let unload = async move {
            fiber.dispose().await.unwrap();
            story.add("owner gone");
        };
        let unload = world.root.spawn(unload).unwrap();
        gate.reached().await;
        assert_eq!(world.story.lines(), ["stop"]);
        gate.open();
        for waiter in waiters {
            waiter.join().await.unwrap();
        }
        unload.join().await.unwrap();
        let mut lines = world.story.lines();
        assert_eq!(lines[..2], ["stop", "scope unwound"]);
        lines[2..].sort();
        assert_eq!(lines[2..], ["owner gone", "waiter 0", "waiter 1"]);
        // And whoever comes late does not wait for ever.
        handle.dispose().await;
    });
}

#[test]
fn ag_10_what_was_registered_for_an_agent_goes_with_it() {
    run_with(async |root, runtime| {
        let world = World::new(root).await;
        world.root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        world.root.mount::<SystemPromptPlugin>(SystemPromptConfig::default()).unwrap().running().await.unwrap();
        let tools = world.root.get::<dyn Tools>().unwrap();
        let prompt = world.root.get::<dyn SystemPrompt>().unwrap();
        let tool = || Tool::new("mine", "", async |_: Map<String, Value>, _| Ok::<_, ToolFailure>("done"));
        let section = || Section::fixed("mine", 500, "of this agent");
        // What the tools add to the prompt is there as well.
        runtime.idle().await;
        leak_check(&world.root, async |ctx| {
            let handle = world.agents.create(ctx, CreateAgent::new("a", "s")).await.unwrap();
            let agent = handle.agent().clone();
            let of_agent = agent.context().clone();
            of_agent.on(|_: &AgentDisposed| {}).unwrap();
            of_agent.spawn(std::future::pending::<()>()).unwrap();
            tools.register(&of_agent, tool()).unwrap();
            prompt.section(&of_agent, section()).unwrap();
            let (scope, name) = (Some(agent.key()), "mine".into());
            let names = async || {
                let assembled = prompt.assemble(AssembleContext::of_agent(&agent)).await.unwrap();
                assembled.sections.into_iter().map(|it| it.name).collect::<Vec<_>>()
            };
            assert!(tools.get(scope, &name).unwrap().is_some() && names().await.contains(&"mine".to_owned()));
            assert!(tools.get(None, &name).unwrap().is_none(), "others never see it");

            handle.dispose().await;
            assert!(tools.get(scope, &name).unwrap().is_none() && !names().await.contains(&"mine".to_owned()));
            assert_eq!(of_agent.on(|_: &AgentDisposed| {}).unwrap_err().code(), "INACTIVE_EFFECT");
            assert_eq!(tools.register(&of_agent, tool()).unwrap_err().code(), "INACTIVE_EFFECT");
            assert_eq!(prompt.section(&of_agent, section()).unwrap_err().code(), "INACTIVE_EFFECT");
        })
        .await;
    });
}

#[test]
fn ag_13_no_verb_works_after_the_end() {
    run(async |root| {
        let world = World::new(root).await;
        let handle = world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
        handle.dispose().await;
        let agent = handle.agent();
        assert_eq!(agent.status(), AgentStatus::Disposed);
        assert_eq!(agent.send("x").unwrap_err().to_string(), "cannot send: agent \"a\" is disposed");
        assert_eq!(agent.cancel(None).unwrap_err().code(), "AGENT_DISPOSED");
        agent.when_idle().await;
    });
}

#[test]
fn no_agent_outlives_its_registry() {
    run(async |root| {
        let world = World::bare(root).await;
        let (_, ctx) = world.owner().await;
        let registry = world.root.mount::<linn_services::agent::AgentsPlugin>(());
        // The second mount finds the service taken; the first one is the provider.
        assert!(registry.unwrap().running().await.is_err());
        world
            .agents
            .install_factory(&world.root, std::sync::Arc::new(crate::support::Stills(world.story.clone())))
            .unwrap();
        let handle = world.agents.create(&ctx, CreateAgent::new("a", "s")).await.unwrap();
        world.root.unmount::<linn_services::agent::AgentsPlugin>().await.unwrap();
        assert_eq!(handle.agent().status(), AgentStatus::Disposed);
        assert_eq!(world.sessions.list().unwrap(), []);
    });
}
