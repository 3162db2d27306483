//! Real libraries, and a loader with the registry of tools beside it.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use linn_bus::{Root, TokioRuntime};
use linn_config::{Config, MemoryFiles, Sources, Tree};
use linn_loader::{LibrarySource, Loader, LoaderSettings};
use linn_services::model::text_of;
use linn_services::tools::{ToolExecutionInput, ToolExecutionResult, Tools, ToolsPlugin};
use serde_json::Value;
use tempfile::TempDir;

/// What of an example is written in another way.
pub(crate) type Edits<'a> = &'a [(&'a str, &'a str)];

/// The second version of `word-count`, which counts from a thousand.
pub(crate) const FROM_THOUSAND: Edits<'_> = &[(".count();", ".count() + 1000;")];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugins").canonicalize().unwrap()
}

/// A library of an example, built once for each content: of the example with edits, and of what it is built from.
pub(crate) fn library(example: &str, edits: Edits<'_>) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let top = examples();
    let sdk = top.join("../../loader/sdk").canonicalize().unwrap();
    let mut source = fs::read_to_string(top.join(example).join("src/lib.rs")).unwrap();
    for (from, to) in edits {
        assert!(source.contains(from), "{example} has no `{from}`");
        source = source.replace(from, to);
    }
    let manifest = fs::read_to_string(top.join(example).join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("../../../loader/sdk", sdk.to_str().unwrap());
    let mut hasher = DefaultHasher::new();
    let shared: Vec<_> = linn_bus::library::shared_crates().into_iter().map(|it| (it.name, it.digest)).collect();
    (&source, &manifest, linn_bus::library::FINGERPRINT, shared).hash(&mut hasher);
    let variants = top.join("target/variants");
    let name =
        format!("{}{}.{}", std::env::consts::DLL_PREFIX, example.replace('-', "_"), std::env::consts::DLL_EXTENSION);
    let kept = variants.join(format!("{:016x}", hasher.finish())).join(name);
    if !kept.is_file() {
        fs::create_dir_all(&variants).unwrap();
        let folder = tempfile::tempdir_in(&variants).unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/lib.rs"), source).unwrap();
        fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        fs::copy(top.join(example).join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
        let built = linn_loader::build(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        let half = kept.with_extension("half");
        fs::copy(built, &half).unwrap();
        fs::rename(half, &kept).unwrap();
    }
    kept
}

/// A loader whose libraries are in a folder, and the registry of tools.
pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) loader: Loader,
    pub(crate) folder: TempDir,
}

impl World {
    pub(crate) async fn new(libraries: &[(&str, &Path)]) -> Self {
        Self::with(libraries, LoaderSettings::default(), false).await
    }

    pub(crate) async fn with(libraries: &[(&str, &Path)], settings: LoaderSettings, needs_trust: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, from) in libraries {
            fs::copy(from, Self::path_in(&folder, name)).unwrap();
        }
        let root = Root::new(TokioRuntime::seams());
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        let libraries = vec![LibrarySource { path: folder.path().to_owned(), needs_trust }];
        let loader = Loader::start(&root, LoaderSettings { libraries, ..settings }).await.unwrap();
        Self { root, loader, folder }
    }

    fn path_in(folder: &TempDir, name: &str) -> PathBuf {
        folder.path().join(name).with_extension(std::env::consts::DLL_EXTENSION)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Self::path_in(&self.folder, name)
    }

    /// Puts another library in the place of one, as a build does.
    pub(crate) fn replace(&self, name: &str, from: &Path) {
        let half = self.folder.path().join("half");
        fs::copy(from, &half).unwrap();
        fs::rename(half, self.path(name)).unwrap();
    }

    /// Mounts plugins under their names.
    pub(crate) async fn mount(&self, plugins: &[(&str, &str)]) -> linn_loader::Applied {
        self.loader.apply(&tree(plugins)).await
    }

    pub(crate) async fn mount_all(&self, plugins: &[(&str, &str)]) {
        let applied = self.mount(plugins).await;
        assert!(applied.problems.is_empty(), "{:?}", applied.problems);
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolExecutionResult {
        let tools = self.root.get::<dyn Tools>().unwrap();
        tools.execute(ToolExecutionInput::new("c", tool, arguments)).await.unwrap()
    }

    /// How many words `count_words` finds in a text.
    pub(crate) async fn count(&self, text: &str) -> String {
        text_of(&self.call("count_words", serde_json::json!({ "text": text })).await.content)
    }

    pub(crate) async fn end(self) {
        self.root.fiber().dispose().await.unwrap();
    }
}

/// Entries with a config each, as in TOML.
pub(crate) fn tree(plugins: &[(&str, &str)]) -> Tree {
    let entry = |(plugin, config): &(&str, &str)| {
        format!("[[plugins]]\nid = '{plugin}'\nplugin = '{plugin}'\nconfig = {{ {config} }}\n")
    };
    let text: String = plugins.iter().map(entry).collect();
    let files = MemoryFiles::new([("/u/ada/.config/linn/linn.toml", text.as_str())]);
    let sources = Sources { home: Some("/u/ada".into()), ..Sources::in_memory("/src/engine", files) };
    let config = Config::load(sources, &[]);
    assert!(config.problems().is_empty(), "{:?}", config.problems());
    config.tree().clone()
}
