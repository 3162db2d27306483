//! Reload: a version prepared in the wings takes the place of the old one in one step.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::oneshot;
use futures::poll;
use linn_bus::{
    BusError, Cause, Context, Event, Fault, FiberState, Grace, Plugin, Root, ServiceError, Svc, TokioRuntime, listener,
    provider, service,
};

/// Which version hears it?
#[derive(Event)]
#[event(name = "reload/one", mode = Bail, output = u32)]
struct One;

/// The same question as another event.
#[derive(Event)]
#[event(name = "reload/two", mode = Bail, output = u32)]
struct Two;

/// Everybody writes down who they are.
#[derive(Event)]
#[event(name = "reload/roll", mode = Emit)]
struct Roll(Mutex<Vec<u32>>);

#[derive(Event)]
#[event(name = "reload/slow", mode = Serial, output = u32)]
struct Slow;

#[service("reload/version")]
trait Version {
    fn version(&self) -> Result<u32, ServiceError>;
    async fn slow(&self) -> Result<u32, ServiceError>;
}

struct Numbered(u32, Gates);

#[provider]
impl Version for Numbered {
    fn version(&self) -> Result<u32, ServiceError> {
        Ok(self.0)
    }
    async fn slow(&self) -> Result<u32, ServiceError> {
        self.1.wait().await;
        Ok(self.0)
    }
}

/// Where calls wait until the test lets them go on.
#[derive(Clone, Default)]
struct Gates(Arc<Mutex<Vec<oneshot::Sender<()>>>>);

impl Gates {
    async fn wait(&self) {
        let (go, wait) = oneshot::channel();
        self.0.lock().unwrap().push(go);
        let _ = wait.await;
    }

    fn open(&self) {
        self.0.lock().unwrap().clear();
    }
}

#[derive(Clone)]
struct Config {
    version: u32,
    provides: bool,
    fails: bool,
    gates: Gates,
}

impl Config {
    fn version(version: u32) -> Self {
        Self { version, provides: false, fails: false, gates: Gates::default() }
    }
}

/// A plugin with listeners of its own and of a child.
#[derive(Debug)]
struct Versioned;

impl Plugin for Versioned {
    const NAME: &'static str = "versioned";
    type Config = Config;
    type Needs = ();
    async fn start(ctx: &Context, config: Config, (): ()) -> Result<(), Fault> {
        let Config { version, provides, fails, gates } = config;
        ctx.on(move |_: &One| Some(version))?;
        ctx.on(move |roll: &Roll| roll.0.lock().unwrap().push(version))?;
        let waits = gates.clone();
        ctx.on(listener!(async move |_: &Slow| {
            waits.wait().await;
            Some(version)
        }))?;
        if provides {
            ctx.provide::<dyn Version>(Arc::new(Numbered(version, gates)))?;
        }
        let child = ctx.mount_fn("child", move |ctx: Context, (): ()| async move {
            ctx.on(move |_: &Two| Some(version))?;
            ctx.on(move |roll: &Roll| roll.0.lock().unwrap().push(version + 100)).map(drop)
        })?;
        child.settled().await?;
        if fails {
            return Err(Fault::msg("no version for you"));
        }
        Ok(())
    }
}

fn roll(root: &Root) -> Vec<u32> {
    let roll = Roll(Mutex::default());
    root.emit(&roll);
    roll.0.into_inner().unwrap()
}

#[test]
fn a_prepared_version_is_unheard_and_then_takes_the_place_with_its_subtree() {
    linn_bus_test::run(async |root| {
        let before = root.mount_fn("before", async |ctx: Context, (): ()| {
            ctx.on(|roll: &Roll| roll.0.lock().unwrap().push(0)).map(drop)
        });
        before.unwrap().settled().await.unwrap();
        let old = root.mount::<Versioned>(Config::version(1)).unwrap();
        old.settled().await.unwrap();
        let after = root.mount_fn("after", async |ctx: Context, (): ()| {
            ctx.on(|roll: &Roll| roll.0.lock().unwrap().push(9)).map(drop)
        });
        after.unwrap().settled().await.unwrap();
        assert_eq!(roll(&root), [0, 1, 101, 9]);

        let new = root.prepare_for::<Versioned>(&old, Config::version(2)).unwrap();
        assert!(old.is_visible() && !new.fiber().is_visible());
        new.fiber().settled().await.unwrap();
        assert_eq!(roll(&root), [0, 1, 101, 9]);
        assert_eq!(root.bail(&One).unwrap(), Some(1));

        let switched = new.switch().await.unwrap();
        assert_eq!(roll(&root), [0, 2, 102, 9]);
        assert_eq!((root.bail(&One).unwrap(), root.bail(&Two).unwrap()), (Some(2), Some(2)));
        assert_eq!(switched.mounted().place(), old.place());
        switched.old_gone().await.unwrap();
        assert_eq!(old.state(), FiberState::Disposed);
        assert_eq!(roll(&root), [0, 2, 102, 9]);
        let names: Vec<_> = root.inspect().fibers.iter().map(|it| it.name.to_string()).collect();
        assert_eq!(names, ["root", "before", "versioned", "child", "after"]);
    });
}

#[test]
fn a_version_that_fails_leaves_the_old_one_running_and_nothing_of_itself() {
    linn_bus_test::run(async |root| {
        let old = root.mount::<Versioned>(Config { provides: true, ..Config::version(1) }).unwrap();
        old.settled().await.unwrap();
        let before = format!("{:?}", root.inspect());
        let bad = Config { fails: true, provides: true, ..Config::version(2) };
        let new = root.prepare_for::<Versioned>(&old, bad).unwrap();
        let error = new.switch().await.unwrap_err();
        assert!(matches!(error, BusError::StartFailed { .. }), "{error}");
        assert_eq!(roll(&root), [1, 101]);
        assert_eq!(root.get::<dyn Version>().unwrap().version().unwrap(), 1);
        assert_eq!(format!("{:?}", root.inspect()), before);
        assert_eq!(old.state(), FiberState::Active);
    });
}

#[test]
fn a_version_that_waits_for_a_service_is_not_switched_in() {
    linn_bus_test::run(async |root| {
        #[derive(Debug)]
        struct Needy;
        impl Plugin for Needy {
            const NAME: &'static str = "needy";
            type Config = ();
            type Needs = Svc<dyn Version>;
            async fn start(ctx: &Context, (): (), _: Self::Needs) -> Result<(), Fault> {
                ctx.on(|_: &One| Some(2))?;
                Ok(())
            }
        }
        let old = root.mount::<Versioned>(Config::version(1)).unwrap();
        old.settled().await.unwrap();
        let error = root.prepare_for::<Needy>(&old, ()).unwrap().switch().await.unwrap_err();
        assert_eq!(error.code(), "NOT_PREPARED");
        assert_eq!(root.bail(&One).unwrap(), Some(1));
        assert_eq!(root.inspect().fibers.len(), 3);
    });
}

#[test]
fn a_prepared_version_that_is_disposed_leaves_no_trace() {
    linn_bus_test::run(async |root| {
        let old = root.mount::<Versioned>(Config::version(1)).unwrap();
        old.settled().await.unwrap();
        let before = format!("{:?}", root.inspect());
        let new = root.prepare_for::<Versioned>(&old, Config { provides: true, ..Config::version(2) }).unwrap();
        new.fiber().settled().await.unwrap();
        assert!(root.get::<dyn Version>().is_none());
        new.fiber().dispose().await.unwrap();
        assert_eq!(format!("{:?}", root.inspect()), before);
        root.provide::<dyn Version>(Arc::new(Numbered(7, Gates::default()))).unwrap();
        assert_eq!(root.get::<dyn Version>().unwrap().version().unwrap(), 7);
    });
}

#[test]
fn calls_in_flight_end_on_the_old_version() {
    linn_bus_test::run(async |root| {
        let (old_gates, new_gates) = (Gates::default(), Gates::default());
        let old = root.mount::<Versioned>(Config { gates: old_gates.clone(), ..Config::version(1) }).unwrap();
        old.settled().await.unwrap();
        let mut in_flight = pin!(root.serial(&Slow));
        assert!(poll!(in_flight.as_mut()).is_pending());
        let new = Config { gates: new_gates.clone(), ..Config::version(2) };
        let switched = root.prepare_for::<Versioned>(&old, new).unwrap().switch().await.unwrap();
        let mut next = pin!(root.serial(&Slow));
        assert!(poll!(next.as_mut()).is_pending());
        // Longer than the grace of a disposal, not than that of a reload.
        root.sleep(Grace::default().dispose * 2).await.unwrap();
        assert_eq!(old.state(), FiberState::Unloading);
        new_gates.open();
        assert_eq!(next.await.unwrap(), Some(2));
        old_gates.open();
        assert_eq!(in_flight.await.unwrap(), Some(1));
        switched.old_gone().await.unwrap();
    });
}

/// A plugin whose calls wait, then sleep, then await a task of theirs; and that counts the ticks of an interval.
struct Patient;

#[derive(Clone)]
struct PatientConfig {
    version: u32,
    gates: Gates,
    ticks: Arc<AtomicU32>,
}

impl Plugin for Patient {
    const NAME: &'static str = "patient";
    type Config = PatientConfig;
    type Needs = ();
    async fn start(ctx: &Context, config: PatientConfig, (): ()) -> Result<(), Fault> {
        let PatientConfig { version, gates, ticks } = config;
        ctx.interval(Duration::from_secs(1), move || {
            ticks.fetch_add(1, Ordering::Relaxed);
        })?;
        let own = ctx.clone();
        ctx.on(listener!(async move |_: &Slow| -> Result<Option<u32>, Fault> {
            gates.wait().await;
            own.sleep(Duration::from_millis(1)).await?;
            let sleeper = own.clone();
            let asleep = own.spawn(async move { sleeper.sleep(Duration::from_millis(1)).await })?;
            asleep.join().await??;
            Ok(Some(version))
        }))?;
        Ok(())
    }
}

#[test]
fn a_call_in_flight_sleeps_and_starts_tasks_on_the_old_version_whose_interval_has_stopped() {
    linn_bus_test::run(async |root| {
        let config = |version| PatientConfig { version, gates: Gates::default(), ticks: Arc::new(AtomicU32::new(0)) };
        let (first, second) = (config(1), config(2));
        let old = root.mount::<Patient>(first.clone()).unwrap();
        old.settled().await.unwrap();
        let mut in_flight = pin!(root.serial(&Slow));
        assert!(poll!(in_flight.as_mut()).is_pending());
        let switched = root.prepare_for::<Patient>(&old, second.clone()).unwrap().switch().await.unwrap();
        root.sleep(Duration::from_secs(3)).await.unwrap();
        assert_eq!(first.ticks.load(Ordering::Relaxed), 0, "the interval of the old version");
        assert!(second.ticks.load(Ordering::Relaxed) >= 2, "the interval of the new one");
        assert_eq!(old.state(), FiberState::Unloading);
        first.gates.open();
        assert_eq!(in_flight.await.unwrap(), Some(1));
        switched.old_gone().await.unwrap();
    });
}

/// A plugin whose child and scope have an interval each, and that has a call to wait for.
struct Ticking;

impl Plugin for Ticking {
    const NAME: &'static str = "ticking";
    type Config = PatientConfig;
    type Needs = ();
    async fn start(ctx: &Context, config: PatientConfig, (): ()) -> Result<(), Fault> {
        let PatientConfig { gates, ticks, version } = config;
        let count = move || {
            let ticks = ticks.clone();
            move || {
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        };
        ctx.scope()?.context().interval(Duration::from_secs(1), count())?;
        let child = ctx.mount_fn("child", move |ctx: Context, (): ()| {
            let tick = count();
            async move { ctx.interval(Duration::from_secs(1), tick).map(drop) }
        })?;
        child.settled().await?;
        ctx.on(listener!(async move |_: &Slow| {
            gates.wait().await;
            Some(version)
        }))?;
        Ok(())
    }
}

#[test]
fn intervals_below_an_old_version_stop_while_a_call_in_flight_ends_on_it() {
    linn_bus_test::run(async |root| {
        let config = |version| PatientConfig { version, gates: Gates::default(), ticks: Arc::new(AtomicU32::new(0)) };
        let (first, second) = (config(1), config(2));
        let old = root.mount::<Ticking>(first.clone()).unwrap();
        old.settled().await.unwrap();
        let mut in_flight = pin!(root.serial(&Slow));
        assert!(poll!(in_flight.as_mut()).is_pending());
        let switched = root.prepare_for::<Ticking>(&old, second.clone()).unwrap().switch().await.unwrap();
        root.sleep(Duration::from_millis(2500)).await.unwrap();
        assert_eq!(first.ticks.load(Ordering::Relaxed), 0, "the intervals below the old version");
        assert_eq!(second.ticks.load(Ordering::Relaxed), 4, "the intervals below the new one");
        first.gates.open();
        assert_eq!(in_flight.await.unwrap(), Some(1));
        switched.old_gone().await.unwrap();
    });
}

#[test]
fn of_two_versions_prepared_for_one_place_only_the_first_switched_takes_it() {
    linn_bus_test::run(async |root| {
        let gates = Gates::default();
        let old = root.mount::<Versioned>(Config { gates: gates.clone(), ..Config::version(1) }).unwrap();
        old.settled().await.unwrap();
        let prepare = |version| root.prepare_for::<Versioned>(&old, Config::version(version)).unwrap();
        let (second, third, fourth) = (prepare(2), prepare(3), prepare(4));
        let mut in_flight = pin!(root.serial(&Slow));
        assert!(poll!(in_flight.as_mut()).is_pending());
        let switched = second.switch().await.unwrap();
        let while_it_drains = third.switch().await.unwrap_err();
        assert_eq!(while_it_drains.code(), "FIBER_DISPOSED");
        gates.open();
        assert_eq!(in_flight.await.unwrap(), Some(1));
        switched.old_gone().await.unwrap();
        let when_it_is_gone = fourth.switch().await.unwrap_err();
        assert_eq!(when_it_is_gone.code(), "FIBER_DISPOSED");
        assert_eq!(roll(&root), [2, 102]);
        assert_eq!(root.inspect().fibers.len(), 3);
    });
}

#[test]
fn calls_that_outlast_the_grace_of_a_reload_are_dropped() {
    linn_bus_test::run(async |root| {
        let old = root.mount::<Versioned>(Config::version(1)).unwrap();
        old.settled().await.unwrap();
        let mut call = pin!(root.serial(&Slow));
        assert!(poll!(call.as_mut()).is_pending());
        let before = root.clock().monotonic();
        let switched = root.prepare_for::<Versioned>(&old, Config::version(2)).unwrap().switch().await.unwrap();
        let (call, gone) = futures::join!(call, switched.old_gone());
        assert!(matches!(call.unwrap_err().cause(), Cause::Unloaded));
        gone.unwrap();
        assert_eq!(root.clock().monotonic() - before, Grace::default().reload);
    });
}

#[test]
fn a_service_is_handed_over_after_its_calls_have_drained_and_dependants_restart_once() {
    linn_bus_test::run(async |root| {
        let gates = Gates::default();
        let provides = Config { provides: true, gates: gates.clone(), ..Config::version(1) };
        let old = root.mount::<Versioned>(provides).unwrap();
        old.settled().await.unwrap();
        let starts = Arc::new(Mutex::new(Vec::new()));
        let started = starts.clone();
        let user = root
            .mount_fn("user", move |_: Context, version: Svc<dyn Version>| {
                started.lock().unwrap().push(version.version().unwrap());
                async {}
            })
            .unwrap();
        user.settled().await.unwrap();
        let held = root.get::<dyn Version>().unwrap();
        let mut call = pin!(held.slow());
        assert!(poll!(call.as_mut()).is_pending());

        let new = Config { provides: true, ..Config::version(2) };
        let switched = root.prepare_for::<Versioned>(&old, new).unwrap().switch().await.unwrap();
        assert_eq!(root.get::<dyn Version>().unwrap().version().unwrap(), 2, "who asks now gets the new one");
        root.sleep(Duration::from_secs(1)).await.unwrap();
        assert_eq!(user.state(), FiberState::Pending, "calls of the old one have not ended");
        gates.open();
        assert_eq!(call.await.unwrap(), 1);
        switched.old_gone().await.unwrap();
        user.running().await.unwrap();
        assert_eq!(*starts.lock().unwrap(), [1, 2]);
        assert!(matches!(held.version(), Err(ServiceError::Gone { .. })));
        let provided = root.inspect().services;
        assert_eq!(provided.len(), 1, "{provided:?}");
    });
}

#[derive(Event)]
#[event(name = "reload/renew", mode = Serial, output = u32)]
struct Renew;

/// A plugin that replaces itself when it is asked to.
struct Renewing;

impl Plugin for Renewing {
    const NAME: &'static str = "renewing";
    type Config = u32;
    type Needs = ();
    async fn start(ctx: &Context, version: u32, (): ()) -> Result<(), Fault> {
        ctx.on(move |_: &One| Some(version))?;
        let own = ctx.clone();
        ctx.on(listener!(async move |_: &Renew| -> Result<Option<u32>, Fault> {
            own.prepare_for::<Self>(&own.fiber(), version + 1)?.switch().await?;
            Ok(Some(version))
        }))?;
        Ok(())
    }
}

#[test]
fn a_version_prepared_by_the_old_one_itself_outlives_it() {
    linn_bus_test::run(async |root| {
        let old = root.mount::<Renewing>(1).unwrap();
        old.settled().await.unwrap();
        assert_eq!(root.serial(&Renew).await.unwrap(), Some(1));
        old.dispose().await.unwrap();
        assert_eq!(root.bail(&One).unwrap(), Some(2));
        assert_eq!(root.inspect().fibers.len(), 2);
    });
}

#[test]
fn no_version_takes_the_place_of_the_root() {
    linn_bus_test::run(async |root| {
        let error = root.prepare_for::<Versioned>(&root.fiber(), Config::version(1)).unwrap_err();
        assert_eq!(error.code(), "FIBER_DISPOSED");
    });
}

#[test]
fn versions_can_be_switched_one_after_another() {
    linn_bus_test::run(async |root| {
        let first = root.mount::<Versioned>(Config { provides: true, ..Config::version(0) }).unwrap();
        first.settled().await.unwrap();
        let mut current = first;
        for version in 1..20 {
            let config = Config { provides: true, ..Config::version(version) };
            let switched = root.prepare_for::<Versioned>(&current, config).unwrap().switch().await.unwrap();
            assert_eq!(roll(&root), [version, version + 100]);
            assert_eq!(root.get::<dyn Version>().unwrap().version().unwrap(), version);
            switched.old_gone().await.unwrap();
            current = switched.mounted().clone();
        }
        let left = root.inspect();
        assert_eq!((left.fibers.len(), left.services.len()), (3, 1), "{left:?}");
    });
}

/// Tells that its thread panicked, so that nobody waits for it.
struct OnPanic<'a>(&'a AtomicBool);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

/// Threads ask two events and a roll call without pause while versions are switched.
#[test]
fn every_dispatch_sees_all_of_one_version_and_never_an_older_one_after_a_newer() {
    const VERSIONS: u32 = 40;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let root = {
        let _entered = runtime.enter();
        Root::new(TokioRuntime::seams())
    };
    let first = root.mount::<Versioned>(Config { provides: true, ..Config::version(1) }).unwrap();
    runtime.block_on(first.settled()).unwrap();
    let stop = AtomicBool::new(false);
    let (asked, failed) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let _failed = OnPanic(&failed);
                let mut newest = 1;
                while !stop.load(Ordering::Relaxed) {
                    for (at, seen) in [root.bail(&One), root.bail(&Two)].into_iter().enumerate() {
                        let seen = seen.unwrap().expect("somebody always answers");
                        assert!(seen >= newest, "event {at}: {seen} after {newest}");
                        newest = seen;
                    }
                    let roll = roll(&root);
                    assert!(matches!(roll[..], [own, child] if child == own + 100), "{roll:?}");
                    assert!(roll[0] >= newest, "{roll:?} after {newest}");
                    newest = roll[0];
                    let version = root.get::<dyn Version>().expect("a version is always provided");
                    // One that was held while it was replaced may be gone when it is called.
                    if let Ok(version) = version.version() {
                        assert!(version >= newest, "service: {version} after {newest}");
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                let mut current = first;
                for version in 2..VERSIONS {
                    let config = Config { provides: true, ..Config::version(version) };
                    let switched = root.prepare_for::<Versioned>(&current, config).unwrap().switch().await.unwrap();
                    switched.old_gone().await.unwrap();
                    current = switched.mounted().clone();
                    let before = asked.load(Ordering::Relaxed);
                    while asked.load(Ordering::Relaxed) < before + 5 && !failed.load(Ordering::Relaxed) {
                        tokio::task::yield_now().await;
                    }
                }
            });
        }));
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    runtime.block_on(root.fiber().dispose()).unwrap();
    let left = root.inspect();
    assert_eq!((left.fibers.len(), left.services.len(), left.events.len()), (1, 0, 0), "{left:?}");
}
