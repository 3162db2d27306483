//! The store: entering, leaving, flushing, forking.

use std::sync::{Arc, Mutex};

use linn_bus::{Event, Fault, listener};
use linn_bus_test::{leak_check, run};
use linn_services::events::{SessionCreated, SessionDisposed, SessionFlush};
use linn_services::session::{CreateSession, Sessions, SessionsPlugin};

use crate::{sessions, texts, turn, turn_end, turn_start, user};

fn named(id: &str) -> CreateSession {
    CreateSession { id: Some(id.into()), ..CreateSession::default() }
}

#[test]
fn se_06_a_session_that_is_prepared_or_detached_is_not_flushed() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let flushed = Arc::new(Mutex::new(0));
        let count = flushed.clone();
        root.on(listener!(async move |_: &SessionFlush| { *count.lock().unwrap() += 1 })).unwrap();
        let prepared = sessions.prepare(&root, named("a")).unwrap();
        assert_eq!(sessions.flush(prepared.session()).await.unwrap_err().code(), "SESSION_NOT_LIVE");
        let entered = sessions.enter(&root, prepared).unwrap();
        sessions.flush(&entered.session).await.unwrap();
        entered.handle.dispose().await;
        assert_eq!(sessions.flush(&entered.session).await.unwrap_err().code(), "SESSION_NOT_LIVE");
        assert_eq!(*flushed.lock().unwrap(), 1);
        assert_eq!(SessionFlush::NAME, "session/flush");
    });
}

#[test]
fn se_06_a_flush_that_fails_says_so() {
    run(async |root| {
        let sessions = sessions(&root).await;
        root.on(async |_: &SessionFlush| Err::<(), _>(Fault::msg("disk full"))).unwrap();
        let session = sessions.create(&root, named("a")).unwrap();
        assert_eq!(sessions.flush(&session).await.unwrap_err().code(), "SESSION_NOT_FLUSHED");
    });
}

#[test]
fn a_session_lives_as_long_as_the_context_it_was_entered_through() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let (a, b) = (told.clone(), told.clone());
        root.on(move |it: &SessionCreated| a.lock().unwrap().push(format!("created {}", it.session.id()))).unwrap();
        let store = sessions.clone();
        root.on(move |it: &SessionDisposed| {
            let is_found = store.get(it.session.id()).unwrap().is_some();
            b.lock().unwrap().push(format!("disposed {} {} {is_found}", it.session.id(), it.session.is_live()));
        })
        .unwrap();
        let scope = root.scope().unwrap();
        sessions.create(scope.context(), named("a")).unwrap();
        assert_eq!(sessions.create(&root, named("a")).unwrap_err().code(), "SESSION_ALREADY_EXISTS");
        assert_eq!(sessions.list().unwrap().len(), 1);
        scope.dispose().await.unwrap();
        assert!(sessions.list().unwrap().is_empty());
        assert_eq!(*told.lock().unwrap(), ["created a", "disposed a false false"]);
        sessions.create(&root, named("a")).unwrap();
    });
}

#[test]
fn a_session_that_is_refused_leaves_nothing() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let refusal = root.on(|_: &SessionCreated| Err(Fault::msg("not here"))).unwrap();
        assert_eq!(sessions.create(&root, named("a")).unwrap_err().code(), "SESSION_REFUSED");
        assert!(sessions.get(&"a".into()).unwrap().is_none());
        assert!(refusal.dispose());
        sessions.create(&root, named("a")).unwrap();
    });
}

#[test]
fn ids_are_given_and_free_again_and_folders_are_absolute() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let prepared = sessions.prepare(&root, CreateSession::default()).unwrap();
        assert_eq!(prepared.session().id().as_str(), "session-1");
        assert_eq!(sessions.prepare(&root, named("session-1")).unwrap_err().code(), "SESSION_ALREADY_EXISTS");
        assert_eq!(sessions.create(&root, CreateSession::default()).unwrap().id().as_str(), "session-2");
        drop(prepared);
        assert_eq!(sessions.create(&root, CreateSession::default()).unwrap().id().as_str(), "session-1");
        let relative = CreateSession { cwd: Some("here".into()), ..CreateSession::default() };
        assert_eq!(sessions.create(&root, relative).unwrap_err().code(), "RELATIVE_CWD");
    });
}

#[test]
fn se_10_a_fork_begins_with_the_records_of_its_source() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let options = CreateSession { cwd: Some("/work".into()), ..named("source") };
        let source = sessions.create(&root, options).unwrap();
        turn(&source, 1);
        turn(&source, 2);
        let fork = sessions.fork(&root, source.id(), None, Some("child".into())).unwrap();
        assert_eq!(fork.records_from(0), source.records_from(0));
        let header = fork.header();
        assert_eq!((header.cwd.as_deref(), header.seed_length), (Some("/work"), Some(12)));
        assert_eq!(header.parent_session.as_ref(), Some(source.id()));

        let earlier = sessions.fork(&root, source.id(), Some(5), None).unwrap();
        assert_eq!((earlier.len(), earlier.header().seed_length, earlier.turns().last_turn), (6, Some(6), 1));
        turn(&earlier, 2);
        assert_eq!(texts(&earlier), texts(&source));
        assert_eq!((source.len(), earlier.len()), (12, 12));

        // With an open turn only an earlier boundary does.
        source.append(turn_start(3)).unwrap();
        assert_eq!(sessions.fork(&root, source.id(), None, None).unwrap_err().code(), "OPEN_TURN");
        assert_eq!(sessions.fork(&root, source.id(), Some(11), None).unwrap().len(), 12);
        source.append(turn_end(3)).unwrap();

        for boundary in [0, 4, 12, 14, u64::MAX] {
            let error = sessions.fork(&root, source.id(), Some(boundary), None).unwrap_err();
            assert_eq!(error.code(), "INVALID_BOUNDARY", "{boundary}");
        }
        let unknown = sessions.fork(&root, &"nobody".into(), None, None).unwrap_err();
        assert_eq!(unknown.code(), "SESSION_NOT_FOUND");
        // The child is looked at first.
        let taken = sessions.fork(&root, &"nobody".into(), None, Some("child".into())).unwrap_err();
        assert_eq!(taken.code(), "SESSION_ALREADY_EXISTS");
        let prepared = sessions.prepare(&root, named("stale")).unwrap();
        let stale = sessions.fork(&root, prepared.session().id(), None, None).unwrap_err();
        assert_eq!(stale.code(), "SESSION_NOT_LIVE");
    });
}

#[test]
fn se_10_a_fork_of_an_empty_session_is_empty() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let source = sessions.create(&root, named("source")).unwrap();
        let fork = sessions.fork(&root, source.id(), None, None).unwrap();
        assert_eq!((fork.len(), fork.header().seed_length), (0, Some(0)));
        fork.say(user("alone")).unwrap();
        assert!(source.is_empty());
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<SessionsPlugin>(()).unwrap();
            plugin.running().await.unwrap();
            let scope = ctx.scope().unwrap();
            let sessions = ctx.get::<dyn Sessions>().unwrap();
            sessions.create(scope.context(), CreateSession::default()).unwrap();
            scope.dispose().await.unwrap();
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}
