//! What the configuration adds to the plugins of the program.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BusError, Root};
use linn_config::{Config, EntryChange, Layer, Origin, Problem, UserFile, keys};
use linn_loader::{LibrarySource, Loader, LoaderSettings, TrustStore, Watching};
use linn_services::events::LoaderConfigUpdate;

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
pub(crate) async fn load(root: &Root, live: &Arc<LiveConfig>, always: bool) -> Result<Option<Loader>, BuildError> {
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
    keep(root, live).map_err(BuildError::Loader)?;
    for problem in loader.apply(&tree).await.problems {
        root.logger().warn(problem);
    }
    Ok(Some(loader))
}

/// Writes what the loader changes of entries to the user's file, so that the next start goes on from it.
fn keep(root: &Root, live: &Arc<LiveConfig>) -> Result<(), BusError> {
    let (ctx, live) = (root.context().clone(), live.clone());
    let kept = move |it: &LoaderConfigUpdate| {
        let (ctx, live, update) = (ctx.clone(), live.clone(), it.clone());
        let logging = ctx.clone();
        let work = async move {
            let id = update.id.clone();
            if let Err(error) = write(&live, update).await {
                logging.logger().warn(format_args!("the change of entry `{id}` is not kept: {error}"));
            }
        };
        if let Err(error) = ctx.spawn(work) {
            ctx.logger().warn(format_args!("the change of entry `{}` is not kept: {error}", it.id));
        }
    };
    root.on(kept).map(drop)
}

#[expect(clippy::disallowed_methods, reason = "files are written where a thread may wait")]
async fn write(live: &LiveConfig, update: LoaderConfigUpdate) -> Result<(), NotKept> {
    let (sources, inserted_by) = {
        let config = live.lock();
        (config.sources().clone(), config.tree().get(&update.id).map(|it| it.inserted_by.clone()))
    };
    if let Some(by) = inserted_by.filter(|it| it.layer == Layer::Workspace) {
        return Err(NotKept::OfWorkspace(by));
    }
    let LoaderConfigUpdate { id, config, is_disabled } = update;
    let change = EntryChange { config, disabled: is_disabled, ..EntryChange::default() };
    let written = tokio::task::spawn_blocking(move || UserFile::new(&sources)?.change_entry(&id, &change));
    written.await.map_err(|error| NotKept::Thread(error.to_string()))?.map_err(NotKept::File)
}

/// Why a change of an entry is not in the user's file.
#[derive(Debug, thiserror::Error)]
enum NotKept {
    #[error("it is an entry of {0}, which the program does not write")]
    OfWorkspace(Origin),
    #[error(transparent)]
    File(Problem),
    #[error("{0}")]
    Thread(String),
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
    let texts = |config: &Config| config.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
    let (fiber, known) = (loader.fiber().clone(), Mutex::new(texts(&live.lock())));
    let tree = move || {
        let config = Config::load(sources.clone(), &built_in_entries());
        let now = texts(&config);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ctx) = fiber.context() {
            now.iter().filter(|it| !known.contains(it)).for_each(|it| ctx.logger().warn(format_args!("config: {it}")));
        }
        *known = now;
        config.tree().added()
    };
    loader.watch(Watching::new(files, tree)).await
}

#[cfg(test)]
mod tests {
    use linn_bus::{Context, Fault, Plugin, TokioRuntime};
    use linn_config::{Files as _, MemoryFiles, Sources};

    use super::*;

    /// A plugin that has nothing to do here.
    #[derive(Debug)]
    struct Quitter;

    impl Plugin for Quitter {
        const NAME: &'static str = "quitter-of-tests";
        type Config = ();
        type Needs = ();

        async fn start(_: &Context, (): (), (): ()) -> Result<(), Fault> {
            Ok(())
        }
    }

    linn_bus::register_plugin!(Quitter);

    /// A harness of nothing but what this file of the user adds.
    async fn with_file(text: &str) -> (Root, Loader, MemoryFiles) {
        let files = MemoryFiles::new([("/u/ada/.config/linn/linn.toml", text)]);
        let sources = Sources { home: Some("/u/ada".into()), ..Sources::in_memory("/src/engine", files.clone()) };
        let live = Arc::new(LiveConfig::new(Config::load(sources, &[])));
        let root = Root::new(TokioRuntime::seams());
        let loader = load(&root, &live, false).await.unwrap().unwrap();
        (root, loader, files)
    }

    #[tokio::test]
    async fn a_plugin_that_disposes_itself_is_disabled_in_the_file_of_the_user() {
        const FILE: &str = "# Mine.\n[[plugins]]\nid = \"q\" # short\nplugin = \"quitter-of-tests\"\n";
        let (root, loader, files) = with_file(FILE).await;
        loader.entry("q").await.unwrap().dispose().await.unwrap();
        let kept = || files.read(Path::new("/u/ada/.config/linn/linn.toml")).unwrap();
        // The write is a task of the root.
        let written = async {
            while kept() == FILE {
                tokio::task::yield_now().await;
            }
        };
        root.within(std::time::Duration::from_secs(60), written).await.unwrap();
        assert_eq!(kept(), format!("{FILE}disabled = true\n"));
        root.fiber().dispose().await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_the_program_disables_nothing() {
        const FILE: &str = "[[plugins]]\nid = \"q\"\nplugin = \"quitter-of-tests\"\n";
        let (root, _loader, files) = with_file(FILE).await;
        root.fiber().dispose().await.unwrap();
        assert_eq!(files.read(Path::new("/u/ada/.config/linn/linn.toml")).unwrap(), FILE);
    }
}
