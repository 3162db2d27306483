//! The bus's own events: observing and refusing dispatches, taking registrations over, and the catalogue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use linn_bus::{
    BusError, Cause, Context, Event, Fault, InternalDispatch, InternalFault, InternalListener, InternalPlugin,
    Listener, ModeName, event_catalogue,
};
use linn_bus_test::run;

use crate::{
    Ask, Fan, Log, MODES, Ping, ScopedAsk, Step, Wrap, dispatch, dispatch_about, listen, listen_scoped, name_of,
};

#[test]
fn ev_31_each_dispatch_is_observed_once_with_its_mode() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        let observer = root
            .on(move |it: &InternalDispatch| noted.note(format!("{}:{}:{}", it.event.mode, it.event.name, it.plugin)))
            .unwrap();
        for mode in MODES {
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), format!("{mode}:{}:root", name_of(mode)), "without a listener");
            listen(root.context(), mode, log.noting("L"));
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), format!("{mode}:{}:root L", name_of(mode)), "before the listener");
        }
        observer.dispose();
        dispatch(&root, ModeName::Emit).await.unwrap();
        assert_eq!(log.take(), "L");
    });
}

#[test]
fn ev_31_an_observer_sees_payload_and_scope() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |it: &InternalDispatch| {
            let text = if let Some(Ping(n)) = it.payload() {
                format!("ping {n}")
            } else if let Some(Ask(n)) = it.payload() {
                format!("ask {n}")
            } else if let Some(Step(n)) = it.payload() {
                format!("step {n}")
            } else if let Some(Fan(n)) = it.payload() {
                format!("fan {n}")
            } else if let Some(Wrap(n)) = it.payload() {
                format!("wrap {n}")
            } else if let Some(ScopedAsk { about }) = it.payload() {
                format!("scoped {}", it.scope == *about)
            } else {
                format!("unknown {it:?}")
            };
            noted.note(text);
        })
        .unwrap();
        root.emit(&Ping(1));
        root.try_emit(&Ping(2)).unwrap();
        root.bail(&Ask(3)).unwrap();
        root.serial(&Step(4)).await.unwrap();
        root.parallel(&Fan(5)).await.unwrap();
        root.waterfall(&Wrap(6), async || 0).await.unwrap();
        root.bail(&ScopedAsk { about: Some(root.new_scope_key()) }).unwrap();
        root.bail(&ScopedAsk { about: None }).unwrap();
        assert_eq!(log.take(), "ping 1 ping 2 ask 3 step 4 fan 5 wrap 6 scoped true scoped true");
    });
}

#[test]
fn ev_32_a_refused_dispatch_reaches_nobody() {
    run(async |root| {
        let log = Log::default();
        let refusing = Arc::new(AtomicU32::new(0));
        let how = refusing.clone();
        let fiber = root
            .mount_fn("guard", move |ctx: Context, (): ()| {
                let how = how.clone();
                async move {
                    ctx.on(move |_: &InternalDispatch| match how.load(Ordering::Relaxed) {
                        1 => Err(Fault::msg("not now").with_code("NOT_NOW")),
                        2 => panic!("not ever"),
                        _ => Ok(()),
                    })
                    .map(drop)
                }
            })
            .unwrap();
        fiber.running().await.unwrap();
        for mode in MODES {
            refusing.store(0, Ordering::Relaxed);
            listen(root.context(), mode, log.noting("L"));
            // Five panics: the guard is not disabled.
            for (how, text) in [(1, "not now"), (2, "not ever")] {
                refusing.store(how, Ordering::Relaxed);
                let errors = dispatch(&root, mode).await.unwrap_err();
                assert_eq!(errors.len(), 1);
                let error = errors.iter().next().unwrap();
                assert_eq!((error.plugin(), error.event()), ("guard", &*name_of(mode)));
                assert_eq!(error.code(), "DISPATCH_REFUSED");
                let Cause::Refused(fault) = error.cause() else { panic!("{error:?}") };
                assert!(fault.to_string().ends_with(text), "{fault}");
                assert_eq!(fault.code(), (how == 1).then_some("NOT_NOW"));
            }
            assert_eq!(log.take(), "", "{mode}");
        }
    });
}

#[test]
fn ev_32_the_default_of_a_refused_waterfall_does_not_run() {
    run(async |root| {
        root.on(|_: &InternalDispatch| Err::<(), _>(Fault::msg("no"))).unwrap();
        let ran = AtomicBool::new(false);
        let default = async || u32::from(ran.swap(true, Ordering::Relaxed));
        root.waterfall(&Wrap(0), default).await.unwrap_err();
        assert!(!ran.into_inner());
    });
}

#[test]
fn ev_32_an_emit_that_was_refused_is_reported() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |it: &InternalFault| noted.note(it.error.code())).unwrap();
        root.on(|_: &InternalDispatch| Err::<(), _>(Fault::msg("no"))).unwrap();
        root.emit(&Ping(0));
        assert_eq!(log.take(), "DISPATCH_REFUSED");
    });
}

#[test]
fn a_listener_that_an_observer_adds_counts() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            let (ctx, noted) = (root.context().clone(), log.clone());
            let observer = root
                .once()
                .on(move |_: &InternalDispatch| {
                    listen(&ctx, mode, noted.noting("added"));
                })
                .unwrap();
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "added", "{mode}");
            assert!(!observer.dispose());
        }
    });
}

#[test]
fn ev_33_the_bus_s_own_events_are_not_observed() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |it: &InternalDispatch| noted.note(it.event.name)).unwrap();
        let (heard, counted) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (a, b) = (heard.clone(), counted.clone());
        root.on(move |_: &InternalPlugin| {
            a.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        root.on(move |_: &InternalListener| {
            b.fetch_add(1, Ordering::Relaxed);
            None::<Listener>
        })
        .unwrap();
        let fiber = root.mount_fn("plugin", async |ctx: Context, (): ()| ctx.on(|_: &Ping| {}).map(drop)).unwrap();
        fiber.running().await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!((heard.load(Ordering::Relaxed), counted.load(Ordering::Relaxed)), (2, 1));
        assert_eq!(log.take(), "");
    });
}

#[test]
fn ev_34_a_registration_can_be_taken_over() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |it: &InternalListener| {
            let ours = it.event.name == Ping::NAME && it.first;
            let undone = noted.clone();
            ours.then(|| Listener::elsewhere(move || undone.note("undone"))).inspect(|_| {
                noted.note(format!("{}:{}:{}", it.plugin, it.once, it.global));
            })
        })
        .unwrap();
        let taken = root.first().once().on({
            let log = log.clone();
            move |_: &Ping| log.note("heard")
        });
        let taken = taken.unwrap();
        assert_eq!(log.take(), "root:true:false");
        root.emit(&Ping(0));
        assert_eq!(log.take(), "", "nothing was stored");
        assert!(root.inspect().events.iter().all(|it| it.name != Ping::NAME));
        assert!(taken.dispose());
        assert!(!taken.dispose(), "once");
        assert_eq!(log.take(), "undone");
        // Everything else is registered as ever.
        listen(root.context(), ModeName::Emit, log.noting("L"));
        root.emit(&Ping(0));
        assert_eq!(log.take(), "L");
    });
}

#[test]
fn a_registration_that_is_refused_fails() {
    run(async |root| {
        let refusing = root
            .on(|it: &InternalListener| -> Result<Option<Listener>, Fault> {
                Err(Fault::msg(format_args!("`{}` is closed", it.event.name)))
            })
            .unwrap();
        let error = root.on(|_: &Ping| {}).unwrap_err();
        assert_eq!(error.code(), "LISTENER_FAILED");
        assert!(matches!(&error, BusError::Listener(it) if format!("{it:#}").ends_with("`plain/emit` is closed")));
        refusing.dispose();
        root.on(|_: &Ping| {}).unwrap();
    });
}

#[test]
fn two_types_of_one_name_cannot_share_a_bus() {
    mod other {
        #[derive(linn_bus::Event)]
        #[event(name = "plain/emit", mode = Emit)]
        pub(super) struct Pong;
    }
    run(async |root| {
        root.on(|_: &Ping| {}).unwrap();
        let error = root.on(|_: &other::Pong| {}).unwrap_err();
        assert_eq!(error.code(), "EVENT_CLASH");
        let text = error.to_string();
        assert!(text.contains("plain/emit") && text.contains("Ping") && text.contains("Pong"), "{text}");
        // It is heard by nobody, and harms nobody.
        root.try_emit(&other::Pong).unwrap();
    });
    // On another bus it may be the other way round.
    run(async |root| {
        root.on(|_: &other::Pong| {}).unwrap();
        assert_eq!(root.on(|_: &Ping| {}).unwrap_err().code(), "EVENT_CLASH");
    });
}

#[test]
fn the_catalogue_holds_every_event_in_order() {
    let catalogue = event_catalogue();
    let names: Vec<_> = catalogue.iter().map(|it| it.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    for mode in MODES {
        for (area, scoped) in [("plain", false), ("scoped", true)] {
            let name = format!("{area}/{mode}");
            let found: Vec<_> =
                catalogue.iter().filter(|it| it.name == name && it.type_path.contains("dispatch")).collect();
            let event = found.iter().find(|it| !it.type_path.ends_with("Pong")).unwrap();
            assert_eq!((event.mode, event.scoped, event.ordered), (mode, scoped, false), "{name}");
            assert_eq!(event.krate, env!("CARGO_PKG_NAME"));
        }
    }
    for internal in ["dispatch", "fault", "get", "listener", "plugin", "service", "set", "status", "update"]
        .map(|it| format!("internal/{it}"))
    {
        let event = catalogue.iter().find(|it| it.name == internal).unwrap_or_else(|| panic!("{internal}"));
        assert!(!event.docs.is_empty(), "{internal}");
    }
}

#[test]
fn sc_22_an_observer_can_hold_scoped_events_to_a_subject() {
    run(async |root| {
        let known = root.new_scope_key();
        let admitted = known.clone();
        root.on(move |it: &InternalDispatch| match &it.scope {
            _ if !it.event.scoped => Ok(()),
            Some(key) if *key == admitted => Ok(()),
            key => Err(Fault::msg(format_args!("`{}` is dispatched about {key:?}", it.event.name))),
        })
        .unwrap();
        for mode in MODES {
            let log = Log::default();
            listen_scoped(root.context(), mode, log.noting("L"));
            dispatch(&root, mode).await.unwrap();
            for about in [None, Some(&root.new_scope_key())] {
                let errors = dispatch_about(&root, mode, about).await.unwrap_err();
                assert_eq!(errors.iter().next().unwrap().code(), "DISPATCH_REFUSED", "{mode}");
                assert_eq!(log.take(), "");
            }
            dispatch_about(&root, mode, Some(&known)).await.unwrap();
            assert_eq!(log.take(), "L", "{mode}");
        }
    });
}
