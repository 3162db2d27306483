//! Nothing leads out of the workspace.

use std::sync::atomic::{AtomicBool, Ordering};

use linn_bus_test::TestRuntime;
use linn_plugin_files::{Confinement, FsPlugin};
use linn_services::fs::{FsError, FsKind, FsWriteIntent};
use rustix::fs::{CWD, RenameFlags};
use serde_json::json;

use crate::support::{Bench, bench, bench_on, bench_with};

/// Every tool that takes a path, with `path` as that.
fn every_tool(path: &str) -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("read_file", json!({ "path": path })),
        ("write_file", json!({ "path": path, "content": "x" })),
        ("edit", json!({ "path": path, "edits": [{ "search": "a", "replace": "b" }] })),
        ("patch", json!({ "path": path, "patch": "@@ -1 +1 @@\n-a\n+b\n" })),
        ("delete", json!({ "path": path })),
        ("mkdir", json!({ "path": path })),
        ("rename", json!({ "from": path, "to": "new" })),
        ("rename", json!({ "from": "a.txt", "to": path })),
        ("list_dir", json!({ "path": path })),
        ("grep", json!({ "pattern": "a", "path": path })),
        ("grep", json!({ "pattern": "a", "paths": ["a.txt", path] })),
    ]
}

/// All tools refuse `path` with `words`, and nothing changes outside.
async fn assert_refused(bench: &Bench, path: &str, words: &str, code: &str) {
    let before = bench.names_outside();
    for (tool, arguments) in every_tool(path) {
        let (text, found) = bench.err(tool, arguments).await;
        assert_eq!((text.as_str(), found.as_str()), (words, code), "{tool}");
    }
    assert_eq!(bench.names_outside(), before);
}

#[test]
fn absolute_paths_and_paths_that_go_up_are_refused_by_all_tools() {
    bench(async |bench| {
        bench.put("a.txt", "a\n");
        bench.put("dir/b.txt", "a\n");
        let absolute = "path \"/etc/hosts\" is absolute; only workspace-relative paths allowed";
        assert_refused(bench, "/etc/hosts", absolute, "FS_ABSOLUTE").await;
        for path in ["../x", "dir/../../x", "dir/.."] {
            let words = format!("path \"{path}\" contains '..'; workspace escape denied");
            assert_refused(bench, path, &words, "FS_UPWARDS").await;
        }
        for pattern in ["/etc/*", "../*", "dir/../*.txt"] {
            let (text, _) = bench.err("glob", json!({ "pattern": pattern })).await;
            assert!(text.starts_with(&format!("path \"{pattern}\" ")), "{text}");
        }
        assert_eq!(bench.get("a.txt"), "a\n");
    });
}

#[test]
fn r085_a_link_to_a_folder_outside_is_refused_with_where_it_leads() {
    bench(async |bench| {
        std::fs::write(bench.outside("y.txt"), "secret a\n").unwrap();
        bench.put("a.txt", "a\n");
        bench.link(bench.outside(""), "box");
        for name in ["x.txt", "y.txt"] {
            let path = format!("box/{name}");
            let to = std::fs::canonicalize(bench.outside("")).unwrap().join(name);
            let words = format!("path \"{path}\" resolves outside the workspace (to {})", to.display());
            assert_refused(bench, &path, &words, "FS_OUTSIDE").await;
        }
        let (text, code) = bench.err("list_dir", json!({ "path": "box" })).await;
        assert_eq!(code, "FS_OUTSIDE", "{text}");
        let (_, code) = bench.err("glob", json!({ "pattern": "box/*" })).await;
        assert_eq!(code, "FS_OUTSIDE");
        assert_eq!(bench.ok("grep", json!({ "pattern": "secret" })).await, "no match");
        assert_eq!(bench.ok("glob", json!({ "pattern": "**/*.txt" })).await, "a.txt");
        assert_eq!(std::fs::read_to_string(bench.outside("y.txt")).unwrap(), "secret a\n");
        // The link itself is in the workspace.
        assert_eq!(bench.ok("delete", json!({ "path": "box" })).await, "deleted box");
        assert_eq!(bench.names_outside(), ["y.txt"]);
    });
}

#[test]
fn r086_a_link_to_what_is_not_there_outside_is_refused() {
    bench(async |bench| {
        bench.link(bench.outside("not-yet.txt"), "draft.txt");
        let (text, code) = bench.err("write_file", json!({ "path": "draft.txt", "content": "x" })).await;
        assert!(
            text.contains("resolves outside the workspace (to ") && text.ends_with("ws-other/not-yet.txt)"),
            "{text}"
        );
        assert_eq!(code, "FS_OUTSIDE");
        assert!(bench.names_outside().is_empty());
    });
}

#[test]
fn r087_a_link_in_the_middle_is_refused_where_folders_are_missing_behind_it() {
    bench(async |bench| {
        bench.link(bench.outside(""), "link");
        for (tool, arguments) in [
            ("write_file", json!({ "path": "link/newdir/file.txt", "content": "x" })),
            ("mkdir", json!({ "path": "link/newdir" })),
        ] {
            let (_, code) = bench.err(tool, arguments).await;
            assert_eq!(code, "FS_OUTSIDE");
        }
        assert!(bench.names_outside().is_empty());
    });
}

#[test]
fn r088_going_up_from_what_is_not_there_and_a_sibling_with_the_same_prefix_are_refused() {
    bench(async |bench| {
        let up = json!({ "path": "none/../../ws-other/x", "content": "x" });
        assert_eq!(bench.err("write_file", up).await.1, "FS_UPWARDS");
        let sibling = json!({ "path": bench.outside("x"), "content": "x" });
        assert_eq!(bench.err("write_file", sibling).await.1, "FS_ABSOLUTE");
        bench.link("../ws-other", "sibling");
        let by_link = json!({ "path": "sibling/x", "content": "x" });
        assert_eq!(bench.err("write_file", by_link).await.1, "FS_OUTSIDE");
        assert!(bench.names_outside().is_empty());
    });
}

#[test]
fn r089_nothing_is_moved_out_or_in() {
    bench(async |bench| {
        bench.put("a.txt", "a\n");
        std::fs::write(bench.outside("y.txt"), "y").unwrap();
        bench.link(bench.outside(""), "box");
        let out = json!({ "from": "a.txt", "to": "box/a.txt" });
        assert_eq!(bench.err("rename", out).await.1, "FS_OUTSIDE");
        let into = json!({ "from": "box/y.txt", "to": "b.txt" });
        assert_eq!(bench.err("rename", into).await.1, "FS_OUTSIDE");
        let patch =
            "--- a/a.txt\n+++ b/../ws-other/z\nrename from a.txt\nrename to ../ws-other/z\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(bench.err("patch", json!({ "path": "a.txt", "patch": patch })).await.1, "PATCH_FAILED");
        let patch = "diff --git a/a.txt b/../ws-other/z\nrename from a.txt\nrename to ../ws-other/z\n";
        assert_eq!(bench.err("patch", json!({ "path": "a.txt", "patch": patch })).await.1, "PATCH_FAILED");
        assert_eq!(bench.names_outside(), ["y.txt"]);
        assert_eq!(bench.names(""), ["a.txt", "box"]);
    });
}

/// How often the link is written through.
const N_WRITES: usize = 2_000;

/// How often at most, until one went well and one did not.
const MOST_WRITES: usize = 100_000;

#[test]
fn r090_a_link_that_is_swapped_between_check_and_use_leads_nowhere() {
    // All writes are one step, and each waits for the disk.
    bench_on(&TestRuntime::unwatched(), |_| {}, race_of_r090);
}

async fn race_of_r090(bench: &Bench) {
    std::fs::create_dir(bench.path("d")).unwrap();
    bench.link(bench.outside(""), "other");
    let (place, other) = (bench.path("d"), bench.path("other"));
    // In one step, or a write would find nothing there and make a folder.
    let swap = || rustix::fs::renameat_with(CWD, &place, CWD, &other, RenameFlags::EXCHANGE).unwrap();
    let is_over = AtomicBool::new(false);
    let (n_written, n_refused, n_swaps) = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut n_swaps = 0;
            while !is_over.load(Ordering::Relaxed) {
                swap();
                n_swaps += 1;
            }
            n_swaps
        });
        let writes = async {
            let (mut n_written, mut n_refused) = (0, 0);
            // On a busy machine the other thread may sleep through all of them.
            while n_written + n_refused < N_WRITES
                || (n_written.min(n_refused) == 0 && n_written + n_refused < MOST_WRITES)
            {
                match bench.fs.write("d/x", b"in", FsWriteIntent::Unconditional).await {
                    Ok(_) => n_written += 1,
                    Err(_) => n_refused += 1,
                }
            }
            (n_written, n_refused)
        };
        // Without threads of its own the service is ready whenever it is asked.
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let counts = std::pin::pin!(writes).poll(&mut cx);
        is_over.store(true, Ordering::Relaxed);
        let n_swaps = swapper.join().unwrap();
        let std::task::Poll::Ready((n_written, n_refused)) = counts else { panic!("it waited") };
        (n_written, n_refused, n_swaps)
    });
    if bench.path("d").is_symlink() {
        swap();
    }
    assert!(bench.names_outside().is_empty(), "{:?}", bench.names_outside());
    assert!(n_swaps > 0 && n_refused > 0 && n_written > 0, "{n_swaps} swaps, {n_written} written, {n_refused} refused");
    assert_eq!(bench.names("d"), ["x"], "nothing half written is left");
}

#[test]
fn links_that_stay_inside_are_followed() {
    bench(async |bench| {
        bench.put("real/a.txt", "a\n");
        bench.link("real", "alias");
        bench.link(bench.path("real/a.txt"), "absolute.txt");
        bench.link("real/later.txt", "dangling.txt");
        assert_eq!(bench.ok("read_file", json!({ "path": "alias/a.txt" })).await, "a\n");
        assert_eq!(bench.ok("read_file", json!({ "path": "absolute.txt" })).await, "a\n");
        bench.ok("write_file", json!({ "path": "absolute.txt", "content": "b\n" })).await;
        bench.ok("write_file", json!({ "path": "dangling.txt", "content": "c\n" })).await;
        assert_eq!((bench.get("real/a.txt"), bench.get("real/later.txt")), ("b\n".to_owned(), "c\n".to_owned()));
        assert!(bench.path("absolute.txt").is_symlink(), "a link that is written through stays one");
        let [by_name, by_link] = [bench.fs.resolve("real/a.txt").await, bench.fs.resolve("alias/a.txt").await];
        assert_eq!(by_name, by_link, "one file has one key");
    });
}

#[test]
fn links_that_lead_to_themselves_end() {
    bench(async |bench| {
        bench.link("b", "a");
        bench.link("a", "b");
        let (text, code) = bench.err("read_file", json!({ "path": "a" })).await;
        assert_eq!(
            (text.as_str(), code.as_str()),
            ("read_file \"a\" failed: it leads through more than 40 links", "FS_IO")
        );
    });
}

#[test]
fn the_workspace_itself_stays() {
    bench(async |bench| {
        for path in ["", ".", "./"] {
            assert_eq!(bench.err("delete", json!({ "path": path })).await.1, "FS_WRONG_KIND");
            assert_eq!(bench.err("rename", json!({ "from": path, "to": "x" })).await.1, "FS_WRONG_KIND");
            assert_eq!(bench.err("write_file", json!({ "path": path, "content": "" })).await.1, "FS_WRONG_KIND");
        }
        let nul = bench.err("read_file", json!({ "path": "a\0b" })).await;
        assert_eq!(nul.0, "read_file \"a\0b\" failed: it holds a NUL byte");
    });
}

#[test]
fn without_confinement_every_path_leads_somewhere() {
    bench_with(
        |config| {
            config.confinement = Confinement::None;
            config.read_before_write = false;
        },
        async |bench| {
            std::fs::write(bench.outside("y.txt"), "y\n").unwrap();
            assert_eq!(bench.ok("read_file", json!({ "path": "../ws-other/y.txt" })).await, "y\n");
            assert_eq!(bench.ok("read_file", json!({ "path": bench.outside("y.txt") })).await, "y\n");
            let new = bench.outside("deep/x.txt");
            bench.ok("write_file", json!({ "path": new, "content": "x" })).await;
            bench.ok("write_file", json!({ "path": "z.txt", "content": "z" })).await;
            assert_eq!(
                (bench.names_outside(), bench.names("")),
                (vec!["deep".into(), "y.txt".into()], vec!["z.txt".into()])
            );
            let found = bench.ok("grep", json!({ "pattern": "[yz]", "paths": [".", "../ws-other"] })).await;
            assert_eq!(found, "z.txt:1:z\n../ws-other/y.txt:1:y");
            assert_eq!(bench.fs.resolve("z.txt").await.unwrap().display_path, "z.txt");
        },
    );
}

#[test]
fn a_workspace_that_cannot_be_used_is_told_at_the_start() {
    linn_bus_test::run(async |root| {
        let start = async |path: &str| {
            let mounted = root.mount::<FsPlugin>(linn_plugin_files::FsConfig::new(path)).unwrap();
            format!("{:#}", mounted.running().await.unwrap_err())
        };
        let missing = start("/does/not/exist").await;
        assert!(missing.contains("the workspace \"/does/not/exist\" cannot be opened: "), "{missing}");
        let relative = start("some/folder").await;
        assert!(relative.contains("an absolute path to a folder, and \"some/folder\" is not absolute"), "{relative}");
    });
}

#[test]
fn pipes_are_not_waited_for() {
    bench(async |bench| {
        rustix::fs::mknodat(
            CWD,
            bench.path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let words = "read_file \"pipe\" failed: it is a pipe, socket or device, not a file";
        assert_eq!(bench.err("read_file", json!({ "path": "pipe" })).await.0, words);
        assert_eq!(bench.err("write_file", json!({ "path": "pipe", "content": "" })).await.1, "FS_WRONG_KIND");
        assert_eq!(bench.err("grep", json!({ "pattern": "a", "path": "pipe" })).await.1, "FS_WRONG_KIND");
        assert_eq!(bench.ok("grep", json!({ "pattern": "a" })).await, "no match");
        assert_eq!(bench.fs.metadata("pipe").await.unwrap().unwrap().kind, FsKind::Other);
        let wrong = bench.fs.read("pipe", 10).await.unwrap_err();
        assert!(matches!(wrong, FsError::WrongKind { .. }), "{wrong}");
    });
}
