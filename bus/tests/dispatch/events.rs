//! EV-01 to EV-38 as far as no other file has them, and what belongs beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use linn_bus::{Event, Fault, ListenerError, ModeName, Next, listener};
use linn_bus_test::run;

use crate::{Ask, Fan, Log, MODES, Ping, Step, Wrap, dispatch, dispatch_about, listen, listen_scoped, name_of};

#[test]
fn ev_01_a_listener_is_called_until_it_is_disposed() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            let listener = listen(root.context(), mode, log.noting("L"));
            dispatch(&root, mode).await.unwrap();
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L L", "{mode}");
            assert!(listener.dispose(), "{mode}: it was there");
            assert!(!listener.dispose(), "{mode}: it is gone");
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "", "{mode}");
        }
        assert!(root.inspect().events.is_empty(), "nothing is left");
    });
}

#[test]
fn ev_03_without_listeners_a_dispatch_completes_without_a_value() {
    run(async |root| {
        for mode in MODES {
            let default = (mode == ModeName::Waterfall).then_some(0);
            // The second time somebody has listened once.
            for _ in 0..2 {
                assert_eq!(dispatch(&root, mode).await.unwrap(), default, "{mode}");
                root.emit(&Ping(0));
                assert!(listen(root.context(), mode, || Ok(())).dispose());
            }
        }
    });
}

#[test]
fn ev_04_05_06_07_who_hears_a_dispatch_follows_from_the_payload() {
    run(async |root| {
        let (scope, other) = (root.scope().unwrap(), root.new_scope_key());
        for mode in MODES {
            let log = Log::default();
            listen_scoped(scope.context(), mode, log.noting("L"));
            for (about, heard) in [(None, ""), (Some(&other), ""), (Some(scope.key()), "L")] {
                dispatch_about(&root, mode, about).await.unwrap();
                assert_eq!(log.take(), heard, "{mode} about {about:?}");
            }
        }
    });
}

#[test]
fn ev_05_an_emit_is_complete_when_it_returns() {
    run(async |root| {
        let log = Log::default();
        listen(root.context(), ModeName::Emit, log.noting("L"));
        root.emit(&Ping(0));
        assert_eq!(log.take(), "L");
    });
}

#[test]
fn ev_06_a_serial_dispatch_runs_its_first_listener_at_the_first_poll() {
    run(async |root| {
        let log = Log::default();
        listen(root.context(), ModeName::Serial, log.noting("L"));
        let mut serial = Box::pin(root.serial(&Step(0)));
        assert_eq!(log.take(), "", "a future does nothing before it is polled");
        assert!(matches!(crate::poll_once(&mut serial), Some(Ok(None))));
        assert_eq!(log.take(), "L");
    });
}

#[test]
fn ev_08_09_10_11_the_error_of_the_only_listener_is_the_error_of_the_dispatch() {
    run(async |root| {
        for mode in MODES {
            let listener = listen(root.context(), mode, || Err(Fault::msg("boom")));
            let errors = dispatch(&root, mode).await.unwrap_err();
            assert_eq!(errors.len(), 1, "{mode}");
            assert!(errors.to_string().contains("boom"), "{mode}: {errors}");
            let error = errors.iter().next().unwrap();
            assert_eq!((error.plugin(), error.event()), ("root", &*name_of(mode)), "{mode}");
            assert_eq!(error.code(), "LISTENER_FAILED", "{mode}");
            listener.dispose();
        }
    });
}

#[test]
fn ev_12_13_a_waterfall_goes_as_deep_as_next_is_called() {
    run(async |root| {
        let log = Log::default();
        for name in ["L1", "L2"] {
            let log = log.clone();
            root.on(listener!(async move |e: &Wrap, next: Next<'_, Wrap>| {
                log.note(name);
                Ok::<_, ListenerError>(e.0 + next.run().await?)
            }))
            .unwrap();
        }
        let noted = log.clone();
        let default = async || {
            noted.note("default");
            2
        };
        assert_eq!(root.waterfall(&Wrap(1), default).await.unwrap(), 4);
        assert_eq!(log.take(), "L1 L2 default");

        let noted = log.clone();
        root.on(move |e: &Wrap| {
            noted.note("L3");
            e.0
        })
        .unwrap();
        listen(root.context(), ModeName::Waterfall, log.noting("L4"));
        assert_eq!(root.waterfall(&Wrap(1), default).await.unwrap(), 3);
        assert_eq!(log.take(), "L1 L2 L3");
    });
}

#[test]
fn ev_14_listener_added_during_a_dispatch_runs_next_time() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            let (ctx, noted) = (root.context().clone(), log.clone());
            listen(root.context(), mode, move || {
                noted.note("L1");
                listen(&ctx, mode, noted.noting("L2"));
                Ok(())
            });
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L1", "{mode}");
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L1 L2", "{mode}");
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "L1 L2 L2", "{mode}: each dispatch adds one more");
        }
    });
}

#[test]
fn ev_18_in_emit_a_failure_starves_nobody() {
    run(async |root| {
        let log = Log::default();
        listen(root.context(), ModeName::Emit, || Err(Fault::msg("boom")));
        listen(root.context(), ModeName::Emit, log.noting("L2"));
        let errors = root.try_emit(&Ping(0)).unwrap_err();
        assert_eq!((errors.len(), log.take()), (1, "L2".to_owned()));
        root.emit(&Ping(0));
        assert_eq!(log.take(), "L2");
    });
}

#[test]
fn ev_10_11_after_a_failure_nobody_is_asked_in_serial_and_bail() {
    run(async |root| {
        for mode in [ModeName::Serial, ModeName::Bail] {
            let log = Log::default();
            listen(root.context(), mode, || Err(Fault::msg("boom")));
            listen(root.context(), mode, log.noting("L2"));
            dispatch(&root, mode).await.unwrap_err();
            assert_eq!(log.take(), "", "{mode}");
        }
    });
}

macro_rules! every_value_stops {
    ($($test:ident $name:literal $output:ty: $($value:expr),+;)*) => {$(
        #[test]
        fn $test() {
            #[derive(Event)]
            #[event(name = $name, mode = Bail, output = $output)]
            struct Question;
            run(async |root| {
                $({
                    let before = root.on(|_: &Question| None::<$output>).unwrap();
                    let answers = root.on(|_: &Question| Some(<$output>::from($value))).unwrap();
                    let log = Log::default();
                    let after = log.clone();
                    let after = root.on(move |_: &Question| {
                        after.note("asked");
                        None::<$output>
                    }).unwrap();
                    let answer = root.bail(&Question).unwrap();
                    assert_eq!(format!("{answer:?}"), format!("{:?}", Some(<$output>::from($value))));
                    assert_eq!(log.take(), "", "nobody is asked after an answer");
                    [before, answers, after].iter().for_each(|it| assert!(it.dispose()));
                })+
            });
        }
    )*};
}
every_value_stops! {
    ev_22_zero_stops_a_bail "values/number" u32: 0_u8;
    ev_22_the_empty_string_stops_a_bail "values/text" String: "";
    ev_22_not_a_number_stops_a_bail "values/float" f64: f64::NAN;
    ev_22_true_and_false_stop_a_bail "values/flag" bool: true, false;
}

#[test]
fn ev_23_none_continues() {
    run(async |root| {
        root.on(|_: &Ask| None::<u32>).unwrap();
        root.on(|_: &Ask| Ok::<Option<u32>, Fault>(None)).unwrap();
        root.on(|e: &Ask| Some(e.0 + 1)).unwrap();
        assert_eq!(root.bail(&Ask(4)).unwrap(), Some(5));
    });
}

#[test]
fn ev_24_the_first_answer_ends_a_serial_dispatch() {
    run(async |root| {
        let log = Log::default();
        listen(root.context(), ModeName::Serial, log.noting("L1"));
        let ctx = root.context().clone();
        root.on(listener!(async move |e: &Step| {
            ctx.sleep(Duration::from_secs(1)).await.ok()?;
            Some(e.0 + 1)
        }))
        .unwrap();
        listen(root.context(), ModeName::Serial, log.noting("L3"));
        assert_eq!(root.serial(&Step(6)).await.unwrap(), Some(7));
        assert_eq!(log.take(), "L1");
    });
}

#[test]
fn ev_25_next_run_twice_runs_the_inner_layers_twice() {
    run(async |root| {
        let log = Log::default();
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| {
            Ok::<_, ListenerError>(next.run().await? * 10 + next.run().await?)
        })
        .unwrap();
        for (name, answer) in [("L2", 2), ("L3", 3)] {
            let log = log.clone();
            root.on(move |_: &Wrap| {
                log.note(name);
                answer
            })
            .unwrap();
        }
        let defaults = AtomicU32::new(0);
        let result = root.waterfall(&Wrap(0), async || defaults.fetch_add(1, Ordering::Relaxed)).await;
        assert_eq!(result.unwrap(), 22);
        assert_eq!((log.take(), defaults.into_inner()), ("L2 L2".to_owned(), 0));
    });
}

#[test]
fn ev_26_inner_layers_see_the_payload_of_the_dispatch() {
    run(async |root| {
        let payload = Arc::new(AtomicU32::new(0));
        for _ in 0..3 {
            let seen = payload.clone();
            root.on(listener!(async move |e: &Wrap, next: Next<'_, Wrap>| {
                seen.fetch_add(e.0, Ordering::Relaxed);
                next.run().await
            }))
            .unwrap();
        }
        root.waterfall(&Wrap(5), async || 0).await.unwrap();
        assert_eq!(payload.load(Ordering::Relaxed), 15);
    });
}

#[test]
fn ev_29_a_waterfall_without_listeners_is_its_default() {
    run(async |root| {
        let calls = AtomicU32::new(0);
        let default = async || calls.fetch_add(1, Ordering::Relaxed) + 40;
        assert_eq!(root.waterfall(&Wrap(0), default).await.unwrap(), 40);
        assert_eq!(calls.into_inner(), 1);
    });
}

#[test]
fn ev_30_an_outer_layer_recovers_from_an_inner_one() {
    run(async |root| {
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| next.run().await.unwrap_or(99)).unwrap();
        let inner = root.on(|_: &Wrap| Err::<u32, _>(Fault::msg("boom"))).unwrap();
        assert_eq!(root.waterfall(&Wrap(0), async || 1).await.unwrap(), 99);
        inner.dispose();
        assert_eq!(root.waterfall(&Wrap(0), async || Err::<u32, _>(Fault::msg("boom"))).await.unwrap(), 99);
    });
}

#[test]
fn ev_35_a_listener_registered_twice_is_two_listeners() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        let closure = move |_: &Ping| noted.note("L");
        let first = root.on(closure.clone()).unwrap();
        root.on(closure).unwrap();
        root.emit(&Ping(0));
        assert_eq!(log.take(), "L L");
        assert!(first.dispose());
        root.emit(&Ping(0));
        assert_eq!(log.take(), "L");
    });
}

#[test]
fn ev_36_nothing_is_registered_from_a_disposer() {
    run(async |root| {
        let codes = Log::default();
        let noted = codes.clone();
        let fiber = root
            .mount_fn("late", move |ctx: linn_bus::Context, (): ()| {
                let noted = noted.clone();
                async move {
                    let late = ctx.clone();
                    ctx.effect("cleanup", move |fx| {
                        fx.defer(move || {
                            noted.note(late.on(|_: &Ping| {}).unwrap_err().code());
                            noted.note(late.effect("late", |_| {}).unwrap_err().code());
                            let nested = late.mount_fn("nested", async |_: linn_bus::Context, (): ()| {});
                            noted.note(nested.unwrap_err().code());
                            noted.note(late.scope().unwrap_err().code());
                        });
                    })
                    .map(drop)
                }
            })
            .unwrap();
        fiber.running().await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(codes.take(), ["INACTIVE_EFFECT"; 4].join(" "));
        assert!(root.inspect().events.is_empty());
    });
}

#[test]
fn ev_37_an_answer_may_itself_be_none() {
    #[derive(Event)]
    #[event(name = "strict/serial", mode = Serial, output = Option<u32>)]
    struct Strict;
    run(async |root| {
        root.on(|_: &Strict| None::<Option<u32>>).unwrap();
        root.on(|_: &Strict| Some(None::<u32>)).unwrap();
        root.on(|_: &Strict| Some(Some(1_u32))).unwrap();
        assert_eq!(root.serial(&Strict).await.unwrap(), Some(None));
    });
}

#[test]
fn ev_38_a_global_listener_hears_every_subject() {
    run(async |root| {
        let (scope, other) = (root.scope().unwrap(), root.new_scope_key());
        for mode in MODES {
            let log = Log::default();
            listen_scoped(&scope.context().global(), mode, log.noting("G"));
            for about in [None, Some(&other), Some(scope.key())] {
                dispatch_about(&root, mode, about).await.unwrap();
                assert_eq!(log.take(), "G", "{mode} about {about:?}");
            }
        }
    });
}

#[test]
fn r056_a_listener_that_replaces_itself_during_dispatch() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            let (ctx, noted) = (root.context().clone(), log.clone());
            let me = Arc::new(std::sync::OnceLock::<linn_bus::Listener>::new());
            let itself = me.clone();
            let h1 = listen(root.context(), mode, move || {
                noted.note("H1");
                listen(&ctx, mode, noted.noting("H2"));
                assert!(itself.get().unwrap().dispose());
                Ok(())
            });
            me.set(h1).unwrap();
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "H1", "{mode}");
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "H2", "{mode}");
        }
    });
}

#[test]
fn r063_an_error_without_words_is_a_failure() {
    run(async |root| {
        root.on(async |_: &Step| Err::<Option<u32>, _>(Fault::msg(""))).unwrap();
        let error = root.serial(&Step(0)).await.unwrap_err();
        assert_eq!(error.code(), "LISTENER_FAILED");
        root.on(async |_: &Fan| Err::<(), _>(Fault::msg(""))).unwrap();
        assert_eq!(root.parallel(&Fan(0)).await.unwrap_err().len(), 1);
        root.on(|_: &Wrap| Err::<u32, _>(Fault::msg(""))).unwrap();
        assert_eq!(root.waterfall(&Wrap(0), async || 0).await.unwrap_err().code(), "LISTENER_FAILED");
    });
}

/// What a mode's future holds may move to another thread.
#[test]
fn futures_of_dispatches_are_send() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    run(async |root| {
        send(root.serial(&Step(0))).await.unwrap();
        send(root.parallel(&Fan(0))).await.unwrap();
        send(root.waterfall(&Wrap(0), async || 0)).await.unwrap();
        // A future that holds them is `Send` too, so listeners may dispatch.
        let ctx = root.context().clone();
        send(async move {
            ctx.serial(&Step(0)).await.unwrap();
            ctx.parallel(&Fan(0)).await.unwrap();
            ctx.waterfall(&Wrap(0), async || 0).await.unwrap();
        })
        .await;
        let ctx = root.context().clone();
        let dispatching = root.on(listener!(async move |_: &Step| {
            ctx.parallel(&Fan(0)).await.ok()?;
            ctx.waterfall(&Wrap(0), async || 7).await.ok()
        }));
        assert_eq!(root.serial(&Step(0)).await.unwrap(), Some(7));
        dispatching.unwrap().dispose();
    });
}
