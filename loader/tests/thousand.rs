//! A library that is replaced a thousand times in a program that goes on.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the test has a runtime of its own, and runs cargo")]
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

// Alone in its process: it counts what the process has.
#[expect(dead_code, reason = "of the help that tests of libraries have, one needs a part")]
#[path = "libraries/support.rs"]
mod support;

use linn_loader::{LoaderSettings, Reloaded};

use crate::support::{Build, FROM_THOUSAND, World};

/// What there is at a moment: of the system, and in the bus.
#[derive(Debug, Clone, Copy)]
struct Held {
    n_files: usize,
    n_threads: usize,
    n_fibers: usize,
    n_listeners: usize,
    n_services: usize,
    n_effects: usize,
}

impl Held {
    fn now(world: &World) -> Self {
        let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        let tree = world.root.inspect();
        Self {
            n_files: count("/proc/self/fd"),
            n_threads: count("/proc/self/task"),
            n_fibers: tree.fibers.len(),
            n_listeners: tree.events.iter().map(|it| it.listeners.len()).sum(),
            n_services: tree.services.len(),
            n_effects: tree.fibers.iter().map(|it| it.effects.len()).sum(),
        }
    }

    fn is_at_most(self, other: Self) -> bool {
        self.n_files <= other.n_files
            && self.n_threads <= other.n_threads
            && self.n_fibers <= other.n_fibers
            && self.n_listeners <= other.n_listeners
            && self.n_services <= other.n_services
            && self.n_effects <= other.n_effects
    }
}

fn resident_kib() -> u64 {
    let all = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = all.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_reloads_leave_no_file_thread_or_fiber_and_little_memory() {
    // Idle threads for what blocks end after a while; one that never rests is always there.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(a_thousand_reloads());
}

async fn a_thousand_reloads() {
    const N: u64 = 1_000;
    // As they are given to others.
    let build = |edits| Build { example: "word-count", edits, shared: None, is_release: true }.library();
    let versions = [build(&[]), build(FROM_THOUSAND)];
    let settings = LoaderSettings { max_pinned: 2_000, ..LoaderSettings::default() };
    let world = World::with(&[("word-count", &versions[0])], settings, false).await;
    world.mount_all(&[("word-count", "")]).await;
    let reload = async |round: u64| {
        world.replace("word-count", &versions[(round % 2) as usize]);
        let reloaded = world.loader.reload(&world.path("word-count")).await.unwrap();
        assert!(matches!(reloaded, Reloaded::Switched { .. }), "{reloaded:?}");
        let expected = if round % 2 == 1 { "1003" } else { "3" };
        assert_eq!(world.count("a b c").await, expected, "after {round} reloads");
    };
    // The first ones warm up whatever stays.
    for round in 1..=20 {
        reload(round).await;
    }
    let (held, before) = (Held::now(&world), resident_kib());
    for round in 21..=20 + N {
        reload(round).await;
    }
    let after = Held::now(&world);
    assert!(after.is_at_most(held), "{held:?} before, {after:?} after");
    let each = resident_kib().saturating_sub(before) as f64 / N as f64;
    assert!(each <= 50.0, "{each:.1} KiB a reload stay in memory");
    world.end().await;
}
