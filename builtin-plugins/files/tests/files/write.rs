//! `write_file`.

use std::os::unix::fs::PermissionsExt;

use linn_bus_test::Recorder;
use linn_services::events::FsChanged;
use linn_services::fs::{FsChangeKind, FsError, FsToolMeta, FsWriteIntent};
use serde_json::json;

use crate::support::{bench, bench_with};

#[test]
fn a_file_is_written_with_the_folders_above_it() {
    bench(async |bench| {
        let answer = bench.call("write_file", json!({ "path": "a/b/c.txt", "content": "one\ntwo\n" })).await;
        assert_eq!(answer.text, "wrote 8 bytes to a/b/c.txt");
        assert_eq!(bench.get("a/b/c.txt"), "one\ntwo\n");
        assert_eq!(bench.names("a/b"), ["c.txt"]);
        let meta: FsToolMeta = serde_json::from_value(answer.meta).unwrap();
        let diff = "--- a/a/b/c.txt\n+++ b/a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n";
        assert_eq!(meta.diff.as_deref(), Some(diff));
        assert_eq!((meta.changes[0].path.as_str(), &meta.changes[0].kind), ("a/b/c.txt", &FsChangeKind::Created));
        assert!(!answer.text.contains("@@"), "the model does not see the diff");
    });
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode_its_mark_and_its_line_ends() {
    bench(async |bench| {
        bench.put("run.sh", "\u{feff}a\r\nb\r\n");
        std::fs::set_permissions(bench.path("run.sh"), PermissionsExt::from_mode(0o754)).unwrap();
        let answer = bench.call("write_file", json!({ "path": "run.sh", "content": "a\nc\n" })).await;
        assert_eq!(answer.text, "wrote 9 bytes to run.sh");
        assert_eq!(bench.get("run.sh"), "\u{feff}a\r\nc\r\n");
        assert_eq!(std::fs::metadata(bench.path("run.sh")).unwrap().permissions().mode() & 0o777, 0o754);
        let diff = "--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n";
        assert_eq!(answer.meta["diff"], diff);
        assert_eq!(bench.names(""), ["run.sh"]);
    });
}

#[test]
fn what_cannot_be_written_says_why_and_stays() {
    bench(async |bench| {
        bench.put("dir/a.txt", "a");
        bench.put("locked.txt", "a");
        std::fs::set_permissions(bench.path("locked.txt"), PermissionsExt::from_mode(0o444)).unwrap();
        for (path, why, code) in [
            ("dir", "it is a folder, not a file", "FS_WRONG_KIND"),
            ("dir/a.txt/b", "it is a file or link, or below one, not in a folder", "FS_WRONG_KIND"),
            ("locked.txt", "it is read-only", "FS_IO"),
        ] {
            let failed = bench.err("write_file", json!({ "path": path, "content": "x" })).await;
            assert_eq!(failed, (format!("write_file \"{path}\" failed: {why}"), code.to_owned()));
        }
        let long = "x".repeat(300);
        let (text, _) = bench.err("write_file", json!({ "path": long, "content": "x" })).await;
        assert!(text.ends_with("failed: the name is too long, or not allowed here"), "{text}");
        assert_eq!((bench.get("dir/a.txt"), bench.get("locked.txt")), ("a".to_owned(), "a".to_owned()));
        assert_eq!(bench.names(""), ["dir", "locked.txt"]);
    });
}

#[test]
fn a_write_keeps_to_its_intent() {
    bench(async |bench| {
        bench.put("a.txt", "1");
        let fs = &bench.fs;
        let first = fs.read("a.txt", 10).await.unwrap().version;
        assert_eq!(fs.write("a.txt", b"2", FsWriteIntent::CreateIfAbsent).await, Err(FsError::Exists("a.txt".into())));
        let replace = FsWriteIntent::ReplaceIfVersion { version: first.clone() };
        let second = fs.write("a.txt", b"2", replace.clone()).await.unwrap();
        assert_ne!(first, second);
        assert_eq!(fs.write("a.txt", b"3", replace.clone()).await, Err(FsError::Stale("a.txt".into())));
        bench.put("a.txt", "1");
        assert_eq!(fs.write("a.txt", b"2", replace.clone()).await, Ok(second), "equal content is an equal version");
        std::fs::remove_file(bench.path("a.txt")).unwrap();
        assert_eq!(fs.write("a.txt", b"3", replace.clone()).await, Err(FsError::Stale("a.txt".into())));
        assert_eq!(fs.write("none/a.txt", b"3", replace).await, Err(FsError::Stale("none/a.txt".into())));
        assert!(bench.names("").is_empty(), "a write that is refused makes no folders");
        fs.write("a.txt", b"4", FsWriteIntent::CreateIfAbsent).await.unwrap();
        assert_eq!(bench.get("a.txt"), "4");
    });
}

#[test]
fn what_changes_is_told_to_front_ends() {
    bench(async |bench| {
        let recorder = Recorder::new();
        recorder.note(&bench.root, |it: &FsChanged| (it.tool.to_string(), it.change.clone())).unwrap();
        bench.put("b.txt", "b\n");
        bench.ok("write_file", json!({ "path": "a.txt", "content": "a\n" })).await;
        bench.ok("edit", json!({ "path": "a.txt", "edits": [{ "search": "a", "replace": "c" }] })).await;
        bench.ok("patch", json!({ "path": "a.txt", "patch": "@@ -1 +1 @@\n-c\n+d\n" })).await;
        bench.ok("mkdir", json!({ "path": "dir" })).await;
        bench.ok("rename", json!({ "from": "b.txt", "to": "dir/c.txt" })).await;
        bench.ok("delete", json!({ "path": "a.txt" })).await;
        bench.err("delete", json!({ "path": "a.txt" })).await;
        let told: Vec<String> = recorder
            .heard::<(String, linn_services::fs::FsChange)>()
            .into_iter()
            .map(|(tool, change)| {
                let last = change.diff.as_deref().and_then(|it| it.lines().last()).unwrap_or("-").to_owned();
                format!("{tool} {} {} {last}", change.path, serde_json::to_value(&change).unwrap()["kind"])
            })
            .collect();
        assert_eq!(
            told,
            [
                "write_file a.txt \"created\" +a",
                "edit a.txt \"modified\" +c",
                "patch a.txt \"modified\" +d",
                "mkdir dir \"folder-created\" -",
                "rename dir/c.txt \"renamed\" -",
                "delete a.txt \"deleted\" -",
            ]
        );
    });
}

#[test]
fn a_preview_shows_the_diff_and_changes_nothing() {
    bench_with(
        |config| config.read_before_write = true,
        async |bench| {
            bench.put("a.txt", "a\nb\n");
            let preview = bench.preview("write_file", json!({ "path": "a.txt", "content": "a\nc\n" })).await.unwrap();
            let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
            assert_eq!((preview.diff.as_deref(), &preview.paths[..]), (Some(diff), &["a.txt".to_owned()][..]));
            let edit = json!({ "path": "a.txt", "edits": [{ "search": "b", "replace": "c" }] });
            assert_eq!(bench.preview("edit", edit).await.unwrap().diff.as_deref(), Some(diff));
            let patch = json!({ "path": "a.txt", "patch": "@@ -2 +2 @@\n-b\n+c\n" });
            assert_eq!(bench.preview("patch", patch).await.unwrap().diff.as_deref(), Some(diff));
            let wrong = json!({ "path": "a.txt", "edits": [{ "search": "x", "replace": "c" }] });
            assert_eq!(bench.preview("edit", wrong).await.unwrap().diff, None);
            let rename = bench.preview("rename", json!({ "from": "a.txt", "to": "b.txt" })).await.unwrap();
            assert_eq!(rename.paths, ["a.txt", "b.txt"]);
            assert_eq!(bench.preview("read_file", json!({ "path": "a.txt" })).await, None);
            assert_eq!(bench.get("a.txt"), "a\nb\n");
        },
    );
}
