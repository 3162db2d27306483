//! Isolation and intercepts: which service a context sees, and what it tells it.

use std::sync::Arc;

use linn_bus::{Context, Event, ScopeKey, ServiceError, Svc, provider, service};
use linn_bus_test::run;

use crate::support::{Foo, Log, code_of, foo_user, is_provided, mount, ms, provide_foo};

/// How often `up` and `down` were logged.
fn count(seen: &mut (usize, usize), log: &Log) -> (usize, usize) {
    let text = log.take();
    seen.0 += text.matches("up").count();
    seen.1 += text.matches("down").count();
    *seen
}

#[test]
fn sv_04_users_start_and_stop_in_their_own_isolation() {
    run(async |root| {
        let log = Log::default();
        let (one, two) = (root.isolate::<dyn Foo>(), root.isolate::<dyn Foo>());
        for ctx in [root.context(), &one, &two] {
            foo_user(ctx, &log);
        }
        let mut seen = (0, 0);
        let at_root = provide_foo(&root, 1);
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(count(&mut seen, &log), (1, 0));
        provide_foo(&one, 2);
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(count(&mut seen, &log), (2, 0));
        at_root.dispose().await;
        assert_eq!(count(&mut seen, &log), (2, 1));
        provide_foo(&two, 3);
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(count(&mut seen, &log), (3, 1));
        let value = |ctx: &Context| ctx.get::<dyn Foo>().map(|it| it.value().unwrap());
        assert_eq!([value(&root), value(&one), value(&two)], [None, Some(2), Some(3)]);
    });
}

#[test]
fn sv_05_contexts_of_one_label_share_a_realm() {
    run(async |root| {
        let log = Log::default();
        let (one, two) = (root.isolate_as::<dyn Foo>("shared"), root.isolate_as::<dyn Foo>("shared"));
        foo_user(&one, &log);
        foo_user(&two, &log);
        let other = foo_user(&root.isolate_as::<dyn Foo>("other"), &log);
        let foo = provide_foo(&one, 1);
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(log.take(), "up(1) up(1)");
        foo.dispose().await;
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(log.take(), "down down");
        assert_eq!(code_of(other.running().await), "FIBER_WAITING");
        assert!(!is_provided::<dyn Foo>(&root));
    });
}

/// A plugin in an isolated context sees no provider above the border without a need in that realm.
#[test]
fn what_an_ancestor_provides_ends_at_the_border_of_a_realm() {
    run(async |root| {
        provide_foo(&root, 1);
        let log = Log::default();
        let inner = log.clone();
        mount(&root.isolate::<dyn Foo>(), "isolated", move |ctx, ()| {
            inner.add(code_of(ctx.require::<dyn Foo>()));
            inner.add(ctx.get::<dyn Foo>().is_some());
            provide_foo(ctx, 2);
            inner.add(ctx.require::<dyn Foo>()?.value()?);
            Ok(())
        });
        root.sleep(ms(1)).await.unwrap();
        assert_eq!(log.take(), "SERVICE_UNDECLARED false 2");
        assert_eq!(root.get::<dyn Foo>().unwrap().value().unwrap(), 1);
    });
}

/// Something about one owner.
#[derive(Event)]
#[event(name = "fibers/about", mode = Emit, subject = key)]
struct About {
    key: Option<ScopeKey>,
}

/// Events are filtered by the scope in their payload; isolation of services filters none.
#[test]
fn sv_06_isolation_does_not_filter_events() {
    run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        let isolated = scope.context().isolate::<dyn Foo>();
        for (name, ctx) in [("root", root.context()), ("isolated", &isolated)] {
            let heard = log.say(name);
            ctx.on(move |_: &About| heard()).unwrap();
        }
        root.isolate::<dyn Foo>().emit(&About { key: Some(scope.key().clone()) });
        assert_eq!(log.take(), "root isolated");
        isolated.emit(&About { key: None });
        assert_eq!(log.take(), "root");
    });
}

/// Joins what the contexts around a call ask for.
#[service("fibers/greeter")]
trait Greeter {
    fn greet(&self, caller: &Context, head: Option<&str>) -> Result<String, ServiceError>;
}

struct Greets;

#[provider]
impl Greeter for Greets {
    fn greet(&self, caller: &Context, head: Option<&str>) -> Result<String, ServiceError> {
        let chain = caller.intercepts::<dyn Greeter, String>();
        let words = std::iter::once("base").chain(chain.iter().map(|it| it.as_str())).chain(head);
        Ok(words.collect::<Vec<_>>().join(" "))
    }
}

#[test]
fn sv_15_intercepts_reach_the_service_from_the_outermost_in() {
    run(async |root| {
        root.provide::<dyn Greeter>(Arc::new(Greets)).unwrap();
        let outer = root.intercept::<dyn Greeter, _>("a".to_owned());
        let log = Log::default();
        let inner = log.clone();
        let user = move |ctx: &Context, greeter: Svc<dyn Greeter>| {
            inner.add(format!("[{}]", greeter.greet(ctx, None)?));
            let nearer = ctx.intercept::<dyn Greeter, _>("b".to_owned()).intercept::<dyn Greeter, _>(7_u8);
            inner.add(format!("[{}]", greeter.greet(&nearer, Some("head"))?));
            assert!(nearer.intercepts::<dyn Foo, String>().is_empty(), "they are for one service");
            assert_eq!(nearer.intercepts::<dyn Greeter, u8>().iter().map(|it| **it).collect::<Vec<_>>(), [7]);
            Ok(())
        };
        mount(&outer, "user", user.clone()).settled().await.unwrap();
        assert_eq!(log.take(), "[base a] [base a b head]");
        mount(&root, "plain", user).settled().await.unwrap();
        assert_eq!(log.take(), "[base] [base b head]");
    });
}
