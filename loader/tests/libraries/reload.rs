//! New versions in the place of old ones.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linn_bus::Next;
use linn_loader::{LoaderSettings, Reloaded, Watching};
use linn_services::events::{HmrReload, ToolsExecute};
use tokio::sync::{Notify, mpsc};

use crate::support::{Edits, FROM_THOUSAND, World, library, tree};

/// A version whose tool takes its time.
const SLOW: Edits<'_> = &[
    (
        "async move { Ok",
        "let ctx = slow.clone();\n            async move { ctx.sleep(std::time::Duration::from_millis(200)).await.map_err(Fault::from)?; Ok",
    ),
    ("let count = ", "let slow = ctx.clone();\n        let count = "),
];

const FAILING: Edits<'_> =
    &[("tools.register", "if true { return Err(Fault::msg(\"not today\")); }\n        tools.register")];

#[tokio::test]
async fn r066_hm_01_a_library_built_anew_at_the_same_name_is_the_one_that_runs() {
    let (one, two) = (library("word-count", &[]), library("word-count", FROM_THOUSAND));
    let world = World::new(&[("word-count", &one)]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    world.root.on(move |it: &HmrReload| log.lock().unwrap().extend(it.plugins.clone())).unwrap();
    world.mount_all(&[("word-count", "")]).await;
    let before = world.loader.entry("word-count").await.unwrap();
    assert_eq!(world.count("a b c").await, "3");
    assert!(matches!(world.loader.reload(&world.path("word-count")).await.unwrap(), Reloaded::Unchanged));

    world.replace("word-count", &two);
    let Reloaded::Switched { entries, .. } = world.loader.reload(&world.path("word-count")).await.unwrap() else {
        panic!("it was not switched");
    };
    assert_eq!(entries, ["word-count"]);
    assert_eq!(world.count("a b c").await, "1003");
    assert_eq!(*told.lock().unwrap(), [("word-count".to_owned(), world.path("word-count"))]);
    assert_eq!(world.loader.n_pinned().await, 1);
    let after = world.loader.entry("word-count").await.unwrap();
    assert_eq!((before.place(), before.id()), (after.place(), None));
    // A change of the config finds the new version.
    world.mount_all(&[("word-count", "ignore = ['a']")]).await;
    assert_eq!(world.count("a b c").await, "1002");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_flight_ends_on_the_old_version_while_new_ones_use_the_new() {
    let world = Arc::new(World::new(&[("word-count", &library("word-count", SLOW))]).await);
    world.mount_all(&[("word-count", "")]).await;
    let begun = Arc::new(Notify::new());
    let notify = begun.clone();
    let listener = linn_bus::listener!(async move |_: &ToolsExecute, next: Next<'_, ToolsExecute>| {
        notify.notify_one();
        next.run().await
    });
    world.root.on(listener).unwrap();
    let caller = world.clone();
    let call = tokio::spawn(async move { caller.count("a b c").await });
    begun.notified().await;
    world.replace("word-count", &library("word-count", FROM_THOUSAND));
    world.loader.reload(&world.path("word-count")).await.unwrap();
    assert_eq!(world.count("a b c").await, "1003");
    assert_eq!(call.await.unwrap(), "3");
    world.root.fiber().dispose().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_inside_a_waterfall_ends_on_the_old_version() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let (asked, mut questions) = mpsc::unbounded_channel();
    let (answer, answering) = std::sync::mpsc::channel::<&'static str>();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut name = String::new();
        stream.read_to_string(&mut name).unwrap();
        asked.send(name).unwrap();
        stream.write_all(answering.recv().unwrap().as_bytes()).unwrap();
    });
    let without_server: Edits<'_> = &[("!self.config.server.is_empty()", "false && !self.config.server.is_empty()")];
    let libraries = [("patience", library("patience", &[])), ("word-count", library("word-count", &[]))];
    let world = World::new(&libraries.each_ref().map(|(name, path)| (*name, path.as_path()))).await;
    let world = Arc::new(world);
    world.mount_all(&[("patience", &format!("server = '{address}'")), ("word-count", "")]).await;
    let caller = world.clone();
    let call = tokio::spawn(async move { caller.count("a b c").await });
    assert_eq!(questions.recv().await.unwrap(), "count_words");
    world.replace("patience", &library("patience", without_server));
    world.loader.reload(&world.path("patience")).await.unwrap();
    // The new version asks nobody; the old one has its answer still to come.
    assert_eq!(world.count("a b").await, "2");
    answer.send("ok").unwrap();
    assert_eq!(call.await.unwrap(), "3");
    serving.join().unwrap();
    world.root.fiber().dispose().await.unwrap();
}

#[tokio::test]
async fn hm_04_hm_08_a_version_that_does_not_load_or_start_leaves_the_old_one_running() {
    let world = World::new(&[("word-count", &library("word-count", &[]))]).await;
    world.mount_all(&[("word-count", "ignore = ['a']")]).await;
    let path = world.path("word-count");

    std::fs::write(&path, "half a librar").unwrap();
    assert_eq!(world.loader.reload(&path).await.unwrap_err().code(), "LIBRARY_NONE");
    assert_eq!(world.count("a b").await, "1");

    world.replace("word-count", &library("word-count", FAILING));
    let error = world.loader.reload(&path).await.unwrap_err();
    assert_eq!(error.code(), "START_FAILED");
    assert!(error.to_string().contains("not today"), "{error}");
    assert_eq!(world.count("a b").await, "1");

    let other_config: Edits<'_> =
        &[("ignore: Vec<String>", "ignored: Vec<String>"), ("config.ignore", "config.ignored")];
    world.replace("word-count", &library("word-count", other_config));
    let error = world.loader.reload(&path).await.unwrap_err();
    assert_eq!(error.code(), "ENTRY_UNKNOWN_KEY");
    assert_eq!(world.count("a b").await, "1");

    let renamed: Edits<'_> = &[("\"word-count\"", "\"words\"")];
    world.replace("word-count", &library("word-count", renamed));
    assert_eq!(world.loader.reload(&path).await.unwrap_err().code(), "ENTRY_PLUGIN_GONE");
    assert_eq!(world.count("a b").await, "1");

    world.replace("word-count", &library("word-count", FROM_THOUSAND));
    world.loader.reload(&path).await.unwrap();
    assert_eq!(world.count("a b").await, "1001");
    world.end().await;
}

#[tokio::test]
async fn at_the_cap_a_reload_is_refused_and_the_old_version_runs_on() {
    let (one, two) = (library("word-count", &[]), library("word-count", FROM_THOUSAND));
    let settings = LoaderSettings { max_pinned: 1, ..LoaderSettings::default() };
    let world = World::with(&[("word-count", &one)], settings, false).await;
    world.mount_all(&[("word-count", "")]).await;
    world.replace("word-count", &two);
    world.loader.reload(&world.path("word-count")).await.unwrap();
    world.replace("word-count", &one);
    let error = world.loader.reload(&world.path("word-count")).await.unwrap_err();
    assert_eq!(error.code(), "LIBRARY_TOO_MANY_PINNED");
    assert!(error.to_string().contains("1 replaced libraries stay in memory, and 1 may; restart"), "{error}");
    assert_eq!(world.count("a b").await, "1002");
    world.end().await;
}

/// Threads and open files of this process.
#[cfg(target_os = "linux")]
fn threads_and_files() -> (usize, usize) {
    let entries = |of: &str| std::fs::read_dir(of).unwrap().count();
    (entries("/proc/self/task"), entries("/proc/self/fd"))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn reloads_leave_nothing_behind_but_images() {
    let versions = [library("word-count", &[]), library("word-count", FROM_THOUSAND)];
    let world = World::new(&[("word-count", &versions[0])]).await;
    world.mount_all(&[("word-count", "")]).await;
    world.count("a").await;
    let inspected = |world: &World| {
        let all = world.root.inspect();
        let listeners: usize = all.events.iter().map(|it| it.listeners.len()).sum();
        (all.fibers.len(), all.services.len(), listeners)
    };
    let before = inspected(&world);
    let n_reloads = 24;
    for round in 1..=n_reloads {
        let old = world.loader.entry("word-count").await.unwrap();
        world.replace("word-count", &versions[round % 2]);
        world.loader.reload(&world.path("word-count")).await.unwrap();
        old.dispose().await.unwrap();
        assert_eq!(world.count("a").await, if round % 2 == 1 { "1001" } else { "1" });
    }
    // The task that lets go of an image ends after the fiber; other tests come and go beside this one.
    assert_eq!(inspected(&world), before);
    assert_eq!(world.loader.n_pinned().await, n_reloads);
    let (threads, files) = threads_and_files();
    assert!(threads < 64 && files < 256, "{threads} threads, {files} files");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hm_05_hm_06_files_that_change_are_loaded_and_applied() {
    let (one, two) = (library("word-count", &[]), library("word-count", FROM_THOUSAND));
    let world = World::new(&[("word-count", &one)]).await;
    world.mount_all(&[("word-count", "")]).await;
    let config = world.folder.path().join("linn.toml");
    std::fs::write(&config, "ignore = ['a']").unwrap();
    let read = config.clone();
    let watching = Watching {
        debounce: Duration::from_millis(20),
        ..Watching::new(vec![config.clone()], move || {
            let text = std::fs::read_to_string(&read).unwrap_or_default();
            tree(&[("word-count", text.as_str())])
        })
    };
    world.loader.watch(watching).await.unwrap();
    let (sender, mut reloads) = mpsc::unbounded_channel();
    world.root.on(move |it: &HmrReload| sender.send(it.plugins.len()).unwrap_or_default()).unwrap();
    // Two builds in a row are one reload, of the last.
    world.replace("word-count", &two);
    world.replace("word-count", &one);
    world.replace("word-count", &two);
    assert_eq!(reloads.recv().await, Some(1));
    assert_eq!(world.count("a b").await, "1002");
    let fiber = world.loader.entry("word-count").await.unwrap();
    let (sender, mut updates) = mpsc::unbounded_channel();
    let watched = fiber.clone();
    let status = move |it: &linn_bus::InternalStatus| {
        if it.fiber == watched && it.fiber.state() == linn_bus::FiberState::Active {
            sender.send(()).unwrap_or_default();
        }
    };
    world.root.on(status).unwrap();
    std::fs::write(&config, "ignore = ['b', 'a']").unwrap();
    updates.recv().await.unwrap();
    assert_eq!(world.count("a b").await, "1000");
    world.end().await;
}
