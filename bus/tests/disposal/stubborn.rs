//! What will not end, or breaks while it does: it is named, and everything else is torn down.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures::poll;
use linn_bus::{Context, DisposeProblem, FiberState, Grace, TokioRuntime, listener};
use linn_bus_test::TestRuntime;

use crate::{Ask, DoesWork, Flag, Log, OnDrop, SECOND, Tell, Worker, rendezvous};

/// A plugin with one listener that runs `stuck`, and beside it one of everything that has to go all the same.
fn stubborn(
    name: &'static str,
    log: &Log,
    stuck: impl Fn() + Clone + Send + Sync + 'static,
) -> impl Fn(Context, ()) -> linn_bus::BoxFuture<'static, Result<(), linn_bus::BusError>> + Send + Sync + 'static {
    let log = log.clone();
    move |ctx, ()| {
        let (log, stuck, also_stuck) = (log.clone(), stuck.clone(), stuck.clone());
        Box::pin(async move {
            let undone = log.clone();
            ctx.effect("undo", move |fx| fx.defer(move || undone.add("undone")))?;
            ctx.provide::<dyn Worker>(DoesWork::new(async || 1))?;
            let child = log.clone();
            ctx.mount_fn("child", move |ctx: Context, (): ()| {
                let child = child.clone();
                async move { ctx.effect("undo", move |fx| fx.defer(move || child.add("child undone"))).map(drop) }
            })?;
            let task = OnDrop(log.clone(), "task dropped");
            ctx.spawn(async move {
                std::future::pending::<()>().await;
                drop(task);
            })?;
            ctx.on(move |_: &Tell| stuck())?;
            ctx.on(listener!(async move |_: &Ask| -> Option<u32> {
                also_stuck();
                None
            }))?;
            let _ = name;
            Ok(())
        })
    }
}

#[test]
fn code_on_a_cpu_that_will_not_return_is_named_and_everything_else_is_torn_down() {
    for (event, call) in [
        ("disposal/tell", (|root| root.emit(&Tell)) as fn(&Context)),
        ("disposal/ask", |root| drop(futures::executor::block_on(root.serial(&Ask)))),
    ] {
        let runtime = TestRuntime::new();
        let root = runtime.root();
        let (meet, arrived, let_go) = rendezvous();
        let meet = Arc::new(meet);
        let log = Log::default();
        let fiber = root.mount_fn("stubborn", stubborn("stubborn", &log, move || meet())).unwrap();
        runtime.block_on(root.sleep(SECOND)).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| call(&root));
            arrived.recv().unwrap();
            let error = runtime.block_on(fiber.dispose()).unwrap_err();
            assert_eq!(error.plugin(), "stubborn");
            assert_eq!(error.code(), "DISPOSE_INCOMPLETE");
            let named = error.problems().iter().any(|it| {
                matches!(it, DisposeProblem::Stuck { plugin, what } if &**plugin == "stubborn" && what.contains(event))
            });
            assert!(named, "{event}: {error}");
            let mut seen = log.seen();
            seen.sort_unstable();
            assert_eq!(seen, ["child undone", "task dropped", "undone"]);
            let left = root.inspect();
            assert_eq!((left.services.len(), left.events.len(), left.fibers.len()), (0, 0, 1), "{left:?}");
            let_go.send(()).unwrap();
        });
        assert_eq!(fiber.state(), FiberState::Disposed);
    }
}

#[test]
fn a_sync_listener_that_blocks_on_its_own_disposal_is_named() {
    let grace = Grace { dispose: SECOND / 50, reload: SECOND / 50 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let entered = runtime.enter();
    let root = linn_bus::Root::with_grace(TokioRuntime::seams(), grace);
    let scope = root.scope().unwrap();
    let (own, log) = (scope.clone(), Log::default());
    let said = log.clone();
    scope
        .context()
        .on(move |_: &Tell| {
            let error = futures::executor::block_on(own.dispose()).unwrap_err();
            assert!(error.to_string().contains("disposal/tell"), "{error}");
            said.add("named");
        })
        .unwrap();
    root.emit(&Tell);
    assert_eq!(log.seen(), ["named"]);
    assert_eq!(scope.fiber().state(), FiberState::Disposed);
    drop(entered);
}

#[test]
fn r062_a_disposer_that_never_ends_is_named_and_other_plugins_unload() {
    linn_bus_test::run(async |root| {
        let log = Log::default();
        let mount = |name: &str, ends: bool| {
            let log = log.clone();
            root.mount_fn(name, move |ctx: Context, (): ()| {
                let (log, dropped) = (log.clone(), OnDrop(log.clone(), "dropped"));
                async move {
                    ctx.effect("earlier", move |fx| fx.defer(move || log.add("earlier undone")))?;
                    ctx.effect("hangs", move |fx| {
                        fx.defer_async(async move {
                            if !ends {
                                std::future::pending::<()>().await;
                            }
                            drop(dropped);
                        });
                    })
                    .map(drop)
                }
            })
            .unwrap()
        };
        let (hangs, ends) = (mount("hangs", false), mount("ends", true));
        hangs.settled().await.unwrap();
        ends.settled().await.unwrap();
        let before = root.clock().monotonic();
        let (hung, ended) = futures::join!(hangs.dispose(), ends.dispose());
        ended.unwrap();
        let hung = hung.unwrap_err();
        assert!(
            matches!(hung.problems(), [DisposeProblem::DisposerTimeout { plugin, label }] if &**plugin == "hangs" && &**label == "hangs")
        );
        assert_eq!(root.clock().monotonic() - before, Grace::default().dispose);
        assert_eq!(log.seen(), ["dropped", "earlier undone", "dropped", "earlier undone"]);
        root.fiber().dispose().await.unwrap();
    });
}

#[test]
fn a_disposer_that_fails_or_panics_is_named_and_the_others_run() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        let log = Log::default();
        let undone = log.clone();
        scope
            .context()
            .effect("bad", move |fx| {
                fx.defer(move || undone.add("undone"));
                fx.defer(|| -> Result<(), linn_bus::Fault> { Err(linn_bus::Fault::msg("no")) });
                fx.defer_async(async { assert!(fx_is_well(), "boom") });
            })
            .unwrap();
        let error = scope.dispose().await.unwrap_err();
        let text = error.to_string();
        assert!(error.problems().len() == 2 && text.contains("no") && text.contains("boom"), "{text}");
        assert_eq!(log.seen(), ["undone"]);
    });
}

fn fx_is_well() -> bool {
    false
}

#[test]
fn a_task_that_holds_its_thread_is_named() {
    let (meet, arrived, let_go) = rendezvous();
    let grace = Grace { dispose: SECOND / 50, reload: SECOND / 50 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let entered = runtime.enter();
    let root = linn_bus::Root::with_grace(TokioRuntime::seams(), grace);
    let scope = root.scope().unwrap();
    scope.context().spawn(async move { meet() }).unwrap();
    arrived.recv().unwrap();
    let error = runtime.block_on(scope.dispose()).unwrap_err();
    assert!(error.to_string().contains("ctx.spawn()"), "{error}");
    let_go.send(()).unwrap();
    drop(entered);
}

#[test]
fn an_effect_whose_body_never_ends_is_dropped_after_the_grace_period() {
    linn_bus_test::run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        let (dropped, undone) = (OnDrop(log.clone(), "body dropped"), log.clone());
        scope
            .context()
            .effect_async("endless", async move |fx| {
                fx.defer(move || undone.add("undone"));
                std::future::pending::<()>().await;
                drop(dropped);
            })
            .unwrap();
        let error = scope.dispose().await.unwrap_err();
        assert!(error.to_string().contains("`endless`"), "{error}");
        assert_eq!(log.seen(), ["body dropped", "undone"]);
    });
}

/// Panics when it is dropped.
struct BadDrop;

impl Drop for BadDrop {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_panic_in_the_drop_of_a_listener_reaches_nobody() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        let log = Log::default();
        let (one, two, heard) = (BadDrop, BadDrop, log.clone());
        scope
            .context()
            .on(move |_: &Tell| {
                let _ = &one;
                heard.add("first");
            })
            .unwrap();
        let once = log.clone();
        scope
            .context()
            .once()
            .on(move |_: &Tell| {
                let _ = &two;
                once.add("once");
            })
            .unwrap();
        root.emit(&Tell);
        scope.dispose().await.unwrap();
        root.emit(&Tell);
        assert_eq!(log.seen(), ["first", "once"]);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_service_call_reaches_nobody_and_the_provider_can_go() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        let work = DoesWork::new(async || {
            let _bad = BadDrop;
            std::future::pending::<u32>().await
        });
        scope.context().provide::<dyn Worker>(work).unwrap();
        let worker = root.get::<dyn Worker>().unwrap();
        {
            let mut call = pin!(worker.work());
            assert!(poll!(call.as_mut()).is_pending());
        }
        let before = root.clock().monotonic();
        scope.dispose().await.unwrap();
        assert_eq!(root.clock().monotonic(), before, "the call is over");
    });
}

#[test]
fn a_panic_in_the_drop_of_a_start_is_a_failed_start() {
    linn_bus_test::run(async |root| {
        let fiber = root
            .mount_fn("bad", |_: Context, (): ()| {
                let bad = BadDrop;
                let mut polls = 0;
                // The value lives in the future and is dropped with it, after the last poll.
                std::future::poll_fn(move |cx| {
                    let _ = &bad;
                    polls += 1;
                    if polls > 1 {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
            })
            .unwrap();
        drop(fiber.settled().await);
        fiber.dispose().await.unwrap();
        assert_eq!(fiber.state(), FiberState::Disposed);
    });
}

/// Uses the bus when it is dropped.
struct BusyDrop(Context, Flag);

impl Drop for BusyDrop {
    fn drop(&mut self) {
        self.0.emit(&Tell);
        drop(self.0.on(|_: &Tell| {}));
        drop(self.0.get::<dyn Worker>());
        drop(self.0.inspect());
        self.1.set();
    }
}

#[test]
fn r059_what_is_dropped_with_a_plugin_may_use_the_bus() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        let ctx = scope.context();
        let flags: Vec<_> = (0..4).map(|_| Flag::default()).collect();
        let busy = |at: usize| BusyDrop(root.context().clone(), flags[at].clone());
        let value = busy(0);
        ctx.on(move |_: &Tell| assert!(!value.1.is_set())).unwrap();
        let value = Arc::new(busy(1));
        ctx.provide::<dyn Worker>(DoesWork::new(move || {
            let value = value.clone();
            async move {
                drop(value);
                0
            }
        }))
        .unwrap();
        let value = busy(2);
        ctx.spawn(async move {
            std::future::pending::<()>().await;
            drop(value);
        })
        .unwrap();
        root.sleep(SECOND).await.unwrap();
        let value = busy(3);
        ctx.effect("busy", move |fx| fx.defer(move || drop(value))).unwrap();
        scope.dispose().await.unwrap();
        for (at, flag) in flags.iter().enumerate() {
            assert!(flag.is_set(), "{at}");
        }
    });
}

#[test]
fn a_service_refused_to_a_plugin_that_is_gone_may_use_the_bus_when_it_is_dropped() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        scope.dispose().await.unwrap();
        let dropped = Flag::default();
        let value = Arc::new(BusyDrop(root.context().clone(), dropped.clone()));
        let work = DoesWork::new(move || {
            let value = value.clone();
            async move {
                drop(value);
                0
            }
        });
        assert_eq!(scope.context().provide::<dyn Worker>(work).unwrap_err().code(), "INACTIVE_EFFECT");
        assert!(dropped.is_set());
    });
}
