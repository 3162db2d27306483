//! What an append and a load cost in bytes, whatever the length of the log.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use linn_bus_test::run;

use crate::disk::{Faults, FaultyDisk};
use crate::folder;
use crate::script::turn;
use crate::store_on;

#[test]
fn an_append_writes_itself_and_reads_nothing_however_long_the_log_is() {
    run(async |root| {
        let folder = folder();
        let faults = Arc::new(Faults::default());
        let store = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults.clone()))).await;
        let session = store.new_session(&root, "a").session;
        let path = folder.path().join("a.events");
        let mut costs = Vec::new();
        for n_turns in [1, 500] {
            for _ in 0..n_turns {
                turn(&session, "hello", "one two three");
            }
            store.flush(&session).await;
            let before = (faults.n_read.load(Relaxed), faults.n_written.load(Relaxed), faults.n_calls());
            let len = std::fs::metadata(&path).unwrap().len();
            turn(&session, "hello", "one two three");
            store.flush(&session).await;
            let grown = std::fs::metadata(&path).unwrap().len() - len;
            assert_eq!(faults.n_written.load(Relaxed) - before.1, grown, "each byte is written once");
            assert_eq!(faults.n_read.load(Relaxed), before.0, "nothing is read");
            costs.push(faults.n_calls() - before.2);
        }
        assert_eq!(costs[0], costs[1], "calls of the system");
    });
}

#[test]
fn a_load_reads_the_log_once_and_a_second_listing_reads_none_of_it() {
    run(async |root| {
        let folder = folder();
        let faults = Arc::new(Faults::default());
        let store = store_on(&root, folder.path(), Arc::new(FaultyDisk(faults.clone()))).await;
        let entered = store.new_session(&root, "a");
        for _ in 0..2_000 {
            turn(&entered.session, "hello", "one two three four five six");
        }
        entered.handle.dispose().await;
        let len = std::fs::metadata(folder.path().join("a.events")).unwrap().len();
        let n_read = || faults.n_read.swap(0, Relaxed);

        store.stored.list().await.unwrap();
        n_read();
        store.stored.list().await.unwrap();
        let n_listed = n_read();
        assert!(n_listed < len / 10, "{n_listed} of {len} bytes");

        let loaded = store.load("a").await.unwrap();
        let n_loaded = n_read();
        // The header and the block at the seam of the two threads are read twice.
        assert!(n_loaded < len + (1 << 19), "{n_loaded} of {len} bytes");

        let session = store.resume(&root, &loaded).session;
        n_read();
        turn(&session, "more", "yes");
        store.flush(&session).await;
        assert_eq!(n_read(), 0);
        store.stored.list().await.unwrap();
        let n_listed = n_read();
        assert!(n_listed < len / 10, "{n_listed} of {len} bytes");
    });
}
