//! `edit` and `patch`.

use serde_json::json;

use crate::support::bench;

#[test]
fn r123_an_edit_with_lf_search_text_fits_a_crlf_file() {
    bench(async |bench| {
        bench.put("a.txt", "one\r\ntwo\r\nthree\r\n");
        let edit = json!({ "path": "a.txt", "edits": [{ "search": "one\ntwo", "replace": "1\n2" }] });
        assert_eq!(bench.ok("edit", edit).await, "applied 1 edit(s)");
        assert_eq!(bench.get("a.txt"), "1\r\n2\r\nthree\r\n");
        let patch = json!({ "path": "a.txt", "patch": "@@ -2,2 +2,2 @@\n 2\n-three\n+3\n" });
        assert_eq!(bench.ok("patch", patch).await, "applied patch to a.txt (13 -> 9 bytes)");
        assert_eq!(bench.get("a.txt"), "1\r\n2\r\n3\r\n");
    });
}

#[test]
fn r124_an_edit_keeps_the_byte_order_mark() {
    bench(async |bench| {
        bench.put("a.txt", "\u{feff}first\nsecond\n");
        bench.ok("edit", json!({ "path": "a.txt", "edits": [{ "search": "first", "replace": "1st" }] })).await;
        assert_eq!(bench.get("a.txt"), "\u{feff}1st\nsecond\n");
    });
}

#[test]
fn r125_an_edit_that_changes_nothing_in_the_end_is_an_error() {
    bench(async |bench| {
        bench.put("a.txt", "a\r\nb");
        let (text, code) =
            bench.err("edit", json!({ "path": "a.txt", "edits": [{ "search": "a\r\nb", "replace": "a\nb" }] })).await;
        let words =
            "edit \"a.txt\" failed: edit 1 would change nothing; its replacement is what the file holds already";
        assert_eq!((text.as_str(), code.as_str()), (words, "EDIT_FAILED"));
        assert_eq!(bench.get("a.txt"), "a\r\nb");
    });
}

#[test]
fn all_edits_are_made_or_none() {
    bench(async |bench| {
        bench.put("a.txt", "a b c\n");
        let edits = |last: &str| {
            json!({ "path": "a.txt", "edits": [
                { "search": "a", "replace": "x" },
                { "search": " ", "replace": "-", "replace_all": true },
                { "search": last, "replace": "z" },
            ] })
        };
        let failed = bench.err("edit", edits("a")).await;
        assert!(
            failed.0.starts_with("edit \"a.txt\" failed: the search text of edit 3 is not in the file"),
            "{}",
            failed.0
        );
        assert_eq!(bench.get("a.txt"), "a b c\n");
        let answer = bench.call("edit", edits("c")).await;
        assert_eq!((answer.text.as_str(), bench.get("a.txt").as_str()), ("applied 3 edit(s)", "x-b-z\n"));
        assert_eq!(answer.meta["diff"], "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a b c\n+x-b-z\n");
    });
}

#[test]
fn what_cannot_be_edited_says_why() {
    bench(async |bench| {
        bench.put("latin1", b"caf\xe9\n");
        bench.put("binary", b"a\0");
        let edit = |path: &str| json!({ "path": path, "edits": [{ "search": "a", "replace": "b" }] });
        for (path, why) in [
            ("none", "no such file or folder"),
            ("latin1", "it is no UTF-8 text: byte 3 is the first that does not fit"),
            ("binary", "it is a binary file"),
        ] {
            assert_eq!(bench.err("edit", edit(path)).await.0, format!("edit \"{path}\" failed: {why}"));
        }
        let patch = json!({ "path": "none", "patch": "@@ -1 +1 @@\n-a\n+b\n" });
        assert_eq!(bench.err("patch", patch).await.0, "patch \"none\" failed: no such file or folder");
    });
}

#[test]
fn the_mode_of_a_file_outlives_its_edits() {
    use std::os::unix::fs::PermissionsExt;

    bench(async |bench| {
        for mode in [0o755, 0o600, 0o640] {
            bench.put("run.sh", "echo one\n");
            std::fs::set_permissions(bench.path("run.sh"), std::fs::Permissions::from_mode(mode)).unwrap();
            let now = || std::fs::metadata(bench.path("run.sh")).unwrap().permissions().mode() & 0o7777;
            let edit = json!({ "path": "run.sh", "edits": [{ "search": "one", "replace": "two" }] });
            bench.ok("edit", edit).await;
            assert_eq!(now(), mode, "edit");
            bench.ok("patch", json!({ "path": "run.sh", "patch": "@@ -1 +1 @@\n-echo two\n+echo three\n" })).await;
            assert_eq!(now(), mode, "patch");
            bench.ok("write_file", json!({ "path": "run.sh", "content": "echo four\n" })).await;
            assert_eq!(now(), mode, "write_file");
            assert_eq!(bench.get("run.sh"), "echo four\n");
        }
    });
}
