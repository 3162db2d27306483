//! Misuse: every kind has a stable code, names who and what, and says what would be right.

use std::sync::Arc;

use linn_bus::{BusError, Context, Demand, Fault, NeedList, Plugin, Svc, WaitReason};
use linn_bus_test::run;

use crate::support::{Bar, Foo, FooIs, mount, provide_foo};

fn check(error: &BusError, code: &str, parts: &[&str]) {
    assert_eq!(error.code(), code, "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn errors_of_services_say_what_would_be_right() {
    run(async |root| {
        let unset = root.set::<dyn Foo>(Arc::new(FooIs(1))).await.unwrap_err();
        check(&unset, "SERVICE_UNPROVIDED", &["\"fibers/foo\"", "without provide", "call `ctx.provide` first"]);
        let unread = root.require::<dyn Foo>().unwrap_err();
        check(&unread, "SERVICE_UNPROVIDED", &["cannot get", "\"fibers/foo\"", "mount a plugin that provides it"]);

        provide_foo(&root, 1);
        let taken = root.provide::<dyn Foo>(Arc::new(FooIs(2))).unwrap_err();
        check(&taken, "SERVICE_TAKEN", &["`fibers/foo`", "registered at `root`", "dispose that one", "isolate"]);

        let other = mount(&root, "other", |_, ()| Ok(()));
        other.settled().await.unwrap();
        let ctx = other.context().unwrap();
        let foreign = ctx.set::<dyn Foo>(Arc::new(FooIs(2))).await.unwrap_err();
        check(
            &foreign,
            "SERVICE_FOREIGN",
            &["\"fibers/foo\"", "`root` provides it", "`other` does not", "only the provider"],
        );

        let undeclared = ctx.require::<dyn Bar>().unwrap_err();
        check(
            &undeclared,
            "SERVICE_UNDECLARED",
            &["\"fibers/bar\" without inject", "`other`", "`type Needs`", "`ctx.get`"],
        );

        let missing = root.scope_host::<(Svc<dyn Bar>, Svc<dyn Foo>)>().unwrap_err();
        check(&missing, "SERVICES_MISSING", &["required service \"fibers/bar\" is not provided", "provide before"]);

        other.dispose().await.unwrap();
        let inactive = ctx.effect("late", |_| ()).unwrap_err();
        check(
            &inactive,
            "INACTIVE_EFFECT",
            &["`other` is disposed", "effect `late`", "register while it starts or runs"],
        );
    });
}

/// Needs `Foo` to provide `Bar`, or the other way about.
struct NeedsFoo;

impl Plugin for NeedsFoo {
    const NAME: &'static str = "needs-foo";
    type Config = ();
    type Needs = Svc<dyn Foo>;
    fn provides(list: &mut NeedList) {
        list.add::<dyn Bar>(Demand::Required);
    }
    async fn start(ctx: &Context, (): (), _: Self::Needs) -> Result<(), Fault> {
        ctx.provide::<dyn Bar>(Arc::new(FooIs(1)))?;
        Ok(())
    }
}

struct NeedsBar;

impl Plugin for NeedsBar {
    const NAME: &'static str = "needs-bar";
    type Config = ();
    type Needs = Svc<dyn Bar>;
    fn provides(list: &mut NeedList) {
        list.add::<dyn Foo>(Demand::Required);
    }
    async fn start(ctx: &Context, (): (), _: Self::Needs) -> Result<(), Fault> {
        ctx.provide::<dyn Foo>(Arc::new(FooIs(1)))?;
        Ok(())
    }
}

#[test]
fn a_dependency_cycle_is_named() {
    run(async |root| {
        let foo = root.mount::<NeedsFoo>(()).unwrap();
        // One half of it is no circle.
        check(&foo.running().await.unwrap_err(), "FIBER_WAITING", &["`needs-foo` waits", "`fibers/foo`"]);
        let bar = root.mount::<NeedsBar>(()).unwrap();
        let error = foo.running().await.unwrap_err();
        check(&error, "DEPENDENCY_CYCLE", &["needs-foo -> needs-bar -> needs-foo", "`Lookup`"]);
        let reasons: Vec<_> = bar.waits_for().into_iter().map(|it| (it.service, it.reason)).collect();
        let plugins = ["needs-bar", "needs-foo", "needs-bar"].map(str::to_owned).to_vec();
        assert_eq!(reasons, [("fibers/bar", WaitReason::Cycle { plugins })]);

        // Somebody outside of it may break it.
        provide_foo(&root, 7);
        foo.running().await.unwrap();
        check(&bar.running().await.unwrap_err(), "START_FAILED", &["`needs-bar`", "registered at `root`"]);
    });
}

#[test]
fn a_plugin_that_needs_its_own_service_waits_in_a_circle() {
    struct Selfish;
    impl Plugin for Selfish {
        const NAME: &'static str = "selfish";
        type Config = ();
        type Needs = Svc<dyn Foo>;
        fn provides(list: &mut NeedList) {
            list.add::<dyn Foo>(Demand::Required);
        }
        async fn start(_: &Context, (): (), _: Self::Needs) -> Result<(), Fault> {
            Ok(())
        }
    }
    run(async |root| {
        let error = root.mount::<Selfish>(()).unwrap().running().await.unwrap_err();
        check(&error, "DEPENDENCY_CYCLE", &["selfish -> selfish"]);
    });
}
