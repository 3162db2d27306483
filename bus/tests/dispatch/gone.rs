//! A listener that was disposed while a dispatch ran and has not started does not run.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use linn_bus::{Context, Fault, Fiber, Listener, ModeName, Next, listener};
use linn_bus_test::{TestRuntime, run};

use crate::{Fan, Log, MODES, Ping, Step, Wrap, dispatch, listen};

#[test]
fn ev_15_a_listener_disposed_during_the_dispatch_does_not_start() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            let second = Arc::new(OnceLock::<Listener>::new());
            let (noted, disposed) = (log.clone(), second.clone());
            let first = listen(root.context(), mode, move || {
                noted.note("L1");
                disposed.get().unwrap().dispose();
                Ok(())
            });
            second.set(listen(root.context(), mode, log.noting("L2"))).unwrap();
            let third = listen(root.context(), mode, log.noting("L3"));
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L1 L3", "{mode}");
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L1 L3", "{mode}");
            first.dispose();
            third.dispose();
        }
    });
}

/// Mounts a plugin that notes its name on the plain event of `mode`.
async fn plugin(ctx: &Context, mode: ModeName, log: &Log, name: &'static str) -> Fiber {
    let log = log.clone();
    let fiber = ctx
        .mount_fn(name, move |ctx: Context, (): ()| {
            let log = log.clone();
            async move {
                listen(&ctx, mode, log.noting(name));
            }
        })
        .unwrap();
    fiber.running().await.unwrap();
    fiber
}

#[test]
fn listeners_of_a_plugin_disposed_during_an_awaited_dispatch_do_not_start() {
    run(async |root| {
        for mode in [ModeName::Serial, ModeName::Waterfall] {
            let log = Log::default();
            let victim = Arc::new(OnceLock::<Fiber>::new());
            let (noted, disposed) = (log.clone(), victim.clone());
            let first = match mode {
                ModeName::Serial => root.on(listener!(async move |_: &Step| {
                    noted.note("L1");
                    disposed.get().unwrap().dispose().await.map(|()| None::<u32>)
                })),
                _ => root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
                    noted.note("L1");
                    disposed.get().unwrap().dispose().await?;
                    Ok::<_, Fault>(next.run().await?)
                })),
            };
            victim.set(plugin(&root, mode, &log, "victim").await).unwrap();
            plugin(&root, mode, &log, "other").await;
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L1 other", "{mode}");
            first.unwrap().dispose();
        }
    });
}

#[test]
fn listeners_of_a_plugin_disposed_by_another_thread_do_not_start() {
    for mode in [ModeName::Emit, ModeName::Bail, ModeName::Parallel] {
        let runtime = TestRuntime::new();
        let root = runtime.root();
        let log = Log::default();
        let flags: Arc<[AtomicBool; 3]> = Arc::default();
        let [inside, go_on, ended] = &*flags;
        let wait_for = |flag: &AtomicBool| {
            while !flag.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        let (noted, shared) = (log.clone(), flags.clone());
        listen(root.context(), mode, move || {
            noted.note("L1");
            shared[0].store(true, Ordering::Release);
            wait_for(&shared[1]);
            Ok(())
        });
        let victim = runtime.block_on(plugin(&root, mode, &log, "victim"));
        runtime.block_on(plugin(&root, mode, &log, "other"));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                futures::executor::block_on(dispatch(&root, mode)).unwrap();
                ended.store(true, Ordering::Release);
            });
            wait_for(inside);
            runtime.block_on(async {
                // A synchronous dispatch is waited for; one that has not started the victim's listener is not.
                let mut dispose = std::pin::pin!(victim.dispose());
                let mut disposed = None;
                poll_fn(|cx| {
                    if disposed.is_none() {
                        disposed = match dispose.as_mut().poll(cx) {
                            Poll::Ready(outcome) => Some(outcome),
                            Poll::Pending => None,
                        };
                    }
                    cx.waker().wake_by_ref();
                    let events = root.inspect().events;
                    let listed = events.iter().flat_map(|it| &it.listeners).any(|it| &*it.plugin == "victim");
                    if listed { Poll::Pending } else { Poll::Ready(()) }
                })
                .await;
                go_on.store(true, Ordering::Release);
                wait_for(ended);
                match disposed {
                    Some(disposed) => disposed.unwrap(),
                    None => dispose.await.unwrap(),
                }
            });
        });
        assert_eq!(log.take(), "L1 other", "{mode}");
    }
}

#[test]
fn one_that_is_running_is_allowed_to_finish() {
    run(async |root| {
        let log = Log::default();
        let (ctx, noted) = (root.context().clone(), log.clone());
        let listener = root
            .on(listener!(async move |_: &Fan| {
                noted.note("begin");
                ctx.sleep(Duration::from_secs(1)).await.ok();
                noted.note("end");
            }))
            .unwrap();
        let (_, disposed) = futures::join!(root.parallel(&Fan(0)), async { listener.dispose() });
        assert!(disposed);
        assert_eq!(log.take(), "begin end");
        root.parallel(&Fan(0)).await.unwrap();
        assert_eq!(log.take(), "");
    });
}

#[test]
fn an_inner_layer_disposed_while_an_outer_one_waits_is_passed_over() {
    run(async |root| {
        let log = Log::default();
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            ctx.sleep(Duration::from_secs(1)).await.map_err(Fault::from)?;
            Ok::<_, Fault>(next.run().await?)
        }))
        .unwrap();
        let inner = listen(root.context(), ModeName::Waterfall, log.noting("inner"));
        let ctx = root.context().clone();
        let dispose = async {
            ctx.sleep(Duration::from_millis(1)).await.unwrap();
            inner.dispose()
        };
        let (result, disposed) = futures::join!(root.waterfall(&Wrap(0), async || 3), dispose);
        assert_eq!((result.unwrap(), disposed, log.take()), (3, true, String::new()));
    });
}

/// Something whose drop emits an event.
struct Subscription {
    ctx: Context,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.ctx.emit(&Ping(99));
    }
}

#[test]
fn r059_a_drop_inside_a_listener_may_emit() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |e: &Ping| noted.note(if e.0 == 99 { "gone" } else { "ping" })).unwrap();
        // Dropped by hand, in the middle of a dispatch of the very event it emits.
        let held = std::sync::Mutex::new(Some(Subscription { ctx: root.context().clone() }));
        root.on(move |e: &Ping| {
            if e.0 != 99 {
                let subscription = held.lock().unwrap().take();
                drop(subscription);
            }
        })
        .unwrap();
        root.emit(&Ping(1));
        assert_eq!(log.take(), "ping gone");
    });
}

#[test]
fn r059_a_listener_that_owns_a_subscription_may_be_disposed_during_dispatch() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            let noted = log.clone();
            let hears = root.on(move |e: &Ping| noted.note(if e.0 == 99 { "gone" } else { "ping" })).unwrap();
            let subscription = Subscription { ctx: root.context().clone() };
            let owner = listen(root.context(), mode, move || {
                let _kept = &subscription;
                Ok(())
            });
            let owner = std::sync::Mutex::new(Some(owner));
            let disposer = listen(root.context(), mode, move || {
                let owner = owner.lock().unwrap().take();
                owner.map(|it| it.dispose());
                Ok(())
            });
            dispatch(&root, mode).await.unwrap();
            let expected = if mode == ModeName::Emit { "ping gone" } else { "gone" };
            assert_eq!(log.take(), expected, "{mode}");
            disposer.dispose();
            hears.dispose();
        }
    });
}

#[test]
fn a_dispatch_dropped_half_way_leaves_a_working_bus() {
    run(async |root| {
        for mode in [ModeName::Serial, ModeName::Parallel, ModeName::Waterfall] {
            let log = Log::default();
            let fiber = {
                let noted = log.clone();
                root.mount_fn("slow", move |ctx: Context, (): ()| {
                    let noted = noted.clone();
                    async move {
                        /// Notes that it was dropped.
                        struct Dropped(Log);
                        impl Drop for Dropped {
                            fn drop(&mut self) {
                                self.0.note("dropped");
                            }
                        }
                        let slow = ctx.clone();
                        let wait = move || {
                            let (slow, guard) = (slow.clone(), Dropped(noted.clone()));
                            async move {
                                let _guard = guard;
                                slow.sleep(Duration::from_secs(60)).await.ok();
                            }
                        };
                        match mode {
                            ModeName::Serial => ctx.on(listener!(async move |_: &Step| {
                                wait().await;
                                None::<u32>
                            })),
                            ModeName::Parallel => ctx.on(listener!(async move |_: &Fan| wait().await)),
                            _ => ctx.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
                                wait().await;
                                next.run().await
                            })),
                        }
                        .map(drop)
                    }
                })
                .unwrap()
            };
            fiber.running().await.unwrap();
            let mut pending = Box::pin(dispatch(&root, mode));
            assert!(crate::poll_once(&mut pending).is_none());
            drop(pending);
            assert_eq!(log.take(), "dropped", "{mode}");
            // Nothing counts as in flight any more.
            let began = root.clock().monotonic();
            fiber.dispose().await.unwrap();
            assert_eq!(root.clock().monotonic(), began, "{mode}: the disposal waited for nothing");
            dispatch(&root, mode).await.unwrap();
        }
    });
}
