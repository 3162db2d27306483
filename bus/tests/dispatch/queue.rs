//! Bounded queues for observers that must not slow a dispatch.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linn_bus::{Context, Queued};
use linn_bus_test::run;

use crate::{Ping, ScopedPing, poll_once};

/// Everything that is in a queue now.
async fn drain<E>(queue: &mut linn_bus::Queue<E>) -> Vec<Queued<E>> {
    let mut all = Vec::new();
    while let Some(Some(next)) = poll_once(&mut Box::pin(queue.next())) {
        all.push(next);
    }
    all
}

fn numbers(all: Vec<Queued<Ping>>) -> String {
    let text = all.into_iter().map(|it| match it {
        Queued::Event(Ping(n)) => n.to_string(),
        Queued::Dropped { n } => format!("-{n}"),
    });
    text.collect::<Vec<_>>().join(" ")
}

#[test]
fn r064_a_slow_observer_does_not_slow_the_stream() {
    run(async |root| {
        const CAPACITY: usize = 16;
        let seen = Arc::new(Mutex::new((0_u64, 0_u64, 0_u32)));
        let counts = seen.clone();
        let fiber = root
            .mount_fn("observer", move |ctx: Context, (): ()| {
                let counts = counts.clone();
                async move {
                    let mut deltas = ctx.queue::<Ping>(CAPACITY)?;
                    let task = ctx.clone();
                    ctx.spawn(async move {
                        while let Some(next) = deltas.next().await {
                            match next {
                                Queued::Event(Ping(n)) => {
                                    {
                                        let mut seen = counts.lock().unwrap();
                                        assert!(n > seen.2, "in order");
                                        seen.0 += 1;
                                        seen.2 = n;
                                    }
                                    task.sleep(Duration::from_millis(100)).await.ok();
                                }
                                Queued::Dropped { n } => counts.lock().unwrap().1 += n,
                            }
                        }
                    })
                    .map(drop)
                }
            })
            .unwrap();
        fiber.running().await.unwrap();
        let began = root.clock().monotonic();
        for n in 1..=500 {
            root.emit(&Ping(n));
            root.sleep(Duration::from_millis(2)).await.unwrap();
        }
        assert_eq!(root.clock().monotonic() - began, Duration::from_secs(1), "the stream is not slowed");
        root.sleep(Duration::from_secs(10)).await.unwrap();
        let (heard, dropped, last) = *seen.lock().unwrap();
        assert_eq!((heard + dropped, last), (500, 500), "every event is heard or reported, and the last is heard");
        assert!(heard <= 11 + CAPACITY as u64, "no more is kept than fits: {heard}");
        fiber.dispose().await.unwrap();
        assert!(root.inspect().events.is_empty(), "the queue went with its plugin");
    });
}

#[test]
fn the_oldest_are_dropped_and_reported_in_their_place() {
    run(async |root| {
        let mut queue = root.queue::<Ping>(3).unwrap();
        for (emitted, expected) in
            [(0..3, "0 1 2"), (3..4, "3"), (4..9, "-2 6 7 8"), (9..9, ""), (9..13, "-1 10 11 12")]
        {
            emitted.for_each(|n| root.emit(&Ping(n)));
            assert_eq!(numbers(drain(&mut queue).await), expected);
        }
        (0..9).for_each(|n| root.emit(&Ping(n)));
        assert!(matches!(queue.next().await, Some(Queued::Dropped { n: 6 })));
    });
}

#[test]
fn a_capacity_of_zero_holds_the_last_event() {
    run(async |root| {
        let mut queue = root.queue::<Ping>(0).unwrap();
        (0..3).for_each(|n| root.emit(&Ping(n)));
        assert_eq!(numbers(drain(&mut queue).await), "-2 2");
    });
}

#[test]
fn a_reader_that_waits_is_woken() {
    run(async |root| {
        let mut queue = root.queue::<Ping>(3).unwrap();
        let ctx = root.context().clone();
        let emit = async {
            ctx.sleep(Duration::from_secs(1)).await.unwrap();
            ctx.emit(&Ping(7));
        };
        let (next, ()) = futures::join!(queue.next(), emit);
        assert!(matches!(next, Some(Queued::Event(Ping(7)))));
    });
}

#[test]
fn a_queue_dropped_is_a_listener_gone() {
    run(async |root| {
        let queue = root.queue::<Ping>(3).unwrap();
        assert_eq!(root.inspect().events.len(), 1);
        drop(queue);
        assert!(root.inspect().events.is_empty());
        assert!(root.fiber().effects().is_empty());
    });
}

#[test]
fn a_queue_ends_with_its_plugin_after_what_it_holds() {
    run(async |root| {
        let fiber = root.mount_fn("observer", async |_: Context, (): ()| {}).unwrap();
        fiber.running().await.unwrap();
        let ctx = fiber.context().unwrap();
        let mut queue = ctx.queue::<Ping>(3).unwrap();
        root.emit(&Ping(1));
        fiber.dispose().await.unwrap();
        root.emit(&Ping(2));
        assert!(matches!(queue.next().await, Some(Queued::Event(Ping(1)))));
        assert!(queue.next().await.is_none());
        assert!(queue.next().await.is_none(), "and stays at its end");
        assert_eq!(ctx.queue::<Ping>(3).unwrap_err().code(), "INACTIVE_EFFECT");
    });
}

#[test]
fn a_queue_hears_its_scope() {
    run(async |root| {
        let scope = root.scope().unwrap();
        let mut scoped = scope.context().queue::<ScopedPing>(3).unwrap();
        let mut global = scope.context().global().queue::<ScopedPing>(3).unwrap();
        root.emit(&ScopedPing { about: None });
        root.emit(&ScopedPing { about: Some(scope.key().clone()) });
        assert_eq!(drain(&mut scoped).await.len(), 1);
        assert_eq!(drain(&mut global).await.len(), 2);
    });
}
