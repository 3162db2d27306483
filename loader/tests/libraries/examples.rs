//! What the examples show, each built as a library.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use linn_bus::FiberState;
use linn_loader::LibraryFile;
use linn_services::model::text_of;
use linn_services::tools::{Tool, ToolExecutionResult, ToolFailure, Tools};
use serde_json::json;

use crate::models::{asked, rest};
use crate::support::{Build, FROM_THOUSAND, World, library};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A tool of the program whose calls fail, or wait for ever, until the one of this number.
fn flaky(world: &World, n_bad: u32, waits: bool) -> Arc<AtomicU32> {
    let n_calls = Arc::new(AtomicU32::new(0));
    let counted = n_calls.clone();
    let tool = Tool::new("flaky", "Works in the end.", move |_: Nothing, _call| {
        let n = counted.fetch_add(1, SeqCst) + 1;
        async move {
            match (n > n_bad, waits) {
                (true, _) => Ok(format!("call {n}")),
                (false, false) => Err(ToolFailure::msg(format!("call {n} failed"))),
                (false, true) => pending().await,
            }
        }
    });
    world.root.get::<dyn Tools>().unwrap().register(&world.root, tool).unwrap();
    n_calls
}

fn said(result: &ToolExecutionResult) -> (bool, String) {
    (result.is_error, text_of(&result.content))
}

#[tokio::test]
async fn a_wrapper_of_a_library_runs_the_rest_of_a_chain_again() {
    let world = World::of(&["retry"]).await;
    let n_calls = flaky(&world, 2, false);
    world.mount_all(&[("retry", "attempts = 3, pause_ms = 1")]).await;
    assert_eq!(said(&world.call("flaky", json!({})).await), (false, "call 3".to_owned()));
    // One that fails once more than is tried fails.
    n_calls.store(0, SeqCst);
    world.mount_all(&[("retry", "attempts = 2, pause_ms = 1")]).await;
    let (is_error, text) = said(&world.call("flaky", json!({})).await);
    assert!(is_error && text.contains("call 2 failed"), "{text}");
    // Another tool than those that are named is left alone.
    n_calls.store(0, SeqCst);
    world.mount_all(&[("retry", "tools = ['other'], pause_ms = 1")]).await;
    assert!(world.call("flaky", json!({})).await.is_error);
    assert_eq!(n_calls.load(SeqCst), 1);
    world.end().await;
}

#[tokio::test]
async fn an_async_listener_of_a_library_waits_spawns_and_sets_limits_through_its_context() {
    let world = World::of(&["retry"]).await;
    let n_calls = flaky(&world, 1, true);
    world.mount_all(&[("retry", "attempts = 2, pause_ms = 1, limit_ms = 20")]).await;
    // The first attempt waits for ever and is dropped; the second is in time.
    assert_eq!(said(&world.call("flaky", json!({})).await), (false, "call 2".to_owned()));
    n_calls.store(0, SeqCst);
    world.mount_all(&[("retry", "attempts = 1, limit_ms = 20")]).await;
    let (is_error, text) = said(&world.call("flaky", json!({})).await);
    assert!(is_error && text.contains("not ready within 20 ms"), "{text}");
    world.end().await;
}

#[tokio::test]
async fn libraries_that_were_built_apart_share_an_event_and_a_service_of_their_own() {
    let world = World::of(&["tally", "tally-report", "word-count"]).await;
    // In this order the one that needs the service waits for it.
    world.mount_all(&[("tally-report", ""), ("word-count", "")]).await;
    assert_eq!(world.loader.entry("tally-report").await.unwrap().state(), FiberState::Pending);
    world.mount_all(&[("tally-report", ""), ("tally", "ignore = ['tally']"), ("word-count", "")]).await;
    let report = async || text_of(&world.call("tally", json!({ "tool": "count_words" })).await.content);
    assert_eq!(report().await, "0 calls; the last of all was nothing yet");
    world.count("a b").await;
    world.count("a b c").await;
    assert_eq!(report().await, "2 calls; the last of all was `count_words` for the 2. time");
    // The event is in the catalogue of either, and the service comes and goes with its provider.
    world.mount_all(&[("tally-report", ""), ("word-count", "")]).await;
    assert_eq!(world.loader.entry("tally-report").await.unwrap().state(), FiberState::Pending);
    world.end().await;
}

#[tokio::test]
async fn a_library_with_another_version_of_a_crate_it_shares_is_refused_with_both_named() {
    let other = Build {
        shared: Some(&[(
            "pub n_calls: u64,",
            "pub n_calls: u64,\n    /// Whether it failed.\n    pub is_error: bool,",
        )]),
        example: "tally-report",
        edits: &[],
        is_release: false,
    };
    let (tally, report, other) = (library("tally", &[]), library("tally-report", &[]), other.library());
    let world = World::new(&[("tally", &tally), ("tally-report", &other)]).await;
    let applied = world.mount(&[("tally", ""), ("tally-report", "")]).await;
    let problem = &applied.problems[0];
    assert_eq!((applied.problems.len(), problem.fault.code()), (1, "LIBRARY_SHARED_CRATE"));
    let told = problem.to_string();
    let digest = |path| {
        let shared = LibraryFile::read(path).unwrap().shared;
        shared.into_iter().find(|it| it.name == "tally-api").unwrap().digest
    };
    let (here, there) = (digest(&tally), digest(&other));
    assert_ne!(here, there);
    let both = format!("tally-api: 0.1.0 {here} here, 0.2.0 {there} in the library");
    assert!(told.contains(&both), "{told}");
    for path in [world.path("tally"), world.path("tally-report")] {
        assert!(told.contains(&path.display().to_string()), "{told}");
    }
    assert_eq!(world.loader.entry("tally").await.unwrap().state(), FiberState::Active);
    // Built with the same version it goes with the other.
    world.replace("tally-report", &report);
    world.loader.reload(&world.path("tally-report")).await.unwrap();
    assert_eq!(world.loader.entry("tally-report").await.unwrap().state(), FiberState::Active);
    world.end().await;
}

#[tokio::test]
async fn what_the_benchmark_of_calls_measures_is_heard() {
    let world = World::of(&["call-cost"]).await;
    world.mount_all(&[("call-cost", "sync = 3, layers = 2")]).await;
    let listeners = |event| {
        let all = world.root.inspect();
        all.events.iter().filter(|it| it.name == event).map(|it| it.listeners.len()).sum::<usize>()
    };
    assert_eq!((listeners("hmr/change"), listeners("loader/patch-context")), (3, 2));
    world.end().await;
}

#[tokio::test]
async fn the_examples_do_the_same_when_they_are_optimised() {
    let optimised = |example, edits| Build { example, edits, shared: None, is_release: true }.library();
    let examples = ["gate", "parrot", "retry", "tally", "tally-report", "word-count"];
    let libraries = examples.map(|it| (it, optimised(it, &[])));
    let world = World::new(&libraries.each_ref().map(|(name, path)| (*name, path.as_path()))).await;
    flaky(&world, 1, false);
    let plugins = |gate| {
        let wrapper = ("retry", "tools = ['flaky'], attempts = 2, pause_ms = 1");
        let counts = [("tally-report", ""), ("tally", "ignore = ['tally']"), ("word-count", "")];
        [&[("gate", gate), wrapper, ("parrot", "pause_ms = 1")], &counts[..]].concat()
    };
    world.mount_all(&plugins("")).await;
    assert_eq!(rest(&mut asked(&world, "pieces of eight").await).await, "pieces of eight");
    assert_eq!(said(&world.call("flaky", json!({})).await), (false, "call 2".to_owned()));
    assert_eq!(world.count("a b c").await, "3");
    let report = world.call("tally", json!({ "tool": "count_words" })).await;
    assert_eq!(text_of(&report.content), "1 calls; the last of all was `count_words` for the 1. time");

    world.replace("word-count", &optimised("word-count", FROM_THOUSAND));
    world.loader.reload(&world.path("word-count")).await.unwrap();
    assert_eq!(world.count("a b c").await, "1003");
    world.mount_all(&plugins("deny = ['count_words']")).await;
    assert_eq!(world.count("a b c").await, "Error: the gate lets no call of `count_words` pass");
    world.end().await;
}
