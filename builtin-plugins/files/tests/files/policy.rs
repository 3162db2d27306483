//! The policy that wants files read first, and what tools do without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use linn_bus::{Context, Fault};
use linn_services::agent::CreateAgent;
use linn_services::events::{FsEditIntent, FsObserved, FsWriteIntentRequest};
use linn_services::fs::FsWriteIntent;
use linn_services_test::undriven_agents;
use serde_json::json;

use crate::support::{Bench, bench, bench_with};

/// A bench with the policy on it.
fn guarded(test: impl AsyncFnOnce(&Bench)) {
    bench_with(|_| {}, test);
}

async fn agents(bench: &Bench) -> impl AsyncFn(&str) -> linn_services::agent::AgentHandle {
    let ctx = bench.root.context().clone();
    let agents = undriven_agents(&ctx).await;
    async move |name: &str| agents.create(&ctx, CreateAgent::new(name, format!("s-{name}").as_str())).await.unwrap()
}

fn write(content: &str) -> serde_json::Value {
    json!({ "path": "a.txt", "content": content })
}

fn edit(search: &str, replace: &str) -> serde_json::Value {
    json!({ "path": "a.txt", "edits": [{ "search": search, "replace": replace }] })
}

const READ_FIRST: &str = "it was not read in this session; read it first";

#[test]
fn fs_01_a_write_creates_or_replaces_what_was_seen() {
    guarded(async |bench| {
        bench.put("a.txt", "1");
        let unseen = bench.err("write_file", write("2")).await;
        let words = "write_file \"a.txt\" failed: it exists, and was not read in this session; read it first";
        assert_eq!(unseen, (words.to_owned(), "FS_EXISTS".to_owned()));
        bench.ok("read_file", json!({ "path": "a.txt" })).await;
        bench.ok("write_file", write("2")).await;
        bench.ok("write_file", write("3")).await;
        bench.put("a.txt", "changed by somebody else");
        let stale = bench.err("write_file", write("4")).await;
        let words = "write_file \"a.txt\" failed: it changed since it was last read; read it again first";
        assert_eq!(stale, (words.to_owned(), "FS_STALE_VERSION".to_owned()));
        assert_eq!(bench.get("a.txt"), "changed by somebody else");
        std::fs::remove_file(bench.path("a.txt")).unwrap();
        assert_eq!(bench.err("write_file", write("4")).await.1, "FS_STALE_VERSION");
        bench.err("read_file", json!({ "path": "a.txt" })).await;
        bench.ok("write_file", write("4")).await;
        assert_eq!(bench.get("a.txt"), "4", "who saw that it is gone may create it");
    });
}

#[test]
fn fs_02_a_session_edits_what_it_read_itself() {
    guarded(async |bench| {
        bench.put("a.txt", "1\n");
        let create = agents(bench).await;
        let (ada, bob) = (create("ada").await, create("bob").await);
        let call = async |agent: &linn_services::agent::AgentHandle, tool: &str, arguments| {
            let answer = bench.call_as(Some(agent.agent()), tool, arguments).await;
            (answer.code.unwrap_or_default(), answer.text)
        };
        let refused = ("FS_NOT_OBSERVED".to_owned(), format!("Error: edit \"a.txt\" failed: {READ_FIRST}"));
        assert_eq!(call(&ada, "edit", edit("1", "2")).await, refused);
        call(&ada, "read_file", json!({ "path": "a.txt" })).await;
        assert_eq!(call(&bob, "edit", edit("1", "2")).await, refused, "another session read it");
        assert_eq!(call(&ada, "edit", edit("1", "2")).await.1, "applied 1 edit(s)");
        assert_eq!(call(&ada, "edit", edit("2", "3")).await.1, "applied 1 edit(s)", "what it wrote it has seen");
        call(&bob, "read_file", json!({ "path": "a.txt" })).await;
        call(&ada, "patch", json!({ "path": "a.txt", "patch": "@@ -1 +1 @@\n-3\n+4\n" })).await;
        assert_eq!(call(&bob, "edit", edit("3", "5")).await.0, "FS_STALE_VERSION");
        assert_eq!(bench.get("a.txt"), "4\n");
        ada.dispose().await;
        let ada = create("ada").await;
        assert_eq!(call(&ada, "edit", edit("4", "5")).await, refused, "what a session saw goes with its agent");
    });
}

/// Takes the place of a file as somebody else would: another file, of the same length, changed at the same moment.
fn replace_unseen(bench: &Bench, content: &str) {
    let before = std::fs::metadata(bench.path("a.txt")).unwrap();
    assert_eq!(before.len(), content.len() as u64);
    std::fs::remove_file(bench.path("a.txt")).unwrap();
    bench.put("a.txt", content);
    let file = std::fs::File::options().write(true).open(bench.path("a.txt")).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    let after = std::fs::metadata(bench.path("a.txt")).unwrap();
    assert_eq!((after.len(), after.modified().unwrap()), (before.len(), before.modified().unwrap()));
}

#[test]
fn fs_02_what_changed_outside_since_it_was_read_is_not_touched_until_it_is_read_again() {
    let patch = json!({ "path": "a.txt", "patch": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n" });
    let bulk = json!({ "files": [{ "path": "a.txt", "content": "one\n2\n" }] });
    for (tool, arguments) in
        [("edit", edit("two", "2")), ("patch", patch), ("write_file", write("one\n2\n")), ("bulk_write", bulk)]
    {
        guarded(async |bench| {
            bench.put("a.txt", "one\ntwo\nsix\n");
            bench.ok("read_file", json!({ "path": "a.txt" })).await;
            // What the call wants to replace is there still: only a look at all of the file tells that it is another one.
            replace_unseen(bench, "one\ntwo\nten\n");
            let answer = bench.call(tool, arguments.clone()).await;
            assert!(answer.is_error, "{tool}: {answer:?}");
            assert!(answer.text.contains("changed since it was last read; read it again first"), "{tool}: {answer:?}");
            assert_eq!(bench.get("a.txt"), "one\ntwo\nten\n", "{tool}");
            let read = bench.ok("read_file", json!({ "path": "a.txt" })).await;
            assert!(read.contains("ten"), "{tool}: {read}");
            bench.ok(tool, arguments.clone()).await;
            assert!(bench.get("a.txt").starts_with("one\n2\n"), "{tool}");
        });
    }
}

#[test]
fn fs_03_who_decides_later_is_not_asked() {
    guarded(async |bench| {
        let n_asked = Arc::new(AtomicU32::new(0));
        let asked = n_asked.clone();
        let late = bench.root.mount_fn("late", move |ctx: Context, (): ()| {
            let asked = asked.clone();
            let listener = ctx.on(move |_: &FsWriteIntentRequest| {
                asked.fetch_add(1, Ordering::Relaxed);
                FsWriteIntent::Unconditional
            });
            async move { listener.map(drop) }
        });
        late.unwrap().running().await.unwrap();
        bench.ok("write_file", write("1")).await;
        assert_eq!(n_asked.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn fs_04_without_a_policy_everything_is_written_and_edited() {
    bench(async |bench| {
        bench.put("a.txt", "1");
        bench.ok("edit", edit("1", "2")).await;
        bench.put("a.txt", "3");
        bench.ok("write_file", write("4")).await;
        assert_eq!(bench.get("a.txt"), "4");
    });
}

#[test]
fn fs_05_who_fails_to_hear_what_was_seen_fails_the_call_and_the_file_is_changed() {
    bench(async |bench| {
        bench.put("a.txt", "1");
        bench.root.on(|_: &FsObserved| Err::<(), _>(Fault::msg("no room to remember"))).unwrap();
        for (tool, arguments, content) in [
            ("write_file", write("2"), "2"),
            ("edit", edit("2", "3"), "3"),
            ("read_file", json!({ "path": "a.txt" }), "3"),
        ] {
            let answer = bench.call(tool, arguments).await;
            assert!(answer.is_error && answer.text.contains("no room to remember"), "{answer:?}");
            assert_eq!(bench.get("a.txt"), content);
        }
    });
}

#[test]
fn whoever_decides_may_fail_the_call() {
    bench(async |bench| {
        bench.put("a.txt", "1");
        bench.root.on(|_: &FsEditIntent| Err::<Option<_>, _>(Fault::msg("not today"))).unwrap();
        bench.root.on(|_: &FsWriteIntentRequest| FsWriteIntent::CreateIfAbsent).unwrap();
        let (text, code) = bench.err("edit", edit("1", "2")).await;
        assert!(text.ends_with("not today") && code == "FS_REFUSED", "{text}");
        assert_eq!(bench.err("write_file", write("2")).await.1, "FS_EXISTS");
        assert_eq!(bench.get("a.txt"), "1");
    });
}

#[test]
fn what_is_deleted_or_moved_away_may_be_created_again() {
    guarded(async |bench| {
        bench.ok("write_file", write("1")).await;
        bench.ok("delete", json!({ "path": "a.txt" })).await;
        bench.ok("write_file", write("2")).await;
        bench.ok("rename", json!({ "from": "a.txt", "to": "b.txt" })).await;
        bench.ok("write_file", write("3")).await;
        assert_eq!((bench.get("a.txt"), bench.get("b.txt")), ("3".to_owned(), "2".to_owned()));
    });
}
