//! Many agents, and many harnesses.

use linn_bus_test::{TestRuntime, run};
use linn_services::agent::CreateAgent;

use crate::support::World;

#[test]
fn two_hundred_agents_live_side_by_side() {
    run(async |root| {
        let world = World::new(root).await;
        let mut handles = Vec::new();
        for n in 0..200 {
            let options = CreateAgent::new(format!("a{n:03}"), format!("s{n:03}"));
            handles.push(world.agents.create(&world.root, options).await.unwrap());
        }
        let listed: Vec<_> = world.agents.list().unwrap().iter().map(|it| it.id().to_string()).collect();
        let expected: Vec<_> = (0..200).map(|n| format!("a{n:03}")).collect();
        assert_eq!(listed, expected);
        for handle in handles.iter().step_by(2) {
            handle.dispose().await;
        }
        assert_eq!(world.agents.list().unwrap().len(), 100);
        assert_eq!(world.sessions.list().unwrap().len(), 100);
        for handle in &handles {
            handle.dispose().await;
        }
        world.assert_nothing_is_left();
    });
}

#[test]
fn two_harnesses_in_one_process_do_not_see_each_other() {
    let runtime = TestRuntime::new();
    runtime.block_on(async {
        let (one, two) = (World::new(runtime.root()).await, World::new(runtime.root()).await);
        two.story.listen(&two.root, "");
        // The same ids are free in both.
        one.agents.create(&one.root, CreateAgent::new("a", "s")).await.unwrap();
        assert_eq!(two.story.lines(), Vec::<String>::new());
        assert_eq!(two.agents.list().unwrap(), []);
        let handle = two.agents.create(&two.root, CreateAgent::new("a", "s")).await.unwrap();
        handle.dispose().await;
        assert_eq!(one.agents.list().unwrap().len(), 1);
    });
}
