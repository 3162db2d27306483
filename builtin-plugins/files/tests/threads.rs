//! The threads of the plugin end with it. Alone in its process, so that it can count them.

use linn_plugin_files::{FsConfig, FsPlugin};
use linn_services::fs::Fs;

#[test]
fn threads_end_with_the_plugin() {
    let runtime = linn_bus_test::TestRuntime::new();
    let root = runtime.root();
    // Threads of the system do not know this clock, and may take their time.
    runtime.hold_clock();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let config = FsConfig { n_threads: 3, ..FsConfig::new(folder.path()) };
        let mounted = root.mount::<FsPlugin>(config).unwrap();
        mounted.running().await.unwrap();
        root.get::<dyn Fs>().unwrap().list("").await.unwrap();
        if cfg!(target_os = "linux") {
            until(3);
        }
        mounted.dispose().await.unwrap();
        until(0);
    });
}

/// Waits until the system shows so many of them: a thread takes its name when it runs, and is shown a moment longer than it
/// can be waited for.
fn until(n: usize) {
    for _ in 0..1_000_000 {
        if n_threads() == n {
            return;
        }
        std::thread::yield_now();
    }
    panic!("there are {} threads and not {n}", n_threads());
}

/// How many threads of this process have the name that the plugin gives.
fn n_threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names = tasks.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
    names.filter(|it| it.starts_with("linn-files")).count()
}
