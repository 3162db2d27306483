//! The config of libraries, edited while they run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use linn_bus::{FiberState, InternalStatus};
use linn_services::events::LoaderConfigUpdate;
use serde_json::json;

use crate::support::{USER_FILE, World};

/// How often each plugin began to load.
fn starts(world: &World) -> Arc<Mutex<BTreeMap<String, u32>>> {
    let starts = Arc::new(Mutex::new(BTreeMap::new()));
    let counted = starts.clone();
    let count = move |it: &InternalStatus| {
        if it.fiber.state() == FiberState::Loading {
            *counted.lock().unwrap().entry(it.fiber.name().to_string()).or_default() += 1;
        }
    };
    world.root.on(count).unwrap();
    starts
}

#[tokio::test]
async fn an_edit_restarts_the_library_it_is_about_and_no_other() {
    let world = World::of(&["gate", "retry", "word-count"]).await;
    let starts = starts(&world);
    let taken = || {
        let mut starts = starts.lock().unwrap();
        let all: Vec<_> = starts.iter().map(|(name, n)| format!("{name} {n}")).collect();
        starts.clear();
        all.join(", ")
    };
    let plugins = |gate, word_count| [("gate", gate), ("retry", "pause_ms = 1"), ("word-count", word_count)];
    world.mount_all(&plugins("", "")).await;
    assert_eq!(taken(), "gate 1, retry 1, word-count 1");
    world.mount_all(&plugins("", "")).await;
    assert_eq!(taken(), "");
    world.mount_all(&plugins("deny = ['rm']", "")).await;
    assert_eq!(taken(), "gate 1");
    // An entry that goes and comes back, in another place, concerns nobody else.
    world.mount_all(&[plugins("deny = ['rm']", "")[0], plugins("", "")[1]]).await;
    world.mount_all(&[plugins("", "")[2], plugins("deny = ['rm']", "")[0], plugins("", "")[1]]).await;
    assert_eq!(taken(), "word-count 1");
    // What is wrong with one keeps it as it was, and the edit of another is applied.
    let applied = world.mount(&plugins("deny = 'rm'", "ignore = ['a']")).await;
    assert_eq!((applied.problems.len(), taken().as_str()), (1, "word-count 1"));
    assert_eq!(world.count("a b").await, "1");
    world.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_the_config_of_a_library_is_told_with_file_line_key_value_and_nearest() {
    let world = World::of(&["gate", "retry", "word-count"]).await;
    let applied = world
        .mount(&[("gate", "denny = []"), ("retry", "attempts = 'many'"), ("word-cuont", ""), ("word-count", "")])
        .await;
    let told: Vec<_> = applied.problems.iter().map(ToString::to_string).collect();
    // Each entry has four lines, the last of which is its config.
    assert_eq!(
        told,
        [
            format!(
                "{USER_FILE}:4:20: entry `gate`: the config of plugin `gate` has no field `denny`; did you mean `deny`?"
            ),
            format!(
                "{USER_FILE}:8:23: entry `retry`: the config of plugin `retry` does not fit: `attempts` cannot be \"many\": \
                 invalid type: string \"many\", expected u32"
            ),
            format!("{USER_FILE}:9:1: entry `word-cuont`: there is no plugin `word-cuont`; did you mean `word-count`?"),
        ]
    );
    assert_eq!(applied.started, ["word-count"]);
    assert_eq!(world.count("a b").await, "2");
    world.end().await;
}

#[tokio::test]
async fn ld_03_a_config_that_is_set_through_the_loader_is_told_for_whoever_keeps_it() {
    let world = World::of(&["word-count"]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    let heard = move |it: &LoaderConfigUpdate| log.lock().unwrap().push((it.id.clone(), it.config.clone()));
    world.root.on(heard).unwrap();
    world.mount_all(&[("word-count", "")]).await;
    world.loader.set_config("word-count", json!({ "ignore": ["a"] })).await.unwrap();
    assert_eq!(world.count("a b").await, "1");
    assert_eq!(*told.lock().unwrap(), [("word-count".to_owned(), Some(json!({ "ignore": ["a"] })))]);
    let error = world.loader.set_config("word-count", json!({ "ignor": [] })).await.unwrap_err();
    assert_eq!(error.fault.code(), "ENTRY_UNKNOWN_KEY");
    let error = world.loader.set_config("word-cont", json!({})).await.unwrap_err();
    assert!(error.to_string().ends_with("no entry that runs has this id; did you mean `word-count`?"), "{error}");
    assert_eq!((world.count("a b").await.as_str(), told.lock().unwrap().len()), ("1", 1));
    // The file is what counts when it is read again.
    world.mount_all(&[("word-count", "")]).await;
    assert_eq!(world.count("a b").await, "2");
    world.end().await;
}
