//! SC-03 to SC-06, SC-14 to SC-17 and SC-20: the life of scopes and of their hosts.

use std::sync::Arc;
use std::time::Duration;

use linn_bus::{DisposeProblem, Fault, Lookup, ServiceError, Svc, provider, service};
use linn_bus_test::run;

use crate::{Log, ModeName, ScopedPing, listen_scoped, poll_once};

#[service("scope-life/tools")]
trait Tools {
    fn name(&self) -> Result<String, ServiceError>;
}

#[service("scope-life/prompt")]
trait Prompt {
    fn name(&self) -> Result<String, ServiceError>;
}

struct Text;

#[provider]
impl Prompt for Text {
    fn name(&self) -> Result<String, ServiceError> {
        Ok("text".to_owned())
    }
}

struct Kit;

#[provider]
impl Tools for Kit {
    fn name(&self) -> Result<String, ServiceError> {
        Ok("kit".to_owned())
    }
}

#[test]
fn sc_03_a_scope_takes_registrations_at_once() {
    run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        scope.context().effect("effect", |_| {}).unwrap();
        listen_scoped(scope.context(), ModeName::Emit, log.noting("L"));
        root.emit(&ScopedPing { about: None });
        assert_eq!(log.take(), "");
        root.emit(&ScopedPing { about: Some(scope.key().clone()) });
        assert_eq!(log.take(), "L");
    });
}

#[test]
fn sc_04_a_scope_undoes_the_last_first_and_is_inert_then() {
    run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        for name in ["a", "b"] {
            let noted = log.clone();
            scope.context().effect(name, move |fx| fx.defer(move || noted.note(name))).unwrap();
        }
        scope.dispose().await.unwrap();
        assert_eq!(log.take(), "b a");
        scope.dispose().await.unwrap();
        assert_eq!(log.take(), "");
        let late = scope.context().on(|_: &ScopedPing| {}).unwrap_err();
        assert_eq!(late.code(), "INACTIVE_EFFECT");
        assert_eq!(scope.context().effect("late", |_| {}).unwrap_err().code(), "INACTIVE_EFFECT");
        assert_eq!(scope.context().scope().unwrap_err().code(), "INACTIVE_EFFECT");
    });
}

#[test]
fn sc_05_every_disposal_waits_for_the_same_end() {
    run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        let (ctx, noted) = (root.context().clone(), log.clone());
        scope
            .context()
            .effect("slow", move |fx| {
                fx.defer_async(async move {
                    ctx.sleep(Duration::from_secs(1)).await.map_err(Fault::from)?;
                    noted.note("cleaned");
                    Ok::<_, Fault>(())
                });
            })
            .unwrap();
        let (mut by_fiber, mut by_scope) = (Box::pin(scope.fiber().dispose()), Box::pin(scope.dispose()));
        assert!(poll_once(&mut by_fiber).is_none());
        assert!(poll_once(&mut by_scope).is_none());
        by_scope.await.unwrap();
        assert_eq!(log.take(), "cleaned");
        by_fiber.await.unwrap();
        assert_eq!(log.take(), "");
    });
}

#[test]
fn sc_06_a_scope_ends_at_its_place_in_a_composite() {
    run(async |root| {
        let log = Log::default();
        let composite = root
            .effect("composite", |fx| {
                let noted = log.clone();
                fx.defer(move || noted.note("outermost"));
                let scope = fx.context().scope()?;
                let (noted, ctx) = (log.clone(), root.context().clone());
                scope.context().effect("inside", move |fx| {
                    fx.defer_async(async move {
                        ctx.sleep(Duration::from_secs(1)).await.ok();
                        noted.note("scope");
                    });
                })?;
                fx.own(scope);
                let noted = log.clone();
                fx.defer(move || noted.note("innermost"));
                Ok::<_, linn_bus::BusError>(())
            })
            .unwrap();
        composite.dispose().await;
        assert_eq!(log.take(), "innermost scope outermost");
    });
}

#[test]
fn sc_14_scopes_of_a_host_see_its_services_and_end_with_it() {
    run(async |root| {
        root.provide::<dyn Tools>(Arc::new(Kit)).unwrap();
        let host = root.scope_host::<Svc<dyn Tools>>().unwrap();
        assert_eq!(host.require::<dyn Tools>().unwrap().name().unwrap(), "kit");
        let log = Log::default();
        let scopes: Vec<_> = (0..2).map(|_| host.mint(&root.new_scope_key()).unwrap()).collect();
        for scope in &scopes {
            let tools = scope.context().require::<dyn Tools>().unwrap();
            assert_eq!(tools.name().unwrap(), "kit");
            let noted = log.clone();
            scope.context().effect("effect", move |fx| fx.defer(move || noted.note("undone"))).unwrap();
        }
        host.dispose().await.unwrap();
        assert_eq!(log.take(), "undone undone");
        for scope in &scopes {
            assert_eq!(scope.context().on(|_: &ScopedPing| {}).unwrap_err().code(), "INACTIVE_EFFECT");
        }
        assert_eq!(host.mint(&root.new_scope_key()).unwrap_err().code(), "INACTIVE_EFFECT");
    });
}

#[test]
fn sc_15_a_host_waits_for_a_scope_that_is_ending() {
    run(async |root| {
        let log = Log::default();
        let host = root.scope_host::<()>().unwrap();
        let scope = host.mint(&root.new_scope_key()).unwrap();
        let (ctx, noted) = (root.context().clone(), log.clone());
        scope
            .context()
            .effect("slow", move |fx| {
                fx.defer_async(async move {
                    ctx.sleep(Duration::from_secs(1)).await.ok();
                    noted.note("cleaned");
                });
            })
            .unwrap();
        let mut first = Box::pin(scope.dispose());
        assert!(poll_once(&mut first).is_none());
        host.dispose().await.unwrap();
        assert_eq!(log.take(), "cleaned");
        first.await.unwrap();
    });
}

#[test]
fn sc_16_a_host_reports_every_scope_that_fails_to_end() {
    for n_failing in [1, 2] {
        run(async |root| {
            let log = Log::default();
            let host = root.scope_host::<()>().unwrap();
            for i in 0..3 {
                let scope = host.mint(&root.new_scope_key()).unwrap();
                let noted = log.clone();
                scope
                    .context()
                    .effect("effect", move |fx| {
                        fx.defer(move || {
                            noted.note(i.to_string());
                            if i < n_failing { Err(Fault::msg(format!("failure {i}"))) } else { Ok(()) }
                        });
                    })
                    .unwrap();
            }
            let error = host.dispose().await.unwrap_err();
            assert_eq!(log.take(), "2 1 0", "everything is undone");
            let mut causes: Vec<_> = error
                .problems()
                .iter()
                .map(|it| match it {
                    DisposeProblem::Disposer { plugin, label, cause } => format!("{plugin} {label}: {cause}"),
                    other => format!("{other}"),
                })
                .collect();
            causes.sort();
            let expected: Vec<_> = (0..n_failing).map(|i| format!("scope effect: failure {i}")).collect();
            assert_eq!(causes, expected);
        });
    }
}

#[test]
fn sc_16_a_host_starts_every_end_before_it_waits_for_one() {
    run(async |root| {
        let host = root.scope_host::<()>().unwrap();
        for _ in 0..3 {
            let scope = host.mint(&root.new_scope_key()).unwrap();
            let ctx = root.context().clone();
            scope
                .context()
                .effect("slow", move |fx| {
                    fx.defer_async(async move {
                        ctx.sleep(Duration::from_secs(1)).await.ok();
                    });
                })
                .unwrap();
        }
        let began = root.clock().monotonic();
        host.dispose().await.unwrap();
        assert_eq!(root.clock().monotonic() - began, Duration::from_secs(1), "side by side");
    });
}

#[test]
fn sc_17_a_host_names_the_services_that_are_absent() {
    run(async |root| {
        let error = root.scope_host::<(Svc<dyn Tools>, Svc<dyn Prompt>)>().unwrap_err();
        assert_eq!(error.code(), "SERVICES_MISSING");
        assert_eq!(
            error.to_string(),
            "required services \"scope-life/tools\", \"scope-life/prompt\" are not provided; provide before minting scopes"
        );
        root.provide::<dyn Tools>(Arc::new(Kit)).unwrap();
        let error = root.scope_host::<(Svc<dyn Tools>, Svc<dyn Prompt>)>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "required service \"scope-life/prompt\" is not provided; provide before minting scopes"
        );
        root.scope_host::<(Svc<dyn Tools>, Option<Svc<dyn Prompt>>, Lookup<dyn Prompt>)>().unwrap();
        root.provide::<dyn Prompt>(Arc::new(Text)).unwrap();
        let host = root.scope_host::<(Svc<dyn Tools>, Svc<dyn Prompt>)>().unwrap();
        assert_eq!(host.require::<dyn Prompt>().unwrap().name().unwrap(), "text");
    });
}

#[test]
fn sc_20_an_outer_scope_takes_its_nested_scopes_with_it() {
    run(async |root| {
        let log = Log::default();
        let outer = root.scope().unwrap();
        let inner = outer.context().scope().unwrap();
        let noted = log.clone();
        inner.context().effect("effect", move |fx| fx.defer(move || noted.note("inner"))).unwrap();
        listen_scoped(inner.context(), ModeName::Emit, log.noting("heard"));
        outer.dispose().await.unwrap();
        assert_eq!(log.take(), "inner");
        root.emit(&ScopedPing { about: Some(inner.key().clone()) });
        assert_eq!(log.take(), "");
        assert_eq!(inner.context().on(|_: &ScopedPing| {}).unwrap_err().code(), "INACTIVE_EFFECT");
    });
}
