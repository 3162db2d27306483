//! Services that entries have apart.

use linn_bus::FiberState;

use crate::support::{Other, World};

fn entry(id: &str, plugin: &str, more: &str) -> String {
    format!("[[plugins]]\nid = '{id}'\nplugin = '{plugin}'\nconfig = {{ tag = '{id}' }}\n{more}\n")
}

fn group(id: &str, more: &str) -> String {
    format!("[[plugins]]\nid = '{id}'\ngroup = true\n{more}\n")
}

const APART: &str = "isolate = { 'loader-test.store' = true }";
const OTHER: &str = "isolate = { 'loader-test.other' = true }";

fn shared(label: &str) -> String {
    format!("isolate = {{ 'loader-test.store' = '{label}' }}")
}

#[tokio::test]
async fn ld_08_what_groups_give_services_is_seen_as_a_chain() {
    let world = World::new().await;
    let give = |n: u8| format!("intercept = {{ 'loader-test.store' = {n} }}");
    let text = entry("s", "source", "")
        + &group("outer", &give(1))
        + &group("inner", &format!("parent = 'outer'\n{}", give(2)))
        + &entry("u", "user", &format!("parent = 'inner'\n{}", give(3)));
    world.apply_all(&text).await;
    let told = world.told();
    assert!(told.contains("+u(s 1 2 3)") || told.contains("+u(s 3 2 1)"), "{told}");
    world.end().await;
}

#[tokio::test]
async fn ld_09_isolation_of_a_dependant_stops_it_only_where_it_matters() {
    let world = World::new().await;
    let with = |more: &str| entry("s", "source", "") + &entry("u", "user", more);
    world.apply_all(&with("")).await;
    world.told();
    world.apply_all(&with(APART)).await;
    assert_eq!(world.told(), "-u");
    assert_eq!(world.state("u").await, FiberState::Pending);
    world.apply_all(&with("")).await;
    assert_eq!(world.told(), "+u(s)");
    world.apply_all(&with(OTHER)).await;
    world.apply_all(&with("")).await;
    assert_eq!(world.told(), "");
    assert!(world.root.get::<dyn Other>().is_none_or(|it| it.nothing().is_err()), "it is named and not provided");
    world.end().await;
}

#[tokio::test]
async fn ld_10_isolation_of_a_provider_stops_its_dependants() {
    let world = World::new().await;
    let with = |more: &str| entry("s", "source", more) + &entry("u", "user", "");
    world.apply_all(&with("")).await;
    world.told();
    world.apply_all(&with(APART)).await;
    assert_eq!(world.state("u").await, FiberState::Pending);
    world.told();
    world.apply_all(&with("")).await;
    assert_eq!(world.state("u").await, FiberState::Active);
    assert!(world.told().ends_with("+u(s)"));
    world.end().await;
}

#[tokio::test]
async fn ld_11_children_see_the_realm_of_their_group_or_of_their_own() {
    let world = World::new().await;
    let text = entry("outside", "source", "")
        + &group("private", APART)
        + &entry("inside", "source", "parent = 'private'")
        + &entry("labelled", "source", &shared("l"))
        + &entry("plain", "user", "parent = 'private'")
        + &entry("by-label", "user", &format!("parent = 'private'\n{}", shared("l")))
        + &entry("alone", "user", &format!("parent = 'private'\n{APART}"));
    world.apply_all(&text).await;
    let told = world.told();
    assert!(told.contains("+plain(inside)") && told.contains("+by-label(labelled)"), "{told}");
    assert_eq!(world.state("alone").await, FiberState::Pending);
    world.end().await;
}

#[tokio::test]
async fn ld_12_a_label_of_a_group_does_not_matter_to_an_entry_with_one_of_its_own() {
    let world = World::new().await;
    let with = |label: &str| {
        entry("s", "source", &shared("own"))
            + &group("g", &shared(label))
            + &entry("u", "user", &format!("parent = 'g'\n{}", shared("own")))
    };
    world.apply_all(&with("one")).await;
    assert!(world.told().contains("+u(s)"));
    world.apply_all(&with("two")).await;
    assert_eq!(world.told(), "");
    world.end().await;
}

#[tokio::test]
async fn ld_13_and_14_a_group_that_changes_its_label_takes_its_entries_along() {
    let world = World::new().await;
    let with = |label: &str| {
        entry("alpha", "source", &shared("alpha"))
            + &entry("beta", "source", &shared("beta"))
            + &group("g", &shared(label))
            + &entry("u", "user", "parent = 'g'")
    };
    world.apply_all(&with("alpha")).await;
    assert!(world.told().contains("+u(alpha)"));
    world.apply_all(&with("beta")).await;
    assert_eq!(world.told(), "-u +u(beta)");
    world.end().await;
}

#[tokio::test]
async fn ld_15_moving_in_and_out_of_a_group_apart() {
    let world = World::new().await;
    let with = |source: &str, user: &str| {
        group("g", APART)
            + &entry("s", "source", &format!("parent = '{source}'"))
            + &entry("u", "user", &format!("parent = '{user}'"))
    };
    for (source, user, state) in [
        ("", "", FiberState::Active),
        ("", "g", FiberState::Pending),
        ("g", "g", FiberState::Active),
        ("g", "", FiberState::Pending),
        ("", "", FiberState::Active),
    ] {
        world.apply_all(&with(source, user)).await;
        assert_eq!(world.state("u").await, state, "source in `{source}`, user in `{user}`");
    }
    world.end().await;
}
