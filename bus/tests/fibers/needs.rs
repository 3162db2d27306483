//! Needs: what a plugin waits for, when it reloads, and what is looked up at the moment of use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use linn_bus::{
    Context, FiberState, Inject, InternalGet, Lookup, NeedList, Next, ServiceError, Svc, WaitReason, listener,
    provider, service,
};
use linn_bus_test::run;

use crate::support::{Bar, Foo, FooIs, Log, code_of, foo_user, mount, ms, provide_bar, provide_foo};

#[derive(Inject)]
#[expect(dead_code, reason = "only its declaration is looked at")]
struct All {
    foo: Svc<dyn Foo>,
    bar: Option<Svc<dyn Bar>>,
    later: Lookup<dyn Foo>,
}

#[test]
fn needs_are_listed_without_running_anything() {
    let mut list = NeedList::default();
    All::declare(&mut list);
    <(Svc<dyn Bar>, ())>::declare(&mut list);
    let listed: Vec<_> = list.iter().map(|it| (it.service.name, it.required)).collect();
    assert_eq!(listed, [("fibers/foo", true), ("fibers/bar", false), ("fibers/bar", true)]);
}

#[test]
fn a_needed_service_starts_unloads_and_reloads() {
    run(async |root| {
        let log = Log::default();
        let user = foo_user(&root, &log);
        let steps =
            [("absent", None, ""), ("comes", Some(1), "up(1)"), ("goes", None, "down"), ("is back", Some(2), "up(2)")];
        let mut provided = None;
        for (step, value, expected) in steps {
            match (value, provided.take()) {
                (Some(value), _) => provided = Some(provide_foo(&root, value)),
                (None, Some(old)) => linn_bus::Provided::dispose(&old).await,
                (None, None) => {}
            }
            let state = user.settled().await.unwrap();
            assert_eq!(log.take(), expected, "{step}");
            assert_eq!(state == FiberState::Active, value.is_some(), "{step}");
        }
    });
}

/// Answers after a while.
#[service("fibers/slow")]
trait Slow {
    async fn value(&self) -> Result<u32, ServiceError>;
}

struct SlowIs(u32, Context);

#[provider]
impl Slow for SlowIs {
    async fn value(&self) -> Result<u32, ServiceError> {
        self.1.sleep(ms(1000)).await.unwrap();
        Ok(self.0)
    }
}

#[test]
fn a_call_in_flight_on_the_old_provider_holds_the_new_start_back() {
    run(async |root| {
        let log = Log::default();
        let clock = root.context().clone();
        let provide = |name: &str, value| {
            let clock = clock.clone();
            mount(&root, name, move |ctx, ()| {
                ctx.provide::<dyn Slow>(Arc::new(SlowIs(value, clock.clone())))?;
                Ok(())
            })
        };
        let old = provide("old", 1);
        let inner = log.clone();
        let user = mount(&root, "user", move |ctx, slow: Svc<dyn Slow>| {
            inner.add(format!("up({})", slow.provider()));
            ctx.effect("down", |fx| fx.defer(inner.say("down")))?;
            Ok(())
        });
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(log.take(), "up(old)");

        // Somebody who is no user of it calls it meanwhile.
        let (slow, ended) = (root.get::<dyn Slow>().unwrap(), log.clone());
        let call = root.spawn(async move { ended.add(format!("call({})", slow.value().await.unwrap())) }).unwrap();
        root.sleep(ms(500)).await.unwrap();
        // Polled once: the disposal goes on by itself.
        drop(old.dispose().now_or_never());
        root.sleep(ms(100)).await.unwrap();
        assert_eq!(log.take(), "down");
        let new = provide("new", 2);
        root.sleep(ms(100)).await.unwrap();
        assert_eq!((new.state(), user.state(), log.take()), (FiberState::Active, FiberState::Pending, String::new()));
        let waits = user.waits_for();
        assert_eq!(waits.iter().map(|it| &it.reason).collect::<Vec<_>>(), [&WaitReason::Draining]);
        assert!(waits[0].to_string().contains("`fibers/slow` is being replaced"), "{}", waits[0]);
        assert!(root.get::<dyn Slow>().is_none(), "nobody gets the new one before the old one is quiet");

        call.join().await.unwrap();
        old.dispose().await.unwrap();
        user.settled().await.unwrap();
        assert_eq!(log.take(), "call(1) up(new)");
    });
}

#[test]
fn an_optional_need_reloads_on_arrival_and_departure() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        let user = mount(&root, "user", move |ctx, foo: Option<Svc<dyn Foo>>| {
            inner.add(format!("up({:?})", foo.map(|it| it.value()).transpose()?));
            ctx.effect("down", |fx| fx.defer(inner.say("down")))?;
            Ok(())
        });
        assert_eq!(user.settled().await.unwrap(), FiberState::Active);
        assert_eq!(log.take(), "up(None)");
        let foo = provide_foo(&root, 1);
        user.settled().await.unwrap();
        assert_eq!(log.take(), "down up(Some(1))");
        foo.dispose().await;
        user.settled().await.unwrap();
        assert_eq!(log.take(), "down up(None)");
    });
}

#[test]
fn an_optional_need_that_is_absent_is_unprovided_not_inactive() {
    run(async |root| {
        let user = mount(&root, "user", |_, _: Option<Svc<dyn Foo>>| Ok(()));
        user.settled().await.unwrap();
        assert_eq!(code_of(user.context().unwrap().require::<dyn Foo>()), "SERVICE_UNPROVIDED");
    });
}

#[test]
fn a_lookup_never_reloads() {
    run(async |root| {
        let log = Log::default();
        let inner = log.clone();
        let lookup = Arc::new(std::sync::Mutex::new(None));
        let keeping = lookup.clone();
        let user = mount(&root, "user", move |ctx, foo: Lookup<dyn Foo>| {
            inner.add("up");
            ctx.effect("down", |fx| fx.defer(inner.say("down")))?;
            *keeping.lock().unwrap() = Some(foo);
            Ok(())
        });
        assert_eq!(user.settled().await.unwrap(), FiberState::Active);
        let lookup = lookup.lock().unwrap().take().unwrap();
        let value = async || lookup.get().await.unwrap().map(|it| it.value().unwrap());
        assert_eq!(value().await, None);
        let foo = provide_foo(&root, 1);
        assert_eq!(value().await, Some(1));
        foo.dispose().await;
        assert_eq!(value().await, None);
        user.settled().await.unwrap();
        assert_eq!(log.take(), "up");
    });
}

#[test]
fn a_lookup_goes_through_internal_get() {
    run(async |root| {
        let log = Log::default();
        let lookup = root.lookup::<dyn Foo>();
        let aside = root.isolate::<dyn Foo>();
        let other = provide_foo(&aside, 7).any();
        let inner = log.clone();
        let supply = root
            .on(listener!(async move |asked: &InternalGet, next: Next<'_, InternalGet>| {
                inner.add(format!("{} asks for {}", asked.plugin, asked.service.name));
                Ok::<_, linn_bus::Fault>(next.run().await?.or_else(|| Some(other.clone())))
            }))
            .unwrap();
        assert_eq!(lookup.get().await.unwrap().unwrap().value().unwrap(), 7, "supplied");
        let foo = provide_foo(&root, 1);
        assert_eq!(lookup.get().await.unwrap().unwrap().value().unwrap(), 1, "found");
        // Injection, `get` and `require` do not ask.
        foo_user(&root, &Log::default()).settled().await.unwrap();
        root.get::<dyn Foo>().unwrap();
        root.require::<dyn Foo>().unwrap();
        assert_eq!(log.take(), "root asks for fibers/foo root asks for fibers/foo");
        supply.dispose();
        foo.dispose().await;
        assert!(lookup.get().await.unwrap().is_none());

        let other = provide_bar(&root, 1).any();
        root.on(listener!(async move |_: &InternalGet| Some(other.clone()))).unwrap();
        assert!(lookup.get().await.unwrap().is_none(), "a service of another trait is none");
        root.first()
            .on(async |_: &InternalGet, _: Next<'_, InternalGet>| {
                Err::<Option<linn_bus::AnyService>, _>(linn_bus::Fault::msg("no"))
            })
            .unwrap();
        assert_eq!(lookup.get().await.unwrap_err().code(), "LISTENER_FAILED");
    });
}

#[test]
fn sv_16_a_check_decides_who_has_the_service() {
    run(async |root| {
        let log = Log::default();
        let open = Arc::new(AtomicBool::new(false));
        let opened = open.clone();
        let foo = root
            .provide_if::<dyn Foo>(Arc::new(FooIs(1)), move |ctx| {
                ctx.plugin() == "root" || opened.load(Ordering::Relaxed)
            })
            .unwrap();
        let user = foo_user(&root, &log);
        assert_eq!(user.settled().await.unwrap(), FiberState::Pending);
        let waits = user.waits_for();
        assert_eq!(waits[0].reason, WaitReason::Refused { plugin: "root".into() });
        assert_eq!(waits[0].to_string(), "service `fibers/foo` is refused by its provider, plugin `root`");
        assert!(root.get::<dyn Foo>().is_some());

        open.store(true, Ordering::Relaxed);
        assert_eq!(user.settled().await.unwrap(), FiberState::Pending, "nobody asked again");
        foo.notify();
        assert_eq!(user.settled().await.unwrap(), FiberState::Active);
        open.store(false, Ordering::Relaxed);
        foo.notify();
        assert_eq!(user.settled().await.unwrap(), FiberState::Pending);
        assert_eq!(log.take(), "up(1) down");
    });
}

#[test]
fn sv_16_a_check_that_looks_for_its_own_service_finds_it_absent() {
    run(async |root| {
        root.provide_if::<dyn Foo>(Arc::new(FooIs(1)), |ctx| ctx.get::<dyn Foo>().is_none()).unwrap();
        assert!(root.get::<dyn Foo>().is_some());
        assert!(root.get::<dyn Foo>().is_some(), "and the next to ask is asked anew");
    });
}

/// What the check refuses is absent on every way to it, and a check that panics refuses.
#[test]
fn sv_16_a_refused_service_is_absent_however_it_is_asked_for() {
    run(async |root| {
        root.provide_if::<dyn Foo>(Arc::new(FooIs(1)), |ctx| {
            assert_ne!(ctx.plugin(), "panics", "no");
            ctx.plugin() != "refused"
        })
        .unwrap();
        let log = Log::default();
        for name in ["refused", "panics", "welcome"] {
            let inner = log.clone();
            let ask = root.mount_fn(name, move |ctx: Context, (): ()| {
                let log = inner.clone();
                async move {
                    log.add(ctx.get::<dyn Foo>().is_some());
                    log.add(ctx.lookup::<dyn Foo>().get().await.unwrap().is_some());
                    log.add(code_of(ctx.require::<dyn Foo>()));
                }
            });
            ask.unwrap().settled().await.unwrap();
            let expected = if name == "welcome" { "true true no error" } else { "false false SERVICE_UNDECLARED" };
            assert_eq!(log.take(), expected, "{name}");
        }
    });
}

#[test]
fn a_pending_fiber_says_what_it_waits_for() {
    run(async |root| {
        let user = mount(&root, "user", |_, _: (Svc<dyn Foo>, Svc<dyn Bar>)| Ok(()));
        let waits = || user.waits_for().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let error = user.running().await.unwrap_err();
        assert_eq!(error.code(), "FIBER_WAITING");
        let absent = |name: &str| format!("service `{name}` is provided by no plugin; mount one that provides it");
        let expected = format!("{}; {}", absent("fibers/foo"), absent("fibers/bar"));
        assert_eq!(error.to_string(), format!("plugin `user` waits: {expected}"));

        provide_bar(&root, 1);
        user.settled().await.unwrap();
        assert_eq!(waits(), absent("fibers/foo"));
        let foo = root
            .mount_fn("starting", |ctx: Context, (): ()| async move {
                ctx.provide::<dyn Foo>(Arc::new(FooIs(1))).unwrap();
                ctx.sleep(ms(100)).await.unwrap();
            })
            .unwrap();
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(waits(), "service `fibers/foo` is provided by plugin `starting`, which is loading");
        assert_eq!(root.inspect().fibers.iter().find(|it| &*it.name == "user").unwrap().waits_for, user.waits_for());
        foo.settled().await.unwrap();
        user.running().await.unwrap();
        assert_eq!(waits(), "");
    });
}
