//! `next`: it knows its place, may run any number of times, and may be dropped half way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use linn_bus::{Context, Fault, Grace, ListenerError, Next, Root, listener};
use linn_bus_test::{TestRuntime, run};

use crate::{Log, Wrap, poll_once};

/// A layer that notes its name, waits a second, and delegates.
fn slow_layer(root: &Root, log: &Log, name: &'static str) {
    let (ctx, log) = (root.context().clone(), log.clone());
    root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
        log.note(name);
        ctx.sleep(Duration::from_secs(1)).await.map_err(Fault::from)?;
        let answer = next.run().await?;
        log.note(format!("{name}-done"));
        Ok::<_, Fault>(answer)
    }))
    .unwrap();
}

#[test]
fn a_retry_runs_the_inner_layers_and_the_default_again() {
    run(async |root| {
        let log = Log::default();
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| {
            for _ in 0..2 {
                if let Ok(answer) = next.run().await {
                    return Ok(answer);
                }
            }
            next.run().await
        })
        .unwrap();
        slow_layer(&root, &log, "inner");
        let attempts = AtomicU32::new(0);
        let default = async || match attempts.fetch_add(1, Ordering::Relaxed) {
            n if n < 2 => Err(Fault::msg("not yet")),
            n => Ok(n),
        };
        assert_eq!(root.waterfall(&Wrap(0), default).await.unwrap(), 2);
        assert_eq!(log.take(), "inner inner inner inner-done");
    });
}

#[test]
fn next_is_a_value_that_can_be_kept() {
    async fn later(next: Next<'_, Wrap>, times: u32) -> Result<u32, ListenerError> {
        let mut sum = 0;
        for _ in 0..times {
            sum += next.run().await?;
        }
        Ok(sum)
    }
    run(async |root| {
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| {
            let kept = next;
            let first = later(kept, 1).await?;
            Ok::<_, ListenerError>(first + later(next, 2).await?)
        })
        .unwrap();
        let calls = AtomicU32::new(1);
        let default = async || calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!(root.waterfall(&Wrap(0), default).await.unwrap(), 1 + 2 + 3);
    });
}

#[test]
fn next_may_run_twice_at_the_same_time() {
    run(async |root| {
        let log = Log::default();
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| {
            let (a, b) = futures::join!(next.run(), next.run());
            Ok::<_, ListenerError>(a? + b?)
        })
        .unwrap();
        slow_layer(&root, &log, "inner");
        let began = root.clock().monotonic();
        assert_eq!(root.waterfall(&Wrap(0), async || 4).await.unwrap(), 8);
        assert_eq!(root.clock().monotonic() - began, Duration::from_secs(1), "side by side");
        assert_eq!(log.take(), "inner inner inner-done inner-done");
    });
}

#[test]
fn next_dropped_half_way_drops_the_inner_layers() {
    run(async |root| {
        let log = Log::default();
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            match ctx.within(Duration::from_millis(1), next.run()).await {
                Ok(answer) => answer,
                Err(_) => Ok(99),
            }
        }))
        .unwrap();
        slow_layer(&root, &log, "inner");
        assert_eq!(root.waterfall(&Wrap(0), async || 4).await.unwrap(), 99);
        root.sleep(Duration::from_secs(10)).await.unwrap();
        assert_eq!(log.take(), "inner", "it never came to its end");
    });
}

#[test]
fn a_waterfall_dropped_while_it_waits_drops_every_layer() {
    run(async |root| {
        let log = Log::default();
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| next.run().await).unwrap();
        slow_layer(&root, &log, "inner");
        let mut pending = Box::pin(root.waterfall(&Wrap(0), async || 4));
        assert!(poll_once(&mut pending).is_none());
        drop(pending);
        root.sleep(Duration::from_secs(10)).await.unwrap();
        assert_eq!(log.take(), "inner");
        assert_eq!(root.waterfall(&Wrap(0), async || 4).await.unwrap(), 4);
    });
}

#[test]
fn a_chain_of_ready_layers_is_ready_at_its_first_poll() {
    run(async |root| {
        for _ in 0..8 {
            root.on(async |_: &Wrap, next: Next<'_, Wrap>| Ok::<_, ListenerError>(next.run().await? + 1)).unwrap();
        }
        let mut waterfall = Box::pin(root.waterfall(&Wrap(0), async || 0));
        assert_eq!(poll_once(&mut waterfall).unwrap().unwrap(), 8);
    });
}

#[test]
fn the_default_borrows_and_may_wait() {
    run(async |root| {
        let words = ["a".to_owned(), "b".to_owned()];
        let default = async || {
            root.sleep(Duration::from_secs(1)).await.map_err(Fault::from)?;
            Ok::<_, Fault>(words.len() as u32)
        };
        assert_eq!(root.waterfall(&Wrap(0), default).await.unwrap(), 2);
    });
}

#[test]
fn the_error_of_the_default_names_who_dispatches() {
    run(async |root| {
        let fiber = root.mount_fn("emitter", async |_: Context, (): ()| {}).unwrap();
        fiber.running().await.unwrap();
        let ctx = fiber.context().unwrap();
        let error = ctx.waterfall(&Wrap(0), async || Err::<u32, _>(Fault::msg("no"))).await.unwrap_err();
        assert_eq!((error.plugin(), error.event(), error.code()), ("emitter", "plain/waterfall", "LISTENER_FAILED"));
    });
}

#[test]
fn a_layer_unloaded_while_it_waits_is_an_error_for_whoever_ran_next() {
    let runtime = TestRuntime::new();
    let root = runtime.root_with_grace(Grace { dispose: Duration::from_secs(1), ..Grace::default() });
    runtime.block_on(async {
        let caught = Arc::new(std::sync::Mutex::new(None));
        let noted = caught.clone();
        root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            let answer = next.run().await;
            *noted.lock().unwrap() = answer.as_ref().err().map(|it| (it.plugin().to_owned(), it.code()));
            answer.unwrap_or(7)
        }))
        .unwrap();
        let fiber = root
            .mount_fn("waiting", async |ctx: Context, (): ()| {
                ctx.on(listener!(async move |_: &Wrap| {
                    let _captured = ();
                    std::future::pending::<u32>().await
                }))
                .map(drop)
            })
            .unwrap();
        fiber.running().await.unwrap();
        let ctx = root.context().clone();
        // Begins the disposal; it goes on without a waiter.
        let dispose = async {
            ctx.sleep(Duration::from_millis(10)).await.unwrap();
            assert!(poll_once(&mut Box::pin(fiber.dispose())).is_none());
        };
        let (answer, ()) = futures::join!(root.waterfall(&Wrap(0), async || 4), dispose);
        fiber.dispose().await.unwrap();
        assert_eq!(answer.unwrap(), 7);
        assert_eq!(*caught.lock().unwrap(), Some(("waiting".to_owned(), "LISTENER_UNLOADED")));
    });
}
