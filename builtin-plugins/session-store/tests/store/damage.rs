//! Logs that a crash, a disk or a human damaged.

use std::path::PathBuf;

use linn_bus_test::run;
use linn_services::model::text_of;
use tempfile::TempDir;

use crate::script::{assert_paired, begin, turn};
use crate::{assert_whole, folder, lines, store};

/// A folder with the log of a session of some turns, and maybe one more that is open.
fn stored(n_turns: u32, is_open: bool) -> (TempDir, PathBuf) {
    let folder = folder();
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let entered = store.new_session(&root, "a");
        for number in 0..n_turns {
            turn(&entered.session, &format!("prompt {number}"), "an answer");
        }
        if is_open {
            begin(&entered.session, "open");
        }
        entered.handle.dispose().await;
    });
    let path = folder.path().join("a.events");
    (folder, path)
}

fn write(path: &PathBuf, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn r091_a_last_line_that_is_cut_off_is_put_aside_and_told() {
    let (folder, path) = stored(10, false);
    let torn = br#"{"type":"message","role":"user","con"#;
    let whole = std::fs::read(&path).unwrap();
    write(&path, &[&whole, &torn[..]].concat());
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let loaded = store.load("a").await.unwrap();
        assert_eq!((loaded.records.len(), loaded.notices.len()), (80, 1));
        assert!(loaded.notices[0].contains("line 82 is cut off (36 bytes)"), "{:?}", loaded.notices);
    });
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    assert_eq!(std::fs::read(folder.path().join("a.events.torn")).unwrap(), [&torn[..], b"\n"].concat());
}

#[test]
fn r092_appending_after_a_torn_tail_gives_a_whole_log() {
    let (folder, path) = stored(2, false);
    let whole = std::fs::read(&path).unwrap();
    for cut in 1..60 {
        // A line that died at any place of it.
        write(&path, &[&whole, &whole[..cut]].concat());
        run(async |root| {
            let store_a = store(&root, folder.path()).await;
            let loaded = store_a.load("a").await.unwrap();
            assert_eq!(loaded.records.len(), 16);
            let entered = store_a.resume(&root, &loaded);
            turn(&entered.session, "go on", "yes");
            let records = entered.session.records_from(0);
            entered.handle.dispose().await;
            assert_whole(&path);
            let again = store_a.load("a").await.unwrap();
            assert_eq!((again.records, again.notices), (records, vec![]));
            store_a.fiber.dispose().await.unwrap();
        });
    }
}

#[test]
fn r093_a_last_line_without_line_feed_counts_and_the_next_one_begins_anew() {
    let (folder, path) = stored(2, false);
    let whole = std::fs::read(&path).unwrap();
    write(&path, whole.strip_suffix(b"\n").unwrap());
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let loaded = store.load("a").await.unwrap();
        assert_eq!((loaded.records.len(), loaded.notices.len()), (16, 0));
        let session = store.resume(&root, &loaded).session;
        turn(&session, "go on", "yes");
        store.flush(&session).await;
        assert_whole(&path);
        assert_eq!(lines(&path).len(), 24);
    });
}

#[test]
fn r093_the_same_for_a_header_alone() {
    let folder = folder();
    let path = folder.path().join("a.events");
    write(&path, br#"{"version":0,"id":"a","createdAt":1}"#);
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let loaded = store.load("a").await.unwrap();
        let session = store.resume(&root, &loaded).session;
        turn(&session, "go on", "yes");
        store.flush(&session).await;
        assert_whole(&path);
    });
}

#[test]
fn r094_se_13_damage_before_the_end_of_a_turn_is_an_error_that_names_the_line() {
    let (folder, path) = stored(10, false);
    let mut all = lines(&path);
    all[50] = r#"{"type":"mess"#.to_owned();
    let damaged = all.join("\n") + "\n";
    write(&path, damaged.as_bytes());
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let error = store.load("a").await.unwrap_err();
        assert_eq!(error.code(), "SESSION_DAMAGED");
        assert!(error.to_string().contains("a.events is damaged at line 51"), "{error}");
        // Nothing was cut.
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);

        let saved = store.files.salvage(&"a".into()).await.unwrap();
        assert_eq!(saved.notices.len(), 2, "{:?}", saved.notices);
        assert!(saved.notices[0].contains("line 51 is damaged"), "{:?}", saved.notices);
        assert_eq!(saved.records[..49].len(), 49);
        let session = store.resume(&root, &saved).session;
        assert_paired(&session);
        turn(&session, "go on", "yes");
        store.flush(&session).await;
        assert_whole(&path);
        let aside = lines(&folder.path().join("a.events.torn"));
        assert_eq!(aside[..31], all[50..]);
    });
}

#[test]
fn r094_a_record_that_is_missing_is_damage() {
    let (folder, path) = stored(10, false);
    let mut all = lines(&path);
    all.remove(40);
    write(&path, (all.join("\n") + "\n").as_bytes());
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let error = store.load("a").await.unwrap_err().to_string();
        assert!(error.contains("line 41: record 40 stands where record 39 belongs"), "{error}");
    });
}

#[test]
fn se_13_damage_after_the_last_end_of_a_turn_costs_the_open_turn_alone() {
    let (folder, path) = stored(3, true);
    let mut all = lines(&path);
    assert_eq!(all.len(), 27);
    all[26] = "\0\0\0\0".to_owned();
    write(&path, (all.join("\n") + "\n").as_bytes());
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let loaded = store.load("a").await.unwrap();
        // 24 of the three turns, the start of the open one, and its end.
        assert_eq!((loaded.records.len(), loaded.notices.len()), (26, 2));
        assert!(loaded.notices[0].contains("line 27 is damaged"), "{:?}", loaded.notices);
        assert!(loaded.notices[1].contains("interrupted"));
        assert_paired(&store.resume(&root, &loaded).session);
        assert_whole(&path);
    });
    assert!(std::fs::read(folder.path().join("a.events.torn")).unwrap().starts_with(b"\0\0\0\0\n"));
}

#[test]
fn an_interrupted_turn_is_closed_once_and_the_repair_is_written() {
    let (folder, path) = stored(1, true);
    assert_eq!(lines(&path).len(), 11);
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let loaded = store.load("a").await.unwrap();
        assert_eq!(loaded.notices.len(), 1);
        store.files.release(&"a".into()).await.unwrap();
        assert_eq!(lines(&path).len(), 12);
        let again = store.load("a").await.unwrap();
        assert_eq!((again.records, again.notices), (loaded.records, vec![]));
    });
}

#[test]
fn r099_a_newer_version_an_empty_file_and_a_header_alone() {
    let folder = folder();
    let path = folder.path().join("a.events");
    run(async |root| {
        let store = store(&root, folder.path()).await;
        write(&path, b"{\"version\":99}\nwhat comes then is not looked at\n");
        let error = store.load("a").await.unwrap_err();
        assert_eq!(error.code(), "SESSION_NEWER");
        assert!(error.to_string().contains("is version 99, newer than supported (0)"), "{error}");

        write(&path, b"");
        assert_eq!(store.load("a").await.unwrap_err().code(), "SESSION_EMPTY");

        write(&path, b"{\"version\":0,\"id\":\"a\",\"createdAt\":1}\n");
        let loaded = store.load("a").await.unwrap();
        assert_eq!((loaded.records.len(), loaded.notices.len(), loaded.header.created_at), (0, 0, 1));
        store.files.release(&"a".into()).await.unwrap();

        write(&path, b"{\"version\":0,\"id\":\"b\",\"createdAt\":1}\n");
        let error = store.load("a").await.unwrap_err().to_string();
        assert!(error.contains("this is the log of session \"b\""), "{error}");

        write(&path, b"{\"version\":0,\"i");
        assert_eq!(store.load("a").await.unwrap_err().code(), "SESSION_DAMAGED");
    });
}

#[test]
fn r100_half_a_surrogate_pair_is_read_as_the_replacement_character() {
    let (folder, path) = stored(1, false);
    let text = std::fs::read_to_string(&path).unwrap().replace("prompt 0", r"ok \ud83d end");
    write(&path, text.as_bytes());
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let loaded = store.load("a").await.unwrap();
        let session = store.resume(&root, &loaded).session;
        assert_eq!(text_of(&session.messages()[0].content), "ok \u{fffd} end");
        // What goes to a model, and what is written from it, is strict JSON.
        let body = serde_json::to_string(&session.messages()).unwrap();
        serde_json::from_str::<serde_json::Value>(&body).unwrap();
        turn(&session, "go on", "yes");
        store.flush(&session).await;
        let fork = store.sessions.fork(&root, session.id(), None, Some("b".into())).unwrap();
        store.flush(&fork).await;
        assert_whole(&folder.path().join("b.events"));
    });
}

#[test]
fn r101_a_session_goes_on_in_its_own_folder_or_not_at_all() {
    let folder = folder();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let cwd = work.to_str().unwrap().to_owned();
        let options = linn_services::session::CreateSession {
            id: Some("a".into()),
            cwd: Some(cwd.clone()),
            ..Default::default()
        };
        let entered = store.enter(&root, options);
        turn(&entered.session, "hello", "hi");
        entered.handle.dispose().await;

        let loaded = store.load("a").await.unwrap();
        assert_eq!(loaded.header.cwd, Some(cwd));
        std::fs::remove_dir(&work).unwrap();
        let error = store.load("a").await.unwrap_err();
        assert_eq!(error.code(), "SESSION_FOLDER_GONE");
        assert!(error.to_string().contains(work.to_str().unwrap()), "{error}");
    });
}
