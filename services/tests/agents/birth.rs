//! Creation and publication.

use std::sync::Arc;

use linn_bus::Fault;
use linn_bus_test::run;
use linn_services::agent::CreateAgent;
use linn_services::events::{AgentCreated, SessionCreated};
use linn_services::model::{HookContext, MessageSource};
use linn_services_test::Gate;

use crate::support::{Stills, World, setup};

#[test]
fn ag_01_set_up_comes_before_every_announcement_and_hears_them() {
    run(async |root| {
        let world = World::new(root).await;
        world.story.listen(&world.root, "");
        let (gate, story) = (Gate::new(), world.story.clone());
        let mut options = CreateAgent::new("a", "s");
        let at = gate.clone();
        options.setup = setup(async move |ctx| {
            story.listen(&ctx, "own ");
            story.add("setup");
            at.pass().await;
            Ok(())
        });
        let creating = {
            let (agents, ctx) = (world.agents.clone(), world.root.context().clone());
            world.root.spawn(async move { agents.create(&ctx, options).await.unwrap() }).unwrap()
        };
        gate.reached().await;
        assert_eq!(world.agents.get(&"a".into()).unwrap(), None);
        assert_eq!(world.sessions.get(&"s".into()).unwrap(), None);
        world.assert_nothing_is_left();
        gate.open();
        let agent = creating.join().await.unwrap().agent().clone();
        assert_eq!(world.agents.get(&"a".into()).unwrap(), Some(agent.clone()));
        assert_eq!(agent.session().owner().as_ref(), Some(agent.key()));
        let expected = [
            "setup",
            "session/created",
            "own session/created",
            "agent/created",
            "own agent/created",
            "session-start Startup",
            "own session-start Startup",
            "start",
        ];
        assert_eq!(world.story.lines(), expected);
    });
}

#[test]
fn ag_01_agent_and_session_can_be_found_when_they_are_announced() {
    run(async |root| {
        let world = World::new(root).await;
        let (agents, sessions) = (world.agents.clone(), world.sessions.clone());
        let found = move || agents.get(&"a".into()).unwrap().is_some() && sessions.get(&"s".into()).unwrap().is_some();
        let (story, both) = (world.story.clone(), found.clone());
        world.root.on(move |_: &SessionCreated| story.add(format!("{}", both()))).unwrap();
        let story = world.story.clone();
        world.root.on(move |_: &AgentCreated| story.add(format!("{}", found()))).unwrap();
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
        assert_eq!(world.story.lines(), ["true", "true", "start"]);
    });
}

#[test]
fn ag_02_a_failed_set_up_publishes_nothing_and_gives_the_ids_free() {
    run(async |root| {
        let world = World::new(root).await;
        world.story.listen(&world.root, "");
        let mut options = CreateAgent::new("a", "s");
        options.setup = setup(async |_| Err(Fault::msg("no luck")));
        let error = world.agents.create(&world.root, options).await.unwrap_err();
        assert_eq!(error.code(), "AGENT_SETUP_FAILED");
        assert_eq!(error.to_string(), "the setup of agent \"a\" failed: no luck");
        assert_eq!(world.story.lines(), Vec::<String>::new());
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn ag_02_a_panicking_set_up_publishes_nothing() {
    run(async |root| {
        let world = World::new(root).await;
        let mut options = CreateAgent::new("a", "s");
        options.setup = setup(async |_| panic!("set-up"));
        let error = world.agents.create(&world.root, options).await.unwrap_err();
        assert_eq!(error.to_string(), "the setup of agent \"a\" failed: set-up");
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn ag_02_an_owner_that_goes_ends_a_set_up_that_never_settles() {
    run(async |root| {
        let world = World::new(root).await;
        world.story.listen(&world.root, "");
        let (fiber, ctx) = world.owner().await;
        let gate = Gate::new();
        let mut options = CreateAgent::new("a", "s");
        let at = gate.clone();
        options.setup = setup(async move |_| {
            at.pass().await;
            Ok(())
        });
        let agents = world.agents.clone();
        let creating = world.root.spawn(async move { agents.create(&ctx, options).await.map(drop) }).unwrap();
        gate.reached().await;
        fiber.dispose().await.unwrap();
        let error = creating.join().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "setup aborted: owner disposed during setup");
        assert_eq!(world.story.lines(), Vec::<String>::new());
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn ag_02_dropping_the_creation_undoes_it() {
    run(async |root| {
        let world = World::new(root).await;
        let gate = Gate::new();
        let mut options = CreateAgent::new("a", "s");
        let at = gate.clone();
        options.setup = setup(async move |_| {
            at.pass().await;
            Ok(())
        });
        let (agents, ctx) = (world.agents.clone(), world.root.context().clone());
        let creating = world.root.spawn(async move { agents.create(&ctx, options).await.map(drop) }).unwrap();
        gate.reached().await;
        creating.abort();
        assert!(creating.join().await.is_err());
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn ag_03_no_verb_works_in_set_up() {
    run(async |root| {
        let world = World::new(root).await;
        // The agent reaches its own set-up only through what is told of it: `agent/created` is the first chance.
        let story = world.story.clone();
        world
            .root
            .on(move |e: &AgentCreated| {
                let context = HookContext { content: Vec::new(), source: MessageSource::User };
                let errors = [
                    e.agent.send("x").unwrap_err(),
                    e.agent.steer("x").unwrap_err(),
                    e.agent.inject(context).unwrap_err(),
                    e.agent.cancel(None).unwrap_err(),
                ];
                errors.iter().for_each(|it| story.add(it.to_string()));
            })
            .unwrap();
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
        let expected = ["send", "steer", "inject", "cancel"]
            .map(|verb| format!("cannot {verb} before creation setup completes: agent \"a\""));
        assert_eq!(world.story.lines()[..4], expected);
    });
}

#[test]
fn ag_04_ids_are_taken_while_a_creation_is_pending() {
    run(async |root| {
        let world = World::new(root).await;
        let gate = Gate::new();
        let mut options = CreateAgent::new("a", "s");
        let at = gate.clone();
        options.setup = setup(async move |_| {
            at.pass().await;
            Ok(())
        });
        let (agents, ctx) = (world.agents.clone(), world.root.context().clone());
        let creating = world.root.spawn(async move { agents.create(&ctx, options).await.map(drop) }).unwrap();
        gate.reached().await;
        let same_agent = world.agents.create(&world.root, CreateAgent::new("a", "other")).await.unwrap_err();
        assert_eq!(same_agent.to_string(), "agent \"a\" is already registered");
        let same_session = world.agents.create(&world.root, CreateAgent::new("other", "s")).await.unwrap_err();
        assert_eq!(same_session.to_string(), "session \"s\" already exists");
        gate.open();
        creating.join().await.unwrap().unwrap();
        let published = world.agents.create(&world.root, CreateAgent::new("a", "other")).await.unwrap_err();
        assert_eq!(published.code(), "AGENT_ALREADY_EXISTS");
        // What was refused took nothing with it.
        world.agents.create(&world.root, CreateAgent::new("other", "other")).await.unwrap();
    });
}

#[test]
fn ag_05_the_options_that_were_given_count() {
    run(async |root| {
        let world = World::new(root).await;
        let gate = Gate::new();
        let mut given = linn_services::agent::AgentOptions { model: Some("m1".into()), ..Default::default() };
        let mut options = CreateAgent::new("a", "s");
        options.options = given.clone();
        let at = gate.clone();
        options.setup = setup(async move |_| {
            at.pass().await;
            Ok(())
        });
        let (agents, ctx) = (world.agents.clone(), world.root.context().clone());
        let creating = world.root.spawn(async move { agents.create(&ctx, options).await.unwrap() }).unwrap();
        gate.reached().await;
        given.model = Some("m2".into());
        gate.open();
        let handle = creating.join().await.unwrap();
        assert_eq!(handle.agent().options().model.as_deref(), Some("m1"));
        assert_ne!(handle.agent().options(), &given);
    });
}

#[test]
fn ag_06_a_refused_agent_is_taken_back_and_told_as_disposed() {
    run(async |root| {
        let world = World::new(root).await;
        world.story.listen(&world.root, "");
        let refusing = world.root.on(|_: &AgentCreated| Err(Fault::msg("not this one"))).unwrap();
        let error = world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap_err();
        assert_eq!(error.code(), "AGENT_REFUSED");
        assert!(error.to_string().contains("not this one"), "{error}");
        assert_eq!(world.story.lines(), ["session/created", "agent/created", "stop", "agent/disposed"]);
        world.assert_nothing_is_left();
        refusing.dispose();
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn ag_07_a_refused_session_takes_the_agent_with_it() {
    run(async |root| {
        let world = World::new(root).await;
        world.story.listen(&world.root, "");
        let refusing = world.root.on(|_: &SessionCreated| Err(Fault::msg("not this one"))).unwrap();
        let story = world.story.clone();
        let mut options = CreateAgent::new("a", "s");
        options.setup = setup(async move |ctx| {
            ctx.effect("of the agent", |fx| fx.defer(move || story.add("scope unwound")))?;
            Ok(())
        });
        let error = world.agents.create(&world.root, options).await.unwrap_err();
        assert_eq!(error.code(), "SESSION_REFUSED");
        // Nobody heard of the agent, so nobody hears that it is gone.
        assert_eq!(world.story.lines(), ["session/created", "stop", "scope unwound"]);
        world.assert_nothing_is_left();
        refusing.dispose();
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn ag_14_one_factory_and_never_none() {
    run(async |root| {
        let world = World::bare(root).await;
        let none = world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap_err();
        assert_eq!(none.to_string(), "no agent factory registered");
        let first = world.agents.install_factory(&world.root, Arc::new(Stills::default())).unwrap();
        let second = world.agents.install_factory(&world.root, Arc::new(Stills::default())).unwrap_err();
        assert_eq!(second.to_string(), "an agent factory is already registered");
        first.dispose().await;
        world.agents.install_factory(&world.root, Arc::new(Stills::default())).unwrap();
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn a_factory_that_makes_nothing_fails_the_creation() {
    struct Broken;
    impl linn_services::agent::AgentFactory for Broken {
        fn build(
            &self,
            _: &linn_services::agent::Agent,
            _: linn_services::agent::SessionStartSource,
        ) -> Result<Arc<dyn linn_services::agent::AgentDriver>, Fault> {
            Err(Fault::msg("out of drivers"))
        }
    }
    run(async |root| {
        let world = World::bare(root).await;
        world.agents.install_factory(&world.root, Arc::new(Broken)).unwrap();
        let error = world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap_err();
        assert_eq!(error.code(), "AGENT_FACTORY_FAILED");
        world.assert_nothing_is_left();
    });
}
