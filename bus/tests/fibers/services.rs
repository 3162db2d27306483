//! Services: who may provide, read and replace them, and what a call says when its provider cannot answer.

use std::sync::Arc;

use linn_bus::{
    BusError, Composite, Context, FiberState, InternalService, InternalSet, Next, ServiceError, Svc, provider, service,
};
use linn_bus_test::run;

use crate::support::{
    Bar, Foo, FooIs, Log, Ping, code_of, foo_plugin, foo_user, is_provided, mount, ms, n_listeners, provide_bar,
    provide_foo,
};

#[test]
fn sv_01_a_user_starts_when_its_provider_has_started() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        let provider = root
            .mount_fn("provider", move |ctx: Context, (): ()| {
                let log = inner.clone();
                async move {
                    ctx.provide::<dyn Foo>(Arc::new(FooIs(1)))?;
                    ctx.sleep(ms(100)).await.unwrap();
                    log.add("provider");
                    Ok::<_, BusError>(())
                }
            })
            .unwrap();
        let user = foo_user(&root, &log);
        root.sleep(ms(50)).await.unwrap();
        assert_eq!((provider.state(), user.state()), (FiberState::Loading, FiberState::Pending));
        root.sleep(ms(100)).await.unwrap();
        assert_eq!((provider.state(), user.state()), (FiberState::Active, FiberState::Active));
        assert_eq!(log.take(), "provider up(1)");
    });
}

/// A third number.
#[service("fibers/qux")]
trait Qux {
    fn value(&self) -> Result<u32, ServiceError>;
}

#[provider]
impl Qux for FooIs {
    fn value(&self) -> Result<u32, ServiceError> {
        Ok(self.0)
    }
}

#[test]
fn sv_02_plugins_mounted_before_what_they_need_start_once() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        mount(&root, "foo", move |ctx, qux: Svc<dyn Qux>| {
            inner.add("foo");
            ctx.provide::<dyn Foo>(Arc::new(FooIs(qux.value()? + 1)))?;
            Ok(())
        });
        let inner = log.clone();
        let bar = mount(&root, "bar", move |_, (foo, qux): (Svc<dyn Foo>, Svc<dyn Qux>)| {
            inner.add(format!("bar({},{})", foo.value()?, qux.value()?));
            Ok(())
        });
        let inner = log.clone();
        mount(&root, "qux", move |ctx, ()| {
            inner.add("qux");
            ctx.provide::<dyn Qux>(Arc::new(FooIs(1)))?;
            Ok(())
        });
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(bar.state(), FiberState::Active);
        assert_eq!(log.take(), "qux foo bar(2,1)");
    });
}

#[test]
fn sv_03_a_cleanup_can_still_use_the_service_that_goes() {
    run(async |root| {
        let log = Log::default();
        let provider = foo_plugin(&root, "provider", 7);
        let inner = log.clone();
        let user = mount(&root, "user", move |ctx, foo: Svc<dyn Foo>| {
            let (own, log) = (ctx.clone(), inner.clone());
            ctx.effect("cleanup", |fx: &Composite| {
                fx.defer(move || -> Result<(), BusError> {
                    log.add(format!("{:?}", foo.value().ok()));
                    log.add(format!("{:?}", own.require::<dyn Foo>()?.value().ok()));
                    Ok(())
                });
            })?;
            Ok(())
        });
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(user.state(), FiberState::Active);
        provider.dispose().await.unwrap();
        assert_eq!(log.take(), "Some(7) Some(7)");
    });
}

#[test]
fn sv_07_reading_without_need_writing_without_provide_and_providing_twice_are_errors() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        foo_plugin(&root, "owner", 1).settled().await.unwrap();
        let fiber = root
            .mount_fn("plugin", move |ctx: Context, (): ()| {
                let log = inner.clone();
                async move {
                    log.add(code_of(ctx.require::<dyn Bar>()));
                    log.add(code_of(ctx.set::<dyn Bar>(Arc::new(FooIs(1))).await));
                    log.add(ctx.provide::<dyn Foo>(Arc::new(FooIs(1))).unwrap_err());
                }
            })
            .unwrap();
        fiber.settled().await.unwrap();
        let taken =
            "service `fibers/foo` has been registered at `owner`; dispose that one first, or isolate this context";
        assert_eq!(log.take(), format!("SERVICE_UNDECLARED SERVICE_UNPROVIDED {taken}"));
        assert_eq!(fiber.effects(), []);
    });
}

#[test]
fn sv_08_only_the_provider_may_replace_its_value() {
    run(async |root| {
        let owner = foo_plugin(&root, "owner", 1);
        owner.settled().await.unwrap();
        let error = root.set::<dyn Foo>(Arc::new(FooIs(2))).await.unwrap_err();
        assert_eq!(error.code(), "SERVICE_FOREIGN");
        assert!(
            error.to_string().starts_with("cannot set property \"fibers/foo\" in multiple fibers: `owner`"),
            "{error}"
        );
        assert_eq!(root.get::<dyn Foo>().unwrap().value().unwrap(), 1);
    });
}

#[test]
fn sv_09_a_value_replaced_in_place_is_seen_without_a_reload() {
    run(async |root| {
        let log = Log::default();
        provide_foo(&root, 1);
        let user = foo_user(&root, &log);
        user.settled().await.unwrap();
        let kept = root.get::<dyn Foo>().unwrap();
        assert!(root.set::<dyn Foo>(Arc::new(FooIs(2))).await.unwrap());
        assert_eq!(kept.value().unwrap(), 2);
        assert_eq!(user.settled().await.unwrap(), FiberState::Active);
        assert_eq!(log.take(), "up(1)");
    });
}

#[test]
fn sv_09_a_listener_may_keep_the_old_value() {
    run(async |root| {
        provide_foo(&root, 1);
        let veto = root.on(async |_: &InternalSet, _: Next<'_, InternalSet>| false).unwrap();
        assert!(!root.set::<dyn Foo>(Arc::new(FooIs(2))).await.unwrap());
        assert_eq!(root.get::<dyn Foo>().unwrap().value().unwrap(), 1);
        veto.dispose();
        assert!(root.set::<dyn Foo>(Arc::new(FooIs(3))).await.unwrap());
        assert_eq!(root.get::<dyn Foo>().unwrap().value().unwrap(), 3);
    });
}

/// A context for use after the plugin is gone.
async fn context_of_user(root: &Context) -> (linn_bus::Fiber, Context) {
    let user = mount(root, "user", |_, _: Svc<dyn Foo>| Ok(()));
    user.settled().await.unwrap();
    let context = user.context().unwrap();
    (user, context)
}

#[test]
fn sv_10_a_service_is_not_read_after_the_plugin_is_gone() {
    run(async |root| {
        provide_foo(&root, 1);
        let (user, context) = context_of_user(&root).await;
        assert_eq!(context.require::<dyn Foo>().unwrap().value().unwrap(), 1);
        user.dispose().await.unwrap();
        let error = context.require::<dyn Foo>().unwrap_err();
        assert_eq!(error.code(), "SERVICE_INACTIVE");
        assert_eq!(
            error.to_string(),
            "cannot get required service \"fibers/foo\" in inactive context: plugin `user` is disposed"
        );
    });
}

/// A context of an earlier run does not read through a later one.
#[test]
fn sv_10_a_service_is_not_read_through_an_earlier_run() {
    run(async |root| {
        provide_foo(&root, 1);
        let (user, old) = context_of_user(&root).await;
        user.restart().await.unwrap();
        assert_eq!(code_of(old.require::<dyn Foo>()), "SERVICE_INACTIVE");
        assert_eq!(code_of(user.context().unwrap().require::<dyn Foo>()), "no error");
    });
}

#[test]
fn sv_11_a_provider_that_is_starting_is_seen_from_the_root_by_require_only() {
    run(async |root| {
        let provider = root
            .mount_fn("provider", |ctx: Context, (): ()| async move {
                ctx.provide::<dyn Foo>(Arc::new(FooIs(1)))?;
                ctx.sleep(ms(100)).await.unwrap();
                Ok::<_, BusError>(())
            })
            .unwrap();
        root.sleep(ms(50)).await.unwrap();
        assert_eq!(provider.state(), FiberState::Loading);
        assert!(root.get::<dyn Foo>().is_none());
        assert_eq!(root.require::<dyn Foo>().unwrap().value().unwrap(), 1);
        provider.settled().await.unwrap();
        assert_eq!(root.get::<dyn Foo>().unwrap().value().unwrap(), 1);
    });
}

#[test]
fn sv_12_services_of_ancestors_are_visible_those_of_siblings_are_not() {
    run(async |root| {
        foo_plugin(&root, "sibling", 1).settled().await.unwrap();
        provide_bar(&root, 2);
        let log = Log::default();
        let inner = log.clone();
        mount(&root, "parent", move |ctx, ()| {
            ctx.provide::<dyn Qux>(Arc::new(FooIs(3)))?;
            let log = inner.clone();
            mount(ctx, "child", move |ctx, ()| {
                log.add(ctx.require::<dyn Bar>()?.value()?);
                log.add(ctx.require::<dyn Qux>()?.value()?);
                log.add(code_of(ctx.require::<dyn Foo>()));
                // An optional look sees whatever is there.
                log.add(ctx.get::<dyn Foo>().is_some());
                Ok(())
            });
            Ok(())
        });
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(log.take(), "2 3 SERVICE_UNDECLARED true");
    });
}

/// A function with a need is a plugin of its own, so it comes and goes with the service.
#[test]
fn sv_13_a_part_of_a_plugin_may_have_needs_of_its_own() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        let plugin = mount(&root, "plugin", move |ctx, ()| {
            foo_user(ctx, &inner);
            Ok(())
        });
        root.sleep(ms(1)).await.unwrap();
        assert_eq!((plugin.state(), log.take()), (FiberState::Active, String::new()));
        let foo = provide_foo(&root, 1);
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(log.take(), "up(1)");
        foo.dispose().await;
        assert_eq!((plugin.state(), log.take()), (FiberState::Active, "down".to_owned()));
    });
}

/// A member of `Foo`, as a service of its own.
#[service("fibers/foo.bar")]
trait FooBar {
    fn value(&self) -> Result<u32, ServiceError>;
}

#[provider]
impl FooBar for FooIs {
    fn value(&self) -> Result<u32, ServiceError> {
        Ok(self.0)
    }
}

#[test]
fn sv_14_a_service_named_below_another_is_one_of_its_own() {
    run(async |root| {
        provide_foo(&root, 1);
        let bar = root.provide::<dyn FooBar>(Arc::new(FooIs(2))).unwrap();
        assert_eq!(root.get::<dyn FooBar>().unwrap().value().unwrap(), 2);
        bar.dispose().await;
        assert!(root.get::<dyn FooBar>().is_none());
        assert!(root.get::<dyn Foo>().is_some());
    });
}

mod clash {
    use linn_bus::{ServiceError, provider, service};

    /// Another trait of a name that is in use.
    #[service("fibers/foo")]
    pub(super) trait OtherFoo {
        fn text(&self) -> Result<String, ServiceError>;
    }

    pub(super) struct Text;

    #[provider]
    impl OtherFoo for Text {
        fn text(&self) -> Result<String, ServiceError> {
            Ok("text".to_owned())
        }
    }
}

#[test]
fn sv_17_two_traits_of_one_name_clash() {
    run(async |root| {
        let foo = provide_foo(&root, 1);
        let provide = || root.provide::<dyn clash::OtherFoo>(Arc::new(clash::Text)).unwrap_err();
        let error = provide();
        assert_eq!(error.code(), "SERVICE_CLASH");
        let text = error.to_string();
        for part in ["`fibers/foo`", "support::Foo`", "clash::OtherFoo`", "give one of them another name"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(root.get::<dyn clash::OtherFoo>().is_none_or(|it| it.text().is_err()));
        // The name stays with the first trait: who kept it would call the wrong one.
        foo.dispose().await;
        assert_eq!(provide().code(), "SERVICE_CLASH");
        provide_foo(&root, 2);
    });
}

#[test]
fn services_that_come_and_go_are_told() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        root.on(move |told: &InternalService| {
            inner.add(format!("{}:{}", told.service.name, told.provider.as_deref().unwrap_or("none")));
        })
        .unwrap();
        provide_foo(&root, 1).dispose().await;
        assert_eq!(log.take(), "fibers/foo:root fibers/foo:none");
        assert!(!is_provided::<dyn Foo>(&root));
    });
}

/// What may go wrong in a call.
#[service("fibers/fragile")]
trait Fragile {
    fn sync(&self, panics: bool) -> Result<u32, ServiceError>;
    async fn early(&self, panics: bool) -> Result<u32, ServiceError>;
    async fn late(&self, panics: bool) -> Result<u32, ServiceError>;
}

struct Breaks(Context);

#[provider]
impl Fragile for Breaks {
    fn sync(&self, panics: bool) -> Result<u32, ServiceError> {
        assert!(!panics, "dropped it");
        Ok(1)
    }
    async fn early(&self, panics: bool) -> Result<u32, ServiceError> {
        assert!(!panics, "dropped it");
        Ok(1)
    }
    async fn late(&self, panics: bool) -> Result<u32, ServiceError> {
        // The task of the caller outlives the provider, so does its clock.
        self.0.sleep(ms(100)).await.unwrap();
        assert!(!panics, "dropped it");
        Ok(1)
    }
}

fn fragile_plugin(root: &Context) -> linn_bus::Fiber {
    let clock = root.clone();
    mount(root, "fragile", move |ctx, ()| {
        ctx.provide::<dyn Fragile>(Arc::new(Breaks(clock.clone())))?;
        Ok(())
    })
}

#[test]
fn a_panic_of_a_method_is_an_error_of_that_call() {
    run(async |root| {
        fragile_plugin(&root).settled().await.unwrap();
        let fragile = root.get::<dyn Fragile>().unwrap();
        let calls = async |panics| {
            [
                ("sync", fragile.sync(panics)),
                ("early", fragile.early(panics).await),
                ("late", fragile.late(panics).await),
            ]
        };
        for (name, outcome) in calls(true).await {
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), "SERVICE_PANICKED");
            let expected = format!("service `fibers/fragile` of plugin `fragile` panicked in `{name}`: dropped it");
            assert_eq!(error.to_string(), expected);
        }
        for (name, outcome) in calls(false).await {
            assert_eq!(outcome.unwrap(), 1, "{name}");
        }
        root.emit(&Ping);
        assert_eq!(n_listeners(&root, "fibers/ping"), 0);
    });
}

#[test]
fn a_handle_kept_longer_than_its_provider_says_that_it_is_gone() {
    run(async |root| {
        let plugin = fragile_plugin(&root);
        plugin.settled().await.unwrap();
        let fragile = root.get::<dyn Fragile>().unwrap();
        assert_eq!(fragile.provider(), "fragile");
        let not_polled = fragile.early(false);
        plugin.dispose().await.unwrap();
        let outcomes = [
            ("sync", fragile.sync(false)),
            ("early", not_polled.await),
            ("early", fragile.early(false).await),
            ("late", fragile.late(false).await),
        ];
        for (name, outcome) in outcomes {
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), "SERVICE_GONE");
            let expected = format!("service `fibers/fragile` of plugin `fragile` is gone; `{name}` has no answer");
            assert_eq!(error.to_string(), expected);
        }
        // Not even the return of its plugin brings it back to life.
        fragile_plugin(&root).settled().await.unwrap();
        assert_eq!(fragile.sync(false).unwrap_err().code(), "SERVICE_GONE");
    });
}
