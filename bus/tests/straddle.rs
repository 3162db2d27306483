//! Dispatches that wait while a version is switched in: what they have still ahead of them is the old version or an error,
//! never nothing.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::channel::oneshot;
use futures::future::{FutureExt as _, Shared};
use futures::poll;
use linn_bus::{
    Cause, Context, Event, Fault, FiberState, Grace, ListenerError, Next, Plugin, Root, ScopeKey, ServiceError, Svc,
    listener, provider, service,
};

/// May it happen? The gate of this version answers.
#[derive(Event)]
#[event(name = "straddle/ask", mode = Serial, output = u32)]
struct Ask;

#[derive(Event)]
#[event(name = "straddle/wrap", mode = Waterfall, output = u32)]
struct Wrap;

#[derive(Event)]
#[event(name = "straddle/scoped", mode = Serial, output = u32, subject = key)]
struct Scoped {
    key: ScopeKey,
}

#[service("straddle/number")]
trait Number {
    fn number(&self) -> Result<u32, ServiceError>;
}

struct Fixed(u32);

#[provider]
impl Number for Fixed {
    fn number(&self) -> Result<u32, ServiceError> {
        Ok(self.0)
    }
}

/// A permission gate of some version.
#[derive(Debug)]
struct Gate;

impl Plugin for Gate {
    const NAME: &'static str = "gate";
    type Config = u32;
    type Needs = ();
    async fn start(ctx: &Context, version: u32, (): ()) -> Result<(), Fault> {
        ctx.on(move |_: &Ask| Some(version))?;
        ctx.on(move |_: &Scoped| Some(version))?;
        ctx.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            Ok::<_, ListenerError>(next.run().await? + 10 * version)
        }))?;
        ctx.provide::<dyn Number>(Arc::new(Fixed(version)))?;
        Ok(())
    }
}

type Wait = Shared<oneshot::Receiver<()>>;

/// What a listener in front of the gate waits for.
fn wait() -> (oneshot::Sender<()>, Wait) {
    let (go, wait) = oneshot::channel();
    (go, wait.shared())
}

/// The first version, with listeners in front of it that wait.
async fn gated(root: &Root, wait: &Wait) -> linn_bus::Mounted<Gate> {
    let it = wait.clone();
    root.on(listener!(async move |_: &Ask| {
        it.clone().await.unwrap();
        None
    }))
    .unwrap();
    let it = wait.clone();
    root.on(listener!(async move |_: &Scoped| {
        it.clone().await.unwrap();
        None
    }))
    .unwrap();
    let it = wait.clone();
    root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
        it.clone().await.unwrap();
        next.run().await
    }))
    .unwrap();
    let old = root.mount::<Gate>(1).unwrap();
    old.running().await.unwrap();
    old
}

#[test]
fn a_serial_dispatch_that_waits_across_a_switch_meets_the_old_version() {
    linn_bus_test::run(async |root| {
        let (go, wait) = wait();
        let old = gated(&root, &wait).await;
        let mut straddles = pin!(root.serial(&Ask));
        assert!(poll!(straddles.as_mut()).is_pending());
        let before = root.clock().monotonic();
        let switched = root.prepare_for::<Gate>(&old, 2).unwrap().switch().await.unwrap();
        // Longer than the grace of a disposal, not than that of a reload.
        root.sleep(Grace::default().dispose * 2).await.unwrap();
        assert_eq!(old.state(), FiberState::Unloading);
        go.send(()).unwrap();
        assert_eq!(straddles.await.unwrap(), Some(1));
        switched.old_gone().await.unwrap();
        assert_eq!(root.clock().monotonic() - before, Grace::default().dispose * 2, "gone as soon as it was met");
        assert_eq!(root.serial(&Ask).await.unwrap(), Some(2));
    });
}

#[test]
fn a_waterfall_that_waits_across_a_switch_meets_the_old_version() {
    linn_bus_test::run(async |root| {
        let (go, wait) = wait();
        let old = gated(&root, &wait).await;
        let mut straddles = pin!(root.waterfall(&Wrap, async || 3));
        assert!(poll!(straddles.as_mut()).is_pending());
        let before = root.clock().monotonic();
        let switched = root.prepare_for::<Gate>(&old, 2).unwrap().switch().await.unwrap();
        root.sleep(Grace::default().dispose * 2).await.unwrap();
        go.send(()).unwrap();
        assert_eq!(straddles.await.unwrap(), 13);
        switched.old_gone().await.unwrap();
        assert_eq!(root.clock().monotonic() - before, Grace::default().dispose * 2);
        assert_eq!(root.waterfall(&Wrap, async || 3).await.unwrap(), 23);
    });
}

#[test]
fn so_does_one_whose_list_was_replaced_before_and_one_in_a_scope() {
    linn_bus_test::run(async |root| {
        let (go, wait) = wait();
        let old = gated(&root, &wait).await;
        let key = root.new_scope_key();
        let scope = root.scope_for(&key).unwrap();
        scope.context().on(|_: &Scoped| None).unwrap();
        let about = Scoped { key };
        let mut straddles = [root.serial(&about).boxed(), root.serial(&Ask).boxed()];
        for it in &mut straddles {
            assert!(poll!(it).is_pending());
        }
        // These lists are past already when the version is switched in.
        root.on(|_: &Ask| None).unwrap();
        root.on(|_: &Scoped| None).unwrap();
        let switched = root.prepare_for::<Gate>(&old, 2).unwrap().switch().await.unwrap();
        root.sleep(Grace::default().dispose * 2).await.unwrap();
        go.send(()).unwrap();
        for it in straddles {
            assert_eq!(it.await.unwrap(), Some(1));
        }
        switched.old_gone().await.unwrap();
    });
}

#[test]
fn a_dispatch_that_outlasts_the_grace_of_a_reload_fails_where_the_old_version_was() {
    linn_bus_test::run(async |root| {
        let (go, wait) = wait();
        let old = gated(&root, &wait).await;
        let mut asks = pin!(root.serial(&Ask));
        let mut wraps = pin!(root.waterfall(&Wrap, async || 3));
        assert!(poll!(asks.as_mut()).is_pending());
        assert!(poll!(wraps.as_mut()).is_pending());
        let before = root.clock().monotonic();
        let switched = root.prepare_for::<Gate>(&old, 2).unwrap().switch().await.unwrap();
        switched.old_gone().await.unwrap();
        assert_eq!(root.clock().monotonic() - before, Grace::default().reload);
        go.send(()).unwrap();
        for error in [asks.await.unwrap_err(), wraps.await.unwrap_err()] {
            assert!(matches!(error.cause(), Cause::Unloaded), "{error:#}");
            assert_eq!(error.plugin(), "gate");
        }
    });
}

#[test]
fn a_dispatch_dropped_across_a_switch_holds_nobody_up() {
    linn_bus_test::run(async |root| {
        let (_go, wait) = wait();
        let old = gated(&root, &wait).await;
        let before = root.clock().monotonic();
        let switched = {
            let mut straddles = pin!(root.serial(&Ask));
            assert!(poll!(straddles.as_mut()).is_pending());
            root.prepare_for::<Gate>(&old, 2).unwrap().switch().await.unwrap()
        };
        switched.old_gone().await.unwrap();
        assert_eq!(root.clock().monotonic(), before);
    });
}

#[test]
fn a_listener_that_awaits_the_end_of_the_version_ahead_of_it_does_not_wait_for_itself() {
    linn_bus_test::run(async |root| {
        let slot = Arc::new(Mutex::new(None::<linn_bus::Mounted<Gate>>));
        let (ctx, old) = (root.context().clone(), slot.clone());
        root.on(listener!(async move |_: &Ask| {
            let old = old.lock().unwrap().take()?;
            let switched = ctx.prepare_for::<Gate>(&old, 2).unwrap().switch().await.unwrap();
            switched.old_gone().await.unwrap();
            None
        }))
        .unwrap();
        let old = root.mount::<Gate>(1).unwrap();
        old.running().await.unwrap();
        *slot.lock().unwrap() = Some(old);
        let before = root.clock().monotonic();
        let error = root.serial(&Ask).await.unwrap_err();
        assert!(matches!(error.cause(), Cause::Unloaded), "{error:#}");
        assert_eq!(root.clock().monotonic(), before);
        assert_eq!(root.serial(&Ask).await.unwrap(), Some(2));
    });
}

#[test]
fn what_the_old_version_disposed_itself_is_left_out_as_ever() {
    linn_bus_test::run(async |root| {
        let (go, wait) = wait();
        let early = root.on(listener!(async move |_: &Ask| {
            wait.clone().await.unwrap();
            None::<u32>
        }));
        early.unwrap();
        let handle = Arc::new(Mutex::new(None));
        let kept = handle.clone();
        struct Once;
        impl Plugin for Once {
            const NAME: &'static str = "once";
            type Config = Arc<Mutex<Option<linn_bus::Listener>>>;
            type Needs = ();
            async fn start(ctx: &Context, kept: Self::Config, (): ()) -> Result<(), Fault> {
                *kept.lock().unwrap() = Some(ctx.on(|_: &Ask| Some(1))?);
                Ok(())
            }
        }
        let old = root.mount::<Once>(kept).unwrap();
        old.running().await.unwrap();
        let mut straddles = pin!(root.serial(&Ask));
        assert!(poll!(straddles.as_mut()).is_pending());
        assert!(handle.lock().unwrap().take().unwrap().dispose());
        let switched = root.prepare_for::<Once>(&old, Arc::default()).unwrap().switch().await.unwrap();
        switched.old_gone().await.unwrap();
        go.send(()).unwrap();
        assert_eq!(straddles.await.unwrap(), None);
    });
}

#[test]
fn who_needs_a_service_of_the_old_version_does_not_wait_for_dispatches() {
    linn_bus_test::run(async |root| {
        let (go, wait) = wait();
        let old = gated(&root, &wait).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let user = root.mount_fn("user", move |_: Context, number: Svc<dyn Number>| {
            log.lock().unwrap().push(number.number().unwrap());
            async {}
        });
        user.as_ref().unwrap().running().await.unwrap();
        let mut straddles = pin!(root.serial(&Ask));
        assert!(poll!(straddles.as_mut()).is_pending());
        let before = root.clock().monotonic();
        let switched = root.prepare_for::<Gate>(&old, 2).unwrap().switch().await.unwrap();
        root.sleep(std::time::Duration::from_millis(1)).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [1, 2]);
        assert!(root.clock().monotonic() - before < Grace::default().dispose);
        go.send(()).unwrap();
        assert_eq!(straddles.await.unwrap(), Some(1));
        switched.old_gone().await.unwrap();
    });
}

#[test]
fn a_service_that_somebody_else_provides_meanwhile_refuses_the_switch() {
    linn_bus_test::run(async |root| {
        struct Bare;
        impl Plugin for Bare {
            const NAME: &'static str = "bare";
            type Config = ();
            type Needs = ();
            async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
                ctx.on(|_: &Ask| Some(0))?;
                Ok(())
            }
        }
        let old = root.mount::<Bare>(()).unwrap();
        old.running().await.unwrap();
        let before = format!("{:?}", root.inspect().fibers);
        let prepared = root.prepare_for::<Gate>(&old, 2).unwrap();
        prepared.fiber().running().await.unwrap();
        let third = root.provide::<dyn Number>(Arc::new(Fixed(7))).unwrap();
        let error = prepared.switch().await.unwrap_err();
        assert_eq!(error.code(), "SERVICE_TAKEN");
        assert!(error.to_string().contains("straddle/number") && error.to_string().contains("root"), "{error}");
        assert_eq!(root.serial(&Ask).await.unwrap(), Some(0), "the old version runs on");
        assert_eq!(root.get::<dyn Number>().unwrap().number().unwrap(), 7);
        third.dispose().await;
        assert_eq!(format!("{:?}", root.inspect().fibers), before);
        let switched = root.prepare_for::<Gate>(&old, 3).unwrap().switch().await.unwrap();
        switched.old_gone().await.unwrap();
        assert_eq!(root.get::<dyn Number>().unwrap().number().unwrap(), 3);
    });
}
