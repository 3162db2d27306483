//! `delete`, `mkdir` and `rename`.

use serde_json::json;

use crate::support::bench;

#[test]
fn files_and_empty_folders_are_deleted() {
    bench(async |bench| {
        bench.put("dir/a.txt", "a");
        let full = bench.err("delete", json!({ "path": "dir" })).await;
        assert_eq!(full, ("delete \"dir\" failed: the folder is not empty".to_owned(), "FS_IO".to_owned()));
        assert_eq!(bench.ok("delete", json!({ "path": "dir/a.txt" })).await, "deleted dir/a.txt");
        assert_eq!(bench.ok("delete", json!({ "path": "dir" })).await, "deleted directory dir");
        let gone = bench.err("delete", json!({ "path": "dir" })).await;
        assert_eq!(gone.0, "delete \"dir\" failed: no such file or folder");
    });
}

#[test]
fn folders_are_made_with_those_above() {
    bench(async |bench| {
        bench.put("file", "");
        assert_eq!(bench.ok("mkdir", json!({ "path": "a/b" })).await, "created directory a/b");
        assert!(bench.path("a/b").is_dir());
        assert_eq!(bench.ok("mkdir", json!({ "path": "a/b" })).await, "created directory a/b");
        assert_eq!(bench.err("mkdir", json!({ "path": "file" })).await.1, "FS_EXISTS");
    });
}

#[test]
fn what_is_renamed_goes_where_nothing_is() {
    bench(async |bench| {
        bench.put("a.txt", "a");
        bench.put("b.txt", "b");
        let taken = bench.err("rename", json!({ "from": "a.txt", "to": "b.txt" })).await;
        assert_eq!(taken, ("rename \"a.txt\" failed: something is there already".to_owned(), "FS_EXISTS".to_owned()));
        let renamed = bench.ok("rename", json!({ "from": "a.txt", "to": "new/c.txt" })).await;
        assert_eq!((renamed.as_str(), bench.get("new/c.txt").as_str()), ("renamed a.txt → new/c.txt", "a"));
        assert_eq!(bench.ok("rename", json!({ "from": "new", "to": "old" })).await, "renamed new → old");
        assert_eq!(bench.names(""), ["b.txt", "old"]);
        let missing = bench.err("rename", json!({ "from": "none", "to": "deep/x" })).await;
        assert_eq!(missing.0, "rename \"none\" failed: no such file or folder");
        assert_eq!(bench.names(""), ["b.txt", "old"], "a move that is refused makes no folders");
        let inside = bench.err("rename", json!({ "from": "old", "to": "old/inside" })).await;
        assert_eq!(inside.0, "rename \"old\" failed: it cannot go to \"old/inside\"");
    });
}

#[test]
fn a_link_is_deleted_and_moved_itself() {
    bench(async |bench| {
        bench.put("a.txt", "a");
        bench.link("a.txt", "link");
        bench.ok("rename", json!({ "from": "link", "to": "moved" })).await;
        assert!(bench.path("moved").is_symlink());
        assert_eq!(bench.ok("delete", json!({ "path": "moved" })).await, "deleted moved");
        assert_eq!(bench.names(""), ["a.txt"]);
    });
}
