//! Parallel: all are started, all are awaited, and every failure is reported in order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use linn_bus::{Context, Fault, ListenerErrors, ModeName, listener};
use linn_bus_test::run;

use crate::{Fan, Log, listen, poll_once};

/// A listener that waits for `delay`, notes its name, and fails if it is told to.
fn slow(ctx: &Context, log: &Log, name: &'static str, delay: u64, fails: bool) {
    let (inner, log) = (ctx.clone(), log.clone());
    ctx.on(listener!(async move |_: &Fan| {
        inner.sleep(Duration::from_millis(delay)).await.map_err(Fault::from)?;
        log.note(name);
        if fails { Err(Fault::msg(name)) } else { Ok(()) }
    }))
    .unwrap();
}

fn causes(errors: &ListenerErrors) -> Vec<String> {
    errors.iter().map(|it| std::error::Error::source(it).unwrap().to_string()).collect()
}

#[test]
fn ev_19_a_failure_at_once_keeps_nobody_from_starting() {
    run(async |root| {
        let log = Log::default();
        listen(root.context(), ModeName::Parallel, log.noting("L1"));
        listen(root.context(), ModeName::Parallel, || Err(Fault::msg("L2")));
        listen(root.context(), ModeName::Parallel, log.noting("L3"));
        let errors = root.parallel(&Fan(0)).await.unwrap_err();
        assert_eq!((causes(&errors), log.take()), (vec!["L2".to_owned()], "L1 L3".to_owned()));
    });
}

#[test]
fn ev_20_it_ends_when_the_slowest_has_ended() {
    run(async |root| {
        let log = Log::default();
        slow(&root, &log, "slow", 1000, false);
        slow(&root, &log, "fast", 1, true);
        let began = root.clock().monotonic();
        let errors = root.parallel(&Fan(0)).await.unwrap_err();
        assert_eq!(root.clock().monotonic() - began, Duration::from_secs(1));
        assert_eq!((causes(&errors), log.take()), (vec!["fast".to_owned()], "fast slow".to_owned()));
    });
}

#[test]
fn ev_21_failures_come_in_order_of_the_listeners() {
    run(async |root| {
        let log = Log::default();
        slow(&root, &log, "one", 30, true);
        slow(&root, &log, "two", 20, false);
        slow(&root, &log, "three", 10, true);
        let errors = root.parallel(&Fan(0)).await.unwrap_err();
        assert_eq!(log.take(), "three two one");
        assert_eq!(causes(&errors), ["one", "three"]);
    });
}

#[test]
fn many_listeners_wait_side_by_side() {
    run(async |root| {
        for n in [29, 30, 31, 100_u64] {
            let log = Log::default();
            let fiber = root
                .mount_fn("many", {
                    let log = log.clone();
                    move |ctx: Context, (): ()| {
                        let log = log.clone();
                        async move {
                            for i in 0..n {
                                // The last to start is the first to end; each fifth fails.
                                slow(&ctx, &log, "x", n - i, i % 5 == 0);
                            }
                        }
                    }
                })
                .unwrap();
            fiber.running().await.unwrap();
            let began = root.clock().monotonic();
            let errors = root.parallel(&Fan(0)).await.unwrap_err();
            assert_eq!(root.clock().monotonic() - began, Duration::from_millis(n));
            assert_eq!(errors.len() as u64, n.div_ceil(5));
            assert_eq!(log.take().split(' ').count() as u64, n);
            fiber.dispose().await.unwrap();
        }
    });
}

#[test]
fn many_waiting_listeners_are_dropped_with_the_dispatch() {
    run(async |root| {
        let log = Log::default();
        for _ in 0..50 {
            slow(&root, &log, "x", 1000, false);
        }
        let mut pending = Box::pin(root.parallel(&Fan(0)));
        assert!(poll_once(&mut pending).is_none());
        drop(pending);
        root.sleep(Duration::from_secs(5)).await.unwrap();
        assert_eq!(log.take(), "");
        root.parallel(&Fan(0)).await.unwrap();
        assert_eq!(log.take().split(' ').count(), 50);
    });
}

/// Where a listener waits until it is told to end, how often it was polled, and the waker of its last poll.
#[derive(Default)]
struct Gauge {
    polls: AtomicUsize,
    ends: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Gauge {
    fn wake(&self) {
        self.waker.lock().unwrap().as_ref().unwrap().wake_by_ref();
    }
}

#[test]
fn of_many_listeners_only_those_that_were_woken_are_polled_again() {
    run(async |root| {
        for n in [31, 64, 65, 200_usize] {
            let scope = root.scope().unwrap();
            let gauges: Arc<[Gauge]> = (0..n).map(|_| Gauge::default()).collect();
            for at in 0..n {
                let gauges = gauges.clone();
                let wait = listener!(async move |_: &Fan| {
                    std::future::poll_fn(|cx| {
                        let gauge = &gauges[at];
                        gauge.polls.fetch_add(1, Ordering::Relaxed);
                        *gauge.waker.lock().unwrap() = Some(cx.waker().clone());
                        if gauge.ends.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                });
                scope.context().on(wait).unwrap();
            }
            let polled = || gauges.iter().map(|it| it.polls.swap(0, Ordering::Relaxed)).collect::<Vec<_>>();
            let only = |one: usize| (0..n).map(|it| usize::from(it == one)).collect::<Vec<_>>();
            let event = Fan(0);
            let mut call = Box::pin(root.parallel(&event));
            assert!(poll_once(&mut call).is_none() && poll_once(&mut call).is_none());
            assert!(polled().iter().all(|it| (1..=2).contains(it)), "all are started");
            assert!(poll_once(&mut call).is_none());
            assert_eq!(polled(), vec![0; n], "nobody was woken");
            for one in [0, n / 2, n - 1] {
                gauges[one].wake();
                assert!(poll_once(&mut call).is_none());
                assert_eq!(polled(), only(one));
            }
            gauges[n - 1].ends.store(true, Ordering::Relaxed);
            gauges[n - 1].wake();
            assert!(poll_once(&mut call).is_none());
            assert_eq!(polled(), only(n - 1));
            gauges[n - 1].wake();
            assert!(poll_once(&mut call).is_none());
            assert_eq!(polled(), vec![0; n], "who has ended is not polled again");
            for gauge in &gauges[..n - 1] {
                gauge.ends.store(true, Ordering::Relaxed);
                gauge.wake();
            }
            poll_once(&mut call).unwrap().unwrap();
            // A waker may come late.
            gauges[0].wake();
            scope.dispose().await.unwrap();
        }
    });
}

#[test]
fn a_listener_unloaded_while_many_wait_fails_alone() {
    for others in [0, 50] {
        run(async |root| {
            let log = Log::default();
            for _ in 0..others {
                slow(&root, &log, "x", 60_000, false);
            }
            let fiber = root
                .mount_fn("waiting", async |ctx: Context, (): ()| {
                    ctx.on(async |_: &Fan| std::future::pending::<()>().await).map(drop)
                })
                .unwrap();
            fiber.running().await.unwrap();
            let ctx = root.context().clone();
            // Begins the disposal; it goes on without a waiter.
            let dispose = async {
                ctx.sleep(Duration::from_millis(10)).await.unwrap();
                assert!(poll_once(&mut Box::pin(fiber.dispose())).is_none());
            };
            let (errors, ()) = futures::join!(root.parallel(&Fan(0)), dispose);
            fiber.dispose().await.unwrap();
            let errors = errors.unwrap_err();
            assert_eq!(errors.len(), 1, "{errors}");
            let error = errors.iter().next().unwrap();
            assert_eq!((error.plugin(), error.code()), ("waiting", "LISTENER_UNLOADED"));
        });
    }
}
