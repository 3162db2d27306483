//! What a library costs: calls of its listeners beside the same ones in the program, loading it, and replacing it:
//! `cargo run --release -p linn-loader --example call_cost`.
#![expect(
    unreachable_pub,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures time and prints a table"
)]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use futures_util::FutureExt as _;
use linn_bus::{Root, TokioRuntime};
use linn_config::{Config as Settings, MemoryFiles, Sources, Tree};
use linn_loader::{LibraryFile, LibrarySource, Loader, LoaderSettings};
use linn_services::events::{HmrChange, LoaderPatchContext, PluginEntry};

#[path = "../../examples/plugins/call-cost/src/listeners.rs"]
mod listeners;
use listeners::{CallCost, Config};

const ROUNDS: u32 = 50;
const CALLS: u32 = 10_000;
const RELOADS: usize = 40;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(run())
}

async fn run() -> Outcome<()> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugins/call-cost");
    let built = linn_loader::build(&crate_folder)?;
    println!("| mode | listeners | in the program, ns | in a library, ns | over, ns a listener |");
    println!("| --- | --: | --: | --: | --: |");
    for n in [1, 8] {
        calls("emit", Config { sync: n, layers: 0 }, &built).await?;
    }
    for n in [1, 8] {
        calls("waterfall, ready", Config { sync: 0, layers: n }, &built).await?;
    }
    println!();
    println!("| what | ms, the median of {RELOADS} |");
    println!("| --- | --: |");
    loads(&built).await
}

/// Nanoseconds of one call in this round.
fn round(call: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Both take turns, and the best round of each counts: the machine may be shared.
async fn calls(mode: &str, config: Config, library: &Path) -> Outcome<()> {
    let here = Root::new(TokioRuntime::seams());
    here.mount::<CallCost>(config.clone())?.running().await?;
    let there = World::new(library).await?;
    there.mount(&config).await?;
    let sync = HmrChange { path: "some/file".into() };
    let entry =
        PluginEntry { id: "id".to_owned(), plugin: "plugin".to_owned(), parent: None, config: serde_json::Value::Null };
    let asynchronous = LoaderPatchContext { entry, changed: Vec::new() };
    let call = |root: &Root| {
        if config.sync > 0 {
            root.emit(black_box(&sync));
        } else {
            let ready = root.waterfall(black_box(&asynchronous), async || true).now_or_never();
            assert!(ready.is_some_and(|it| it.is_ok_and(|it| it)), "a chain whose listeners are ready is");
        }
    };
    let (mut call_here, mut call_there) = (|| call(&here), || call(&there.root));
    let (mut best_here, mut best_there) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        best_here = best_here.min(round(&mut call_here));
        best_there = best_there.min(round(&mut call_there));
    }
    let n = config.sync.max(config.layers);
    let over = (best_there - best_here) / n as f64;
    println!("| {mode} | {n} | {best_here:.1} | {best_there:.1} | {over:+.1} |");
    here.fiber().dispose().await?;
    there.root.fiber().dispose().await?;
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

async fn loads(library: &Path) -> Outcome<()> {
    let mut reads = Vec::new();
    let mut loads = Vec::new();
    for _ in 0..RELOADS {
        let start = Instant::now();
        black_box(LibraryFile::read(library)?);
        reads.push(start.elapsed().as_secs_f64() * 1e3);
        let world = World::new(library).await?;
        let start = Instant::now();
        world.mount(&Config { sync: 1, layers: 1 }).await?;
        loads.push(start.elapsed().as_secs_f64() * 1e3);
        world.root.fiber().dispose().await?;
    }
    let size = fs::metadata(library)?.len() as f64 / 1024.0 / 1024.0;
    println!("| look at the file, {size:.1} MiB | {:.2} |", median(reads));
    println!("| look at it, open it and mount its plugin | {:.2} |", median(loads));

    let world = World::new(library).await?;
    world.mount(&Config { sync: 1, layers: 1 }).await?;
    let bytes = fs::read(library)?;
    let mut reloads = Vec::new();
    for n in 0..RELOADS {
        // What stands behind a library is no part of it, and makes another file of it.
        fs::write(&world.path, [&*bytes, n.to_string().as_bytes()].concat())?;
        let start = Instant::now();
        world.loader.reload(&world.path).await?;
        reloads.push(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("| reload, from the call until the new version is heard | {:.2} |", median(reloads));
    world.root.fiber().dispose().await?;
    Ok(())
}

/// A loader with one library.
struct World {
    root: Root,
    loader: Loader,
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(library: &Path) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(library.file_name().unwrap_or_default());
        fs::copy(library, &path)?;
        let root = Root::new(TokioRuntime::seams());
        let libraries = vec![LibrarySource { path: path.clone(), needs_trust: false }];
        let loader = Loader::start(&root, LoaderSettings { libraries, ..LoaderSettings::default() }).await?;
        Ok(Self { root, loader, path, _folder: folder })
    }

    async fn mount(&self, config: &Config) -> Outcome<()> {
        let applied = self.loader.apply(&tree(config)).await;
        match applied.problems.into_iter().next() {
            Some(problem) => Err(problem.into()),
            None => Ok(()),
        }
    }
}

fn tree(Config { sync, layers }: &Config) -> Tree {
    let text =
        format!("[[plugins]]\nid = 'cost'\nplugin = 'call-cost'\nconfig = {{ sync = {sync}, layers = {layers} }}\n");
    let files = MemoryFiles::new([("/u/ada/.config/linn/linn.toml", text.as_str())]);
    let sources = Sources { home: Some("/u/ada".into()), ..Sources::in_memory("/src/engine", files) };
    Settings::load(sources, &[]).tree().clone()
}
