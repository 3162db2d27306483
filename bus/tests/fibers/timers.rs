//! Timers: they belong to a fiber, and nothing fires once it is gone.

use linn_bus::{Context, Disposed, Fiber, Throttle};
use linn_bus_test::run;

use crate::support::{Log, code_of, mount, ms};

/// A plugin that does nothing, and a context of it.
async fn plugin(root: &Context) -> (Fiber, Context) {
    let fiber = mount(root, "plugin", |_, ()| Ok(()));
    fiber.settled().await.unwrap();
    let context = fiber.context().unwrap();
    (fiber, context)
}

#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Never,
    WithTimer,
    WithFiber,
}

#[test]
fn tm_01_a_timeout_fires_once_or_never() {
    for (ends, expected) in [(Ends::Never, "fired"), (Ends::WithTimer, ""), (Ends::WithFiber, "")] {
        run(async |root| {
            let log = Log::default();
            let (fiber, ctx) = plugin(&root).await;
            let timer = ctx.timeout(ms(100), log.say("fired")).unwrap();
            assert_eq!(ctx.fiber().effects()[0].label, "ctx.timeout()");
            root.sleep(ms(99)).await.unwrap();
            assert_eq!(log.take(), "");
            match ends {
                Ends::Never => {}
                Ends::WithTimer => assert!(timer.dispose()),
                Ends::WithFiber => fiber.dispose().await.unwrap(),
            }
            root.sleep(ms(1000)).await.unwrap();
            assert_eq!(log.take(), expected);
            assert!(!timer.dispose());
            assert_eq!(fiber.effects(), []);
        });
    }
}

#[test]
fn tm_02_a_sleep_resolves_once_or_says_that_its_plugin_is_gone() {
    run(async |root| {
        let (fiber, ctx) = plugin(&root).await;
        let (done, kept) = (ctx.sleep(ms(100)), ctx.sleep(ms(5000)));
        assert_eq!(done.await, Ok(()));
        fiber.dispose().await.unwrap();
        assert_eq!(kept.await, Err(Disposed));
        assert_eq!(Disposed.to_string(), "Context has been disposed");
        assert_eq!(root.clock().monotonic(), ms(100));
    });
}

#[test]
fn tm_03_an_interval_fires_each_period_until_it_goes() {
    for ends in [Ends::WithTimer, Ends::WithFiber] {
        run(async |root| {
            let log = Log::default();
            let (fiber, ctx) = plugin(&root).await;
            let (inner, clock) = (log.clone(), root.clock().clone());
            let timer = ctx.interval(ms(100), move || inner.add(clock.monotonic().as_millis())).unwrap();
            root.sleep(ms(350)).await.unwrap();
            match ends {
                Ends::WithTimer => assert!(timer.dispose()),
                _ => fiber.dispose().await.unwrap(),
            }
            root.sleep(ms(1000)).await.unwrap();
            assert_eq!(log.take(), "100 200 300");
            assert!(!timer.dispose());
        });
    }
}

#[test]
fn tm_04_ticks_end_with_their_loop_or_with_their_plugin() {
    run(async |root| {
        let (fiber, ctx) = plugin(&root).await;
        // A loop that is left, by `break`, `return` or an error of its body, ends the ticks by dropping them.
        let mut n = 0;
        let mut ticks = ctx.ticks(ms(100));
        while ticks.tick().await.is_ok() {
            n += 1;
            if n == 3 {
                break;
            }
        }
        drop(ticks);
        assert_eq!(root.clock().monotonic(), ms(300));
        let body = async || -> Result<(), String> {
            let mut ticks = ctx.ticks(ms(100));
            ticks.tick().await.map_err(|it| it.to_string())?;
            Err("body".to_owned())
        };
        assert_eq!(body().await, Err("body".to_owned()));

        let mut ticks = ctx.ticks(ms(100));
        let waiting = root.spawn(async move { (ticks.tick().await, ticks.tick().await) }).unwrap();
        root.sleep(ms(150)).await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(waiting.join().await.unwrap(), (Ok(()), Err(Disposed)));
        assert_eq!(ctx.ticks(ms(100)).tick().await, Err(Disposed));
        assert_eq!(root.clock().monotonic(), ms(550));
    });
}

#[test]
fn tm_04_a_tick_nobody_waits_for_is_lost() {
    run(async |root| {
        let mut ticks = root.ticks(ms(100));
        root.sleep(ms(250)).await.unwrap();
        ticks.tick().await.unwrap();
        assert_eq!(root.clock().monotonic(), ms(300));
    });
}

/// Calls `paced` at these times, with the time.
async fn call_at(root: &Context, paced: &Throttle<u64>, times: &[u64]) {
    for at in times {
        let now = root.clock().monotonic();
        if ms(*at) > now {
            root.sleep(ms(*at) - now).await.unwrap();
        }
        paced.call(*at);
    }
}

/// What ran, as `time:argument`.
fn noted(root: &Context, log: &Log) -> impl FnMut(u64) + Send + 'static + use<> {
    let (log, clock) = (log.clone(), root.clock().clone());
    move |argument| log.add(format!("{}:{argument}", clock.monotonic().as_millis()))
}

#[test]
fn tm_05_a_throttle_runs_at_both_edges_of_a_period() {
    run(async |root| {
        let log = Log::default();
        let throttle = root.throttle(ms(1000), noted(&root, &log));
        call_at(&root, &throttle, &[0, 600, 1200]).await;
        assert_eq!(log.take(), "0:0 1000:600");
        root.sleep(ms(5000)).await.unwrap();
        assert_eq!(log.take(), "2000:1200");
        throttle.call(7);
        assert_eq!(log.take(), "6200:7", "a quiet period is over, so the leading edge runs at once");
    });
}

#[test]
fn tm_05_a_leading_throttle_keeps_nothing_for_later() {
    run(async |root| {
        let log = Log::default();
        let throttle = root.throttle_leading(ms(1000), noted(&root, &log));
        call_at(&root, &throttle, &[0, 600, 1200]).await;
        root.sleep(ms(5000)).await.unwrap();
        assert_eq!(log.take(), "0:0 1200:1200");
    });
}

#[test]
fn tm_06_a_disposed_throttle_has_no_trailing_edge() {
    for ends in [Ends::WithTimer, Ends::WithFiber] {
        run(async |root| {
            let log = Log::default();
            let (fiber, ctx) = plugin(&root).await;
            let throttle = ctx.throttle(ms(1000), noted(&root, &log));
            match ends {
                Ends::WithTimer => throttle.dispose(),
                _ => fiber.dispose().await.unwrap(),
            }
            call_at(&root, &throttle, &[0, 600]).await;
            root.sleep(ms(5000)).await.unwrap();
            assert_eq!(log.take(), "0:0");
        });
    }
}

#[test]
fn tm_06_a_trailing_edge_goes_with_its_plugin() {
    run(async |root| {
        let log = Log::default();
        let (fiber, ctx) = plugin(&root).await;
        let throttle = ctx.throttle(ms(1000), noted(&root, &log));
        call_at(&root, &throttle, &[0, 600]).await;
        fiber.dispose().await.unwrap();
        root.sleep(ms(5000)).await.unwrap();
        assert_eq!(log.take(), "0:0");
    });
}

#[test]
fn tm_07_a_debounce_runs_once_it_is_quiet() {
    for (ends, expected) in [(Ends::Never, "1800:800"), (Ends::WithTimer, ""), (Ends::WithFiber, "")] {
        run(async |root| {
            let log = Log::default();
            let (fiber, ctx) = plugin(&root).await;
            let debounce = ctx.debounce(ms(1000), noted(&root, &log));
            call_at(&root, &debounce, &[0, 400, 800]).await;
            match ends {
                Ends::Never => {}
                Ends::WithTimer => debounce.dispose(),
                Ends::WithFiber => fiber.dispose().await.unwrap(),
            }
            if ends != Ends::Never {
                debounce.call(900);
            }
            root.sleep(ms(5000)).await.unwrap();
            assert_eq!(log.take(), expected);
        });
    }
}

/// The function may ask for itself again, whatever the period.
#[test]
fn a_paced_function_may_call_itself() {
    for period in [0, 100] {
        run(async |root| {
            let log = Log::default();
            let own = std::sync::Arc::new(std::sync::OnceLock::<Throttle<u64>>::new());
            let (inner, again) = (log.clone(), own.clone());
            let throttle = root.throttle(ms(period), move |n| {
                inner.add(n);
                if n < 3 {
                    again.get().unwrap().call(n + 1);
                }
            });
            own.set(throttle.clone()).unwrap();
            throttle.call(1);
            root.sleep(ms(5000)).await.unwrap();
            assert_eq!(log.take(), "1 2 3", "period {period}");
        });
    }
}

#[test]
fn a_future_is_waited_for_within_a_time() {
    run(async |root| {
        let error = root.within(ms(100), std::future::pending::<()>()).await.unwrap_err();
        assert_eq!((error.after, error.to_string()), (ms(100), "not ready within 100 ms".to_owned()));
        assert_eq!(root.within(ms(100), root.sleep(ms(50))).await, Ok(Ok(())));
        assert_eq!(root.clock().monotonic(), ms(150));
    });
}

#[test]
fn no_timer_is_made_for_a_plugin_that_is_gone() {
    run(async |root| {
        let (fiber, ctx) = plugin(&root).await;
        fiber.dispose().await.unwrap();
        assert_eq!(code_of(ctx.timeout(ms(1), || ())), "INACTIVE_EFFECT");
        assert_eq!(code_of(ctx.interval(ms(1), || ())), "INACTIVE_EFFECT");
        let error = ctx.timeout(ms(1), || ()).unwrap_err().to_string();
        assert!(error.contains("plugin `plugin` is disposed and tried `ctx.timeout()`"), "{error}");
    });
}
