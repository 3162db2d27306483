//! Entries come, go, change and move.

use std::sync::{Arc, Mutex};

use linn_bus::{Fault, FiberState, Next};
use linn_services::events::{LoaderConfigUpdate, LoaderEntryInit, LoaderPartialDispose, LoaderPatchContext};

use crate::support::{World, probes};

#[tokio::test]
async fn ld_01_what_is_enabled_is_mounted_in_order_groups_included() {
    let world = World::new().await;
    let applied = world.apply_all(&probes("foo group= bar@group !qux@group")).await;
    assert_eq!(applied.started, ["foo", "bar"]);
    assert_eq!(world.order(), "foo bar");
    world.end().await;
}

#[tokio::test]
async fn ld_02_a_new_list_does_exactly_the_difference() {
    let world = World::new().await;
    world.apply_all(&probes("foo group= bar@group !qux@group")).await;
    world.told();
    let applied = world.apply_all(&probes("foo qux")).await;
    assert_eq!(world.told(), "-bar +qux");
    assert_eq!((applied.started, applied.stopped), (vec!["qux".into()], vec!["bar".into()]));
    assert_eq!(world.apply_all(&probes("foo qux")).await.started, [""; 0]);
    assert_eq!(world.told(), "");
    world.end().await;
}

#[tokio::test]
async fn ld_03_a_changed_config_restarts_its_entry_and_no_other() {
    let world = World::new().await;
    world.apply_all(&probes("a b c")).await;
    world.told();
    let applied = world.apply_all(&probes("a b c").replace("tag = 'b'", "tag = 'b2'")).await;
    assert_eq!(applied.updated, ["b"]);
    assert_eq!(world.told(), "-b +b2");
    assert_eq!(world.order(), "a b2 c");
    world.end().await;
}

#[tokio::test]
async fn ld_04_a_plugin_that_disposes_itself_is_told_of_as_disabled() {
    let world = World::new().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    let heard = move |it: &LoaderConfigUpdate| log.lock().unwrap().push((it.id.clone(), it.is_disabled));
    world.root.on(heard).unwrap();
    world.apply_all(&probes("a b")).await;
    world.fiber("a").await.dispose().await.unwrap();
    assert_eq!(*told.lock().unwrap(), [("a".to_owned(), Some(true))]);
    // What the loader stops, and what goes with it, is not.
    world.apply_all(&probes("!a b")).await;
    world.apply_all(&probes("!a !b")).await;
    world.apply_all(&probes("a b")).await;
    assert_eq!(world.order(), "a b");
    let told_of = told.lock().unwrap().len();
    world.end().await;
    assert_eq!((told_of, told.lock().unwrap().len()), (1, 1));
}

#[tokio::test]
async fn ld_06_groups_around_an_entry_disable_it() {
    let world = World::new().await;
    let tree = |outer: bool, inner: bool| {
        let text = probes("outer= a@outer inner@outer= b@inner");
        let off = |text: String, id: &str, is_off: bool| {
            text.replace(
                &format!("id = '{id}'\ngroup = true\n"),
                &format!("id = '{id}'\ngroup = true\ndisabled = {is_off}\n"),
            )
        };
        off(off(text, "outer", outer), "inner", inner)
    };
    world.apply_all(&tree(false, false)).await;
    assert_eq!(world.told(), "+a +b");
    world.apply_all(&tree(false, true)).await;
    assert_eq!(world.told(), "-b");
    world.apply_all(&tree(true, true)).await;
    assert_eq!(world.told(), "-a");
    world.apply_all(&tree(true, false)).await;
    assert_eq!(world.told(), "");
    world.apply_all(&tree(false, false)).await;
    assert_eq!(world.told(), "+a +b");
    world.end().await;
}

#[tokio::test]
async fn ld_07_an_entry_that_moves_keeps_running_and_is_heard_in_its_new_place() {
    let world = World::new().await;
    world.apply_all(&probes("group= a@group b c off=")).await;
    world.told();
    let applied = world.apply_all(&probes("group= b c a off=")).await;
    assert_eq!((world.told().as_str(), world.order().as_str()), ("", "b c a"));
    assert_eq!(applied.moved, ["a"]);
    world.apply_all(&probes("c b group= a@group off=")).await;
    assert_eq!((world.told().as_str(), world.order().as_str()), ("", "c b a"));
    let off =
        |text: &str| probes(text).replace("id = 'off'\ngroup = true\n", "id = 'off'\ngroup = true\ndisabled = true\n");
    world.apply_all(&off("c b off= a@off")).await;
    assert_eq!(world.told(), "-a");
    world.apply_all(&off("c b off=").replace("xx", "")).await;
    assert_eq!(world.told(), "");
    world.apply_all(&off("a c b off=")).await;
    assert_eq!((world.told().as_str(), world.order().as_str()), ("+a", "a c b"));
    world.end().await;
}

#[tokio::test]
async fn an_entry_between_two_others_does_not_touch_them() {
    let world = World::new().await;
    world.apply_all(&probes("a z")).await;
    world.told();
    for (list, told) in [("a m z", "+m"), ("a k m z", "+k"), ("0 a k m z", "+0"), ("0 a k m z zz", "+zz")] {
        world.apply_all(&probes(list)).await;
        assert_eq!((world.told().as_str(), world.order().as_str()), (told, list));
    }
    world.end().await;
}

#[tokio::test]
async fn in_02_to_07_layers_patch_an_entry_by_its_id() {
    let world = World::new().await;
    world.apply_all("[[plugins]]\nid = 'base'\ndisabled = false\nconfig = { tag = 'mine' }\n").await;
    assert_eq!(world.told(), "+mine");
    world.apply_all("").await;
    assert_eq!(world.told(), "-mine");
    world.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_one_entry_is_told_and_the_others_run() {
    let world = World::new().await;
    let text = format!(
        "{}\
         [[plugins]]\nid = 'p'\nplugin = 'prob'\n\
         [[plugins]]\nid = 'k'\nplugin = 'probe'\nconfig = {{ tagg = 'x' }}\n\
         [[plugins]]\nid = 'v'\nplugin = 'probe'\n[plugins.config]\ntag = 'v'\nlimits = {{ seconds = 'many' }}\n\
         [[plugins]]\nid = 's'\nplugin = 'probe'\ninject = ['loader-test.stor']\n\
         [[plugins]]\nid = 'f'\nplugin = 'probe'\nconfig = {{ fails = true }}\n",
        probes("a b")
    );
    let applied = world.apply(&text).await;
    let mut problems: Vec<_> = applied.problems.iter().map(ToString::to_string).collect();
    problems.sort();
    let file = "/u/ada/.config/linn/linn.toml";
    assert_eq!(
        problems,
        [
            format!("{file}:13:1: entry `p`: there is no plugin `prob`; did you mean `probe`?"),
            format!("{file}:19:19: entry `k`: the config of plugin `probe` has no field `tagg`; did you mean `tag`?"),
            format!(
                "{file}:25:22: entry `v`: the config of plugin `probe` does not fit: `limits.seconds` cannot be \"many\": \
                 invalid type: string \"many\", expected u32"
            ),
            format!(
                "{file}:26:1: entry `s`: `inject` names the service `loader-test.stor`, which there is not; did you mean \
                 `loader-test.store`?"
            ),
            format!("{file}:30:1: entry `f`: plugin `probe` failed to start: asked to fail"),
        ]
    );
    let codes: Vec<_> = applied.problems.iter().map(|it| it.fault.code()).collect();
    assert!(codes.contains(&"ENTRY_UNKNOWN_KEY") && codes.contains(&"START_FAILED"), "{codes:?}");
    assert_eq!(world.order(), "a b");
    world.end().await;
}

#[tokio::test]
async fn an_entry_that_is_written_wrong_now_runs_on_as_it_was() {
    let world = World::new().await;
    world.apply_all(&probes("a b")).await;
    world.told();
    let applied = world.apply(&probes("a b").replace("tag = 'a'", "tag = 7")).await;
    assert_eq!(applied.problems.len(), 1);
    assert_eq!((world.told().as_str(), world.order().as_str()), ("", "a b"));
    // One that starts no more with its config is failed, until the config is mended.
    let applied = world.apply(&probes("a b").replace("tag = 'a'", "fails = true")).await;
    assert_eq!(applied.problems.len(), 1);
    assert_eq!(world.state("a").await, FiberState::Failed);
    world.apply_all(&probes("a b")).await;
    assert_eq!(world.order(), "a b");
    world.end().await;
}

#[tokio::test]
async fn ld_05_an_entry_waits_for_the_services_it_names() {
    let world = World::new().await;
    let waits = "[[plugins]]\nid = 'a'\nplugin = 'probe'\ninject = ['loader-test.store']\nconfig = { tag = 'a' }\n";
    world.apply_all(waits).await;
    assert_eq!(world.state("a").await, FiberState::Pending);
    let source = "[[plugins]]\nid = 's'\nplugin = 'source'\nconfig = { tag = 's' }\n";
    world.apply_all(&format!("{waits}{source}")).await;
    assert_eq!(world.state("a").await, FiberState::Active);
    world.end().await;
}

#[tokio::test]
async fn the_loader_tells_of_entries_and_lets_others_keep_them() {
    let world = World::new().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let (first, second, third) = (told.clone(), told.clone(), told.clone());
    world.root.on(move |it: &LoaderEntryInit| first.lock().unwrap().push(format!("init {}", it.entry.id))).unwrap();
    let dispose = move |it: &LoaderPartialDispose| {
        second.lock().unwrap().push(format!("dispose {} {}", it.old.id, it.is_active));
    };
    world.root.on(dispose).unwrap();
    let keeper = linn_bus::listener!(async move |it: &LoaderPatchContext, next: Next<'_, LoaderPatchContext>| {
        third.lock().unwrap().push(format!("patch {} {}", it.entry.id, it.changed.join("+")));
        if it.entry.config["tag"] == "no" { Ok(false) } else { Ok::<_, Fault>(next.run().await?) }
    });
    world.root.on(keeper).unwrap();
    world.apply_all(&probes("a b")).await;
    world.apply_all(&probes("b a").replace("tag = 'b'", "tag = 'c'")).await;
    let applied = world.apply(&probes("b a").replace("tag = 'b'", "tag = 'no'")).await;
    assert_eq!(applied.problems[0].fault.code(), "ENTRY_KEPT");
    assert_eq!(world.order(), "c a");
    world.apply_all(&probes("a")).await;
    let told = told.lock().unwrap().clone();
    let moved = told.iter().filter(|it| it.contains("place")).count();
    assert_eq!(moved, 1, "one of two moves: {told:?}");
    for expected in ["init a", "init b", "dispose b true", "dispose b false"] {
        assert!(told.iter().any(|it| it == expected), "{expected}: {told:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn disposing_the_loader_disposes_everything_without_trace() {
    let world = World::new().await;
    let before = world.root.inspect().fibers.len();
    world.apply_all(&probes("a group= b@group")).await;
    world.told();
    world.loader.fiber().dispose().await.unwrap();
    assert_eq!(world.told(), "-b -a");
    assert_eq!(world.root.inspect().fibers.len(), before - 1);
    world.end().await;
}

#[tokio::test]
async fn an_entry_with_another_plugin_than_before_runs_that_one() {
    let world = World::new().await;
    world.apply_all(&probes("a b")).await;
    world.told();
    let other = |text: &str| text.replacen("plugin = 'probe'", "plugin = 'source'", 1);
    let applied = world.apply_all(&other(&probes("a b"))).await;
    assert_eq!((world.told().as_str(), world.order().as_str()), ("-a +a", "a b"));
    assert_eq!(applied.replaced, ["a"]);
    assert_eq!(world.fiber("a").await.name().to_string(), "source");
    // One that there is not leaves the entry as it was.
    let applied = world.apply(&probes("a b").replacen("plugin = 'probe'", "plugin = 'sourc'", 1)).await;
    assert_eq!(applied.problems[0].fault.code(), "ENTRY_UNKNOWN_PLUGIN");
    assert_eq!((world.told().as_str(), world.order().as_str()), ("", "a b"));
    world.end().await;
}
