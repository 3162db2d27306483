//! The clock of the test runtime, held and moved by hand.
use std::time::Duration;

use linn_bus_test::{Recorder, TestRuntime, run_with};

const SECOND: Duration = Duration::from_secs(1);

#[derive(linn_bus::Event, Clone, Debug, PartialEq)]
#[event(name = "kit/beat", mode = Emit)]
struct Beat(Duration);

#[test]
fn timers_fire_in_order_each_at_its_own_time() {
    run_with(async |root, runtime| {
        runtime.hold_clock();
        let recorder = Recorder::new();
        recorder.listen::<Beat>(&root).unwrap();
        for seconds in [3, 1, 2] {
            let ctx = root.context().clone();
            root.timeout(SECOND * seconds, move || ctx.emit(&Beat(ctx.clock().monotonic()))).unwrap();
        }
        runtime.advance(SECOND * 2).await;
        assert_eq!(recorder.heard::<Beat>(), [Beat(SECOND), Beat(SECOND * 2)]);
        runtime.advance(SECOND / 2).await;
        assert_eq!(recorder.heard::<Beat>().len(), 2);
        assert_eq!(runtime.n_timers(), 1);
        runtime.advance(SECOND / 2).await;
        assert_eq!(recorder.heard::<Beat>().last(), Some(&Beat(SECOND * 3)));
    });
}

#[test]
fn a_timer_set_while_time_passes_fires_within_it() {
    run_with(async |root, runtime| {
        runtime.hold_clock();
        let ctx = root.context().clone();
        let task = root.spawn(async move {
            for _ in 0..5 {
                ctx.sleep(SECOND).await.unwrap();
            }
            ctx.clock().monotonic()
        });
        let task = task.unwrap();
        runtime.advance(SECOND * 60).await;
        assert_eq!(task.join().await, Ok(SECOND * 5));
        assert_eq!(root.clock().monotonic(), SECOND * 60);
    });
}

#[test]
fn a_released_clock_jumps_again() {
    run_with(async |root, runtime| {
        runtime.hold_clock();
        let task = root.spawn({
            let ctx = root.context().clone();
            async move { ctx.sleep(SECOND).await }
        });
        runtime.idle().await;
        assert_eq!(runtime.n_timers(), 1);
        runtime.release_clock();
        task.unwrap().join().await.unwrap().unwrap();
        assert_eq!(root.clock().monotonic(), SECOND);
    });
}

#[test]
fn a_timer_that_was_given_up_does_not_move_the_clock() {
    let runtime = TestRuntime::new();
    let root = runtime.root();
    runtime.block_on(async {
        let slow = root.within(SECOND, root.sleep(SECOND * 100)).await;
        assert!(slow.is_err());
        root.sleep(SECOND).await.unwrap();
        assert_eq!(root.clock().monotonic(), SECOND * 2);
    });
}
