//! The threads of the plugin end with it. Alone in its process, so that it can count them.

use linn_plugin_files::{FsConfig, FsPlugin};
use linn_services::fs::Fs;

#[test]
fn threads_end_with_the_plugin() {
    linn_bus_test::run(async |root| {
        let folder = tempfile::tempdir().unwrap();
        let config = FsConfig { n_threads: 3, ..FsConfig::new(folder.path()) };
        let mounted = root.mount::<FsPlugin>(config).unwrap();
        mounted.running().await.unwrap();
        root.get::<dyn Fs>().unwrap().list("").await.unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(n_threads(), 3);
        }
        mounted.dispose().await.unwrap();
        assert_eq!(n_threads(), 0);
    });
}

/// How many threads of this process have the name that the plugin gives.
fn n_threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names = tasks.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
    names.filter(|it| it.starts_with("linn-files")).count()
}
