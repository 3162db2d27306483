//! Restart and update: when the new config is used, who may veto it, and what it means from inside.

use std::sync::{Arc, Mutex};

use linn_bus::{Context, Event, Fault, FiberState, InternalUpdate, Mounted, Next, Plugin, Updated, listener};
use linn_bus_test::run;

use crate::support::{Log, code_of, log_status, ms};

/// Logs its config; starts for `start_ms`.
struct Configured;

type Then = fn(&Context, &Log) -> Result<(), Fault>;

#[derive(Clone, Default)]
struct Config {
    value: u32,
    start_ms: u64,
    log: Log,
    /// Runs at the end of each start.
    then: Option<Then>,
}

impl Plugin for Configured {
    const NAME: &'static str = "configured";
    type Config = Config;
    type Needs = ();
    fn validate(config: &Config) -> Result<(), Fault> {
        if config.value == 0 { Err(Fault::msg("`value` is 0; give another")) } else { Ok(()) }
    }
    async fn start(ctx: &Context, config: Config, (): ()) -> Result<(), Fault> {
        config.log.add(format!("up({})", config.value));
        let down = config.log.say(&format!("down({})", config.value));
        ctx.effect("down", |fx| fx.defer(down))?;
        if config.start_ms > 0 {
            ctx.sleep(ms(config.start_ms)).await?;
        }
        config.then.map_or(Ok(()), |then| then(ctx, &config.log))
    }
}

fn mount(ctx: &Context, config: &Config) -> Mounted<Configured> {
    ctx.mount::<Configured>(config.clone()).unwrap()
}

#[test]
fn fb_09_an_update_restarts_with_the_new_config() {
    run(async |root| {
        let config = Config { value: 1, ..Config::default() };
        let (log, fiber) = (config.log.clone(), mount(&root, &config));
        fiber.settled().await.unwrap();
        log_status(&root, Configured::NAME, &log);
        let updated = fiber.update(Config { value: 2, ..config }).await.unwrap();
        assert_eq!(updated, Updated::Restarted(FiberState::Active));
        let expected = "up(1) active->unloading down(1) unloading->loading up(2) loading->active";
        assert_eq!(log.take(), expected);
    });
}

#[test]
fn fb_10_an_update_or_restart_while_loading_starts_again() {
    for update in [true, false] {
        run(async |root| {
            let config = Config { value: 1, start_ms: 100, ..Config::default() };
            let (log, fiber) = (config.log.clone(), mount(&root, &config));
            root.sleep(ms(50)).await.unwrap();
            let expected = if update {
                fiber.update(Config { value: 2, ..config }).await.unwrap();
                "up(1) down(1) up(2)"
            } else {
                assert_eq!(fiber.restart().await.unwrap(), FiberState::Active);
                "up(1) down(1) up(1)"
            };
            assert_eq!(log.take(), expected);
            assert_eq!(root.clock().monotonic(), ms(200));
        });
    }
}

#[test]
fn fb_11_a_plugin_may_refuse_its_update() {
    run(async |root| {
        let veto = |ctx: &Context, _: &Log| -> Result<(), Fault> {
            ctx.on(async |_: &InternalUpdate, _: Next<'_, InternalUpdate>| false)?;
            Ok(())
        };
        let config = Config { value: 1, then: Some(veto), ..Config::default() };
        let (log, fiber) = (config.log.clone(), mount(&root, &config));
        fiber.settled().await.unwrap();
        assert_eq!(fiber.update(Config { value: 2, ..config }).await.unwrap(), Updated::Kept);
        assert_eq!(fiber.state(), FiberState::Active);
        assert_eq!(log.take(), "up(1)");
        fiber.restart().await.unwrap();
        assert_eq!(log.take(), "down(1) up(1)", "the config is the old one");
    });
}

#[test]
fn an_update_is_heard_by_its_own_fiber_and_by_global_listeners_around_it() {
    run(async |root| {
        let own = |ctx: &Context, log: &Log| -> Result<(), Fault> {
            let hear = |what: &str, log: &Log| {
                let (enter, leave) = (log.say(&format!("{what}>")), log.say(&format!("<{what}")));
                listener!(async move |_: &InternalUpdate, next: Next<'_, InternalUpdate>| {
                    enter();
                    let stored = next.run().await;
                    leave();
                    stored
                })
            };
            ctx.on(hear("own", log))?;
            ctx.first().on(hear("first", log))?;
            Ok(())
        };
        let config = Config { value: 1, then: Some(own), ..Config::default() };
        let other = mount(&root, &Config { log: Log::default(), ..config.clone() });
        other.settled().await.unwrap();
        let (log, fiber) = (config.log.clone(), mount(&root, &config));
        fiber.settled().await.unwrap();
        // Registered last, by the last in the tree, and outside all the same.
        let later = crate::support::mount(&root, "later", |_, ()| Ok(()));
        later.settled().await.unwrap();
        let (enter, leave, values) = (log.say("global>"), log.say("<global"), log.clone());
        later
            .context()
            .unwrap()
            .global()
            .on(listener!(async move |update: &InternalUpdate, next: Next<'_, InternalUpdate>| {
                enter();
                values.add(format!("{:?},save={}", update.config::<Config>().map(|it| it.value), update.save));
                let stored = next.run().await;
                leave();
                stored
            }))
            .unwrap();
        log.take();
        fiber.update_unsaved(Config { value: 2, ..config }).await.unwrap();
        assert_eq!(log.take(), "first> global> Some(2),save=false own> <own <global <first down(1) up(2)");
    });
}

#[test]
fn an_update_with_an_invalid_config_changes_nothing() {
    run(async |root| {
        let config = Config { value: 1, ..Config::default() };
        let (log, fiber) = (config.log.clone(), mount(&root, &config));
        fiber.settled().await.unwrap();
        let heard = log.say("heard");
        root.global()
            .on(listener!(async move |_: &InternalUpdate, next: Next<'_, InternalUpdate>| {
                heard();
                next.run().await
            }))
            .unwrap();
        let error = fiber.update(Config { value: 0, ..config }).await.unwrap_err();
        assert_eq!(error.code(), "CONFIG_INVALID");
        assert_eq!(error.to_string(), "invalid config of plugin `configured`: `value` is 0; give another");
        assert_eq!((fiber.state(), log.take()), (FiberState::Active, "up(1)".to_owned()));
    });
}

#[test]
fn a_failing_update_listener_refuses_the_update() {
    run(async |root| {
        let config = Config { value: 1, ..Config::default() };
        let (log, fiber) = (config.log.clone(), mount(&root, &config));
        fiber.settled().await.unwrap();
        root.global()
            .on(async |_: &InternalUpdate, _: Next<'_, InternalUpdate>| Err::<bool, _>(Fault::msg("disk full")))
            .unwrap();
        let error = fiber.update(Config { value: 2, ..config }).await.unwrap_err();
        assert_eq!(error.code(), "LISTENER_FAILED");
        assert!(error.to_string().contains("`root` on `internal/update`"), "{error}");
        assert_eq!(log.take(), "up(1)");
    });
}

#[test]
fn what_is_disposed_is_neither_restarted_nor_updated() {
    run(async |root| {
        let config = Config { value: 1, ..Config::default() };
        let (log, fiber) = (config.log.clone(), mount(&root, &config));
        fiber.settled().await.unwrap();
        fiber.dispose().await.unwrap();
        assert_eq!(log.take(), "up(1) down(1)");
        let errors = [fiber.restart().await.map(drop), fiber.update(config).await.map(drop), fiber.running().await];
        for error in errors {
            let error = error.unwrap_err();
            assert_eq!(error.code(), "FIBER_DISPOSED", "{error:?}");
            assert_eq!(error.to_string(), "plugin `configured` is disposed; mount it again");
        }
        assert_eq!(log.take(), "");
    });
}

/// Reload!
#[derive(Event)]
#[event(name = "fibers/reload", mode = Serial, output = FiberState)]
struct Reload;

/// Waiting for a restart from inside what is restarted does not hold it up, as with a disposal.
#[test]
fn a_listener_may_restart_its_own_plugin() {
    run(async |root| {
        let restart = |ctx: &Context, _: &Log| -> Result<(), Fault> {
            let fiber = ctx.fiber();
            ctx.on(listener!(async move |_: &Reload| fiber.restart().await.map(Some)))?;
            Ok(())
        };
        let config = Config { value: 1, then: Some(restart), ..Config::default() };
        let (log, fiber) = (config.log.clone(), mount(&root, &config));
        fiber.settled().await.unwrap();
        assert_eq!(root.serial(&Reload).await.unwrap(), Some(FiberState::Active));
        assert_eq!(log.take(), "up(1) down(1) up(1)");
        assert_eq!(root.clock().monotonic(), ms(0), "nothing waited for a grace period");
    });
}

/// A start cannot wait for what comes after it.
#[test]
fn a_start_that_restarts_its_plugin_ends_first() {
    run(async |root| {
        let log = Log::default();
        let (inner, states) = (log.clone(), Arc::new(Mutex::new(0)));
        let fiber = root
            .mount_fn("plugin", move |ctx: Context, (): ()| {
                let (log, runs) = (inner.clone(), states.clone());
                async move {
                    let run = {
                        let mut runs = runs.lock().unwrap();
                        *runs += 1;
                        *runs
                    };
                    log.add(format!("start {run}"));
                    if run == 1 {
                        log.add(ctx.fiber().restart().await?);
                    }
                    Ok::<_, Fault>(())
                }
            })
            .unwrap();
        assert_eq!(fiber.settled().await.unwrap(), FiberState::Active);
        assert_eq!(log.take(), "start 1 loading start 2");
        assert_eq!(code_of(fiber.running().await), "no error");
    });
}
