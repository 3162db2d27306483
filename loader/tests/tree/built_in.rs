//! Plugins of the program, by name.

use linn_bus::FiberState;
use linn_services::commands::Commands;
use linn_services::tools::Tools;

use crate::support::World;

#[tokio::test]
async fn plugins_that_are_linked_are_mounted_by_name() {
    let world = World::new().await;
    let entry = |name: &str| format!("[[plugins]]\nid = '{name}'\nplugin = '{name}'\n");
    world.apply_all(&(entry("commands") + &entry("tools"))).await;
    assert_eq!(world.state("tools").await, FiberState::Active);
    assert!(world.root.get::<dyn Tools>().is_some() && world.root.get::<dyn Commands>().is_some());
    let listed = world.loader.list().await;
    let tools = listed.iter().find(|it| it.name == "tools").unwrap();
    assert_eq!(tools.entries, [("tools".to_owned(), "active".to_owned())]);
    assert_eq!(tools.error, None);
    world.end().await;
}
