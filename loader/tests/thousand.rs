//! A thousand reloads of one library, in a process where nothing else runs.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the tests have a runtime of their own, and run cargo")]
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

#[path = "libraries/support.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use linn_loader::LoaderSettings;
use support::{Build, FROM_THOUSAND, World};
use tokio::runtime::Handle;

const N_RELOADS: usize = 1_000;

/// Reloads before anything is measured, so that what grows once has grown.
const N_FIRST: usize = 50;

/// Most that a library which is not in use may keep resident.
const MAX_PINNED_BYTES: usize = 50 * 1024;

/// What may not grow.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    fibers: usize,
    services: usize,
    listeners: usize,
    tasks: usize,
    threads: usize,
    files: usize,
}

fn n_entries(of: &str) -> usize {
    std::fs::read_dir(of).unwrap().count()
}

fn held(world: &World) -> Held {
    let all = world.root.inspect();
    Held {
        fibers: all.fibers.len(),
        services: all.services.len(),
        listeners: all.events.iter().map(|it| it.listeners.len()).sum(),
        tasks: Handle::current().metrics().num_alive_tasks(),
        threads: n_entries("/proc/self/task"),
        files: n_entries("/proc/self/fd"),
    }
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|it| it.strip_prefix("Rss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Tasks and threads.
fn running() -> (usize, usize) {
    (Handle::current().metrics().num_alive_tasks(), n_entries("/proc/self/task"))
}

/// What runs all the time: the least of both while everybody else gets a turn.
async fn always_running() -> (usize, usize) {
    let mut least = running();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
        let (tasks, threads) = running();
        least = (least.0.min(tasks), least.1.min(threads));
    }
    least
}

/// Waits until nothing else runs: what lets go of an image is a task, and threads end a moment after their work.
async fn settled((n_tasks, n_threads): (usize, usize)) {
    loop {
        let (tasks, threads) = running();
        if tasks <= n_tasks && threads <= n_threads {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_thousand_reloads_leave_nothing_behind_but_images_without_their_pages() {
    let built = |edits| Build { example: "word-count", edits, shared: None, is_release: true }.library();
    let versions = [built(&[]), built(FROM_THOUSAND)];
    let settings = LoaderSettings { max_pinned: 2 * N_RELOADS, ..LoaderSettings::default() };
    let world = World::with(&[("word-count", &versions[0])], settings, false).await;
    world.mount_all(&[("word-count", "")]).await;
    world.count("a").await;
    let path = world.path("word-count");
    let always = always_running().await;
    let mut first = None;
    for round in 1..=N_FIRST + N_RELOADS {
        world.replace("word-count", &versions[round % 2]);
        world.loader.reload(&path).await.unwrap();
        assert_eq!(world.count("a").await, if round % 2 == 1 { "1001" } else { "1" }, "round {round}");
        settled(always).await;
        if round == N_FIRST {
            first = Some((held(&world), resident()));
        }
    }
    let (before, resident_before) = first.unwrap();
    assert_eq!(held(&world), before);
    assert_eq!(world.loader.n_pinned().await, N_FIRST + N_RELOADS);
    let each = resident().saturating_sub(resident_before) / N_RELOADS;
    assert!(each <= MAX_PINNED_BYTES, "each of {N_RELOADS} libraries that were replaced keeps {each} bytes resident");
    // One that is not in use any more is whole: what is in it is read from its file again.
    assert_eq!(world.count("a b").await, if (N_FIRST + N_RELOADS) % 2 == 1 { "1002" } else { "2" });
    world.end().await;
}
