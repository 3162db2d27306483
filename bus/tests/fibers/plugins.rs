//! Plugins: what can be mounted, with which config, under which name, and what is left afterwards.

use std::sync::Arc;

use linn_bus::{BusError, Context, Event, Fault, FiberState, Plugin};
use linn_bus_test::run;

use crate::support::{Foo, FooIs, Log, Ping, is_provided, logged, mount, ms, n_fibers, n_listeners};

/// Starts if its config says so; logs what it does.
struct Flaky;

#[derive(Clone)]
struct FlakyConfig {
    log: Log,
    foo: Option<u32>,
}

impl Plugin for Flaky {
    const NAME: &'static str = "flaky";
    type Config = FlakyConfig;
    type Needs = ();
    async fn start(ctx: &Context, config: FlakyConfig, (): ()) -> Result<(), Fault> {
        ctx.on(|_: &Ping| ())?;
        let foo = config.foo.ok_or_else(|| Fault::msg("config lacks `foo`"))?;
        config.log.add(format!("start({foo})"));
        ctx.effect("stop", |fx| fx.defer(config.log.say("stop")))?;
        Ok(())
    }
}

#[test]
fn pl_01_a_plugin_is_started_once_with_its_config() {
    run(async |root| {
        let log = Log::default();
        let typed = root.mount::<Flaky>(FlakyConfig { log: log.clone(), foo: Some(7) }).unwrap();
        assert_eq!(typed.settled().await.unwrap(), FiberState::Active);
        assert_eq!(log.take(), "start(7)");
        let inner = log.clone();
        let function = mount(&root, "function", move |_, ()| {
            inner.add("called");
            Ok(())
        });
        assert_eq!(function.settled().await.unwrap(), FiberState::Active);
        assert_eq!(log.take(), "called");
    });
}

#[test]
fn pl_03_nested_plugins_go_with_the_outermost() {
    run(async |root| {
        let log = Log::default();
        fn nest(ctx: &Context, log: &Log, depth: u32) -> Result<linn_bus::Fiber, BusError> {
            let log = log.clone();
            ctx.mount_fn("nested", move |ctx: Context, (): ()| {
                let heard = log.say(&depth.to_string());
                let mounted = ctx.on(move |_: &Ping| heard()).and_then(|_| match depth {
                    3 => Ok(()),
                    _ => nest(&ctx, &log, depth + 1).map(drop),
                });
                std::future::ready(mounted)
            })
        }
        let heard = log.say("root");
        root.on(move |_: &Ping| heard()).unwrap();
        let outermost = nest(&root, &log, 1).unwrap();
        root.sleep(ms(1)).await.unwrap();

        root.emit(&Ping);
        assert_eq!(log.take(), "root 1 2 3");
        assert_eq!(n_fibers(&root), 3);
        for _ in 0..2 {
            outermost.dispose().await.unwrap();
            root.emit(&Ping);
            assert_eq!(log.take(), "root");
            assert_eq!(n_fibers(&root), 0);
        }
    });
}

#[test]
fn pl_04_unmounting_restores_the_listener_counts() {
    run(async |root| {
        let log = Log::default();
        let config = FlakyConfig { log: log.clone(), foo: Some(1) };
        let counts = || root.inspect().events.iter().map(|it| (it.name, it.listeners.len())).collect::<Vec<_>>();
        let mount_two = async || {
            for _ in 0..2 {
                root.mount::<Flaky>(config.clone()).unwrap().settled().await.unwrap();
            }
        };
        let before = counts();
        mount_two().await;
        let after = counts();
        assert_eq!(after, [(Ping::NAME, 2)]);
        root.unmount::<Flaky>().await.unwrap();
        assert_eq!(counts(), before);
        assert_eq!(n_fibers(&root), 0);
        mount_two().await;
        assert_eq!(counts(), after);
    });
}

#[test]
fn pl_05_the_root_is_emptied_and_runs_on() {
    run(async |root| {
        let log = Log::default();
        let child = root.mount::<Flaky>(FlakyConfig { log: log.clone(), foo: Some(1) }).unwrap();
        child.settled().await.unwrap();
        assert_eq!(log.take(), "start(1)");
        for stopped in ["stop", ""] {
            root.fiber().dispose().await.unwrap();
            assert_eq!(log.take(), stopped);
        }
        assert_eq!((child.id(), child.state()), (None, FiberState::Disposed));
        assert_eq!((root.fiber().id(), root.fiber().state()), (Some(0), FiberState::Active));
        assert_eq!(root.fiber().effects(), []);
        let context = root.fiber().context().unwrap();
        context.on(|_: &Ping| ()).unwrap();
        assert_eq!(n_listeners(&root, Ping::NAME), 1);
    });
}

#[test]
fn pl_06_a_plugin_starts_on_load_and_stops_on_disposal() {
    run(async |root| {
        let log = Log::default();
        let fiber = root.mount::<Flaky>(FlakyConfig { log: log.clone(), foo: Some(1) }).unwrap();
        assert_eq!(log.take(), "", "the start is a task of its own");
        fiber.settled().await.unwrap();
        assert_eq!(log.take(), "start(1)");
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "stop");
    });
}

#[test]
fn pl_07_a_fiber_has_the_name_of_its_plugin() {
    run(async |root| {
        let typed = root.mount::<Flaky>(FlakyConfig { log: Log::default(), foo: Some(1) }).unwrap();
        let function = mount(&root, "function", |_, ()| Ok(()));
        let scope = root.scope().unwrap();
        let names = [root.fiber().name().to_owned(), typed.name().into(), function.name().into(), root.plugin().into()];
        assert_eq!(names, ["root", "flaky", "function", "root"]);
        assert_eq!(scope.fiber().name(), "scope");
    });
}

#[test]
fn pl_08_one_instance_fails_another_runs() {
    let log = Log::default();
    let lines = logged(|| {
        run(async |root| {
            let bad = root.mount::<Flaky>(FlakyConfig { log: log.clone(), foo: None }).unwrap();
            let good = root.mount::<Flaky>(FlakyConfig { log: log.clone(), foo: Some(2) }).unwrap();
            let error = bad.settled().await.unwrap_err();
            assert_eq!(error.code(), "START_FAILED");
            assert_eq!(error.to_string(), "plugin `flaky` failed to start: config lacks `foo`");
            assert_eq!(good.settled().await.unwrap(), FiberState::Active);
            assert_eq!((bad.state(), bad.effects()), (FiberState::Failed, Vec::new()));
            assert_eq!(n_listeners(&root, Ping::NAME), 1);
        });
    });
    let told: Vec<_> = lines.iter().filter(|it| it.starts_with("ERROR")).collect();
    assert_eq!(told, ["ERROR flaky: plugin `flaky` failed to start: config lacks `foo`"]);
    assert_eq!(log.take(), "start(2)");
}

#[test]
fn r070_a_failed_start_leaves_nothing_and_can_be_tried_again() {
    for panics in [false, true] {
        run(async |root| {
            let fail = Arc::new(std::sync::atomic::AtomicBool::new(true));
            let failing = fail.clone();
            let start = move |ctx: &Context| -> Result<(), Fault> {
                ctx.on(|_: &Ping| ())?;
                ctx.provide::<dyn Foo>(Arc::new(FooIs(1)))?;
                mount(ctx, "child", |_, ()| Ok(()));
                if failing.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(!panics, "no");
                    return Err(Fault::msg("no"));
                }
                Ok(())
            };
            let fiber = mount(&root, "plugin", move |ctx, ()| start(ctx));
            assert_eq!(fiber.settled().await.unwrap_err().to_string(), "plugin `plugin` failed to start: no");
            assert_eq!((n_listeners(&root, Ping::NAME), is_provided::<dyn Foo>(&root), n_fibers(&root)), (0, false, 1));

            fail.store(false, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(fiber.restart().await.unwrap(), FiberState::Active);
            assert!(fiber.error().is_none());
            assert_eq!((n_listeners(&root, Ping::NAME), is_provided::<dyn Foo>(&root)), (1, true));
        });
    }
}

#[test]
fn r072_nothing_is_called_after_unload() {
    run(async |root| {
        let log = Log::default();
        let load = || {
            let heard = log.say("heard");
            mount(&root, "plugin", move |ctx, ()| {
                let heard = heard.clone();
                ctx.on(move |_: &Ping| heard())?;
                Ok(())
            })
        };
        let first = load();
        first.settled().await.unwrap();
        first.dispose().await.unwrap();
        (0..100).for_each(|_| root.emit(&Ping));
        assert_eq!(log.take(), "");
        load().settled().await.unwrap();
        root.emit(&Ping);
        assert_eq!(log.take(), "heard");
    });
}
