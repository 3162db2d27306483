//! Factories that go and come under agents that live.

use std::sync::Arc;

use linn_bus_test::run;
use linn_services::agent::{AgentStatus, CreateAgent};

use crate::support::{Stills, Story, World};

#[test]
fn agents_outlive_their_factory_and_the_next_one_drives_them_on() {
    run(async |root| {
        let world = World::bare(root).await;
        let first = world.agents.install_factory(&world.root, Arc::new(Stills(world.story.clone()))).unwrap();
        let handle = world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
        let agent = handle.agent();
        first.dispose().await;
        assert_eq!(agent.status(), AgentStatus::Disposed);
        assert_eq!(agent.send("x").unwrap_err().code(), "AGENT_DISPOSED");
        assert_eq!(world.agents.list().unwrap().len(), 1);
        let second = Story::default();
        world.agents.install_factory(&world.root, Arc::new(Stills(second.clone()))).unwrap();
        assert_eq!(agent.status(), AgentStatus::Idle);
        agent.send("x").unwrap();
        handle.dispose().await;
        assert_eq!(world.story.lines(), ["start", "stop"]);
        assert_eq!(second.lines(), ["start", "send", "stop"]);
        world.assert_nothing_is_left();
    });
}

#[test]
fn an_agent_without_a_factory_can_end() {
    run(async |root| {
        let world = World::bare(root).await;
        let factory = world.agents.install_factory(&world.root, Arc::new(Stills(world.story.clone()))).unwrap();
        let handle = world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
        factory.dispose().await;
        handle.dispose().await;
        world.agents.install_factory(&world.root, Arc::new(Stills::default())).unwrap();
        assert_eq!(handle.agent().status(), AgentStatus::Disposed);
        world.assert_nothing_is_left();
    });
}
