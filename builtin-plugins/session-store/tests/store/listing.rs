//! Listings, titles, pins, deletion.

use std::time::{Duration, UNIX_EPOCH};

use linn_bus_test::run;
use linn_services::session::{RewindCause, SessionRewind};

use crate::script::{begin, turn};
use crate::{folder, store};

/// Sets when a file was last written.
fn touch(path: &std::path::Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn the_pinned_ones_come_first_then_the_latest() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        for (id, at) in [("a", 1), ("b", 3), ("c", 2)] {
            let entered = store.new_session(&root, id);
            turn(&entered.session, &format!("  prompt\n of   {id} "), "yes");
            entered.handle.dispose().await;
            touch(&folder.path().join(format!("{id}.events")), at);
        }
        store.stored.set_pinned(&"a".into(), true).await.unwrap();
        let list = store.stored.list().await.unwrap();
        let short: Vec<_> = list.iter().map(|it| (it.id.as_str(), it.title.as_str(), it.n_messages)).collect();
        assert_eq!(short, [("a", "prompt of a", 2), ("b", "prompt of b", 2), ("c", "prompt of c", 2)]);
        assert_eq!((list[0].is_pinned, list[0].updated_at, list[1].is_pinned), (true, 1_000, false));
        store.stored.set_pinned(&"a".into(), false).await.unwrap();
        let ids: Vec<_> = store.stored.list().await.unwrap().into_iter().map(|it| it.id.to_string()).collect();
        assert_eq!(ids, ["b", "c", "a"]);
    });
}

#[test]
fn titles_are_tidied_and_can_be_taken_back() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        let session = store.new_session(&root, "a").session;
        let title = async || store.stored.list().await.unwrap()[0].title.clone();
        begin(&session, &"x".repeat(100));
        assert_eq!(title().await, "x".repeat(80));
        store.stored.set_title(&"a".into(), Some("  My title  ")).await.unwrap();
        assert_eq!(title().await, "My title");
        store.stored.set_title(&"a".into(), Some(&"ü".repeat(200))).await.unwrap();
        assert_eq!(title().await, "ü".repeat(120));
        store.stored.set_title(&"a".into(), None).await.unwrap();
        assert_eq!(title().await, "x".repeat(80));
        let error = store.stored.set_title(&"b".into(), Some("t")).await.unwrap_err();
        assert_eq!(error.code(), "SESSION_NOT_FOUND");
    });
}

#[test]
fn a_listing_follows_a_log_that_grows_and_one_that_goes_back() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        let session = store.new_session(&root, "a").session;
        let short = async || {
            let it = store.stored.list().await.unwrap().remove(0);
            format!("{} {}", it.title, it.n_messages)
        };
        turn(&session, "one", "1");
        let middle = session.len();
        assert_eq!(short().await, "one 2");
        turn(&session, "two", "2");
        assert_eq!(short().await, "one 4");
        session.append(SessionRewind { to: middle, cause: RewindCause::Undo }).unwrap();
        assert_eq!(short().await, "one 2");
        session.append(SessionRewind { to: 0, cause: RewindCause::Reset }).unwrap();
        assert_eq!(short().await, "(no messages yet) 0");
        turn(&session, "three", "3");
        assert_eq!(short().await, "three 2");
        // From the log alone it is the same.
        std::fs::remove_file(folder.path().join("a.events.summary")).unwrap();
        assert_eq!(short().await, "three 2");
    });
}

#[test]
fn a_damaged_log_is_left_out_and_the_others_are_listed() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, folder.path()).await;
        turn(&store.new_session(&root, "a").session, "one", "1");
        std::fs::write(folder.path().join("b.events"), "not a header\n").unwrap();
        std::fs::write(folder.path().join("c.events"), "").unwrap();
        std::fs::write(folder.path().join("d.events"), "{\"version\":99}\n").unwrap();
        assert_eq!(store.stored.list().await.unwrap().len(), 1);
    });
}

#[test]
fn files_of_both_formats_are_listed_in_their_folder() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, &folder.path().join("own")).await;
        let old = folder.path().join("old.jsonl");
        std::fs::write(&old, "{\"_session_version\":2}\n{\"role\":\"user\",\"content\":\"older\"}\n").unwrap();
        std::fs::write(folder.path().join("old.checkpoints.jsonl"), "{}\n").unwrap();
        let new = folder.path().join("new.jsonl");
        let opened = store.files.open(&new).await.unwrap();
        let entered = store.resume(&root, &opened);
        turn(&entered.session, "newer", "1");
        touch(&folder.path().join("new.jsonl.events"), 5_000_000_000);
        let list = store.files.list_in(folder.path()).await.unwrap();
        let short: Vec<_> = list.iter().map(|it| (it.file.clone(), it.summary.title.as_str())).collect();
        assert_eq!(short, [(new.clone(), "newer"), (old.clone(), "older")]);
        // A session of the older format can be named and pinned without being taken over.
        store.stored.set_title(&list[1].summary.id, Some("named")).await.unwrap();
        assert!(!folder.path().join("old.jsonl.events").exists());
        assert_eq!(store.files.list_in(folder.path()).await.unwrap()[1].summary.title, "named");

        store.stored.set_pinned(&list[0].summary.id, true).await.unwrap();
        assert!(folder.path().join("new.jsonl.meta.json").exists());
        assert_eq!(store.stored.delete(entered.session.id()).await.unwrap_err().code(), "SESSION_LIVE");
        entered.handle.dispose().await;
        store.stored.delete(entered.session.id()).await.unwrap();
        store.stored.delete(&list[1].summary.id).await.unwrap();
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert!(left.is_empty() || left == ["own"], "{left:?}");
        assert_eq!(store.stored.delete(entered.session.id()).await.unwrap_err().code(), "SESSION_NOT_FOUND");
    });
}
