//! The states of a fiber: what moves it from one to another, and that no transition is cut short.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linn_bus::{Context, Fault, Fiber, FiberState, InternalPlugin, Plugin, Provided, Svc};
use linn_bus_test::run;

use crate::support::{Foo, Log, code_of, foo_plugin, foo_user, log_status, mount, ms, provide_foo};

/// Mounts a plugin that needs `Foo`, starts for a second and is cleaned up for another.
fn slow_user(root: &Context, log: &Log) -> Fiber {
    let (log, clock) = (log.clone(), root.clone());
    root.mount_fn("user", move |ctx: Context, foo: Svc<dyn Foo>| {
        let (log, clock) = (log.clone(), clock.clone());
        async move {
            log.add(format!("start({})", foo.value()?));
            let cleaned = log.clone();
            ctx.effect("cleanup", |fx| {
                fx.defer_async(async move {
                    clock.sleep(ms(1000)).await.unwrap();
                    cleaned.add("cleaned");
                });
            })?;
            ctx.sleep(ms(1000)).await?;
            log.add("started");
            Ok::<_, Fault>(())
        }
    })
    .unwrap()
}

/// A slow user and its service, withdrawn 400 ms after the start began.
async fn withdrawn_while_loading(root: &Context, log: &Log) -> (Fiber, Provided<dyn Foo>) {
    let foo = provide_foo(root, 1);
    let user = slow_user(root, log);
    root.sleep(ms(400)).await.unwrap();
    assert_eq!(user.state(), FiberState::Loading);
    let _ = foo.dispose();
    (user, foo)
}

#[test]
fn fb_01_a_start_runs_to_its_end_though_its_service_went() {
    run(async |root| {
        let log = Log::default();
        let (user, _) = withdrawn_while_loading(&root, &log).await;
        for (until, state) in [(800, FiberState::Loading), (1200, FiberState::Unloading), (2200, FiberState::Pending)] {
            root.sleep(ms(until) - root.clock().monotonic()).await.unwrap();
            assert_eq!(user.state(), state, "at {until} ms");
        }
        assert_eq!(log.take(), "start(1) started cleaned");
    });
}

#[test]
fn fb_02_a_service_that_is_back_while_unloading_starts_it_again() {
    run(async |root| {
        let log = Log::default();
        let (user, _) = withdrawn_while_loading(&root, &log).await;
        root.sleep(ms(1000)).await.unwrap();
        assert_eq!(user.state(), FiberState::Unloading);
        provide_foo(&root, 2);
        assert_eq!(user.state(), FiberState::Unloading);
        root.sleep(ms(1000)).await.unwrap();
        assert_eq!(user.state(), FiberState::Loading);
        assert_eq!(user.settled().await.unwrap(), FiberState::Active);
        assert_eq!(log.take(), "start(1) started cleaned start(2) started");
    });
}

/// Nothing is reloaded, and what is called from then on is the new value.
#[test]
fn fb_03_a_service_that_is_back_while_loading_leaves_no_trace() {
    run(async |root| {
        let log = Log::default();
        log_status(&root, "user", &log);
        let kept = Arc::new(std::sync::Mutex::new(None));
        let (keeping, foo) = (kept.clone(), provide_foo(&root, 1));
        let user = root
            .mount_fn("user", move |ctx: Context, foo: Svc<dyn Foo>| {
                *keeping.lock().unwrap() = Some(foo);
                async move { ctx.sleep(ms(1000)).await }
            })
            .unwrap();
        root.sleep(ms(400)).await.unwrap();
        let _ = foo.dispose();
        root.sleep(ms(400)).await.unwrap();
        provide_foo(&root, 2);
        root.sleep(ms(300)).await.unwrap();
        assert_eq!(user.state(), FiberState::Active);
        root.sleep(ms(5000)).await.unwrap();
        assert_eq!(log.take(), "pending->loading loading->active");
        let kept = kept.lock().unwrap().take().unwrap();
        assert_eq!(kept.value().unwrap(), 2);
    });
}

#[test]
fn fb_04_a_provider_waits_for_its_users() {
    run(async |root| {
        let log = Log::default();
        let provider = foo_plugin(&root, "provider", 1);
        let user = slow_user(&root, &log);
        root.sleep(ms(1500)).await.unwrap();
        assert_eq!(user.state(), FiberState::Active);
        provider.dispose().await.unwrap();
        assert_eq!(user.state(), FiberState::Pending);
        assert_eq!(root.clock().monotonic(), ms(2500));
        assert_eq!(log.take(), "start(1) started cleaned");
    });
}

#[test]
fn fb_05_fb_06_every_change_of_state_is_told() {
    for (case, fails, expected) in [
        ("fb_05", false, "pending->loading loading->active active->unloading unloading->disposed"),
        ("fb_06", true, "pending->loading loading->unloading unloading->failed failed->disposed"),
    ] {
        run(async |root| {
            let log = Log::default();
            log_status(&root, "plugin", &log);
            let fiber = mount(&root, "plugin", move |_, ()| if fails { Err(Fault::msg("no")) } else { Ok(()) });
            assert_eq!(fiber.settled().await.is_err(), fails, "{case}");
            fiber.dispose().await.unwrap();
            assert_eq!(log.take(), expected, "{case}");
        });
    }
}

#[test]
fn fb_07_a_fiber_that_lacks_a_service_is_settled() {
    run(async |root| {
        let log = Log::default();
        let user = foo_user(&root, &log);
        assert_eq!(user.settled().await.unwrap(), FiberState::Pending);
        assert_eq!(code_of(user.running().await), "FIBER_WAITING");
        assert_eq!(log.take(), "");
    });
}

#[test]
fn fb_08_a_replaced_provider_reloads_its_user_once() {
    run(async |root| {
        let log = Log::default();
        let old = foo_plugin(&root, "old", 1);
        let user = foo_user(&root, &log);
        user.settled().await.unwrap();
        old.settled().await.unwrap();
        user.settled().await.unwrap();
        assert_eq!(log.take(), "up(1)");
        old.dispose().await.unwrap();
        foo_plugin(&root, "new", 2).settled().await.unwrap();
        user.settled().await.unwrap();
        assert_eq!(log.take(), "down up(2)");
    });
}

#[test]
fn fb_12_a_failed_fiber_is_tried_again_when_its_service_is_back() {
    run(async |root| {
        let fails = Arc::new(AtomicBool::new(true));
        let failing = fails.clone();
        let foo = provide_foo(&root, 1);
        let fiber =
            mount(
                &root,
                "plugin",
                move |_, _: Svc<dyn Foo>| {
                    if failing.load(Ordering::Relaxed) { Err(Fault::msg("no")) } else { Ok(()) }
                },
            );
        assert_eq!(code_of(fiber.settled().await), "START_FAILED");
        assert_eq!(fiber.state(), FiberState::Failed);
        fails.store(false, Ordering::Relaxed);
        foo.dispose().await;
        // It ran into an error and nothing has happened since that could have mended it.
        assert_eq!(code_of(fiber.settled().await), "START_FAILED");
        provide_foo(&root, 2);
        assert_eq!(fiber.settled().await.unwrap(), FiberState::Active);
        assert!(fiber.error().is_none());
    });
}

/// A config that may not be used.
struct Picky;

impl Plugin for Picky {
    const NAME: &'static str = "picky";
    type Config = (u32, Log);
    type Needs = Option<Svc<dyn Foo>>;
    fn validate((port, _): &Self::Config) -> Result<(), Fault> {
        if *port == 0 { Err(Fault::msg("`port` is 0; give one from 1 to 65535")) } else { Ok(()) }
    }
    async fn start(_: &Context, (port, log): Self::Config, _: Self::Needs) -> Result<(), Fault> {
        log.add(format!("start({port})"));
        Ok(())
    }
}

#[test]
fn fb_13_an_invalid_config_never_starts() {
    run(async |root| {
        let log = Log::default();
        let fiber = root.mount::<Picky>((0, log.clone())).unwrap();
        let error = fiber.settled().await.unwrap_err();
        assert_eq!(error.code(), "CONFIG_INVALID");
        assert_eq!(error.to_string(), "invalid config of plugin `picky`: `port` is 0; give one from 1 to 65535");
        assert_eq!(fiber.state(), FiberState::Failed);
        let foo = provide_foo(&root, 1);
        assert_eq!(code_of(fiber.settled().await), "CONFIG_INVALID");
        foo.dispose().await;
        assert_eq!(code_of(fiber.settled().await), "CONFIG_INVALID");
        assert_eq!(code_of(fiber.restart().await), "CONFIG_INVALID");
        assert_eq!(log.take(), "");
        fiber.update((80, log.clone())).await.unwrap();
        assert_eq!(log.take(), "start(80)");
    });
}

#[test]
fn fb_14_a_disposal_while_loading_lets_the_start_end() {
    run(async |root| {
        let log = Log::default();
        provide_foo(&root, 1);
        let fiber = slow_user(&root, &log);
        root.sleep(ms(500)).await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "start(1) started cleaned");
        assert_eq!(fiber.state(), FiberState::Disposed);
        assert_eq!(root.clock().monotonic(), ms(2000));
    });
}

#[test]
fn fb_15_a_cleanup_registers_nothing() {
    run(async |root| {
        let log = Log::default();
        let foo = provide_foo(&root, 1);
        let inner = log.clone();
        let fiber = mount(&root, "plugin", move |ctx, _: Svc<dyn Foo>| {
            let (own, log) = (ctx.clone(), inner.clone());
            ctx.effect("cleanup", |fx| fx.defer(move || log.add(own.effect("late", |_| ()).unwrap_err())))?;
            Ok(())
        });
        fiber.settled().await.unwrap();
        foo.dispose().await;
        assert_eq!(fiber.settled().await.unwrap(), FiberState::Pending);
        assert_eq!(
            log.take(),
            "cannot create effect on inactive context: plugin `plugin` is unloading and tried effect `late`; register \
             while it starts or runs"
        );
        assert_eq!(fiber.effects(), []);
    });
}

#[test]
fn fb_16_a_fiber_is_told_of_when_it_comes_and_when_it_goes() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        root.on(move |told: &InternalPlugin| inner.add(format!("{:?}:{}", told.fiber.id(), told.fiber.state())))
            .unwrap();
        let fiber = mount(&root, "plugin", |_, ()| Ok(()));
        fiber.settled().await.unwrap();
        fiber.dispose().await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "Some(1):pending None:active");
    });
}

/// Registers something; the code of the error.
type Register = fn(&Context) -> &'static str;

/// A later run has a context of its own; what kept the earlier one is over.
#[test]
fn a_context_of_an_earlier_run_registers_nothing() {
    run(async |root| {
        let contexts = Arc::new(std::sync::Mutex::new(Vec::new()));
        let keeping = contexts.clone();
        let fiber = mount(&root, "plugin", move |ctx, ()| {
            keeping.lock().unwrap().push(ctx.clone());
            Ok(())
        });
        fiber.settled().await.unwrap();
        fiber.restart().await.unwrap();
        let contexts = std::mem::take(&mut *contexts.lock().unwrap());
        let [old, new] = &contexts[..] else { panic!("it ran {} times", contexts.len()) };
        let registrations: [(&str, Register); 8] = [
            ("on", |ctx| code_of(ctx.on(|_: &crate::support::Ping| ()))),
            ("effect", |ctx| code_of(ctx.effect("effect", |_| ()))),
            ("effect_async", |ctx| code_of(ctx.effect_async("effect", async |_| ()))),
            ("provide", |ctx| code_of(ctx.provide::<dyn Foo>(Arc::new(crate::support::FooIs(1))))),
            ("mount", |ctx| code_of(ctx.mount_fn("child", |_: Context, (): ()| std::future::ready(())))),
            ("scope", |ctx| code_of(ctx.scope())),
            ("spawn", |ctx| code_of(ctx.spawn(async {}))),
            ("timeout", |ctx| code_of(ctx.timeout(ms(1), || ()))),
        ];
        for (what, register) in registrations {
            assert_eq!(register(old), "INACTIVE_EFFECT", "{what}");
            assert_eq!(register(new), "no error", "{what}");
        }
        assert!(old.sleep(ms(1)).await.is_err());
        assert!(new.sleep(ms(1)).await.is_ok());
    });
}
