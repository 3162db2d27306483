//! What hostile code may do to the bus: code that panics, comes back, or waits in places where it is least expected.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]
#![expect(clippy::disallowed_methods, reason = "a test that may hang is watched from another thread")]
#![allow(dead_code, reason = "services and payloads that nobody reads")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linn_bus::{
    BusError, Context, Demand, Event, Fault, Grace, NeedList, Plugin, Root, Service, ServiceError, Svc, TokioRuntime,
    listener, provider, service,
};

/// Runs `test` on a thread of its own; one that does not end has deadlocked.
fn ends<Fut: Future<Output = ()>>(test: impl FnOnce(Root) -> Fut + Send + 'static) {
    let (done, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let grace = Grace { dispose: Duration::from_millis(200), reload: Duration::from_millis(200) };
            test(Root::with_grace(TokioRuntime::seams(), grace)).await;
        });
        done.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(10)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}

#[derive(Clone, Event)]
#[event(name = "break/ping", mode = Emit)]
struct Ping;
#[derive(Event)]
#[event(name = "break/fan", mode = Parallel)]
struct Fan;

#[service("break/foo")]
trait Foo {
    fn value(&self) -> Result<u32, ServiceError>;
}
#[service("break/bar")]
trait Bar {
    fn value(&self) -> Result<u32, ServiceError>;
}

/// Runs a closure when it is dropped.
struct OnDrop(Mutex<Option<Box<dyn FnOnce() + Send>>>);
impl OnDrop {
    fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(run))))
    }
}
impl Drop for OnDrop {
    fn drop(&mut self) {
        let run = self.0.lock().unwrap().take();
        if let Some(run) = run {
            run();
        }
    }
}
#[provider]
impl Foo for OnDrop {
    fn value(&self) -> Result<u32, ServiceError> {
        Ok(1)
    }
}

/// Declares one event in each of several functions, with one name and one text, about different types.
macro_rules! twins {
    ($($function:ident $register:ident: $payload:ty = $value:expr;)*) => {$(
        fn $register(ctx: &Context, seen: &Arc<Mutex<Vec<String>>>) -> Result<(), BusError> {
            $function(ctx, Some(seen))
        }
        fn $function(ctx: &Context, seen: Option<&Arc<Mutex<Vec<String>>>>) -> Result<(), BusError> {
            type Payload = $payload;
            #[derive(Event)]
            #[event(name = "break/twin", mode = Emit)]
            struct Twin(Payload);
            match seen.cloned() {
                Some(seen) => {
                    ctx.on(move |twin: &Twin| seen.lock().unwrap().push(format!("{:?}", twin.0)))?;
                }
                None => ctx.emit(&Twin($value)),
            }
            Ok(())
        }
    )*};
}
twins! {
    number listen_to_number: u64 = 0x10;
    text listen_to_text: Option<&'static u64> = None;
}

#[test]
fn events_declared_by_one_macro_with_one_text_are_not_taken_for_each_other() {
    ends(async |root| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        drop(listen_to_text(&root, &seen));
        text(&root, None).unwrap();
        number(&root, None).unwrap();
        assert_eq!(*seen.lock().unwrap(), ["None"]);
        assert_eq!(listen_to_number(&root, &seen).unwrap_err().code(), "EVENT_CLASH");
    });
}

#[derive(Debug)]
struct Unspeakable;
impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("this error cannot be shown")
    }
}
impl std::error::Error for Unspeakable {}

#[test]
fn an_error_that_panics_when_it_is_shown_is_a_panic_of_its_listener() {
    ends(async |root| {
        let ran = Arc::new(AtomicUsize::new(0));
        root.on(async |_: &Fan| Err::<(), _>(Unspeakable)).unwrap();
        root.on(async |_: &Fan| {
            tokio::task::yield_now().await;
            Err::<(), _>(Unspeakable)
        })
        .unwrap();
        let count = ran.clone();
        root.on(listener!(async move |_: &Fan| {
            count.fetch_add(1, Ordering::Relaxed);
        }))
        .unwrap();
        let errors = root.parallel(&Fan).await.unwrap_err();
        assert_eq!(errors.iter().map(|it| it.code()).collect::<Vec<_>>(), ["LISTENER_PANICKED", "LISTENER_PANICKED"]);
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn what_a_composite_of_another_fiber_owns_goes_with_its_own_fiber_too() {
    ends(async |root| {
        let ran = Arc::new(AtomicUsize::new(0));
        let scope = root.scope().unwrap();
        let count = ran.clone();
        let heard = scope
            .context()
            .on(move |_: &Ping| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        let alive = Arc::new(());
        let held = alive.clone();
        let task = scope
            .context()
            .spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            })
            .unwrap();
        root.effect("keeper", |fx| {
            fx.own(heard);
            fx.own(task);
        })
        .unwrap();
        tokio::task::yield_now().await;
        scope.dispose().await.unwrap();
        root.emit(&Ping);
        assert_eq!(ran.load(Ordering::Relaxed), 0, "a listener ran after the disposal of its fiber");
        assert_eq!(Arc::strong_count(&alive), 1, "a task runs on after the disposal of its fiber");
        root.fiber().dispose().await.unwrap();
    });
}

#[test]
fn a_value_replaced_by_providing_again_is_dropped_outside_every_lock() {
    ends(async |root| {
        let ctx = root.context().clone();
        let value = Arc::new(OnDrop::new(move || drop(ctx.get::<dyn Bar>())));
        let provided = root.provide::<dyn Foo>(value).unwrap();
        let user = root.mount_fn("user", async |_: Context, _: Svc<dyn Foo>| {}).unwrap();
        user.running().await.unwrap();
        let gone = provided.dispose();
        root.provide::<dyn Foo>(Arc::new(OnDrop(Mutex::new(None)))).unwrap();
        gone.await;
        root.fiber().dispose().await.unwrap();
    });
}

struct Configured;
#[derive(Clone)]
struct Config(Arc<OnDrop>);
impl Plugin for Configured {
    const NAME: &'static str = "configured";
    type Config = Config;
    type Needs = ();
    async fn start(_: &Context, _: Config, (): ()) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn a_config_that_is_refused_is_dropped_outside_every_lock() {
    ends(async |root| {
        let scope = root.scope().unwrap();
        scope.dispose().await.unwrap();
        let ctx = root.context().clone();
        let config = Config(Arc::new(OnDrop::new(move || drop(ctx.scope()))));
        assert_eq!(scope.context().mount::<Configured>(config).unwrap_err().code(), "INACTIVE_EFFECT");
    });
}

#[test]
fn arguments_that_a_timer_lets_go_of_are_dropped_outside_every_lock() {
    ends(async |root| {
        let calm = root.debounce(Duration::from_secs(1), |_: OnDrop| {});
        let again = calm.clone();
        calm.call(OnDrop::new(move || again.call(OnDrop(Mutex::new(None)))));
        calm.call(OnDrop(Mutex::new(None)));
        let again = calm.clone();
        calm.call(OnDrop::new(move || again.call(OnDrop(Mutex::new(None)))));
        calm.dispose();
    });
}

macro_rules! chain {
    ($($plugin:ident $needs:ident $provides:ident $name:literal;)*) => {$(
        #[service($name)]
        trait $provides {
            fn value(&self) -> Result<u32, ServiceError>;
        }
        struct $plugin;
        impl Plugin for $plugin {
            const NAME: &'static str = $name;
            type Config = ();
            type Needs = Svc<dyn $needs>;
            fn provides(list: &mut NeedList) {
                list.add::<dyn $provides>(Demand::Required);
            }
            async fn start(_: &Context, (): (), _: Svc<dyn $needs>) -> Result<(), Fault> {
                Ok(())
            }
        }
    )*};
}
chain! {
    A Foo FromA "break/a";
    B FromA FromB "break/b";
    C FromB FromC "break/c";
    D FromC FromD "break/d";
    E FromD FromE "break/e";
}

#[test]
fn why_a_fiber_is_pending_is_found_among_many_instances_of_a_chain() {
    ends(async |root| {
        let _ = <dyn FromE as Service>::NAME;
        let mut last = None;
        for _ in 0..60 {
            root.mount::<A>(()).unwrap();
            root.mount::<B>(()).unwrap();
            root.mount::<C>(()).unwrap();
            root.mount::<D>(()).unwrap();
            last = Some(root.mount::<E>(()).unwrap());
        }
        let before = std::time::Instant::now();
        assert_eq!(last.unwrap().running().await.unwrap_err().code(), "FIBER_WAITING");
        let took = before.elapsed();
        assert!(took < Duration::from_millis(500), "one question took {took:?}");
    });
}

#[derive(Debug)]
struct Fussy;
impl From<ServiceError> for Fussy {
    fn from(error: ServiceError) -> Self {
        panic!("no conversion of {error}")
    }
}
#[service("break/fussy")]
trait Fusses {
    async fn fuss(&self) -> Result<(), Fussy>;
}
struct Panics;
#[provider]
impl Fusses for Panics {
    async fn fuss(&self) -> Result<(), Fussy> {
        panic!("in the method")
    }
}

#[test]
fn an_error_that_cannot_be_made_of_a_service_error_leaves_no_frame_behind() {
    ends(async |root| {
        let scope = root.scope().unwrap();
        scope.context().provide::<dyn Fusses>(Arc::new(Panics)).unwrap();
        let service = root.get::<dyn Fusses>().unwrap();
        // On a thread of its own, which stays.
        let (done, called) = tokio::sync::oneshot::channel();
        let (leave, stay) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(service.fuss())));
            assert!(outcome.is_err());
            done.send(()).unwrap();
            let _ = stay.recv();
        });
        called.await.unwrap();
        scope.dispose().await.unwrap();
        drop(leave);
        thread.join().unwrap();
    });
}

static FRAGILE: AtomicBool = AtomicBool::new(false);
#[derive(Event)]
#[event(name = "break/ordered", mode = Emit, ordered)]
struct Ordered(u32);
impl Clone for Ordered {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}
impl Drop for Ordered {
    fn drop(&mut self) {
        if self.0 == 2 && FRAGILE.swap(false, Ordering::Relaxed) {
            panic!("in the drop of a payload");
        }
    }
}

#[test]
fn an_ordered_event_goes_on_after_a_payload_that_panics_when_it_is_dropped() {
    ends(async |root| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, ctx) = (seen.clone(), root.context().clone());
        root.on(move |it: &Ordered| {
            log.lock().unwrap().push(it.0);
            if it.0 == 1 {
                let second = std::mem::ManuallyDrop::new(Ordered(2));
                ctx.emit(&*second);
                FRAGILE.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| root.emit(&Ordered(1)))));
        root.emit(&Ordered(3));
        assert_eq!(*seen.lock().unwrap(), [1, 2, 3]);
    });
}

/// What `inspect` shows of the effects of one plugin.
fn effects(root: &Root, plugin: &str) -> Vec<String> {
    let fibers = root.inspect().fibers.into_iter().filter(|it| &*it.name == plugin);
    fibers.flat_map(|it| it.effects).map(|it| format!("{}{:?}", it.label, it.children)).collect()
}

#[test]
fn a_composite_refuses_to_own_itself() {
    ends(async |root| {
        let kept = Arc::new(Mutex::new(None));
        let keep = kept.clone();
        let handle = root.effect("ring", move |fx| *keep.lock().unwrap() = Some(fx.clone())).unwrap();
        let composite = kept.lock().unwrap().take().unwrap();
        composite.own(handle.clone());
        assert_eq!(effects(&root, "root"), ["ring[]"]);
        handle.dispose().await;
        assert!(effects(&root, "root").is_empty());
    });
}

#[test]
fn composites_refuse_to_own_each_other_through_a_third() {
    ends(async |root| {
        let mut composites = Vec::new();
        let handles: Vec<_> = (0..3).map(|_| root.effect("", |fx| composites.push(fx.clone())).unwrap()).collect();
        for (at, composite) in composites.iter().enumerate() {
            composite.own(handles[(at + 1) % 3].clone());
        }
        let undone = Arc::new(AtomicUsize::new(0));
        for composite in composites {
            let undone = undone.clone();
            composite.defer(move || {
                undone.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(root.fiber().effects().len(), 1, "the first owns the second, and that one the third");
        root.fiber().dispose().await.unwrap();
        assert_eq!(undone.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_composite_being_undone_refuses_to_come_to_own_itself_through_what_it_owns() {
    ends(async |root| {
        let outer = Arc::new(Mutex::new(None::<linn_bus::EffectHandle>));
        let (whole, stopping) = (outer.clone(), Arc::new(tokio::sync::Notify::new()));
        let stopped = stopping.clone();
        let inner = root
            .effect_async("inner", async move |fx| {
                stopped.notified().await;
                let outer = whole.lock().unwrap().take().unwrap();
                fx.own(outer);
            })
            .unwrap();
        let handle = root.effect("outer", |fx| fx.own(inner)).unwrap();
        *outer.lock().unwrap() = Some(handle.clone());
        let undone = handle.dispose();
        stopping.notify_one();
        undone.await;
    });
}

#[test]
fn an_effect_refuses_to_own_a_fiber_around_it() {
    ends(async |root| {
        let fiber = root
            .mount_fn("self", async |ctx: Context, (): ()| -> Result<(), BusError> {
                let me = ctx.fiber();
                ctx.effect("me", |fx| fx.own(me.clone()))?;
                ctx.scope()?.context().effect("outer", |fx| fx.own(me))?;
                Ok(())
            })
            .unwrap();
        fiber.running().await.unwrap();
        assert_eq!(effects(&root, "self").first().map(String::as_str), Some("me[]"));
        fiber.dispose().await.unwrap();
        assert_eq!(fiber.id(), None);
    });
}

#[test]
fn an_effect_refuses_to_own_a_fiber_whose_effect_owns_its_own_fiber() {
    ends(async |root| {
        let (one, other) = (root.scope().unwrap(), root.scope().unwrap());
        one.context().effect("owner", |fx| fx.own(other.fiber().clone())).unwrap();
        other.context().effect("owned", |fx| fx.own(one.fiber().clone())).unwrap();
        one.dispose().await.unwrap();
        assert_eq!(other.fiber().id(), None, "it went with the effect that owns it");
    });
}

#[test]
fn disposal_ends_when_the_runtime_is_gone() {
    ends(async |_| {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let root = runtime.block_on(async {
                let root = Root::new(TokioRuntime::seams());
                let fiber = root.mount_fn("late", async |_: Context, (): ()| {}).unwrap();
                fiber.running().await.unwrap();
                root
            });
            drop(runtime);
            drop(futures::executor::block_on(root.fiber().dispose()));
        })
        .join()
        .unwrap();
    });
}

/// A waker that runs a closure when the last of it is dropped, as one does that owns its task.
struct TaskWaker(OnDrop);
impl std::task::Wake for TaskWaker {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn wakers_are_dropped_outside_every_lock() {
    ends(async |root| {
        // A queue, whose reader is polled from a second task after the first.
        let queue = Arc::new(futures::lock::Mutex::new(root.queue::<Ping>(4).unwrap()));
        let ctx = root.context().clone();
        let waker: std::task::Waker = Arc::new(TaskWaker(OnDrop::new(move || ctx.emit(&Ping)))).into();
        let mut queue = queue.lock().await;
        let mut next = std::pin::pin!(queue.next());
        assert!(next.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        drop(waker);
        let _ = next.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    });
}

#[test]
fn wakers_of_sleepers_are_dropped_outside_every_lock() {
    ends(async |root| {
        let ctx = root.context().clone();
        let waker: std::task::Waker =
            Arc::new(TaskWaker(OnDrop::new(move || ctx.sleep(Duration::ZERO).now_or_not()))).into();
        let mut sleep = Box::pin(root.sleep(Duration::from_secs(1)));
        assert!(sleep.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        drop(waker);
        let _ = sleep.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    });
}

trait NowOrNot: Future + Sized {
    /// Polls once.
    fn now_or_not(self) {
        let _ = Box::pin(self).as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    }
}
impl<F: Future> NowOrNot for F {}
