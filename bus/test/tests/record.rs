//! Time and numbers, recorded and played back.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::sync::Arc;
use std::time::Duration;

use linn_bus::{Context, Root, Seams, SeededIds};
use linn_bus_test::{Draw, Playback, Recording, TestRuntime};

const SECOND: Duration = Duration::from_secs(1);

/// A run whose result depends on everything a bus leaves to chance.
async fn session(root: Root) -> Vec<String> {
    let mut said = Vec::new();
    for n in 1..4 {
        let fiber = root.mount_fn("worker", move |ctx: Context, (): ()| async move {
            ctx.sleep(SECOND * n).await.unwrap();
        });
        fiber.unwrap().settled().await.unwrap();
        said.push(format!("{:?} {:?} {:x}", root.clock().now(), root.new_scope_key(), root.ids().next_u64()));
    }
    said
}

/// A runtime whose clock does not begin at zero, with numbers of its own.
fn seams(runtime: &TestRuntime, seed: u64) -> Seams {
    Seams { ids: Arc::new(SeededIds::new(seed)), ..runtime.seams() }
}

fn runtime_at(seconds: u32) -> TestRuntime {
    let runtime = TestRuntime::new();
    runtime.block_on(runtime.advance(SECOND * seconds));
    runtime
}

fn recorded() -> (Vec<String>, Vec<Draw>) {
    let runtime = runtime_at(1_000);
    let recording = Recording::of(seams(&runtime, 7));
    let said = runtime.block_on(session(Root::new(recording.seams())));
    (said, recording.draws())
}

#[test]
fn a_run_played_back_is_the_same_run() {
    let (said, draws) = recorded();
    assert!(draws.iter().any(|it| matches!(it, Draw::Now(_))), "{draws:?}");
    assert!(draws.contains(&Draw::Sleep(SECOND * 3)), "{draws:?}");

    let runtime = runtime_at(0);
    let playback = Playback::of(draws, seams(&runtime, 99));
    assert_eq!(runtime.block_on(session(Root::new(playback.seams()))), said);
    playback.assert_finished();

    let runtime = runtime_at(0);
    let without = runtime.block_on(session(Root::new(seams(&runtime, 99))));
    assert_ne!(without, said, "the runs agree only because of the recording");
}

#[test]
fn a_run_that_parts_from_the_recorded_one_says_where() {
    let (_, draws) = recorded();
    let runtime = runtime_at(0);
    let playback = Playback::of(draws, seams(&runtime, 99));
    let root = Root::new(playback.seams());
    root.clock().now();
    root.ids().next_u64();
    let difference = playback.difference().unwrap();
    assert!(difference.starts_with("draw 1 is the time of day, recorded was Sleep(1s)"), "{difference}");
}

#[test]
fn a_run_that_ends_early_is_told() {
    let (_, draws) = recorded();
    let playback = Playback::of(draws, TestRuntime::new().seams());
    let difference = playback.difference().unwrap();
    assert!(difference.starts_with("draw 1 was not taken: "), "{difference}");
}
