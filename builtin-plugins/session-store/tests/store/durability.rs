//! What is acknowledged is on disk, also after the disk failed.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use linn_bus::Root;
use linn_bus_test::run;
use linn_services::events::{SessionSaved, SessionUnsaved};
use linn_services::session::CreateSession;

use crate::disk::{Faults, FaultyDisk};
use crate::script::{begin, chunk, end, turn};
use crate::{assert_whole, folder, store, store_on};

/// What was told of the state of the disk.
fn told(root: &Root) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (unsaved, saved) = (told.clone(), told.clone());
    root.on(move |it: &SessionUnsaved| unsaved.lock().unwrap().push(format!("unsaved {}", it.n_records))).unwrap();
    root.on(move |_: &SessionSaved| saved.lock().unwrap().push("saved".to_owned())).unwrap();
    told
}

#[test]
fn a_session_that_was_flushed_is_read_by_another_store() {
    run(async |root| {
        let folder = folder();
        let store_a = store(&root, folder.path()).await;
        let options = CreateSession { cwd: Some("/".into()), id: Some("a".into()), ..CreateSession::default() };
        let entered = store_a.enter(&root, options);
        turn(&entered.session, "hello", "hi there");
        store_a.flush(&entered.session).await;
        let records = entered.session.records_from(0);
        let header = entered.session.header().clone();
        entered.handle.dispose().await;
        store_a.fiber.dispose().await.unwrap();

        assert_whole(&folder.path().join("a.events"));
        let store = store(&root, folder.path()).await;
        let loaded = store.load("a").await.unwrap();
        assert_eq!((&loaded.header, &loaded.records), (&header, &records));
        assert!(loaded.notices.is_empty());
        let again = store.resume(&root, &loaded).session;
        turn(&again, "more", "yes");
        store.flush(&again).await;
        assert_eq!(store.load("nobody").await.unwrap_err().code(), "SESSION_NOT_FOUND");
        assert_eq!(store.load("a").await.unwrap_err().code(), "SESSION_LIVE");
        assert_whole(&folder.path().join("a.events"));
    });
}

#[test]
fn all_but_pieces_of_an_answer_is_written_at_once_and_those_with_what_ends_them() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        let session = store.new_session(&root, "a").session;
        let n_lines = || crate::lines(&folder.path().join("a.events")).len();
        let number = begin(&session, "hello");
        assert_eq!(n_lines(), 3);
        for _ in 0..10 {
            chunk(&session, number, "x");
        }
        assert_eq!(n_lines(), 3);
        end(&session, number);
        assert_eq!(n_lines(), 14);
        for _ in 0..600 {
            chunk(&session, number, "x");
        }
        assert!(n_lines() > 500);
    });
}

#[test]
fn se_12_a_failed_append_then_a_flush_loses_nothing_and_leaves_no_gap() {
    for room in (0..2_500).step_by(61) {
        run(async |root| {
            let folder = folder();
            let faults = Arc::new(Faults::with_room(room));
            let store_a = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults.clone()))).await;
            let entered = store_a.new_session(&root, "a");
            turn(&entered.session, "hello", "one two three");
            let is_full = store_a.sessions.flush(&entered.session).await.is_err();
            turn(&entered.session, "again", "four five six");
            faults.make_room();
            store_a.flush(&entered.session).await;
            assert_eq!(store_a.files.n_unsaved(entered.session.id()).unwrap(), 0);
            let records = entered.session.records_from(0);
            entered.handle.dispose().await;
            assert_whole(&folder.path().join("a.events"));
            let loaded = store_a.load("a").await.unwrap();
            assert_eq!(loaded.records, records, "with room for {room} bytes, full: {is_full}");
            assert!(loaded.notices.is_empty());
        });
    }
}

#[test]
fn r097_a_full_disk_is_told_at_once_and_the_turn_goes_on_in_memory() {
    run(async |root| {
        let folder = folder();
        let faults = Arc::new(Faults::default());
        let store = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults.clone()))).await;
        let told = told(&root);
        let session = store.new_session(&root, "a").session;
        turn(&session, "hello", "hi");
        store.flush(&session).await;

        faults.is_full.store(true, Relaxed);
        let number = begin(&session, "more");
        assert_eq!(*told.lock().unwrap(), ["unsaved 1"], "with the first record that was not written");
        end(&session, number);
        assert_eq!(store.files.n_unsaved(session.id()).unwrap(), 3);
        let error = store.sessions.flush(&session).await.unwrap_err();
        assert_eq!(error.code(), "SESSION_NOT_FLUSHED");
        assert_eq!(told.lock().unwrap().len(), 1, "told once");

        faults.make_room();
        store.flush(&session).await;
        assert_eq!(*told.lock().unwrap(), ["unsaved 1", "saved"]);
        assert_eq!(store.files.n_unsaved(session.id()).unwrap(), 0);
        assert_whole(&folder.path().join("a.events"));
        assert_eq!(crate::lines(&folder.path().join("a.events")).len() as u64, session.len() + 1);
    });
}

#[test]
fn r097_once_there_is_room_again_it_is_saved_without_being_asked() {
    run(async |root| {
        let folder = folder();
        let faults = Arc::new(Faults::default());
        let store = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults.clone()))).await;
        let told = told(&root);
        let entered = store.new_session(&root, "a");
        let session = entered.session.clone();
        faults.is_full.store(true, Relaxed);
        turn(&session, "hello", "hi");
        root.sleep(std::time::Duration::from_secs(60)).await.unwrap();
        assert_eq!(told.lock().unwrap().len(), 1);
        // Also when the session left the store meanwhile.
        entered.handle.dispose().await;
        faults.make_room();
        root.sleep(std::time::Duration::from_secs(60)).await.unwrap();
        assert_eq!(told.lock().unwrap().last().unwrap(), "saved");
        assert_eq!(store.load("a").await.unwrap().records, session.records_from(0));
    });
}

#[test]
fn a_disk_that_takes_a_little_at_a_time_gets_everything() {
    run(async |root| {
        let folder = folder();
        let faults = Arc::new(Faults::default());
        faults.most.store(7, Relaxed);
        let store = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults))).await;
        let session = store.new_session(&root, "a").session;
        turn(&session, "hello", "one two three");
        store.flush(&session).await;
        assert_whole(&folder.path().join("a.events"));
        assert_eq!(crate::lines(&folder.path().join("a.events")).len() as u64, session.len() + 1);
    });
}

#[test]
fn what_could_not_be_saved_is_written_again_and_not_counted_as_saved() {
    run(async |root| {
        let folder = folder();
        let path = folder.path().join("a.events");
        let faults = Arc::new(Faults::default());
        let store = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults.clone()))).await;
        let told = told(&root);
        let session = store.new_session(&root, "a").session;
        turn(&session, "hello", "hi");
        store.flush(&session).await;
        let n_saved = session.len();
        turn(&session, "more", "yes");
        faults.fails_to_sync.store(true, Relaxed);
        store.sessions.flush(&session).await.unwrap_err();
        assert_eq!(store.files.n_unsaved(session.id()).unwrap(), session.len() - n_saved);
        assert_eq!(told.lock().unwrap().len(), 1);
        // A system may have dropped what it failed to save: as if it had, the file ends where it was saved.
        let saved = crate::lines(&path)[..=usize::try_from(n_saved).unwrap()].join("\n") + "\n";
        std::fs::write(&path, &saved).unwrap();
        faults.fails_to_sync.store(false, Relaxed);
        store.flush(&session).await;
        assert_whole(&path);
        assert_eq!(crate::lines(&path).len() as u64, session.len() + 1);
        assert_eq!(told.lock().unwrap().last().unwrap(), "saved");
    });
}

#[test]
fn a_flush_saves_the_log_and_the_name_of_a_new_one_and_nothing_twice() {
    run(async |root| {
        let folder = folder();
        let faults = Arc::new(Faults::default());
        let store = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults.clone()))).await;
        let session = store.new_session(&root, "a").session;
        turn(&session, "hello", "hi");
        assert_eq!(faults.n_syncs.load(Relaxed), 0);
        store.flush(&session).await;
        assert_eq!(faults.n_syncs.load(Relaxed), 2);
        store.flush(&session).await;
        assert_eq!(faults.n_syncs.load(Relaxed), 2);
        turn(&session, "more", "yes");
        store.flush(&session).await;
        assert_eq!(faults.n_syncs.load(Relaxed), 3);
    });
}

#[test]
fn a_session_without_records_leaves_no_file() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        let entered = store.new_session(&root, "a");
        store.flush(&entered.session).await;
        entered.handle.dispose().await;
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    });
}

#[test]
fn a_session_that_is_not_the_stored_one_of_its_id_is_refused() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        let entered = store.new_session(&root, "a");
        turn(&entered.session, "hello", "hi");
        let records = entered.session.records_from(0);
        entered.handle.dispose().await;
        let create = |seed| {
            let options = CreateSession { id: Some("a".into()), seed, ..CreateSession::default() };
            store.sessions.create(&root, options)
        };
        assert_eq!(create(Vec::new()).unwrap_err().code(), "SESSION_REFUSED");
        assert_eq!(create(records[..2].to_vec()).unwrap_err().code(), "SESSION_REFUSED");
        // With its records it is the same session, and goes on.
        let again = create(records).unwrap();
        turn(&again, "more", "yes");
        store.flush(&again).await;
        assert_whole(&folder.path().join("a.events"));
        assert_eq!(crate::lines(&folder.path().join("a.events")).len() as u64, again.len() + 1);
    });
}

#[test]
fn a_fork_is_stored_with_its_lineage() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        let source = store.new_session(&root, "a").session;
        turn(&source, "hello", "hi");
        let scope = root.scope().unwrap();
        let fork = store.sessions.fork(scope.context(), source.id(), None, Some("b".into())).unwrap();
        scope.dispose().await.unwrap();
        let loaded = store.load("b").await.unwrap();
        assert_eq!((loaded.header, loaded.records), (fork.header().clone(), source.records_from(0)));
    });
}
