//! `list_dir` and `glob`.

use serde_json::json;

use crate::support::bench;

#[test]
fn a_folder_is_listed_by_name() {
    bench(async |bench| {
        for path in ["b.txt", "a/x", ".hidden", "c-d"] {
            bench.put(path, "");
        }
        bench.link("a", "link");
        for path in [".", ""] {
            assert_eq!(bench.ok("list_dir", json!({ "path": path })).await, ".hidden\na/\nb.txt\nc-d\nlink");
        }
        assert_eq!(bench.ok("list_dir", json!({ "path": "link" })).await, "x");
        let (text, code) = bench.err("list_dir", json!({ "path": "b.txt" })).await;
        assert_eq!(code, "FS_WRONG_KIND", "{text}");
        assert_eq!(bench.err("list_dir", json!({ "path": "none" })).await.1, "FS_NOT_FOUND");
    });
}

#[test]
fn a_long_list_says_that_there_is_more() {
    bench(async |bench| {
        for n in 0..1_001 {
            bench.put(&format!("{n:04}"), "");
        }
        let list = bench.ok("list_dir", json!({ "path": "." })).await;
        assert_eq!(list.lines().count(), 1_001);
        assert!(list.ends_with("0999\n...[1000 of 1001 entries shown; glob finds others by their names]"));
        let found = bench.ok("glob", json!({ "pattern": "*" })).await;
        assert_eq!(found.lines().count(), 201);
        assert!(found.ends_with("0199\n...[200 result cap reached]"));
    });
}

#[test]
fn files_are_found_by_their_paths() {
    bench(async |bench| {
        for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/c.txt", "src-gen/d.rs", ".github/ci.yml", ".git/x.rs"] {
            bench.put(path, "");
        }
        let glob = async |pattern: &str| bench.ok("glob", json!({ "pattern": pattern })).await;
        assert_eq!(glob("*.rs").await, "a.rs\nsrc-gen/d.rs\nsrc/b.rs\nsrc/deep/c.rs");
        assert_eq!(glob("./*.rs").await, "a.rs");
        assert_eq!(glob("src/*.rs").await, "src/b.rs");
        assert_eq!(glob("src/**/*.{rs,txt}").await, "src/b.rs\nsrc/c.txt\nsrc/deep/c.rs");
        assert_eq!(glob("**/*.yml").await, ".github/ci.yml");
        assert_eq!(glob("src/b.rs").await, "src/b.rs");
        assert_eq!(glob("none/*").await, "no file fits");
        let (text, code) = bench.err("glob", json!({ "pattern": "a[" })).await;
        assert_eq!(code, "FS_BAD_PATTERN");
        assert!(text.starts_with("glob \"a[\" failed: glob pattern \"a[\": "), "{text}");
    });
}

#[test]
fn files_that_ignore_files_name_are_left_out() {
    bench(async |bench| {
        bench.put(".gitignore", "/target\n*.log\n!keep.log\n");
        bench.put("src/.ignore", "secret/\n");
        bench.put(".git/info/exclude", "notes.txt\n");
        for path in ["target/x.rs", "a.log", "keep.log", "src/a.rs", "src/secret/b.rs", "src/target/c.rs", "notes.txt"]
        {
            bench.put(path, "needle");
        }
        let found = "keep.log\nsrc/a.rs\nsrc/target/c.rs";
        assert_eq!(bench.ok("glob", json!({ "pattern": "[!.]*" })).await, found);
        let grep = bench.ok("grep", json!({ "pattern": "needle", "output_mode": "files_with_matches" })).await;
        assert_eq!(grep, found);
        let below =
            bench.ok("grep", json!({ "pattern": "needle", "path": "src", "output_mode": "files_with_matches" })).await;
        assert_eq!(below, "src/a.rs\nsrc/target/c.rs", "what the folders above say holds");
        assert_eq!(
            bench.ok("glob", json!({ "pattern": "target/*" })).await,
            "target/x.rs",
            "a folder that is named is looked into"
        );
        let named = bench.ok("grep", json!({ "pattern": "needle", "path": "a.log" })).await;
        assert_eq!(named, "a.log:1:needle");
    });
}
