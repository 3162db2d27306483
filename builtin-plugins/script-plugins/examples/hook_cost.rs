//! What script plugins cost: `cargo run --release -p linn-plugin-script-plugins --example hook_cost`.
//!
//! It prints how much longer a harness with 50 idle plugins takes to start than one without, and how much CPU time of the
//! harness itself one run of a hook takes, beside that of the script.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on panics")]
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use linn_bus::{Root, TokioRuntime};
use linn_plugin_script_plugins::{ScriptPluginsConfig, ScriptPluginsPlugin};
use linn_services::tools::{Tool, ToolExecutionInput, ToolFailure, Tools, ToolsPlugin};
use serde_json::{Map, Value, json};

/// How many plugins are there.
const N_PLUGINS: usize = 50;

/// How often a hook is run.
const N_RUNS: u32 = 400;

/// How often a start is measured; the fastest counts.
const N_STARTS: usize = 10;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for n in 0..N_PLUGINS {
        plugin(full.path(), &format!("idle-{n:02}"), "post_write");
    }
    let without = runtime.block_on(start_time(empty.path()));
    let with = runtime.block_on(start_time(full.path()));
    println!(
        "start without plugins: {without:?}; with {N_PLUGINS} idle plugins: {with:?}; more: {:?}",
        with.saturating_sub(without)
    );
    plugin(empty.path(), "hooked", "pre_tool");
    let cost = runtime.block_on(run_cost(empty.path()));
    println!("CPU of the harness for one run of a hook: {cost:?}");
}

fn plugin(home: &Path, name: &str, point: &str) {
    let folder = home.join(".catalyst-code/plugins").join(name);
    fs::create_dir_all(&folder).unwrap();
    let manifest = json!({ "name": name, "version": "1", "hooks": { point: { "script": "hook.sh" } } });
    fs::write(folder.join("plugin.json"), manifest.to_string()).unwrap();
    let script = folder.join("hook.sh");
    fs::write(&script, "echo '{\"allow\":true}'\n").unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
}

fn config(home: &Path) -> ScriptPluginsConfig {
    let path = std::env::var("PATH").unwrap();
    let environment = BTreeMap::from([("PATH".to_owned(), path), ("HOME".to_owned(), home.display().to_string())]);
    ScriptPluginsConfig { environment: Some(environment), ..ScriptPluginsConfig::default() }
}

async fn start_time(home: &Path) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..N_STARTS {
        let root = Root::new(TokioRuntime::seams());
        let before = root.clock().monotonic();
        root.mount::<ScriptPluginsPlugin>(config(home)).unwrap().running().await.unwrap();
        best = best.min(root.clock().monotonic() - before);
        root.fiber().dispose().await.unwrap();
    }
    best
}

async fn run_cost(home: &Path) -> Duration {
    let root = Root::new(TokioRuntime::seams());
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    let tools = root.get::<dyn Tools>().unwrap();
    let body = async |_: Map<String, Value>, _| Ok::<_, ToolFailure>("x");
    tools.register(&root, Tool::new("any", "", body)).unwrap();
    let call = async || drop(tools.execute(ToolExecutionInput::new("c", "any", json!({}))).await.unwrap());
    let measured = async || {
        let before = own_cpu();
        for _ in 0..N_RUNS {
            call().await;
        }
        own_cpu() - before
    };
    let without = measured().await;
    root.mount::<ScriptPluginsPlugin>(config(home)).unwrap().running().await.unwrap();
    let with = measured().await;
    root.fiber().dispose().await.unwrap();
    with.saturating_sub(without) / N_RUNS
}

/// CPU time of this process without its children: fields 14 and 15 of proc_pid_stat(5), in hundredths of a second.
fn own_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<i64> =
        stat[stat.rfind(')').unwrap() + 2..].split(' ').filter_map(|it| it.trim().parse().ok()).collect();
    // The state, which is a letter, is no number: what would be field 14 is the eleventh number.
    Duration::from_millis(10 * u64::try_from(fields[10] + fields[11]).unwrap())
}
