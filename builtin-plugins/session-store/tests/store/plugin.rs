//! The plugin as such.

use linn_bus_test::{leak_check, run};
use linn_plugin_session_store::{SessionStoreConfig, SessionStorePlugin};
use linn_services::persistence::{SessionFiles, SessionPersistence};
use linn_services::session::{CreateSession, Sessions, SessionsPlugin};

use crate::script::turn;
use crate::{assert_whole, folder, store};

#[test]
fn it_mounts_and_leaves_nothing_behind() {
    run(async |root| {
        let folder = folder();
        root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let config = SessionStoreConfig::new(folder.path());
            let plugin = ctx.mount::<SessionStorePlugin>(config).unwrap();
            plugin.running().await.unwrap();
            assert!(ctx.get::<dyn SessionPersistence>().is_some() && ctx.get::<dyn SessionFiles>().is_some());
            let scope = ctx.scope().unwrap();
            let sessions = ctx.get::<dyn Sessions>().unwrap();
            let session = sessions.create(scope.context(), CreateSession::default()).unwrap();
            turn(&session, "hello", "hi");
            scope.dispose().await.unwrap();
            plugin.dispose().await.unwrap();
        })
        .await;
        // The log and nothing else: no lock, no file in between.
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["session-1.events"]);
    });
}

#[test]
fn a_relative_folder_is_refused() {
    run(async |root| {
        let config = SessionStoreConfig::new("sessions");
        let plugin = root.mount::<SessionStorePlugin>(config).unwrap();
        let error = plugin.running().await.unwrap_err();
        assert_eq!(error.code(), "CONFIG_INVALID");
    });
}

#[test]
fn it_may_go_and_come_while_a_session_lives() {
    run(async |root| {
        let folder = folder();
        let first = store(&root, folder.path()).await;
        let session = first.new_session(&root, "a").session;
        turn(&session, "one", "hi");
        first.fiber.dispose().await.unwrap();
        // Nobody hears of these.
        turn(&session, "two", "hi");
        let second = store(&root, folder.path()).await;
        second.flush(&session).await;
        turn(&session, "three", "hi");
        second.fiber.dispose().await.unwrap();
        assert_whole(&folder.path().join("a.events"));
        assert_eq!(crate::lines(&folder.path().join("a.events")).len() as u64, session.len() + 1);
    });
}

#[test]
fn a_new_version_takes_over_without_losing_a_record() {
    run(async |root| {
        let folder = folder();
        root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
        let config = SessionStoreConfig::new(folder.path());
        let old = root.mount::<SessionStorePlugin>(config.clone()).unwrap();
        old.running().await.unwrap();
        let sessions = root.get::<dyn Sessions>().unwrap();
        let session = sessions.create(&root, CreateSession::default()).unwrap();
        turn(&session, "one", "hi");
        let switched = root.prepare_for::<SessionStorePlugin>(&old, config).unwrap().switch().await.unwrap();
        turn(&session, "two", "hi");
        switched.old_gone().await.unwrap();
        turn(&session, "three", "hi");
        sessions.flush(&session).await.unwrap();
        assert_whole(&folder.path().join("session-1.events"));
        assert_eq!(crate::lines(&folder.path().join("session-1.events")).len() as u64, session.len() + 1);
    });
}

#[test]
fn with_named_only_what_nobody_names_by_a_file_leaves_nothing_on_disk() {
    run(async |root| {
        let folder = folder();
        root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
        let config = SessionStoreConfig { named_only: true, ..SessionStoreConfig::new(folder.path().join("own")) };
        root.mount::<SessionStorePlugin>(config).unwrap().running().await.unwrap();
        let sessions = root.get::<dyn Sessions>().unwrap();
        let session = sessions.create(&root, CreateSession::default()).unwrap();
        turn(&session, "hello", "hi");
        sessions.flush(&session).await.unwrap();
        assert!(!folder.path().join("own").exists());

        let files = root.get::<dyn SessionFiles>().unwrap();
        let named = files.open(&folder.path().join("named.jsonl")).await.unwrap();
        let create = CreateSession { id: Some(named.header.id.clone()), ..CreateSession::default() };
        let session = sessions.create(&root, create).unwrap();
        turn(&session, "hello", "hi");
        sessions.flush(&session).await.unwrap();
        assert_whole(&folder.path().join("named.jsonl.events"));
    });
}
