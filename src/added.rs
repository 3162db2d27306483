//! What the configuration adds to the plugins of the program.

use std::path::{Path, PathBuf};

use linn_bus::{BusError, Root};
use linn_config::{Config, keys};
use linn_loader::{LibrarySource, Loader, LoaderSettings, TrustStore, Watching};

use crate::builtins::built_in_entries;
use crate::harness::BuildError;
use crate::settings::LiveConfig;

/// Where libraries are: those of the user, and those of a workspace, which run once the user trusts them.
fn libraries(config: &Config) -> Vec<LibrarySource> {
    let own = config.sources().home.as_deref().map(|home| home.join(".config/linn/plugins"));
    let own = own.map(|path| LibrarySource { path, needs_trust: false });
    let of_workspace = config.workspace().join(".linn/plugins");
    own.into_iter().chain([LibrarySource { path: of_workspace, needs_trust: true }]).collect()
}

/// The file that says which libraries of workspaces the user of this home folder trusts.
pub fn trust_file(home: &Path) -> PathBuf {
    home.join(".config/linn/trusted-libraries")
}

/// Mounts what the configuration adds. What is wrong with an entry is logged, and all others run.
pub(crate) async fn load(root: &Root, live: &LiveConfig, always: bool) -> Result<Option<Loader>, BuildError> {
    let (tree, settings) = {
        let config = live.lock();
        let settings = LoaderSettings {
            libraries: libraries(&config),
            trust: config.sources().home.as_deref().map(|home| TrustStore::new(trust_file(home))),
            max_pinned: usize::try_from(config.get(&keys::LOADER_MAX_PINNED)).unwrap_or(usize::MAX),
        };
        (config.tree().added(), settings)
    };
    if tree.entries().is_empty() && !always {
        return Ok(None);
    }
    let loader = Loader::start(root, settings).await.map_err(BuildError::Loader)?;
    for problem in loader.apply(&tree).await.problems {
        root.logger().warn(problem);
    }
    Ok(Some(loader))
}

/// Has a loader follow the files: a library that is built anew is reloaded, and an entry that is edited is applied.
pub(crate) async fn watch(loader: &Loader, live: &LiveConfig) -> Result<(), BusError> {
    let (sources, files) = {
        let config = live.lock();
        let sources = config.sources().clone();
        let of_user = sources.home.as_deref().map(linn_config::user_file);
        let files = of_user.into_iter().chain([linn_config::workspace_file(config.workspace())]);
        (sources, files.collect())
    };
    let tree = move || Config::load(sources.clone(), &built_in_entries()).tree().added();
    loader.watch(Watching::new(files, tree)).await
}
