//! SC-01 to SC-13 and SC-18 to SC-21, as far as they are about who hears what.

use std::sync::Arc;

use linn_bus::{Context, Event, HasSubject, ListenerError, Next, ScopeKey, listener};
use linn_bus_test::run;

use crate::{Log, MODES, ScopedPing, dispatch, dispatch_about, listen, listen_scoped};

#[test]
fn sc_01_a_key_is_minted_and_equal_to_its_clones_alone() {
    run(async |root| {
        let (a, b) = (root.new_scope_key(), root.new_scope_key());
        assert_eq!(a, a.clone());
        assert_ne!(a, b);
        let mut set = std::collections::HashSet::from([a.clone(), b.clone()]);
        assert!(!set.insert(a.clone()));
        assert_ne!(format!("{a:?}"), format!("{b:?}"));
        assert_eq!(root.scope_for(&a).unwrap().key(), &a);
    });
}

#[test]
fn sc_02_the_nearest_scope_is_that_of_a_context() {
    run(async |root| {
        assert_eq!(root.scope_key(), None);
        let outer = root.scope().unwrap();
        assert_eq!(outer.context().scope_key(), Some(outer.key()));
        assert_eq!(outer.context().named("derived").scope_key(), Some(outer.key()));
        let (sender, receiver) = std::sync::mpsc::channel();
        let fiber = outer
            .context()
            .mount_fn("inside", move |ctx: Context, (): ()| {
                sender.send(ctx.scope_key().cloned()).unwrap();
                async {}
            })
            .unwrap();
        fiber.running().await.unwrap();
        assert_eq!(receiver.recv().unwrap().as_ref(), Some(outer.key()));
        let inner = outer.context().scope().unwrap();
        assert_eq!(inner.context().scope_key(), Some(inner.key()));
        assert_ne!(inner.key(), outer.key());
        let plain = root.mount_fn("outside", async |_: Context, (): ()| {}).unwrap();
        plain.running().await.unwrap();
        assert_eq!(plain.context().unwrap().scope_key(), None);
    });
}

/// Who hears a dispatch: the table of the rules, in all modes.
#[test]
fn sc_07_08_who_hears_what() {
    run(async |root| {
        let (a, b) = (root.scope().unwrap(), root.scope().unwrap());
        for mode in MODES {
            let log = Log::default();
            let listeners = [
                listen_scoped(root.context(), mode, log.noting("outside")),
                listen_scoped(a.context(), mode, log.noting("a")),
                listen_scoped(b.context(), mode, log.noting("b")),
                listen_scoped(&a.context().global(), mode, log.noting("a-global")),
            ];
            let stranger = root.new_scope_key();
            for (about, heard) in [
                (Some(a.key()), "outside a a-global"),
                (Some(b.key()), "outside a-global b"),
                (Some(&stranger), "outside a-global"),
                (None, "outside a-global"),
            ] {
                dispatch_about(&root, mode, about).await.unwrap();
                assert_eq!(log.take(), heard, "{mode} about {about:?}");
                // The context a dispatch goes through decides nothing.
                dispatch_about(b.context(), mode, about).await.unwrap();
                assert_eq!(log.take(), heard, "{mode} about {about:?}, through b");
            }
            listeners.iter().for_each(|it| assert!(it.dispose()));
        }
    });
}

#[test]
fn sc_09_a_listener_filters_by_what_the_payload_says() {
    #[derive(Event)]
    #[event(name = "scopes/veto", mode = Emit, subject = about)]
    struct Vetoed {
        about: Option<ScopeKey>,
        allowed: bool,
    }
    run(async |root| {
        let scope = root.scope().unwrap();
        let log = Log::default();
        let noted = log.clone();
        scope
            .context()
            .on(move |e: &Vetoed| {
                if e.allowed {
                    noted.note("A");
                }
            })
            .unwrap();
        for (allowed, about, heard) in
            [(false, Some(scope.key()), ""), (true, Some(scope.key()), "A"), (true, None, "")]
        {
            root.emit(&Vetoed { about: about.cloned(), allowed });
            assert_eq!(log.take(), heard);
        }
    });
}

/// Something that lives and is the subject of events.
struct Agent {
    key: ScopeKey,
    name: String,
}

#[derive(Event)]
#[event(name = "scopes/render", mode = Waterfall, output = String, subject = self.agent.key)]
struct Render {
    agent: Arc<Agent>,
}

#[test]
fn sc_10_11_a_listener_reads_the_subject_itself() {
    run(async |root| {
        let scope = root.scope().unwrap();
        let agent = Arc::new(Agent { key: scope.key().clone(), name: "ada".to_owned() });
        scope
            .context()
            .on(async |e: &Render, next: Next<'_, Render>| {
                Ok::<_, ListenerError>(format!("{}, {}", next.run().await?, e.agent.name))
            })
            .unwrap();
        let render = Render { agent };
        assert_eq!(root.waterfall(&render, async || "hello".to_owned()).await.unwrap(), "hello, ada");
    });
}

#[test]
fn sc_12_an_event_knows_its_subject() {
    run(async |root| {
        let key = root.new_scope_key();
        assert_eq!(ScopedPing { about: Some(key.clone()) }.subject(), Some(&key));
        assert_eq!(ScopedPing { about: None }.subject(), None);
        let agent = Arc::new(Agent { key: key.clone(), name: String::new() });
        assert_eq!(Render { agent }.subject(), Some(&key));
        assert!(ScopedPing::descriptor().scoped);
        assert!(!crate::Ping::descriptor().scoped);
    });
}

#[test]
fn sc_18_an_event_that_scopes_do_not_filter_is_heard_in_every_scope() {
    run(async |root| {
        let scope = root.scope().unwrap();
        for mode in MODES {
            let log = Log::default();
            listen(root.context(), mode, log.noting("outside"));
            listen(scope.context(), mode, log.noting("A"));
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "outside A", "{mode}");
            dispatch(scope.context(), mode).await.unwrap();
            assert_eq!(log.take(), "outside A", "{mode}");
        }
    });
}

#[test]
fn sc_19_a_nested_scope_shares_lifetime_and_not_delivery() {
    run(async |root| {
        let a = root.scope().unwrap();
        let b = a.context().scope().unwrap();
        for mode in MODES {
            let log = Log::default();
            listen_scoped(a.context(), mode, log.noting("A"));
            listen_scoped(b.context(), mode, log.noting("B"));
            for (key, heard) in [(a.key(), "A"), (b.key(), "B")] {
                dispatch_about(&root, mode, Some(key)).await.unwrap();
                assert_eq!(log.take(), heard, "{mode}");
            }
        }
    });
}

#[test]
fn sc_21_two_scopes_may_share_a_key() {
    run(async |root| {
        let log = Log::default();
        let first = root.scope().unwrap();
        let second = root.scope_for(first.key()).unwrap();
        for mode in MODES {
            listen_scoped(first.context(), mode, log.noting("1"));
            listen_scoped(second.context(), mode, log.noting("2"));
            dispatch_about(&root, mode, Some(first.key())).await.unwrap();
            assert_eq!(log.take(), "1 2", "{mode}");
        }
        first.dispose().await.unwrap();
        for mode in MODES {
            dispatch_about(&root, mode, Some(first.key())).await.unwrap();
            assert_eq!(log.take(), "2", "{mode}");
        }
        second.dispose().await.unwrap();
        assert!(root.inspect().events.is_empty());
    });
}

#[test]
fn a_key_of_another_bus_is_no_subject_here() {
    run(async |other| {
        let foreign = other.scope().unwrap();
        run(async |root| {
            let scope = root.scope().unwrap();
            for mode in MODES {
                let log = Log::default();
                listen_scoped(root.context(), mode, log.noting("outside"));
                listen_scoped(scope.context(), mode, log.noting("scoped"));
                listen_scoped(&scope.context().global(), mode, log.noting("global"));
                dispatch_about(&root, mode, Some(foreign.key())).await.unwrap();
                assert_eq!(log.take(), "outside global", "{mode}");
            }
        });
        // Nor does it harm the bus it is from.
        let log = Log::default();
        listen_scoped(foreign.context(), MODES[0], log.noting("home"));
        dispatch_about(&other, MODES[0], Some(foreign.key())).await.unwrap();
        assert_eq!(log.take(), "home");
    });
}

#[test]
fn a_scoped_listener_can_dispatch_about_its_own_scope() {
    run(async |root| {
        let scope = root.scope().unwrap();
        let log = Log::default();
        let (ctx, noted) = (scope.context().clone(), log.clone());
        scope
            .context()
            .once()
            .on(listener!(async move |_: &crate::ScopedFan| {
                ctx.emit(&ScopedPing { about: ctx.scope_key().cloned() });
                noted.note("done");
            }))
            .unwrap();
        listen_scoped(scope.context(), MODES[0], log.noting("heard"));
        root.parallel(&crate::ScopedFan { about: Some(scope.key().clone()) }).await.unwrap();
        assert_eq!(log.take(), "heard done");
    });
}
