//! Real libraries, and a loader with the registries of a harness beside it.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use linn_bus::{Root, TokioRuntime};
use linn_config::{Config, MemoryFiles, Sources, Tree};
use linn_loader::{LibrarySource, Loader, LoaderSettings};
use linn_services::commands::CommandsPlugin;
use linn_services::llm::LlmPlugin;
use linn_services::model::text_of;
use linn_services::prompt::{SystemPromptConfig, SystemPromptPlugin};
use linn_services::skills::SkillsPlugin;
use linn_services::tools::{ToolExecutionInput, ToolExecutionResult, Tools, ToolsPlugin};
use serde_json::Value;
use tempfile::TempDir;

/// What of an example is written in another way.
pub(crate) type Edits<'a> = &'a [(&'a str, &'a str)];

/// The second version of `word-count`, which counts from a thousand.
pub(crate) const FROM_THOUSAND: Edits<'_> = &[(".count();", ".count() + 1000;")];

/// The crate that two of the examples have in common.
const SHARED: &str = "tally-api";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugins").canonicalize().unwrap()
}

/// A library as it is to be built.
#[derive(Clone, Copy)]
pub(crate) struct Build<'a> {
    /// The crate: an example, or one that is here for the tests alone.
    pub(crate) example: &'a str,
    /// What of its source is written in another way.
    pub(crate) edits: Edits<'a>,
    /// What of the crate that it shares with others is, which is another copy then.
    pub(crate) shared: Option<Edits<'a>>,
    /// Whether it is optimised.
    pub(crate) is_release: bool,
}

/// A library of an example, built as the tests are.
pub(crate) fn library(example: &str, edits: Edits<'_>) -> PathBuf {
    Build { example, edits, shared: None, is_release: false }.library()
}

fn edited(file: &Path, edits: Edits<'_>) -> String {
    let mut source = fs::read_to_string(file).unwrap();
    for (from, to) in edits {
        assert!(source.contains(from), "{} has no `{from}`", file.display());
        source = source.replace(from, to);
    }
    source
}

impl Build<'_> {
    /// The library, built once for each content: of the crate with edits, and of what it is built from.
    pub(crate) fn library(self) -> PathBuf {
        static BUILDING: Mutex<()> = Mutex::new(());
        let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let top = examples();
        let absolute = |path: PathBuf| path.canonicalize().unwrap().display().to_string();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries").join(self.example);
        let crate_folder = if here.is_dir() { here } else { top.join(self.example) };
        let source = edited(&crate_folder.join("src/lib.rs"), self.edits);
        let shared_source = edited(&top.join(SHARED).join("src/lib.rs"), self.shared.unwrap_or_default());
        let shared_place = self.shared.map_or_else(|| absolute(top.join(SHARED)), |_| format!("../{SHARED}"));
        let manifest = fs::read_to_string(crate_folder.join("Cargo.toml")).unwrap();
        let manifest = manifest.replace("../../..", &absolute(crate_folder.join("../../..")));
        // Without symbols it is a quarter of the size, and every test copies and digests it.
        let manifest = manifest.replace(&format!("../{SHARED}"), &shared_place) + "\n[profile.dev]\nstrip = true\n";

        let mut hasher = DefaultHasher::new();
        let built_from: Vec<_> =
            linn_bus::library::shared_crates().into_iter().map(|it| (it.name, it.digest)).collect();
        (&source, &manifest, linn_bus::library::FINGERPRINT, built_from, self.is_release).hash(&mut hasher);
        if manifest.contains(SHARED) {
            shared_source.hash(&mut hasher);
        }
        let variants = top.join("target/variants");
        let name = format!(
            "{}{}.{}",
            std::env::consts::DLL_PREFIX,
            self.example.replace('-', "_"),
            std::env::consts::DLL_EXTENSION
        );
        let kept = variants.join(format!("{:016x}", hasher.finish())).join(&name);
        if kept.is_file() {
            return kept;
        }
        fs::create_dir_all(&variants).unwrap();
        let folder = tempfile::tempdir_in(&variants).unwrap();
        let variant = folder.path().join(self.example);
        fs::create_dir_all(variant.join("src")).unwrap();
        for file in fs::read_dir(crate_folder.join("src")).unwrap().map(|it| it.unwrap().path()) {
            fs::copy(&file, variant.join("src").join(file.file_name().unwrap())).unwrap();
        }
        fs::write(variant.join("src/lib.rs"), source).unwrap();
        fs::write(variant.join("Cargo.toml"), manifest).unwrap();
        fs::copy(crate_folder.join("Cargo.lock"), variant.join("Cargo.lock")).unwrap();
        if self.shared.is_some() {
            let shared = folder.path().join(SHARED);
            fs::create_dir_all(shared.join("src")).unwrap();
            fs::write(shared.join("src/lib.rs"), shared_source).unwrap();
            fs::copy(top.join(SHARED).join("build.rs"), shared.join("build.rs")).unwrap();
            let manifest = fs::read_to_string(top.join(SHARED).join("Cargo.toml")).unwrap();
            let manifest = manifest.replace("../../..", &absolute(top.join("../..")));
            fs::write(shared.join("Cargo.toml"), manifest.replace("0.1.0", "0.2.0")).unwrap();
        }
        let built = if self.is_release {
            optimised(&variant);
            top.join("target/release").join(name)
        } else {
            linn_loader::build(&variant).unwrap_or_else(|error| panic!("{error}"))
        };
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        let half = kept.with_extension("half");
        fs::copy(built, &half).unwrap();
        fs::rename(half, &kept).unwrap();
        kept
    }
}

/// Builds a library as one that is given to others, but for the assertions that this program has: the two have to agree.
fn optimised(folder: &Path) {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).args(["build", "--release"]);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", cfg!(debug_assertions).to_string());
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "true");
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A loader whose libraries are in a folder, and the registries of a harness.
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
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<CommandsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<SkillsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<SystemPromptPlugin>(SystemPromptConfig::default()).unwrap().running().await.unwrap();
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

    /// A world of libraries as they are.
    pub(crate) async fn of(examples: &[&str]) -> Self {
        let libraries: Vec<_> = examples.iter().map(|it| (*it, library(it, &[]))).collect();
        let named: Vec<_> = libraries.iter().map(|(name, path)| (*name, path.as_path())).collect();
        Self::new(&named).await
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
    let files = MemoryFiles::new([(USER_FILE, text.as_str())]);
    let sources = Sources { home: Some("/u/ada".into()), ..Sources::in_memory("/src/engine", files) };
    let config = Config::load(sources, &[]);
    assert!(config.problems().is_empty(), "{:?}", config.problems());
    config.tree().clone()
}

/// What `plugins` are in the user file of [`tree`], line by line.
pub(crate) const USER_FILE: &str = "/u/ada/.config/linn/linn.toml";
