//! Effects: what is listed, what is undone, in which order, and what happens when something of it fails.

use std::sync::Arc;

use linn_bus::{BusError, Composite, Context, DisposeProblem, EffectHandle, EffectInfo, Event, Fault};
use linn_bus_test::run;

use crate::support::{Log, Ping, code_of, logged, mount, ms, n_fibers, n_listeners};

fn leaf(label: &str) -> String {
    format!("{label}[]")
}

/// Effects as `label[children]`.
fn tree(effects: &[EffectInfo]) -> String {
    let each: Vec<_> = effects.iter().map(|it| format!("{}[{}]", it.label, tree(&it.children))).collect();
    each.join(" ")
}

#[test]
fn ef_01_an_effect_is_listed_and_undone_once() {
    run(async |root| {
        let log = Log::default();
        let undo = log.say("undone");
        let fiber = mount(&root, "plugin", move |ctx, ()| {
            ctx.effect("test", |fx| fx.defer(undo.clone()))?;
            Ok(())
        });
        fiber.settled().await.unwrap();
        assert_eq!(tree(&fiber.effects()), leaf("test"));
        assert_eq!(log.take(), "");
        fiber.dispose().await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "undone");
        assert_eq!(fiber.effects(), []);
    });
}

#[test]
fn ef_02_an_effect_of_the_root_is_undone_once() {
    run(async |root| {
        let log = Log::default();
        let handle = root.effect("at the root", |fx| fx.defer(log.say("undone"))).unwrap();
        assert_eq!(tree(&root.fiber().effects()), leaf("at the root"));
        // It begins with the call, awaited or not.
        let first = handle.dispose();
        assert_eq!(log.take(), "undone");
        handle.dispose().await;
        first.await;
        assert_eq!(log.take(), "");
        assert_eq!(root.fiber().effects(), []);
    });
}

#[test]
fn ef_03_a_composite_owns_listeners_and_composites() {
    run(async |root| {
        let log = Log::default();
        let handle = root
            .effect("outer", |fx| {
                fx.defer(log.say("1"));
                fx.own(fx.context().on(|_: &Ping| ())?);
                fx.defer(log.say("2"));
                let inner = fx.context().effect("inner", |fx| {
                    fx.own(fx.context().on(|_: &Ping| ())?);
                    fx.defer(log.say("3"));
                    Ok::<_, BusError>(())
                })?;
                fx.own(inner);
                Ok::<_, BusError>(())
            })
            .unwrap();
        let on = leaf("ctx.on(\"fibers/ping\")");
        assert_eq!(tree(&root.fiber().effects()), format!("outer[{on} inner[{on}]]"));
        assert_eq!(n_listeners(&root, Ping::NAME), 2);
        handle.dispose().await;
        assert_eq!(log.take(), "3 2 1");
        assert_eq!(n_listeners(&root, Ping::NAME), 0);
        assert_eq!(root.fiber().effects(), []);
    });
}

/// Three steps of 10 ms each; a step logs its first number when it begins and its second when it is undone.
fn three_steps(root: &Context, log: &Log) -> EffectHandle {
    let (log, ctx) = (log.clone(), root.clone());
    let body = async move |fx: Composite| -> Result<(), Fault> {
        for (step, undo) in [("1", "2"), ("3", "4"), ("5", "6")] {
            log.add(step);
            ctx.sleep(ms(10)).await?;
            fx.defer(log.say(undo));
            fx.checkpoint().await;
        }
        Ok(())
    };
    root.effect_async("steps", body).unwrap()
}

#[test]
fn ef_06_ef_07_ef_08_a_disposal_stops_an_asynchronous_body_after_its_step() {
    let cases = [
        ("ef_06 after all", 40, "1 3 5 6 4 2"),
        ("ef_07 during the first step", 5, "1 2"),
        ("ef_08 during the second step", 15, "1 3 4 2"),
    ];
    for (case, at, expected) in cases {
        run(async |root| {
            let log = Log::default();
            let handle = three_steps(&root, &log);
            root.sleep(ms(at)).await.unwrap();
            handle.dispose().await;
            assert_eq!(log.take(), expected, "{case}");
            assert_eq!(root.fiber().effects(), [], "{case}");
        });
    }
}

#[test]
fn ef_09_a_handle_is_awaited_then_disposed() {
    run(async |root| {
        let log = Log::default();
        let handle = three_steps(&root, &log);
        handle.ready().await.unwrap();
        assert_eq!(log.take(), "1 3 5");
        handle.dispose().await;
        assert_eq!(log.take(), "6 4 2");
    });
}

#[test]
fn ef_04_ef_05_an_asynchronous_body_without_checkpoints_runs_to_its_end() {
    for (case, at) in [("ef_04 after completion", 20), ("ef_05 before completion", 5)] {
        run(async |root| {
            let log = Log::default();
            let (body_log, ctx) = (log.clone(), root.clone());
            let body = async move |fx: Composite| {
                ctx.sleep(ms(10)).await.unwrap();
                body_log.add("1");
                fx.defer(body_log.say("2"));
            };
            let handle = root.effect_async("slow", body).unwrap();
            root.sleep(ms(at)).await.unwrap();
            handle.dispose().await;
            assert_eq!(log.take(), "1 2", "{case}");
        });
    }
}

#[test]
fn ef_10_a_body_that_fails_undoes_what_it_collected() {
    type Body = fn(&Composite, &Log) -> Result<(), Fault>;
    let cases: [(&str, Body, &str); 4] = [
        ("error first", |_, _| Err(Fault::msg("no")), ""),
        (
            "error after one",
            |fx, log| {
                fx.defer(log.say("undone"));
                Err(Fault::msg("no"))
            },
            "undone",
        ),
        ("panic first", |_, _| panic!("no"), ""),
        (
            "panic after one",
            |fx, log| {
                fx.defer(log.say("undone"));
                panic!("no")
            },
            "undone",
        ),
    ];
    for (case, body, expected) in cases {
        run(async |root| {
            let log = Log::default();
            let error = root.effect("broken", |fx| body(fx, &log)).unwrap_err();
            assert_eq!(error.code(), "EFFECT_FAILED", "{case}");
            assert_eq!(error.to_string(), "effect `broken` of plugin `root` failed: no", "{case}");
            assert_eq!(log.take(), expected, "{case}");
            assert_eq!(root.fiber().effects(), [], "{case}");
        });
    }
}

#[test]
fn ef_11_an_asynchronous_body_that_fails_undoes_what_it_collected() {
    for (case, collects, panics, expected) in [
        ("error first", false, false, ""),
        ("error after one", true, false, "undone"),
        ("panic first", false, true, ""),
        ("panic after one", true, true, "undone"),
    ] {
        run(async |root| {
            let log = Log::default();
            let (body_log, ctx) = (log.clone(), root.clone());
            let body = async move |fx: Composite| -> Result<(), Fault> {
                if collects {
                    fx.defer(body_log.say("undone"));
                    fx.checkpoint().await;
                }
                ctx.sleep(ms(10)).await?;
                assert!(!panics, "no");
                Err(Fault::msg("no"))
            };
            let handle = root.effect_async("broken", body).unwrap();
            let error = handle.ready().await.unwrap_err();
            assert_eq!(error.code(), "EFFECT_FAILED", "{case}");
            assert_eq!(log.take(), expected, "{case}");
            assert_eq!(root.fiber().effects(), [], "{case}");
            handle.dispose().await;
            assert_eq!(log.take(), "", "{case}");
        });
    }
}

/// An asynchronous cleanup that logs `name>` and, after `millis`, `<name`.
fn slow_cleanup(root: &Context, log: &Log, name: &'static str, millis: u64) -> impl Future<Output = ()> + Send + use<> {
    let (log, clock) = (log.clone(), root.clone());
    async move {
        log.add(format!("{name}>"));
        clock.sleep(ms(millis)).await.unwrap();
        log.add(format!("<{name}"));
    }
}

#[test]
fn ef_12_effects_of_a_fiber_are_undone_one_after_another() {
    run(async |root| {
        let log = Log::default();
        let (inner, clock) = (log.clone(), root.context().clone());
        let fiber = mount(&root, "plugin", move |ctx, ()| {
            ctx.effect("a", |fx| fx.defer_async(slow_cleanup(&clock, &inner, "a", 5)))?;
            ctx.effect("b", |fx| fx.defer_async(slow_cleanup(&clock, &inner, "b", 1)))?;
            Ok(())
        });
        fiber.settled().await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "b> <b a> <a");
    });
}

#[test]
fn ef_13_disposers_of_a_composite_run_one_after_another() {
    run(async |root| {
        let log = Log::default();
        let handle = root
            .effect("both", |fx| {
                fx.defer_async(slow_cleanup(&root, &log, "a", 5));
                fx.defer_async(slow_cleanup(&root, &log, "b", 1));
            })
            .unwrap();
        handle.dispose().await;
        assert_eq!(log.take(), "b> <b a> <a");
    });
}

/// Children are undone at their place among the effects of their parent.
#[test]
fn ef_12_a_child_goes_at_its_place() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        let fiber = mount(&root, "parent", move |ctx, ()| {
            ctx.effect("p1", |fx| fx.defer(inner.say("p1")))?;
            let child = inner.say("child");
            mount(ctx, "child", move |ctx, ()| {
                ctx.effect("child", |fx| fx.defer(child.clone()))?;
                Ok(())
            });
            ctx.effect("p2", |fx| fx.defer(inner.say("p2")))?;
            Ok(())
        });
        fiber.settled().await.unwrap();
        root.sleep(ms(1)).await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "p2 child p1");
    });
}

#[test]
fn ef_14_a_failing_cleanup_is_reported_once_and_stops_no_other() {
    let log = Log::default();
    let lines = logged(|| {
        run(async |root| {
            let inner = log.clone();
            let fiber = mount(&root, "plugin", move |ctx, ()| {
                ctx.effect("first", |fx| fx.defer(inner.say("first")))?;
                ctx.effect("broken", |fx| fx.defer(|| Err::<(), _>(Fault::msg("no"))))?;
                ctx.effect("worse", |fx| fx.defer(|| -> Result<(), Fault> { panic!("never") }))?;
                ctx.effect("last", |fx| fx.defer(inner.say("last")))?;
                Ok(())
            });
            fiber.settled().await.unwrap();
            let error = fiber.dispose().await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "plugin `plugin` is disposed, but disposer `worse` of plugin `plugin` failed: never; \
                 disposer `broken` of plugin `plugin` failed: no"
            );
            assert_eq!(n_fibers(&root), 0);
        });
    });
    assert_eq!(log.take(), "last first");
    let broken: Vec<_> = lines.iter().filter(|it| it.contains("`broken`")).collect();
    assert_eq!(broken, ["ERROR plugin: disposer `broken` of plugin `plugin` failed: no"]);
}

#[test]
fn ef_15_a_failing_disposer_of_a_composite_stops_no_other() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        let fiber = mount(&root, "plugin", move |ctx, ()| {
            ctx.effect("three", |fx| {
                fx.defer(inner.say("first"));
                fx.defer_async(async { Err::<(), _>(Fault::msg("no")) });
                fx.defer(inner.say("last"));
            })?;
            Ok(())
        });
        fiber.settled().await.unwrap();
        let error = fiber.dispose().await.unwrap_err();
        assert_eq!(log.take(), "last first");
        let [DisposeProblem::Disposer { plugin, label, cause }] = error.problems() else { panic!("{error}") };
        assert_eq!((&**plugin, &**label, cause.to_string()), ("plugin", "three", "no".to_owned()));
    });
}

/// A composite that was undone keeps nothing: what comes late is undone at once, not forgotten.
#[test]
fn a_composite_that_is_undone_undoes_what_comes_late() {
    run(async |root| {
        let log = Log::default();
        let mut kept = None;
        root.effect("gone", |fx| kept = Some(fx.clone())).unwrap().dispose().await;
        let kept = kept.unwrap();
        kept.defer(log.say("late"));
        let later = log.say("later");
        kept.defer_async(async move { later() });
        kept.own(root.on(|_: &Ping| ()).unwrap());
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(log.take(), "late later");
        assert_eq!(n_listeners(&root, Ping::NAME), 0);
        assert_eq!(root.fiber().effects(), []);
    });
}

#[test]
fn r060_nothing_is_registered_after_disposal_began() {
    run(async |root| {
        let log = Log::default();
        let (inner, outer) = (log.clone(), root.context().clone());
        let before = n_listeners(&root, Ping::NAME);
        let fiber = mount(&root, "late", move |ctx, ()| {
            let register = |ctx: &Context, log: &Log| {
                let heard = log.say("heard");
                log.add(code_of(ctx.on(move |_: &Ping| heard())));
                log.add(code_of(ctx.scope()));
            };
            // One task is the plugin's own, the other is somebody else's with a context of the plugin.
            let (task, log) = (ctx.clone(), inner.clone());
            ctx.spawn(async move {
                task.sleep(ms(100)).await.unwrap();
                register(&task, &log);
            })?;
            let (foreign, log, clock) = (ctx.clone(), inner.clone(), outer.clone());
            outer.spawn(async move {
                clock.sleep(ms(100)).await.unwrap();
                register(&foreign, &log);
            })?;
            Ok(())
        });
        root.sleep(ms(50)).await.unwrap();
        fiber.dispose().await.unwrap();
        root.sleep(ms(250)).await.unwrap();
        root.emit(&Ping);
        assert_eq!(log.take(), "INACTIVE_EFFECT INACTIVE_EFFECT");
        assert_eq!(n_listeners(&root, Ping::NAME), before);
        assert_eq!(n_fibers(&root), 0);
    });
}

#[test]
fn r061_effects_made_in_a_listener_belong_to_its_plugin() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        let fiber = mount(&root, "plugin", move |ctx, ()| {
            let (own, log, n) = (ctx.clone(), inner.clone(), Arc::new(std::sync::atomic::AtomicU32::new(0)));
            ctx.on(move |_: &Ping| -> Result<(), BusError> {
                let n = n.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                own.effect("made", |fx| fx.defer(log.say(&n.to_string())))?;
                Ok(())
            })?;
            Ok(())
        });
        fiber.settled().await.unwrap();
        (0..3).for_each(|_| root.emit(&Ping));
        assert_eq!(log.take(), "");
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "3 2 1");
    });
}

#[test]
fn r062_a_disposer_that_never_returns_is_named() {
    run(async |root| {
        let log = Log::default();
        let other_log = log.clone();
        let parent = mount(&root, "parent", move |ctx, ()| {
            let other = other_log.say("other");
            mount(ctx, "other", move |ctx, ()| {
                ctx.effect("other", |fx| fx.defer(other.clone()))?;
                Ok(())
            });
            mount(ctx, "stuck", |ctx, ()| {
                ctx.effect("waits", |fx| fx.defer_async(std::future::pending::<()>()))?;
                Ok(())
            });
            Ok(())
        });
        root.sleep(ms(1)).await.unwrap();
        let error = parent.dispose().await.unwrap_err();
        assert_eq!(error.code(), "DISPOSE_INCOMPLETE");
        let [DisposeProblem::DisposerTimeout { plugin, label }] = error.problems() else { panic!("{error}") };
        assert_eq!((&**plugin, &**label), ("stuck", "waits"));
        assert_eq!(log.take(), "other");
        assert_eq!(n_fibers(&root), 0);
        assert_eq!(root.clock().monotonic(), ms(5001), "one grace period and no more");
    });
}
