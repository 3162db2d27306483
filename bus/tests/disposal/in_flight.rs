//! What is in flight when somebody else disposes the plugin.

use std::pin::pin;

use futures::channel::oneshot;
use futures::poll;
use linn_bus::{Cause, Context, FiberState, Grace, ListenerError, Next, Svc, listener};

use crate::{All, Ask, DoesWork, Flag, Log, OnDrop, SECOND, Tell, Worker, Wrap, on_threads, rendezvous};

/// A receiver that a listener may take once.
fn once<T>(value: T) -> impl Fn() -> Option<T> + Send + Sync
where
    T: Send,
{
    let value = std::sync::Mutex::new(Some(value));
    move || value.lock().unwrap().take()
}

#[test]
fn a_sync_listener_on_another_thread_is_waited_for() {
    on_threads(|runtime, root| {
        let (meet, arrived, let_go) = rendezvous();
        let ended = Flag::default();
        let end = ended.clone();
        let fiber = root
            .mount_fn("slow", {
                let meet = std::sync::Arc::new(meet);
                move |ctx: Context, (): ()| {
                    let (meet, end) = (meet.clone(), end.clone());
                    async move {
                        ctx.on(move |_: &Tell| {
                            meet();
                            end.set();
                        })
                        .map(drop)
                    }
                }
            })
            .unwrap();
        runtime.block_on(fiber.settled()).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| root.emit(&Tell));
            arrived.recv().unwrap();
            runtime.block_on(async {
                let mut disposal = pin!(fiber.dispose());
                assert!(poll!(disposal.as_mut()).is_pending());
                assert!(!ended.is_set());
                let_go.send(()).unwrap();
                disposal.await.unwrap();
                assert!(ended.is_set());
            });
        });
        assert_eq!(root.inspect().events.len(), 0);
    });
}

#[test]
fn a_sync_listener_is_waited_for_when_another_registration_replaced_the_snapshot_it_runs_from() {
    on_threads(|runtime, root| {
        let (meet, arrived, let_go) = rendezvous();
        let ended = Flag::default();
        let scope = root.scope().unwrap();
        let end = ended.clone();
        scope
            .context()
            .on(move |_: &Tell| {
                meet();
                end.set();
            })
            .unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| root.emit(&Tell));
            arrived.recv().unwrap();
            root.on(|_: &Tell| {}).unwrap();
            runtime.block_on(async {
                let mut disposal = pin!(scope.dispose());
                assert!(poll!(disposal.as_mut()).is_pending());
                let_go.send(()).unwrap();
                disposal.await.unwrap();
                assert!(ended.is_set());
            });
        });
    });
}

#[test]
fn a_listener_disposed_before_its_plugin_is_waited_for_all_the_same() {
    on_threads(|runtime, root| {
        let (meet, arrived, let_go) = rendezvous();
        let ended = Flag::default();
        let scope = root.scope().unwrap();
        let end = ended.clone();
        let listener = scope
            .context()
            .once()
            .on(move |_: &Tell| {
                meet();
                end.set();
            })
            .unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| root.emit(&Tell));
            arrived.recv().unwrap();
            assert!(!listener.dispose(), "it is claimed already");
            runtime.block_on(async {
                let mut disposal = pin!(scope.dispose());
                assert!(poll!(disposal.as_mut()).is_pending());
                let_go.send(()).unwrap();
                disposal.await.unwrap();
                assert!(ended.is_set());
            });
        });
    });
}

#[test]
fn a_pending_listener_ends_before_effects_are_undone() {
    linn_bus_test::run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        let (go, wait) = oneshot::channel::<u32>();
        let (wait, ended) = (once(wait), log.clone());
        scope
            .context()
            .on(listener!(async move |_: &Ask| {
                let answer = wait()?.await.ok();
                ended.add("answered");
                answer
            }))
            .unwrap();
        let undone = log.clone();
        scope.context().effect("undo", move |fx| fx.defer(move || undone.add("undone"))).unwrap();

        let mut call = pin!(root.serial(&Ask));
        assert!(poll!(call.as_mut()).is_pending());
        let mut disposal = pin!(scope.dispose());
        assert!(poll!(disposal.as_mut()).is_pending());
        root.sleep(SECOND).await.unwrap();
        assert!(poll!(disposal.as_mut()).is_pending());
        assert!(log.seen().is_empty());
        go.send(7).unwrap();
        assert_eq!(call.await.unwrap(), Some(7));
        disposal.await.unwrap();
        assert_eq!(log.seen(), ["answered", "undone"]);
    });
}

#[test]
fn what_pends_after_the_grace_period_is_dropped_and_the_dispatcher_told() {
    linn_bus_test::run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        let ctx = scope.context();
        let (serial, parallel, wrap) = (log.clone(), log.clone(), log.clone());
        ctx.on(listener!(async move |_: &Ask| {
            let _dropped = OnDrop(serial.clone(), "serial dropped");
            std::future::pending::<Option<u32>>().await
        }))
        .unwrap();
        ctx.on(listener!(async move |_: &All| {
            let _dropped = OnDrop(parallel.clone(), "parallel dropped");
            std::future::pending::<()>().await
        }))
        .unwrap();
        ctx.on(listener!(async move |_: &Wrap, _: Next<'_, Wrap>| {
            let _dropped = OnDrop(wrap.clone(), "layer dropped");
            std::future::pending::<u32>().await
        }))
        .unwrap();
        // A layer of another plugin around the one that goes sees the error at its `next`.
        root.first()
            .on(async |_: &Wrap, next: Next<'_, Wrap>| match next.run().await {
                Err(error) if matches!(error.cause(), Cause::Unloaded) => Ok(1),
                other => other,
            })
            .unwrap();
        let undone = log.clone();
        ctx.effect("undo", move |fx| fx.defer(move || undone.add("undone"))).unwrap();

        let before = root.clock().monotonic();
        let calls = async { futures::join!(root.serial(&Ask), root.parallel(&All), root.waterfall(&Wrap, async || 0)) };
        let mut calls = pin!(calls);
        assert!(poll!(calls.as_mut()).is_pending());
        let ((serial, parallel, wrap), disposed) = futures::join!(calls, scope.dispose());
        let unloaded = |it: &ListenerError| matches!(it.cause(), Cause::Unloaded) && it.plugin() == "scope";
        assert!(unloaded(&serial.unwrap_err()));
        let parallel = parallel.unwrap_err();
        assert!(parallel.len() == 1 && parallel.iter().all(unloaded));
        assert_eq!(wrap.unwrap(), 1);
        disposed.unwrap();
        assert_eq!(root.clock().monotonic() - before, Grace::default().dispose);
        let mut seen = log.seen();
        assert_eq!(seen.pop(), Some("undone"));
        seen.sort_unstable();
        assert_eq!(seen, ["layer dropped", "parallel dropped", "serial dropped"]);
    });
}

#[test]
fn many_pending_parallel_listeners_are_all_dropped_after_the_grace_period() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        for _ in 0..40 {
            scope.context().on(async |_: &All| std::future::pending::<()>().await).unwrap();
        }
        let mut call = pin!(root.parallel(&All));
        assert!(poll!(call.as_mut()).is_pending());
        let (called, disposed) = futures::join!(call, scope.dispose());
        assert_eq!(called.unwrap_err().len(), 40);
        disposed.unwrap();
    });
}

#[test]
fn a_listener_that_panics_while_its_plugin_goes_is_over() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        let (go, wait) = oneshot::channel::<()>();
        let wait = once(wait);
        scope
            .context()
            .on(listener!(async move |_: &Ask| -> Option<u32> {
                wait()?.await.ok();
                panic!("late")
            }))
            .unwrap();
        let mut call = pin!(root.serial(&Ask));
        assert!(poll!(call.as_mut()).is_pending());
        let mut disposal = pin!(scope.dispose());
        assert!(poll!(disposal.as_mut()).is_pending());
        go.send(()).unwrap();
        assert!(matches!(call.await.unwrap_err().cause(), Cause::Panicked(text) if text == "late"));
        disposal.await.unwrap();
    });
}

#[test]
fn a_disposal_goes_on_when_nobody_waits_for_it_any_more() {
    linn_bus_test::run(async |root| {
        let log = Log::default();
        let undone = log.clone();
        let scope = root.scope().unwrap();
        scope
            .context()
            .effect("slow", |fx| {
                let ctx = root.context().clone();
                fx.defer_async(async move {
                    ctx.sleep(SECOND).await.ok();
                    undone.add("undone");
                });
            })
            .unwrap();
        {
            let mut disposal = pin!(scope.dispose());
            assert!(poll!(disposal.as_mut()).is_pending());
        }
        assert!(log.seen().is_empty());
        root.sleep(2 * SECOND).await.unwrap();
        assert_eq!(log.seen(), ["undone"]);
        assert_eq!(scope.fiber().state(), FiberState::Disposed);
        scope.dispose().await.unwrap();
    });
}

#[test]
fn a_call_that_is_dropped_by_its_dispatcher_is_over() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        scope.context().on(async |_: &Ask| std::future::pending::<Option<u32>>().await).unwrap();
        let mut call = Box::pin(root.serial(&Ask));
        assert!(poll!(call.as_mut()).is_pending());
        let mut disposal = pin!(scope.dispose());
        assert!(poll!(disposal.as_mut()).is_pending());
        let before = root.clock().monotonic();
        drop(call);
        disposal.await.unwrap();
        assert_eq!(root.clock().monotonic(), before);
    });
}

#[test]
fn a_needed_service_that_is_replaced_meanwhile_does_not_bring_the_plugin_back() {
    linn_bus_test::run(async |root| {
        let log = Log::default();
        let first = root.provide::<dyn Worker>(DoesWork::new(async || 1)).unwrap();
        let starts = log.clone();
        let user = root
            .mount_fn("user", move |ctx: Context, worker: Svc<dyn Worker>| {
                let starts = starts.clone();
                async move {
                    starts.add("start");
                    ctx.on(listener!(async move |_: &Ask| {
                        std::future::pending::<()>().await;
                        worker.work().await.ok()
                    }))
                    .map(drop)
                }
            })
            .unwrap();
        user.settled().await.unwrap();
        let mut call = pin!(root.serial(&Ask));
        assert!(poll!(call.as_mut()).is_pending());
        let mut disposal = pin!(user.dispose());
        assert!(poll!(disposal.as_mut()).is_pending());
        root.sleep(SECOND).await.unwrap();
        let gone = first.dispose();
        let second = root.provide::<dyn Worker>(DoesWork::new(async || 2)).unwrap();
        let (called, disposed, ()) = futures::join!(call, disposal, gone.into_future());
        assert!(matches!(called.unwrap_err().cause(), Cause::Unloaded));
        disposed.unwrap();
        root.sleep(SECOND).await.unwrap();
        assert_eq!(user.state(), FiberState::Disposed);
        assert_eq!(log.seen(), ["start"]);
        assert_eq!(root.get::<dyn Worker>().unwrap().work().await.unwrap(), 2);
        second.dispose().await;
    });
}

#[test]
fn a_service_call_in_flight_is_waited_for_and_then_told_that_the_provider_is_gone() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        let (go, wait) = oneshot::channel::<u32>();
        let wait = once(wait);
        let work = DoesWork::new(move || {
            let wait = wait();
            async move {
                match wait {
                    Some(wait) => wait.await.unwrap(),
                    None => std::future::pending().await,
                }
            }
        });
        scope.context().provide::<dyn Worker>(work).unwrap();
        let worker = root.get::<dyn Worker>().unwrap();
        let (mut drains, mut hangs) = (pin!(worker.work()), pin!(worker.work()));
        assert!(poll!(drains.as_mut()).is_pending() && poll!(hangs.as_mut()).is_pending());
        let mut disposal = pin!(scope.dispose());
        assert!(poll!(disposal.as_mut()).is_pending());
        root.sleep(SECOND).await.unwrap();
        assert!(matches!(worker.work().await, Err(linn_bus::ServiceError::Gone { .. })), "nothing new is let in");
        go.send(3).unwrap();
        assert_eq!(drains.await.unwrap(), 3);
        let (hung, disposed) = futures::join!(hangs, disposal);
        assert!(matches!(hung, Err(linn_bus::ServiceError::Gone { .. })));
        disposed.unwrap();
    });
}
