//! Services that are taken back from inside the code that taking them back waits for.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures::channel::oneshot;
use futures::poll;
use linn_bus::{BusError, Context, FiberState, Provided, Svc, listener};

use crate::{Ask, DoesWork, Log, Worker, everywhere};

/// The handle of a service, for the service itself.
type Own = Arc<Mutex<Option<Provided<dyn Worker>>>>;

/// Pending once.
async fn after_a_wait() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The way the handle is used is told apart by whether the call is counted as waiting then.
async fn wait_first(waits: bool) {
    if waits {
        after_a_wait().await;
    }
}

#[test]
fn by_its_own_method() {
    for waits in [false, true] {
        everywhere(async |root| {
            let (own, log) = (Own::default(), Log::default());
            let (handle, says) = (own.clone(), log.clone());
            let worker = DoesWork::new(move || {
                let (own, log) = (handle.clone(), says.clone());
                async move {
                    wait_first(waits).await;
                    let provided = own.lock().unwrap().take().unwrap();
                    provided.dispose().await;
                    log.add("taken back");
                    7
                }
            });
            let provided = root.provide::<dyn Worker>(worker).unwrap();
            *own.lock().unwrap() = Some(provided.clone());
            let worker = root.get::<dyn Worker>().unwrap();
            assert_eq!(worker.work().await.unwrap(), 7);
            assert_eq!(log.seen(), ["taken back"]);
            assert_eq!(worker.work().await.unwrap_err().code(), "SERVICE_GONE");
            provided.dispose().await;
        });
    }
}

#[test]
fn by_its_own_method_whose_rest_is_waited_for_by_others_and_by_its_fiber() {
    for waits in [false, true] {
        everywhere(async |root| {
            let (own, log) = (Own::default(), Log::default());
            let (go, wait) = oneshot::channel::<()>();
            let (taken, is_taken) = oneshot::channel::<()>();
            let ends = Arc::new(Mutex::new(Some((taken, wait))));
            let (handle, says) = (own.clone(), log.clone());
            let worker = DoesWork::new(move || {
                let (own, log, ends) = (handle.clone(), says.clone(), ends.clone());
                async move {
                    wait_first(waits).await;
                    let provided = own.lock().unwrap().take().unwrap();
                    provided.dispose().await;
                    let (taken, wait) = ends.lock().unwrap().take().unwrap();
                    taken.send(()).unwrap();
                    wait.await.unwrap();
                    log.add("ended");
                    7
                }
            });
            let kept = own.clone();
            let fiber = root.mount_fn("own", move |ctx: Context, (): ()| {
                let (worker, kept) = (worker.clone(), kept.clone());
                async move {
                    *kept.lock().unwrap() = Some(ctx.provide::<dyn Worker>(worker)?);
                    Ok::<_, BusError>(())
                }
            });
            let fiber = fiber.unwrap();
            fiber.running().await.unwrap();
            let provided = own.lock().unwrap().clone().unwrap();
            let worker = root.get::<dyn Worker>().unwrap();
            let steps = async {
                is_taken.await.unwrap();
                let mut other = pin!(async { provided.dispose().await });
                assert!(poll!(other.as_mut()).is_pending(), "the rest of the call runs still");
                let mut gone = pin!(fiber.dispose());
                assert!(poll!(gone.as_mut()).is_pending(), "for the fiber as well");
                go.send(()).unwrap();
                other.await;
                gone.await.unwrap();
                assert_eq!(log.seen(), ["ended"]);
            };
            let (answer, ()) = futures::join!(worker.work(), steps);
            assert_eq!(answer.unwrap(), 7);
        });
    }
}

#[test]
fn by_a_listener_of_a_plugin_that_needs_it() {
    for waits in [false, true] {
        everywhere(async |root| {
            let provided = root.provide::<dyn Worker>(DoesWork::new(async || 7)).unwrap();
            let own: Own = Arc::new(Mutex::new(Some(provided)));
            let log = Log::default();
            let says = log.clone();
            let user = root.mount_fn("user", move |ctx: Context, worker: Svc<dyn Worker>| {
                let (own, log) = (own.clone(), says.clone());
                async move {
                    ctx.on(listener!(async move |_: &Ask| {
                        wait_first(waits).await;
                        let provided = own.lock().unwrap().take().unwrap();
                        provided.dispose().await;
                        log.add("taken back");
                        worker.work().await.err().map(|it| it.code().len() as u32)
                    }))
                    .map(drop)
                }
            });
            let user = user.unwrap();
            user.running().await.unwrap();
            assert_eq!(root.serial(&Ask).await.unwrap(), Some("SERVICE_GONE".len() as u32));
            assert_eq!(log.seen(), ["taken back"]);
            assert_eq!(user.settled().await.unwrap(), FiberState::Pending);
            user.dispose().await.unwrap();
        });
    }
}

#[test]
fn by_the_start_of_a_plugin_that_needs_it() {
    everywhere(async |root| {
        let provided = root.provide::<dyn Worker>(DoesWork::new(async || 7)).unwrap();
        let own: Own = Arc::new(Mutex::new(Some(provided.clone())));
        let user = root.mount_fn("user", move |_: Context, _: Svc<dyn Worker>| {
            let own = own.clone();
            async move {
                let provided = own.lock().unwrap().take();
                provided.unwrap().dispose().await;
            }
        });
        let user = user.unwrap();
        assert_eq!(user.settled().await.unwrap(), FiberState::Pending);
        provided.dispose().await;
        user.dispose().await.unwrap();
    });
}

#[test]
fn while_its_fiber_is_disposed_from_the_same_call() {
    everywhere(async |root| {
        let own = Own::default();
        let fiber_of = Arc::new(Mutex::new(None::<linn_bus::Fiber>));
        let (handle, fiber) = (own.clone(), fiber_of.clone());
        let worker = DoesWork::new(move || {
            let (own, fiber) = (handle.clone(), fiber.clone());
            async move {
                after_a_wait().await;
                let provided = own.lock().unwrap().take().unwrap();
                let fiber = fiber.lock().unwrap().take().unwrap();
                let (gone, ()) = futures::join!(fiber.dispose(), async { provided.dispose().await });
                gone.unwrap();
                7
            }
        });
        let kept = own.clone();
        let fiber = root.mount_fn("own", move |ctx: Context, (): ()| {
            let (worker, kept) = (worker.clone(), kept.clone());
            async move {
                *kept.lock().unwrap() = Some(ctx.provide::<dyn Worker>(worker)?);
                Ok::<_, BusError>(())
            }
        });
        let fiber = fiber.unwrap();
        fiber.running().await.unwrap();
        *fiber_of.lock().unwrap() = Some(fiber.clone());
        assert_eq!(root.get::<dyn Worker>().unwrap().work().await.unwrap(), 7);
        fiber.dispose().await.unwrap();
    });
}
