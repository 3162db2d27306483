//! The plugins as plugins: what they register, and that they leave nothing.

use linn_bus::FiberState;
use linn_bus_test::leak_check;
use linn_plugin_files::{FilesConfig, FilesPlugin};
use linn_services::fs::Fs;
use linn_services::tools::{ToolClass, Tools, ToolsPlugin};
use serde_json::json;

use crate::support::bench;

#[test]
fn the_tools_are_registered_with_their_classes() {
    bench(async |bench| {
        let tools = bench.tools.visible(None).unwrap();
        let of = |class| {
            let tools = tools.iter().filter(|it| it.class == class && it.is_parallel == (class == ToolClass::ReadOnly));
            tools.map(|it| it.name().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(ToolClass::ReadOnly), ["bulk_read", "glob", "grep", "list_dir", "read_file"]);
        let changing = ["bulk_edit", "bulk_write", "delete", "edit", "mkdir", "patch", "rename", "write_file"];
        assert_eq!(of(ToolClass::Destructive), changing);
    });
}

#[test]
fn parameters_have_the_names_that_models_know() {
    bench(async |bench| {
        for (tool, all, required) in [
            ("read_file", &["limit", "line_numbers", "offset", "path"][..], &["path"][..]),
            ("edit", &["edits", "path"], &["path", "edits"]),
            ("write_file", &["content", "path"], &["path", "content"]),
            ("rename", &["from", "to"], &["from", "to"]),
            (
                "grep",
                &[
                    "after",
                    "before",
                    "case_insensitive",
                    "context",
                    "fixed_string",
                    "glob",
                    "head_limit",
                    "invert",
                    "offset",
                    "output_mode",
                    "path",
                    "paths",
                    "pattern",
                    "type",
                    "word",
                ],
                &["pattern"],
            ),
            ("patch", &["patch", "path"], &["path", "patch"]),
        ] {
            let parameters = bench.tools.get(None, &tool.into()).unwrap().unwrap().schema.parameters.clone();
            let mut names: Vec<&String> = parameters["properties"].as_object().unwrap().keys().collect();
            names.sort();
            assert_eq!(names, all, "{tool}");
            assert_eq!(parameters["required"], json!(required), "{tool}");
        }
        let edit = bench.tools.get(None, &"edit".into()).unwrap().unwrap().schema.parameters.clone();
        let item = &edit["properties"]["edits"]["items"];
        assert_eq!(item["required"], json!(["search", "replace"]), "{edit}");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    linn_bus_test::run(async |root| {
        let folder = tempfile::tempdir().unwrap();
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        // Twice: what the first left behind would be in the way of the second. With threads of its own it is tested in
        // `threads.rs`, since the clock here does not wait for threads.
        for _ in 0..2 {
            leak_check(&root, async |ctx| {
                let mut config = FilesConfig::new(folder.path());
                config.n_threads = 0;
                let files = ctx.mount::<FilesPlugin>(config).unwrap();
                files.running().await.unwrap();
                let fs = ctx.get::<dyn Fs>().unwrap();
                assert!(fs.list("").await.unwrap().is_empty());
                files.dispose().await.unwrap();
                assert!(fs.list("").await.is_err());
            })
            .await;
            assert!(root.get::<dyn Tools>().unwrap().visible(None).unwrap().is_empty());
        }
    });
}

#[test]
fn the_tools_wait_for_their_registry() {
    linn_bus_test::run(async |root| {
        let folder = tempfile::tempdir().unwrap();
        let mut config = FilesConfig::new(folder.path());
        config.n_threads = 0;
        let files = root.mount::<FilesPlugin>(config).unwrap();
        assert_eq!(files.settled().await.unwrap(), FiberState::Active);
        assert!(root.get::<dyn Fs>().unwrap().list("").await.unwrap().is_empty());
        let tools = root.mount::<ToolsPlugin>(()).unwrap();
        tools.running().await.unwrap();
        files.settled().await.unwrap();
    });
}

#[test]
fn a_config_is_read_from_its_file_form() {
    let config: FilesConfig =
        serde_json::from_value(json!({ "workspace": "/w", "confinement": "none", "n-threads": 1 })).unwrap();
    assert!(config.read_before_write && config.n_threads == 1);
    assert_eq!(config.confinement, linn_plugin_files::Confinement::None);
    let config: FilesConfig = serde_json::from_value(json!({ "workspace": "/w", "read-before-write": false })).unwrap();
    assert!(!config.read_before_write && config.n_threads == 4);
    for wrong in [json!({}), json!({ "workspace": "/w", "threads": 1 })] {
        assert!(serde_json::from_value::<FilesConfig>(wrong).is_err());
    }
}
