//! Plugins that dispose themselves, or what they are part of, from every place their code may run in.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::poll;
use linn_bus::{Cause, Context, Fiber, FiberState, Grace, Inject, Plugin, Root, Svc, listener};

use crate::{Ask, AskOther, DoesWork, Log, OnDrop, SECOND, Tell, Worker, everywhere};

/// Mounts `start` as a plugin and waits until it runs.
async fn mount<N: Inject, Fut>(
    root: &Context,
    name: &str,
    start: impl Fn(Context, N) -> Fut + Send + Sync + 'static,
) -> Fiber
where
    Fut: Future<Output = Result<(), linn_bus::BusError>> + Send + 'static,
{
    let fiber = root.mount_fn(name, start).unwrap();
    fiber.settled().await.unwrap();
    fiber
}

/// Waits until the fiber is gone without asking for it.
async fn gone(root: &Root, fiber: &Fiber) {
    let mut watch = Vec::new();
    while fiber.state() != FiberState::Disposed {
        let (tell, told) = oneshot::channel::<()>();
        let tell = Mutex::new(Some(tell));
        let listener = root.on(move |_: &linn_bus::InternalStatus| drop(tell.lock().unwrap().take())).unwrap();
        watch.push(listener);
        if fiber.state() != FiberState::Disposed {
            let _ = told.await;
        }
    }
    for listener in watch {
        listener.dispose();
    }
}

#[test]
fn from_a_sync_listener_that_spawns_it() {
    everywhere(async |root| {
        let fiber = mount(root, "own", async |ctx: Context, (): ()| {
            ctx.clone()
                .on(move |_: &Tell| {
                    let fiber = ctx.fiber();
                    ctx.spawn(async move { fiber.dispose().await }).map(drop)
                })
                .map(drop)
        })
        .await;
        root.emit(&Tell);
        gone(root, &fiber).await;
        fiber.dispose().await.unwrap();
    });
}

#[test]
fn from_an_async_listener_whose_rest_runs_and_is_waited_for_by_others() {
    everywhere(async |root| {
        let (go, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let log = Log::default();
        let rest = log.clone();
        let fiber = mount(root, "own", move |ctx: Context, (): ()| {
            let (rest, wait) = (rest.clone(), wait.clone());
            async move {
                let undone = rest.clone();
                ctx.effect("undo", move |fx| fx.defer(move || undone.add("undone")))?;
                ctx.clone()
                    .on(listener!(async move |_: &Ask| {
                        ctx.fiber().dispose().await.unwrap();
                        rest.add("disposed");
                        let wait = wait.lock().unwrap().take();
                        wait?.await.ok();
                        rest.add("ended");
                        Some(5)
                    }))
                    .map(drop)
            }
        })
        .await;
        let mut call = pin!(root.serial(&Ask));
        assert!(poll!(call.as_mut()).is_pending());
        let step = async {
            gone(root, &fiber).await;
            let mut other = pin!(fiber.dispose());
            assert!(poll!(other.as_mut()).is_pending(), "the rest of the call runs still");
            go.send(()).unwrap();
            other.await.unwrap();
            assert_eq!(log.seen(), ["undone", "disposed", "ended"]);
        };
        let (answer, ()) = futures::join!(call, step);
        assert_eq!(answer.unwrap(), Some(5));
    });
}

#[test]
fn from_its_own_task_which_is_dropped_where_it_waits() {
    everywhere(async |root| {
        let log = Log::default();
        let in_task = log.clone();
        let fiber = mount(root, "own", move |ctx: Context, (): ()| {
            let log = in_task.clone();
            async move {
                ctx.clone()
                    .spawn(async move {
                        let _dropped = OnDrop(log.clone(), "dropped");
                        ctx.fiber().dispose().await.unwrap();
                        log.add("went on");
                    })
                    .map(drop)
            }
        })
        .await;
        gone(root, &fiber).await;
        fiber.dispose().await.unwrap();
        assert_eq!(log.seen(), ["dropped"]);
    });
}

#[test]
fn from_its_own_task_while_a_listener_of_it_waits_which_drains_first() {
    everywhere(async |root| {
        let log = Log::default();
        let (go, wait) = oneshot::channel::<()>();
        let (start, started) = oneshot::channel::<()>();
        let hands = Arc::new(Mutex::new(Some((wait, started))));
        let ours = log.clone();
        let fiber = mount(root, "own", move |ctx: Context, (): ()| {
            let log = ours.clone();
            let (wait, started) = hands.lock().unwrap().take().unwrap();
            let wait = Mutex::new(Some(wait));
            async move {
                let undone = log.clone();
                ctx.effect("undo", move |fx| fx.defer(move || undone.add("undone")))?;
                ctx.on(listener!(async move |_: &Ask| {
                    let wait = wait.lock().unwrap().take();
                    wait?.await.ok();
                    log.add("answered");
                    Some(1)
                }))?;
                ctx.clone()
                    .spawn(async move {
                        started.await.ok();
                        ctx.fiber().dispose().await.unwrap();
                    })
                    .map(drop)
            }
        })
        .await;
        let mut call = pin!(root.serial(&Ask));
        assert!(poll!(call.as_mut()).is_pending());
        let unloading = wait_for(root, &fiber, FiberState::Unloading);
        start.send(()).unwrap();
        unloading.await;
        // Everything that could run has run; on many threads this is only likely.
        for _ in 0..50 {
            yield_now().await;
        }
        assert_eq!(log.seen(), [""; 0], "the listener is in flight");
        go.send(()).unwrap();
        assert_eq!(call.await.unwrap(), Some(1));
        gone(root, &fiber).await;
        assert_eq!(log.seen(), ["answered", "undone"]);
    });
}

fn wait_for(root: &Root, fiber: &Fiber, state: FiberState) -> impl Future<Output = ()> + use<> {
    let (tell, told) = oneshot::channel::<()>();
    let (tell, fiber) = (Mutex::new(Some(tell)), fiber.clone());
    root.on(move |it: &linn_bus::InternalStatus| {
        if it.fiber == fiber && it.state == state {
            drop(tell.lock().unwrap().take());
        }
    })
    .unwrap();
    async move {
        let _ = told.await;
    }
}

async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return std::task::Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[test]
fn from_its_own_start_which_runs_to_its_end() {
    everywhere(async |root| {
        let log = Log::default();
        let ours = log.clone();
        let fiber = root
            .mount_fn("own", move |ctx: Context, (): ()| {
                let log = ours.clone();
                async move {
                    let undone = log.clone();
                    ctx.effect("undo", move |fx| fx.defer(move || undone.add("undone")))?;
                    ctx.fiber().dispose().await.unwrap();
                    log.add("start ended");
                    Ok::<(), linn_bus::BusError>(())
                }
            })
            .unwrap();
        assert_eq!(fiber.settled().await.unwrap(), FiberState::Disposed);
        fiber.dispose().await.unwrap();
        assert_eq!(log.seen(), ["start ended", "undone"]);
    });
}

#[test]
fn from_its_own_service_method_whose_rest_runs_and_is_waited_for_by_others() {
    everywhere(async |root| {
        let log = Log::default();
        let (go, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let rest = log.clone();
        let fiber = mount(root, "own", move |ctx: Context, (): ()| {
            let (rest, wait) = (rest.clone(), wait.clone());
            async move {
                let own = ctx.clone();
                let work = DoesWork::new(move || {
                    let (own, rest, wait) = (own.clone(), rest.clone(), wait.clone());
                    async move {
                        own.fiber().dispose().await.unwrap();
                        rest.add("disposed");
                        let wait = wait.lock().unwrap().take().unwrap();
                        wait.await.ok();
                        rest.add("ended");
                        9
                    }
                });
                ctx.provide::<dyn Worker>(work).map(drop)
            }
        })
        .await;
        let worker = root.get::<dyn Worker>().unwrap();
        let mut call = pin!(worker.work());
        assert!(poll!(call.as_mut()).is_pending());
        let step = async {
            gone(root, &fiber).await;
            let mut other = pin!(fiber.dispose());
            assert!(poll!(other.as_mut()).is_pending(), "the rest of the call runs still");
            go.send(()).unwrap();
            other.await.unwrap();
            assert_eq!(log.seen(), ["disposed", "ended"]);
        };
        let (answer, ()) = futures::join!(call, step);
        assert_eq!(answer.unwrap(), 9);
    });
}

#[test]
fn from_a_timer() {
    linn_bus_test::run(async |root| {
        let log = Log::default();
        let ours = log.clone();
        let fiber = mount(&root, "own", move |ctx: Context, (): ()| {
            let log = ours.clone();
            async move {
                let own = ctx.clone();
                ctx.interval(SECOND, move || {
                    log.add("tick");
                    let fiber = own.fiber();
                    drop(own.spawn(async move { fiber.dispose().await }));
                })
                .map(drop)
            }
        })
        .await;
        root.sleep(5 * SECOND).await.unwrap();
        assert_eq!(fiber.state(), FiberState::Disposed);
        assert_eq!(log.seen(), ["tick"]);
        fiber.dispose().await.unwrap();
    });
}

/// Mounts `inner` below a plugin `outer`, whose fiber it returns.
async fn nested<Fut>(root: &Context, inner: impl Fn(Context, Fiber) -> Fut + Send + Sync + 'static) -> Fiber
where
    Fut: Future<Output = Result<(), linn_bus::BusError>> + Send + 'static,
{
    let inner = Arc::new(inner);
    mount(root, "outer", move |ctx: Context, (): ()| {
        let inner = inner.clone();
        let outer = ctx.fiber();
        async move { ctx.mount_fn("inner", move |ctx: Context, (): ()| inner(ctx, outer.clone())).map(drop) }
    })
    .await
}

#[test]
fn from_a_listener_of_a_child_that_disposes_its_parent() {
    everywhere(async |root| {
        let log = Log::default();
        let (go, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let rest = log.clone();
        let outer = nested(root, move |ctx, outer| {
            let (rest, wait) = (rest.clone(), wait.clone());
            async move {
                ctx.on(listener!(async move |_: &Ask| {
                    outer.dispose().await.unwrap();
                    let wait = wait.lock().unwrap().take();
                    wait?.await.ok();
                    rest.add("ended");
                    Some(1)
                }))
                .map(drop)
            }
        })
        .await;
        while root.inspect().events.is_empty() {
            yield_now().await;
        }
        let mut call = pin!(root.serial(&Ask));
        assert!(poll!(call.as_mut()).is_pending());
        let step = async {
            gone(root, &outer).await;
            let mut other = pin!(outer.dispose());
            assert!(poll!(other.as_mut()).is_pending(), "a call of the subtree runs still");
            go.send(()).unwrap();
            other.await.unwrap();
            assert_eq!(log.seen(), ["ended"]);
        };
        let (answer, ()) = futures::join!(call, step);
        assert_eq!(answer.unwrap(), Some(1));
    });
}

#[test]
fn from_the_start_of_a_child_that_disposes_its_parent() {
    everywhere(async |root| {
        let log = Log::default();
        let ours = log.clone();
        let outer = nested(root, move |_, outer| {
            let log = ours.clone();
            async move {
                outer.dispose().await.unwrap();
                log.add("start ended");
                Ok(())
            }
        })
        .await;
        gone(root, &outer).await;
        outer.dispose().await.unwrap();
        assert_eq!(log.seen(), ["start ended"]);
    });
}

/// A provider, and a plugin that needs its service and starts with `user`.
async fn pair<Fut>(root: &Root, user: impl Fn(Context, Fiber) -> Fut + Send + Sync + 'static) -> (Fiber, Fiber)
where
    Fut: Future<Output = Result<(), linn_bus::BusError>> + Send + 'static,
{
    let provider = mount(root, "provider", async |ctx: Context, (): ()| {
        ctx.provide::<dyn Worker>(DoesWork::new(async || 1)).map(drop)
    })
    .await;
    let its_provider = provider.clone();
    let fiber = mount(root, "user", move |ctx: Context, _: Svc<dyn Worker>| user(ctx, its_provider.clone())).await;
    (provider, fiber)
}

#[test]
fn from_a_listener_of_a_dependant_that_disposes_its_provider() {
    everywhere(async |root| {
        let (provider, user) = pair(root, async |ctx, provider| {
            ctx.on(listener!(async move |_: &Ask| {
                provider.dispose().await.unwrap();
                Some(2)
            }))
            .map(drop)
        })
        .await;
        assert_eq!(root.serial(&Ask).await.unwrap(), Some(2));
        assert_eq!(provider.state(), FiberState::Disposed);
        assert_eq!(user.settled().await.unwrap(), FiberState::Pending);
        user.dispose().await.unwrap();
    });
}

#[test]
fn from_the_start_of_a_dependant_that_disposes_its_provider() {
    everywhere(async |root| {
        let (provider, user) = pair(root, async |_, provider| {
            provider.dispose().await.unwrap();
            Ok(())
        })
        .await;
        provider.dispose().await.unwrap();
        assert_eq!(user.settled().await.unwrap(), FiberState::Pending);
        user.dispose().await.unwrap();
    });
}

#[test]
fn from_a_listener_of_another_plugin_inside_a_listener_of_its_own() {
    everywhere(async |root| {
        let fiber = mount(root, "own", async |ctx: Context, (): ()| {
            ctx.clone()
                .on(listener!(async move |_: &Ask| {
                    let answer = ctx.serial(&AskOther).await;
                    answer.ok().flatten().map(|it| it + 1)
                }))
                .map(drop)
        })
        .await;
        let target = fiber.clone();
        let other = root
            .on(listener!(async move |_: &AskOther| {
                target.dispose().await.unwrap();
                Some(1)
            }))
            .unwrap();
        assert_eq!(root.serial(&Ask).await.unwrap(), Some(2));
        assert_eq!(fiber.state(), FiberState::Disposed);
        other.dispose();
    });
}

#[test]
fn several_calls_of_one_plugin_that_all_dispose_it_do_not_wait_for_each_other() {
    everywhere(async |root| {
        let (go, wait) = oneshot::channel::<()>();
        let wait = wait.shared();
        let fiber = mount(root, "own", move |ctx: Context, (): ()| {
            let wait = wait.clone();
            async move {
                ctx.clone()
                    .on(listener!(async move |_: &Ask| {
                        let _ = wait.clone().await;
                        ctx.fiber().dispose().await.unwrap();
                        Some(1)
                    }))
                    .map(drop)
            }
        })
        .await;
        let mut calls: Vec<_> = (0..4).map(|_| Box::pin(root.serial(&Ask))).collect();
        for call in &mut calls {
            assert!(poll!(call).is_pending());
        }
        go.send(()).unwrap();
        for answer in futures::future::join_all(calls).await {
            assert_eq!(answer.unwrap(), Some(1));
        }
        assert_eq!(fiber.state(), FiberState::Disposed);
    });
}

/// Disposes whom it is told to, from its listener.
struct Foe;

impl Plugin for Foe {
    const NAME: &'static str = "foe";
    type Config = (bool, Arc<Mutex<Option<Fiber>>>);
    type Needs = ();
    async fn start(ctx: &Context, (first, other): Self::Config, (): ()) -> Result<(), linn_bus::Fault> {
        let attack = move |other: Option<Fiber>| async move {
            other?.dispose().await.unwrap();
            Some(1)
        };
        if first {
            ctx.on(listener!(async move |_: &Ask| {
                let other = other.lock().unwrap().clone();
                attack(other).await
            }))?;
        } else {
            ctx.on(listener!(async move |_: &AskOther| {
                let other = other.lock().unwrap().clone();
                attack(other).await
            }))?;
        }
        Ok(())
    }
}

#[test]
fn two_plugins_that_dispose_each_other_are_resolved_by_the_grace_period() {
    linn_bus_test::run(async |root| {
        let (one, two) = (Arc::default(), Arc::default());
        let a = root.mount::<Foe>((true, Arc::clone(&one))).unwrap();
        let b = root.mount::<Foe>((false, Arc::clone(&two))).unwrap();
        *one.lock().unwrap() = Some(b.fiber().clone());
        *two.lock().unwrap() = Some(a.fiber().clone());
        a.settled().await.unwrap();
        b.settled().await.unwrap();
        let before = root.clock().monotonic();
        let (by_a, by_b) = futures::join!(root.serial(&Ask), root.serial(&AskOther));
        for outcome in [by_a, by_b] {
            assert!(matches!(outcome.unwrap_err().cause(), Cause::Unloaded));
        }
        assert_eq!(root.clock().monotonic() - before, Grace::default().dispose);
        a.dispose().await.unwrap();
        b.dispose().await.unwrap();
    });
}

#[test]
fn a_disposer_that_disposes_its_own_plugin_is_resolved_by_the_grace_period() {
    linn_bus_test::run(async |root| {
        let fiber = mount(&root, "own", async |ctx: Context, (): ()| {
            let fiber = ctx.fiber();
            ctx.effect("knot", move |fx| fx.defer_async(async move { drop(fiber.dispose().await) })).map(drop)
        })
        .await;
        let error = fiber.dispose().await.unwrap_err();
        assert_eq!(error.problems().len(), 1);
        assert!(error.to_string().contains("`knot`"), "{error}");
        assert_eq!(fiber.state(), FiberState::Disposed);
    });
}
