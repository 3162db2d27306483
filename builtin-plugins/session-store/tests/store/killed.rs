//! Processes that are killed with signal 9, and two at once.

use std::path::Path;
use std::sync::Arc;

use linn_bus::{Ids, SeededIds};
use linn_services::session::{Record, Session};

use crate::disk::{Faults, FaultyDisk};
use crate::processes::{Process, task};
use crate::script::{assert_paired, turn, turn_with_calls};
use crate::{assert_whole, folder, lines, run_slow as run, store, store_on};

/// How many turns the script has.
const N_TURNS: u32 = 3;

/// What is scripted: turns with 20 calls each, every one flushed and then acknowledged on standard output.
fn act(session: &Session) {
    turn_with_calls(session, 20);
}

/// Makes or goes on with session `a` and acknowledges each turn; gives how many calls of the system that took.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn play(folder: &Path, stop_at: Option<u64>) -> u64 {
    let faults = Arc::new(Faults::stopping_at(stop_at));
    let counted = faults.clone();
    run(async |root| {
        let store = store_on(&root, folder, Arc::new(FaultyDisk(counted.clone()))).await;
        let entered = match store.load("a").await {
            Ok(loaded) => store.resume(&root, &loaded),
            Err(error) => {
                assert_eq!(error.code(), "SESSION_NOT_FOUND");
                store.new_session(&root, "a")
            }
        };
        for _ in 0..N_TURNS {
            act(&entered.session);
            store.flush(&entered.session).await;
            println!("\n#ack {}", entered.session.len());
        }
        entered.handle.dispose().await;
    });
    faults.n_calls()
}

/// Runs the script in a child that is killed at a call of the system; gives how many records were acknowledged.
fn play_and_kill(test: &str, folder: &Path, stop_at: u64) -> usize {
    let mut child = Process::start(test, folder, &stop_at.to_string());
    let mut acknowledged = 0;
    while let Some(said) = child.next() {
        match said.strip_prefix("ack ") {
            Some(n) => acknowledged = n.parse().unwrap(),
            None => break,
        }
    }
    child.kill();
    acknowledged
}

/// What the whole script logs.
fn whole_script() -> Vec<Arc<Record>> {
    let folder = folder();
    play(folder.path(), None);
    let mut records = Vec::new();
    run(async |root| {
        let store = store(&root, folder.path()).await;
        records = store.load("a").await.unwrap().records;
    });
    records
}

#[test]
fn r096_killed_at_any_of_200_moments_nothing_acknowledged_is_lost() {
    const TEST: &str = "killed::r096_killed_at_any_of_200_moments_nothing_acknowledged_is_lost";
    if let Some((folder, stop_at)) = task() {
        play(&folder, Some(stop_at.parse().unwrap()));
        return;
    }
    let script = whole_script();
    let n_calls = play(folder().path(), None);
    assert!(n_calls > 100);
    let chance = SeededIds::new(96);
    let mut n_repaired = 0;
    for run_number in 0..200 {
        let stop_at = chance.next_u64() % n_calls;
        let folder = folder();
        let mut acknowledged = play_and_kill(TEST, folder.path(), stop_at);
        // Every fourth time whoever goes on is killed too, often while it repairs.
        if run_number % 4 == 0 {
            acknowledged = acknowledged.max(play_and_kill(TEST, folder.path(), chance.next_u64() % 12));
        }
        run(async |root| {
            let store = store(&root, folder.path()).await;
            let loaded = match store.load("a").await {
                Ok(loaded) => loaded,
                Err(error) => {
                    let is_unborn = matches!(error.code(), "SESSION_NOT_FOUND" | "SESSION_EMPTY" | "SESSION_DAMAGED");
                    assert!(is_unborn && acknowledged == 0, "killed at call {stop_at}: {error}");
                    return;
                }
            };
            assert!(loaded.records.len() >= acknowledged, "killed at call {stop_at}: {acknowledged} were acknowledged");
            let n_same = acknowledged.min(script.len());
            assert_eq!(loaded.records[..n_same], script[..n_same], "killed at call {stop_at}");
            n_repaired += usize::from(!loaded.notices.is_empty());
            let session = store.resume(&root, &loaded).session;
            assert_paired(&session);
            turn(&session, "go on", "yes");
            assert_paired(&session);
            store.flush(&session).await;
            assert_whole(&folder.path().join("a.events"));
        });
    }
    assert!(n_repaired > 50, "the kills hit open turns: {n_repaired}");
}

#[test]
fn r095_a_second_process_is_refused_with_the_name_of_the_first_until_that_is_gone() {
    const TEST: &str = "killed::r095_a_second_process_is_refused_with_the_name_of_the_first_until_that_is_gone";
    if let Some((folder, _)) = task() {
        run(async |root| {
            let store = store(&root, &folder).await;
            let session = store.new_session(&root, "a").session;
            for _ in 0..200 {
                turn(&session, &"x".repeat(100 << 10), "yes");
            }
            store.flush(&session).await;
            println!("\n#written");
            // Until it is killed.
            let _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
        });
        return;
    }
    let folder = folder();
    let mut child = Process::start(TEST, folder.path(), "");
    assert_eq!(child.next().as_deref(), Some("written"));
    run(async |root| {
        let store = store(&root, folder.path()).await;
        let error = store.load("a").await.unwrap_err();
        assert_eq!(error.code(), "SESSION_LOCKED");
        assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
        assert_eq!(store.stored.delete(&"a".into()).await.unwrap_err().code(), "SESSION_LOCKED");
        // Nor is it made anew.
        let options = linn_services::session::CreateSession { id: Some("a".into()), ..Default::default() };
        assert_eq!(store.sessions.create(&root, options).unwrap_err().code(), "SESSION_REFUSED");
        // It is listed all the same.
        assert_eq!(store.stored.list().await.unwrap()[0].n_messages, 400);

        child.kill();
        let loaded = store.load("a").await.unwrap();
        let session = store.resume(&root, &loaded).session;
        for _ in 0..200 {
            turn(&session, &"y".repeat(100 << 10), "yes");
        }
        store.flush(&session).await;
        assert_whole(&folder.path().join("a.events"));
        assert_eq!(session.turns().last_turn, 400);
    });
}

#[test]
fn r098_two_processes_that_rename_leave_one_whole_file_also_when_one_is_killed() {
    const TEST: &str = "killed::r098_two_processes_that_rename_leave_one_whole_file_also_when_one_is_killed";
    const N_TIMES: u32 = 200;
    if let Some((folder, task)) = task() {
        let stop_at = task.split_once(' ').and_then(|(_, at)| at.parse().ok());
        let faults = Arc::new(Faults::stopping_at(stop_at));
        run(async |root| {
            let store = store_on(&root, &folder, Arc::new(FaultyDisk(faults))).await;
            for number in 0..N_TIMES {
                store.stored.set_title(&"a".into(), Some(&format!("{task} {number}"))).await.unwrap();
            }
        });
        return;
    }
    let folder = folder();
    run(async |root| {
        let store = store(&root, folder.path()).await;
        turn(&store.new_session(&root, "a").session, "hello", "hi");
    });
    let meta = folder.path().join("a.meta.json");
    std::fs::write(&meta, r#"{"pinned":true,"color":"red"}"#).unwrap();
    let chance = SeededIds::new(98);
    for _ in 0..5 {
        let mut first = Process::start(TEST, folder.path(), "first");
        let mut second = Process::start(TEST, folder.path(), &format!("second {}", chance.next_u64() % 1_000));
        assert_eq!(second.next().as_deref(), Some("stopped"));
        // At each moment it is one whole version; whoever was killed holds nobody up.
        let whole = || serde_json::from_str::<serde_json::Value>(&lines(&meta).join("\n")).unwrap();
        whole();
        second.kill();
        assert!(first.is_good());
        let value = whole();
        assert_eq!((&value["pinned"], &value["color"]), (&true.into(), &"red".into()));
        // Either may have been the later one; nothing of the killed one stands in the way of the next.
        let title = value["title"].as_str().unwrap();
        assert!(title == format!("first {}", N_TIMES - 1) || title.starts_with("second "), "{title}");
        assert!(Process::start(TEST, folder.path(), "third").is_good());
        assert_eq!(whole()["title"], format!("third {}", N_TIMES - 1));
    }
}
