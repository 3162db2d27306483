//! `once`: at most one call, whatever overlaps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use linn_bus::{ModeName, Next, listener};
use linn_bus_test::run;

use crate::{Ask, Log, MODES, Ping, Step, Wrap, dispatch, listen};

#[test]
fn ev_02_a_once_listener_is_called_once() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            let listener = listen(&root.once(), mode, log.noting("L"));
            dispatch(&root, mode).await.unwrap();
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L", "{mode}");
            assert!(!listener.dispose(), "{mode}: it went with its call");
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "", "{mode}");
        }
        assert!(root.inspect().events.is_empty(), "nothing is left");
        assert!(root.fiber().effects().is_empty(), "its owner has nothing left of it");
    });
}

#[test]
fn a_once_listener_disposed_before_its_call_never_runs() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            assert!(listen(&root.once(), mode, log.noting("L")).dispose(), "{mode}");
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "", "{mode}");
        }
    });
}

#[test]
fn ev_16_a_once_listener_may_dispatch_its_own_event() {
    run(async |root| {
        let log = Log::default();
        let (ctx, noted) = (root.context().clone(), log.clone());
        root.once()
            .on(move |e: &Ping| {
                noted.note(format!("{}", e.0));
                ctx.emit(&Ping(e.0 + 1));
            })
            .unwrap();
        root.emit(&Ping(1));
        assert_eq!(log.take(), "1");

        let (ctx, noted) = (root.context().clone(), log.clone());
        root.once()
            .on(listener!(async move |e: &Wrap, next: Next<'_, Wrap>| {
                noted.note("outer");
                let inner = ctx.waterfall(&Wrap(e.0), async || 1).await?;
                Ok::<_, linn_bus::ListenerError>(inner + next.run().await?)
            }))
            .unwrap();
        assert_eq!(root.waterfall(&Wrap(0), async || 10).await.unwrap(), 11);
        assert_eq!(log.take(), "outer");
    });
}

#[test]
fn ev_17_overlapping_dispatches_share_one_call() {
    run(async |root| {
        let log = Log::default();
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Step| {
            ctx.sleep(Duration::from_secs(1)).await.ok()?;
            None::<u32>
        }))
        .unwrap();
        listen(&root.once(), ModeName::Serial, log.noting("once"));
        let (a, b) = futures::join!(root.serial(&Step(1)), root.serial(&Step(2)));
        assert_eq!((a.unwrap(), b.unwrap(), log.take()), (None, None, "once".to_owned()));
    });
}

#[test]
fn a_layer_that_runs_once_is_passed_over_when_next_runs_again() {
    run(async |root| {
        let log = Log::default();
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| {
            Ok::<_, linn_bus::ListenerError>(next.run().await? + next.run().await?)
        })
        .unwrap();
        listen(&root.once(), ModeName::Waterfall, log.noting("once"));
        assert_eq!(root.waterfall(&Wrap(0), async || 4).await.unwrap(), 8);
        assert_eq!(log.take(), "once");
    });
}

#[test]
fn threads_share_one_call() {
    run(async |root| {
        for round in 0..200 {
            let calls = Arc::new(AtomicU32::new(0));
            let counted = calls.clone();
            root.once()
                .on(move |_: &Ask| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    None::<u32>
                })
                .unwrap();
            let start = std::sync::Barrier::new(3);
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| {
                        start.wait();
                        root.bail(&Ask(round)).unwrap();
                    });
                }
            });
            assert_eq!(calls.load(Ordering::Relaxed), 1, "round {round}");
        }
        assert!(root.inspect().events.is_empty());
    });
}
