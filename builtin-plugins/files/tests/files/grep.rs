//! `grep`.

use linn_services::tools::RESULT_LIMIT_BYTES;
use serde_json::json;

use crate::support::{Bench, bench};

async fn grep(bench: &Bench, arguments: serde_json::Value) -> String {
    bench.ok("grep", arguments).await
}

#[test]
fn lines_are_found_with_their_places() {
    bench(async |bench| {
        bench.put("a.txt", "one\nTwo\nthree\r\n");
        bench.put("b/c.rs", "fn two() {}\n");
        assert_eq!(grep(bench, json!({ "pattern": "t[wh]" })).await, "a.txt:3:three\nb/c.rs:1:fn two() {}");
        let both = grep(bench, json!({ "pattern": "two", "case_insensitive": true })).await;
        assert_eq!(both, "a.txt:2:Two\nb/c.rs:1:fn two() {}");
        assert_eq!(grep(bench, json!({ "pattern": "two", "path": "b" })).await, "b/c.rs:1:fn two() {}");
        assert_eq!(grep(bench, json!({ "pattern": "o", "path": "./a.txt" })).await, "a.txt:1:one\na.txt:2:Two");
        assert_eq!(grep(bench, json!({ "pattern": "two()", "fixed_string": true })).await, "b/c.rs:1:fn two() {}");
        assert_eq!(grep(bench, json!({ "pattern": "tw", "word": true })).await, "no match");
        assert_eq!(grep(bench, json!({ "pattern": "^o|e$", "invert": true, "path": "a.txt" })).await, "a.txt:2:Two");
        assert_eq!(grep(bench, json!({ "pattern": "zzz" })).await, "no match");
    });
}

#[test]
fn files_are_chosen_by_globs_and_kinds() {
    bench(async |bench| {
        for path in ["a.rs", "b.py", "src/c.rs", "src/d.txt"] {
            bench.put(path, "x\n");
        }
        let files = async |extra: serde_json::Value| {
            let mut arguments = json!({ "pattern": "x", "output_mode": "files_with_matches" });
            arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            grep(bench, arguments).await
        };
        assert_eq!(files(json!({})).await, "a.rs\nb.py\nsrc/c.rs\nsrc/d.txt");
        assert_eq!(files(json!({ "glob": "*.rs" })).await, "a.rs\nsrc/c.rs");
        assert_eq!(files(json!({ "glob": ["*.rs", "*.txt", "!src/c*"] })).await, "a.rs\nsrc/d.txt");
        assert_eq!(files(json!({ "glob": "!*.rs" })).await, "b.py\nsrc/d.txt");
        assert_eq!(files(json!({ "type": "rust" })).await, "a.rs\nsrc/c.rs");
        assert_eq!(files(json!({ "paths": ["src/d.txt", "b.py"] })).await, "src/d.txt\nb.py");
        let unknown = bench.err("grep", json!({ "pattern": "x", "type": "klingon" })).await;
        assert_eq!(unknown.1, "FS_BAD_PATTERN");
        assert!(unknown.0.contains("file type \"klingon\": it is not known"), "{}", unknown.0);
    });
}

#[test]
fn matches_are_counted_in_all_files() {
    bench(async |bench| {
        bench.put("a.txt", "x\nx\n");
        bench.put("b.txt", "x\n");
        let counts = grep(bench, json!({ "pattern": "x", "output_mode": "count" })).await;
        assert_eq!(counts, "a.txt:2\nb.txt:1\n# total: 3");
        let cut = grep(bench, json!({ "pattern": "x", "output_mode": "count", "head_limit": 1 })).await;
        assert_eq!(cut, "a.txt:2\n...[1 match cap reached; pass offset=1 to continue]\n# total: 3");
    });
}

#[test]
fn matches_come_in_pages() {
    bench(async |bench| {
        bench.put("a.txt", (1..=30).map(|it| format!("x{it}\n")).collect::<String>());
        bench.put("b.txt", (1..=30).map(|it| format!("x{it}\n")).collect::<String>());
        let first = grep(bench, json!({ "pattern": "x" })).await;
        assert_eq!(first.lines().count(), 51);
        assert!(first.ends_with("b.txt:20:x20\n...[50 match cap reached; pass offset=50 to continue]"), "{first}");
        let second = grep(bench, json!({ "pattern": "x", "offset": 50 })).await;
        assert!(second.starts_with("b.txt:21:x21\n") && second.ends_with("\nb.txt:30:x30"), "{second}");
        let exact = grep(bench, json!({ "pattern": "x", "head_limit": 60 })).await;
        assert_eq!(exact.lines().count(), 60, "a page that is just full needs no marker");
        let files = grep(bench, json!({ "pattern": "x", "output_mode": "files_with_matches", "head_limit": 1 })).await;
        assert_eq!(files, "a.txt\n...[1 match cap reached; pass offset=1 to continue]");
        let next = grep(bench, json!({ "pattern": "x", "output_mode": "files_with_matches", "offset": 1 })).await;
        assert_eq!(next, "b.txt");
        assert_eq!(grep(bench, json!({ "pattern": "x", "offset": 60 })).await, "");
    });
}

#[test]
fn lines_around_a_match_are_shown_on_request() {
    bench(async |bench| {
        bench.put("a.txt", "1\n2\nx3\n4\n5\n6\n7\nx8\n9\n");
        bench.put("b.txt", "x\n");
        let around = grep(bench, json!({ "pattern": "x", "context": 1 })).await;
        let expected = "a.txt-2-2\na.txt:3:x3\na.txt-4-4\n--\na.txt-7-7\na.txt:8:x8\na.txt-9-9\n--\nb.txt:1:x";
        assert_eq!(around, expected);
        let after = grep(bench, json!({ "pattern": "x3", "after": 2, "before": 0, "context": 5 })).await;
        assert_eq!(after, "a.txt:3:x3\na.txt-4-4\na.txt-5-5");
        let second = grep(bench, json!({ "pattern": "x", "before": 1, "offset": 1, "head_limit": 1 })).await;
        assert_eq!(second, "a.txt-7-7\na.txt:8:x8\n...[1 match cap reached; pass offset=2 to continue]");
    });
}

#[test]
fn files_that_are_no_text_are_left_out() {
    bench(async |bench| {
        bench.put("a.bin", b"x\n\0\n");
        bench.put("late.bin", [&b"x\n"[..], &b"y\n".repeat(50_000), b"\0"].concat());
        bench.put("latin1", b"x caf\xe9\n");
        assert_eq!(grep(bench, json!({ "pattern": "x" })).await, "latin1:1:x caf\u{fffd}");
    });
}

#[test]
fn long_lines_and_large_results_are_cut() {
    bench(async |bench| {
        bench.put("min.js", format!("x{}\n", "\u{4e2d}".repeat(10_000)));
        let line = grep(bench, json!({ "pattern": "x" })).await;
        let text = "\u{4e2d}".repeat(166);
        assert_eq!(line, format!("min.js:1:x{text} ...[29502 more bytes]"));
        bench.put("many.txt", format!("y{}\n", "z".repeat(450)).repeat(200));
        let many = grep(bench, json!({ "pattern": "y", "head_limit": 200 })).await;
        assert!(many.len() <= RESULT_LIMIT_BYTES);
        let shown = many.lines().count() - 1;
        let marker = format!("...[{shown} match cap reached; pass offset={shown} to continue]");
        assert!(many.ends_with(&marker), "{}", &many[many.len() - 80..]);
    });
}

#[test]
fn a_pattern_that_cannot_be_understood_says_why() {
    bench(async |bench| {
        let (text, code) = bench.err("grep", json!({ "pattern": "a(" })).await;
        assert!(text.starts_with("grep \"a(\" failed: regular expression \"a(\": "), "{text}");
        assert_eq!(code, "FS_BAD_PATTERN");
        assert_eq!(bench.err("grep", json!({ "pattern": "a", "path": "none" })).await.1, "FS_NOT_FOUND");
        assert_eq!(bench.err("grep", json!({ "pattern": "a", "glob": "{a" })).await.1, "FS_BAD_PATTERN");
    });
}
