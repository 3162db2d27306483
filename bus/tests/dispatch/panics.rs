//! Panics are errors of the listener that panicked, in every mode, and ten of them disable its plugin.

use std::time::Duration;

use linn_bus::{
    BusError, Cause, Context, Fault, Fiber, FiberState, InternalFault, ListenerError, MAX_PANICS, ModeName, Next, Root,
    listener,
};
use linn_bus_test::run;

use crate::{Fan, Log, MODES, Ping, ScopedPing, Step, Wrap, dispatch, listen, name_of};

/// Mounts a plugin whose listener of the plain event of `mode` panics.
async fn panicking(ctx: &Context, mode: ModeName) -> Fiber {
    let fiber = ctx
        .mount_fn("panicking", move |ctx: Context, (): ()| async move {
            listen(&ctx, mode, || panic!("boom"));
        })
        .unwrap();
    fiber.running().await.unwrap();
    fiber
}

/// A panic of any type.
fn boom<T>(text: &str) -> T {
    panic!("{text}")
}

/// Notes the failures the bus reports.
fn note_faults(root: &Root, log: &Log) {
    let log = log.clone();
    root.on(move |fault: &InternalFault| {
        log.note(format!("{}:{}:{}", fault.error.plugin(), fault.error.event(), fault.error.code()));
    })
    .unwrap();
}

#[test]
fn a_panic_is_an_error_that_names_plugin_and_event_in_every_mode() {
    run(async |root| {
        for mode in MODES {
            let fiber = panicking(&root, mode).await;
            let errors = dispatch(&root, mode).await.unwrap_err();
            let error = errors.iter().next().unwrap();
            assert_eq!((error.plugin(), error.event()), ("panicking", &*name_of(mode)));
            assert!(matches!(error.cause(), Cause::Panicked(text) if text == "boom"), "{error:?}");
            assert_eq!(error.code(), "LISTENER_PANICKED");
            fiber.dispose().await.unwrap();
        }
    });
}

#[test]
fn a_panic_after_a_wait_is_caught_too() {
    run(async |root| {
        let wait = |ctx: Context| async move { ctx.sleep(Duration::from_secs(1)).await.unwrap() };
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Step| {
            wait(ctx.clone()).await;
            boom::<Option<u32>>("late serial")
        }))
        .unwrap();
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Fan| {
            wait(ctx.clone()).await;
            boom::<()>("late parallel");
        }))
        .unwrap();
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            wait(ctx.clone()).await;
            next.run().await?;
            boom::<Result<u32, ListenerError>>("late waterfall")
        }))
        .unwrap();
        for (mode, text) in [(ModeName::Serial, "late serial"), (ModeName::Parallel, "late parallel")] {
            let errors = dispatch(&root, mode).await.unwrap_err();
            assert!(errors.to_string().ends_with(text), "{errors}");
        }
        let error = root.waterfall(&Wrap(0), async || 1).await.unwrap_err();
        assert!(format!("{error:#}").ends_with("late waterfall"), "{error:#}");
    });
}

#[test]
fn a_panic_in_the_default_of_a_waterfall_is_an_error_of_who_dispatches() {
    run(async |root| {
        let error = root.waterfall(&Wrap(0), async || boom::<u32>("boom")).await.unwrap_err();
        assert_eq!((error.plugin(), error.code()), ("root", "LISTENER_PANICKED"));
        let ctx = root.context().clone();
        let slow = async || {
            ctx.sleep(Duration::from_secs(1)).await.unwrap();
            boom::<u32>("boom")
        };
        assert_eq!(root.waterfall(&Wrap(0), slow).await.unwrap_err().code(), "LISTENER_PANICKED");
    });
}

#[test]
fn r057_others_hear_an_event_whose_listener_panics() {
    run(async |root| {
        for mode in [ModeName::Emit, ModeName::Parallel] {
            let log = Log::default();
            let first = listen(root.context(), mode, log.noting("1"));
            let fiber = panicking(&root, mode).await;
            let third = root
                .mount_fn("third", {
                    let log = log.clone();
                    move |ctx: Context, (): ()| {
                        let log = log.clone();
                        async move {
                            listen(&ctx, mode, log.noting("3"));
                        }
                    }
                })
                .unwrap();
            third.running().await.unwrap();
            for _ in 0..2 {
                assert_eq!(dispatch(&root, mode).await.unwrap_err().len(), 1, "{mode}");
                assert_eq!(log.take(), "1 3", "{mode}");
            }
            first.dispose();
            fiber.dispose().await.unwrap();
            third.dispose().await.unwrap();
        }
    });
}

#[test]
fn r057_one_fault_is_reported_for_each_failure_an_emit_contains() {
    run(async |root| {
        let log = Log::default();
        note_faults(&root, &log);
        panicking(&root, ModeName::Emit).await;
        listen(root.context(), ModeName::Emit, || Err(Fault::msg("no")));
        root.emit(&Ping(0));
        let both = "root:plain/emit:LISTENER_FAILED panicking:plain/emit:LISTENER_PANICKED";
        assert_eq!(log.take(), both);
        root.emit(&Ping(0));
        assert_eq!(log.take(), both);
        // What is returned is not reported: whoever asked has it.
        root.try_emit(&Ping(0)).unwrap_err();
        assert_eq!(log.take(), "");
    });
}

#[test]
fn r057_a_gate_that_panics_refuses_by_the_rule_of_its_emitter() {
    run(async |root| {
        panicking(&root, ModeName::Bail).await;
        let refused = match root.bail(&crate::Ask(0)) {
            Ok(answer) => answer.is_some(),
            Err(_) => true,
        };
        assert!(refused);
    });
}

#[test]
fn a_fault_listener_that_fails_is_not_reported_again() {
    run(async |root| {
        let log = Log::default();
        note_faults(&root, &log);
        root.on(|_: &InternalFault| Err::<(), _>(Fault::msg("twice"))).unwrap();
        root.on(|_: &InternalFault| -> () { panic!("thrice") }).unwrap();
        listen(root.context(), ModeName::Emit, || Err(Fault::msg("once")));
        root.emit(&Ping(0));
        assert_eq!(log.take(), "root:plain/emit:LISTENER_FAILED");
    });
}

#[test]
fn ten_panics_disable_a_plugin() {
    run(async |root| {
        for mode in MODES {
            let fiber = panicking(&root, mode).await;
            for _ in 1..MAX_PANICS {
                dispatch(&root, mode).await.unwrap_err();
            }
            assert_eq!(fiber.settled().await.unwrap(), FiberState::Active, "{mode}: nine are borne");
            dispatch(&root, mode).await.unwrap_err();
            let error = fiber.settled().await.unwrap_err();
            assert_eq!((fiber.state(), error.code()), (FiberState::Failed, "PLUGIN_DISABLED"), "{mode}");
            let BusError::Disabled { plugin, panics, event } = error else { panic!("{error}") };
            assert_eq!((&*plugin, panics, event), ("panicking", 10, &*name_of(mode)));
            dispatch(&root, mode).await.unwrap();
            fiber.dispose().await.unwrap();
        }
    });
}

#[test]
fn a_disabled_plugin_runs_again_after_a_restart() {
    run(async |root| {
        let fiber = panicking(&root, ModeName::Emit).await;
        for _ in 0..MAX_PANICS {
            root.emit(&Ping(0));
        }
        fiber.settled().await.unwrap_err();
        assert_eq!(fiber.restart().await.unwrap(), FiberState::Active);
        assert!(fiber.error().is_none());
        assert_eq!(root.try_emit(&Ping(0)).unwrap_err().len(), 1);
        for _ in 2..MAX_PANICS {
            root.emit(&Ping(0));
        }
        assert_eq!(fiber.settled().await.unwrap(), FiberState::Active, "the count begins anew");
    });
}

#[test]
fn errors_that_are_no_panics_disable_nobody() {
    run(async |root| {
        let fiber = root
            .mount_fn("failing", async |ctx: Context, (): ()| {
                ctx.on(|_: &Ping| Err::<(), _>(Fault::msg("no"))).map(drop)
            })
            .unwrap();
        fiber.running().await.unwrap();
        for _ in 0..3 * MAX_PANICS {
            root.emit(&Ping(0));
        }
        assert_eq!(fiber.settled().await.unwrap(), FiberState::Active);
    });
}

#[test]
fn panics_in_scopes_of_a_plugin_count_for_the_plugin() {
    run(async |root| {
        let fiber = root
            .mount_fn("panicking", async |ctx: Context, (): ()| -> Result<(), BusError> {
                for _ in 0..2 {
                    let scope = ctx.scope()?;
                    scope.context().global().on(|_: &ScopedPing| -> () { panic!("boom") })?;
                }
                Ok(())
            })
            .unwrap();
        fiber.running().await.unwrap();
        for _ in 0..MAX_PANICS / 2 {
            root.emit(&ScopedPing { about: None });
        }
        assert_eq!(fiber.settled().await.unwrap_err().code(), "PLUGIN_DISABLED");
        root.try_emit(&ScopedPing { about: None }).unwrap();
    });
}

#[test]
fn a_plugin_whose_listeners_panic_while_it_starts_is_disabled() {
    run(async |root| {
        let fiber = root
            .mount_fn("panicking", async |ctx: Context, (): ()| -> Result<(), BusError> {
                ctx.on(|_: &Ping| -> () { panic!("boom") })?;
                for _ in 0..MAX_PANICS {
                    ctx.emit(&Ping(0));
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(fiber.settled().await.unwrap_err().code(), "PLUGIN_DISABLED");
        assert_eq!(fiber.state(), FiberState::Failed);
        root.try_emit(&Ping(0)).unwrap();
    });
}
