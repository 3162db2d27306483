//! Dispatches of one event that nest too deep are an error, and the process lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linn_bus::{
    BusError, Cause, Context, Event, InternalDispatch, InternalFault, ListenerError, MAX_NESTING, Next, listener,
};
use linn_bus_test::run;

use crate::{Ask, Fan, Log, Ping, Step, Wrap};

fn is_too_deep(error: &ListenerError) -> bool {
    matches!(error.cause(), Cause::TooDeep)
}

#[test]
fn r058_an_emit_without_end_stops_and_names_the_plugin() {
    run(async |root| {
        let (log, depth) = (Log::default(), Arc::new(AtomicUsize::new(0)));
        let noted = log.clone();
        root.on(move |fault: &InternalFault| {
            assert!(is_too_deep(&fault.error));
            noted.note(format!("{}:{}", fault.error.plugin(), fault.error.event()));
        })
        .unwrap();
        let counted = depth.clone();
        let fiber = root
            .mount_fn("endless", move |ctx: Context, (): ()| {
                let counted = counted.clone();
                async move {
                    let inner = ctx.clone();
                    ctx.on(move |_: &Ping| {
                        counted.fetch_add(1, Ordering::Relaxed);
                        inner.emit(&Ping(0));
                    })
                    .map(drop)
                }
            })
            .unwrap();
        fiber.running().await.unwrap();
        root.emit(&Ping(0));
        assert_eq!(log.take(), "endless:plain/emit");
        assert_eq!(depth.swap(0, Ordering::Relaxed), MAX_NESTING);
        root.emit(&Ping(0));
        assert_eq!((log.take(), depth.load(Ordering::Relaxed)), ("endless:plain/emit".to_owned(), MAX_NESTING));
    });
}

#[test]
fn r058_an_emit_that_branches_without_end_stops_soon() {
    run(async |root| {
        let calls = Arc::new(AtomicUsize::new(0));
        let (ctx, counted) = (root.context().clone(), calls.clone());
        root.on(move |_: &Ping| {
            counted.fetch_add(1, Ordering::Relaxed);
            ctx.emit(&Ping(0));
            ctx.emit(&Ping(0));
        })
        .unwrap();
        root.emit(&Ping(0));
        assert_eq!(calls.swap(0, Ordering::Relaxed), MAX_NESTING, "the second branch of every level is refused");
        root.emit(&Ping(0));
        assert_eq!(calls.load(Ordering::Relaxed), MAX_NESTING, "the next one from outside is heard again");
    });
}

#[test]
fn r058_an_ordered_emit_without_end_stops_too() {
    #[derive(Clone, Event)]
    #[event(name = "nesting/ordered", mode = Emit, ordered)]
    struct Echo;
    run(async |root| {
        let (log, calls) = (Log::default(), Arc::new(AtomicUsize::new(0)));
        let noted = log.clone();
        root.on(move |fault: &InternalFault| {
            assert!(is_too_deep(&fault.error));
            noted.note(format!("{}:{}", fault.error.plugin(), fault.error.event()));
        })
        .unwrap();
        let (ctx, counted) = (root.context().clone(), calls.clone());
        root.on(move |_: &Echo| {
            counted.fetch_add(1, Ordering::Relaxed);
            ctx.emit(&Echo);
        })
        .unwrap();
        root.emit(&Echo);
        assert_eq!((log.take(), calls.load(Ordering::Relaxed)), ("root:nesting/ordered".to_owned(), MAX_NESTING));
    });
}

#[test]
fn r058_a_bail_without_end_fails() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(move |_: &Ask| ctx.bail(&Ask(0))).unwrap();
        assert!(is_too_deep(&root.bail(&Ask(0)).unwrap_err()));
        assert!(is_too_deep(&root.bail(&Ask(0)).unwrap_err()), "and again");
    });
}

#[test]
fn r058_a_serial_dispatch_without_end_fails() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Step| Box::pin(ctx.serial(&Step(0))).await)).unwrap();
        assert!(is_too_deep(&root.serial(&Step(0)).await.unwrap_err()));
    });
}

#[test]
fn r058_a_serial_dispatch_without_end_that_waits_at_each_level_fails() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Step| {
            ctx.sleep(std::time::Duration::from_millis(1)).await.ok();
            Box::pin(ctx.serial(&Step(0))).await
        }))
        .unwrap();
        assert!(is_too_deep(&root.serial(&Step(0)).await.unwrap_err()));
    });
}

#[test]
fn r058_a_parallel_dispatch_without_end_fails() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Fan| Box::pin(ctx.parallel(&Fan(0))).await)).unwrap();
        let errors = root.parallel(&Fan(0)).await.unwrap_err();
        assert!(errors.to_string().contains("more than 64 levels"), "{errors}");
    });
}

#[test]
fn r058_a_waterfall_without_end_fails() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            Box::pin(ctx.waterfall(&Wrap(0), async || 0)).await?;
            next.run().await
        }))
        .unwrap();
        assert!(is_too_deep(&root.waterfall(&Wrap(0), async || 0).await.unwrap_err()));
    });
}

#[test]
fn layers_of_one_waterfall_do_not_nest() {
    run(async |root| {
        // Twice as many layers as dispatches may nest, and a dispatch inside the innermost.
        for _ in 0..2 * MAX_NESTING {
            root.on(async |_: &Wrap, next: Next<'_, Wrap>| next.run().await).unwrap();
        }
        let ctx = root.context().clone();
        let default = async || -> Result<u32, ListenerError> { Ok(1 + ctx.waterfall(&Wrap(1), async || 1).await?) };
        assert_eq!(root.waterfall(&Wrap(0), default).await.unwrap(), 2);
    });
}

#[test]
fn different_events_do_not_add_up() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(move |e: &Ping| {
            if e.0 > 0 {
                ctx.bail(&Ask(e.0)).unwrap();
            }
        })
        .unwrap();
        let ctx = root.context().clone();
        root.on(move |e: &Ask| {
            ctx.emit(&Ping(e.0 - 1));
            None::<u32>
        })
        .unwrap();
        let faults = Log::default();
        let noted = faults.clone();
        root.on(move |fault: &InternalFault| noted.note(fault.error.to_string())).unwrap();
        root.emit(&Ping(MAX_NESTING as u32 - 1));
        assert_eq!(faults.take(), "");
        root.emit(&Ping(MAX_NESTING as u32));
        assert_ne!(faults.take(), "");
    });
}

#[test]
fn an_observer_that_dispatches_what_it_observes_is_stopped() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(move |_: &InternalDispatch| ctx.bail(&Ask(0)).map(drop)).unwrap();
        let error = root.bail(&Ask(0)).unwrap_err();
        assert_eq!(error.code(), "DISPATCH_REFUSED", "{error:#}");
    });
}

#[test]
fn a_listener_of_its_own_registration_is_stopped() {
    run(async |root| {
        let ctx = root.context().clone();
        root.on(move |_: &linn_bus::InternalListener| -> Result<Option<linn_bus::Listener>, BusError> {
            ctx.on(|_: &Ping| {}).map(Some)
        })
        .unwrap();
        assert_eq!(root.on(|_: &Ping| {}).unwrap_err().code(), "DISPATCH_TOO_DEEP");
    });
}
