//! `bulk_read`, `bulk_write` and `bulk_edit`.

use linn_services::tools::RESULT_LIMIT_BYTES;
use serde_json::json;

use crate::support::bench;

#[test]
fn several_files_are_read_at_once() {
    bench(async |bench| {
        bench.put("a.txt", "a\n");
        bench.put("b.txt", "b\n");
        let text = bench.ok("bulk_read", json!({ "paths": ["a.txt", "none", "../x", "b.txt"] })).await;
        let expected = "### a.txt\na\n\n\n### none\nread_file \"none\" failed: no such file or folder\n\n### ../x\n\
                        path \"../x\" contains '..'; workspace escape denied\n\n### b.txt\nb\n";
        assert_eq!(text, expected);
        let (text, code) = bench.err("bulk_read", json!({ "paths": vec!["a.txt"; 21] })).await;
        assert_eq!(text, "bulk_read failed: it names 21 files, and may name 20 at most; make several calls");
        assert_eq!(code, "INVALID_ARGUMENTS");
    });
}

#[test]
fn long_files_share_the_room_of_one_result() {
    bench(async |bench| {
        let paths: Vec<String> = (0..20).map(|it| format!("{it}.txt")).collect();
        for path in &paths {
            bench.put(path, "some words on a line\n".repeat(5_000));
        }
        let text = bench.ok("bulk_read", json!({ "paths": paths })).await;
        assert!(text.len() <= RESULT_LIMIT_BYTES, "{}", text.len());
        assert_eq!(text.matches("(auto-windowed; pass offset/limit to page)").count(), 20, "{text}");
    });
}

#[test]
fn several_files_are_written_and_edited() {
    bench(async |bench| {
        let files = json!([{ "path": "a.txt", "content": "a\n" }, { "path": "/b", "content": "" }, { "path": "c.txt", "content": "c\n" }]);
        let answer = bench.call("bulk_write", json!({ "files": files })).await;
        let text = "wrote 2 bytes to a.txt\npath \"/b\" is absolute; only workspace-relative paths allowed\nwrote 2 bytes to c.txt";
        assert_eq!((answer.text.as_str(), answer.is_error), (text, false));
        assert_eq!(answer.meta["changes"].as_array().unwrap().len(), 2);
        let edits = json!([
            { "path": "a.txt", "edits": [{ "search": "a", "replace": "A" }] },
            { "path": "c.txt", "edits": [{ "search": "c", "replace": "C" }] },
        ]);
        let preview = bench.preview("bulk_edit", json!({ "edits": edits })).await.unwrap();
        let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n--- a/c.txt\n+++ b/c.txt\n@@ -1 +1 @@\n-c\n+C\n";
        assert_eq!((preview.diff.as_deref(), preview.paths.len()), (Some(diff), 2));
        let answer = bench.call("bulk_edit", json!({ "edits": edits })).await;
        assert_eq!(answer.text, "applied 1 edit(s) to a.txt\napplied 1 edit(s) to c.txt");
        assert_eq!(answer.meta["diff"], diff);
        let failed = bench.err("bulk_edit", json!({ "edits": edits })).await;
        assert!(failed.0.starts_with("edit \"a.txt\" failed: "), "{}", failed.0);
    });
}
