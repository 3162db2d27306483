//! The harness: a root context with the plugins that make it one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_bus::{
    BusError, Context, DisposeError, Fault, Fiber, FiberState, Mounting, Plugin, Root, Seams, Svc, plugin_catalogue,
};
use linn_config::{Config, Layer, Tree};
use linn_loader::Loader;
use linn_services::agent::Agents;
use linn_services::events::Exit;
use linn_services::plugin_admin::PluginAdmin;
use linn_services::secrets::SecretKeeper;
use linn_services::session::Sessions;

use crate::settings::LiveConfig;
use crate::{added, builtins, configured};

/// A harness that runs: every built-in plugin is mounted, and so are those it was built with.
///
/// Dropping it begins its end but cannot wait for it; [`shutdown`](Harness::shutdown) does.
///
/// ```no_run
/// use linn::Harness;
/// use linn::services::agent::CreateAgent;
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let harness = Harness::builder().workspace("/tmp/project").build().await?;
/// let mut create = CreateAgent::new("main", "first-session");
/// create.options.model = Some("replay:demo".into());
/// let agent = harness.agents()?.create(harness.context(), create).await?;
/// agent.agent().send("What is in this folder?")?;
/// agent.agent().when_idle().await;
/// harness.shutdown().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Harness {
    root: Root,
    fibers: Vec<Fiber>,
    workspace: Option<PathBuf>,
    loader: Option<Loader>,
    config: Option<Arc<LiveConfig>>,
}

impl Harness {
    /// A harness with the built-in plugins, to be changed before it is built.
    pub fn builder() -> HarnessBuilder {
        HarnessBuilder::default()
    }

    /// Where plugins, listeners and agents of the whole harness are registered.
    pub fn context(&self) -> &Context {
        self.root.context()
    }

    /// The agents.
    ///
    /// # Errors
    ///
    /// The plugin that provides them is not there.
    pub fn agents(&self) -> Result<Svc<dyn Agents>, BusError> {
        self.context().require::<dyn Agents>()
    }

    /// The sessions that live.
    ///
    /// # Errors
    ///
    /// The plugin that provides them is not there.
    pub fn sessions(&self) -> Result<Svc<dyn Sessions>, BusError> {
        self.context().require::<dyn Sessions>()
    }

    /// The folder that tools work in, if there is one.
    pub fn workspace(&self) -> Option<&Path> {
        self.workspace.as_deref()
    }

    /// What mounts the entries that the configuration adds, and the libraries they are in; nothing if it adds none and there
    /// are no libraries.
    pub fn loader(&self) -> Option<&Loader> {
        self.loader.as_ref()
    }

    /// Follows the files of the configuration and the libraries from now on: what is built anew is reloaded, and entries
    /// that are edited are applied. Nothing happens where there is no [`loader`](Self::loader).
    ///
    /// # Errors
    ///
    /// The system watches no files.
    pub async fn watch_plugins(&self) -> Result<(), BusError> {
        match (&self.loader, &self.config) {
            (Some(loader), Some(config)) => added::watch(loader, config).await,
            _ => Ok(()),
        }
    }

    /// The plugins of the program that are mounted, in their order.
    pub fn plugins(&self) -> &[Fiber] {
        &self.fibers
    }

    /// Ends everything and waits until it is quiet: agents stop and flush, children end, plugins go.
    ///
    /// Cancel safe: the end goes on without the waiter.
    ///
    /// # Errors
    ///
    /// What would not end is named; everything else is torn down all the same.
    pub async fn shutdown(self) -> Result<(), DisposeError> {
        self.shutdown_by(None).await
    }

    /// As [`shutdown`](Self::shutdown), for a program that ends by a signal: plugins hear its name with the event `exit`.
    ///
    /// # Errors
    ///
    /// Those of [`shutdown`](Self::shutdown).
    pub async fn shutdown_by(self, signal: Option<&str>) -> Result<(), DisposeError> {
        let exit = Exit { signal: signal.map(str::to_owned) };
        if let Err(errors) = self.context().parallel(&exit).await {
            self.root.logger().error(format_args!("not everybody was told of the end: {errors}"));
        }
        if let Some(plugins) = self.root.get::<dyn PluginAdmin>()
            && let Err(error) = plugins.shut_down().await
        {
            self.root.logger().error(format_args!("script plugins were not told of the end: {error}"));
        }
        self.root.fiber().dispose().await
    }
}

/// Mounts one plugin.
type Mount = Box<dyn FnOnce(&Context) -> Result<Fiber, Fault> + Send>;

/// What is set about the harness as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    /// The folder that tools work in.
    pub(crate) workspace: Option<PathBuf>,
    /// Where sessions are kept; nowhere if not set.
    pub(crate) sessions: Option<PathBuf>,
    /// What else is set; the defaults if not.
    pub(crate) config: Option<Arc<LiveConfig>>,
    /// What knows the secrets.
    pub(crate) secrets: SecretKeeper,
}

/// The plugins of a harness, in the order they are mounted.
#[derive(Default)]
pub(crate) struct Mounts {
    order: Vec<&'static str>,
    mounts: BTreeMap<&'static str, Mount>,
}

impl Mounts {
    /// Puts a plugin at the end, or in the place of the one of its name.
    pub(crate) fn put<P: Plugin>(&mut self, config: P::Config) {
        if !self.mounts.contains_key(P::NAME) {
            self.order.push(P::NAME);
        }
        self.mounts
            .insert(P::NAME, Box::new(move |ctx| ctx.mount::<P>(config).map(|it| (*it).clone()).map_err(Into::into)));
    }

    /// The names of the plugins, in their order.
    pub(crate) fn names(&self) -> &[&'static str] {
        &self.order
    }

    /// Does what a tree says of the plugins of the program: their order, which are left out, and the config of those that
    /// somebody gave one.
    fn heed(&mut self, tree: &Tree) {
        let entries = || tree.entries().iter().filter(|it| it.inserted_by.layer == Layer::BuiltIn);
        let place = |name: &str| entries().position(|it| it.id == name).unwrap_or(usize::MAX);
        // What nobody placed stays where the program has it.
        if entries().any(|it| it.placed_by.is_some()) {
            self.order.sort_by_key(|it| place(it));
        }
        for entry in entries() {
            let Some(name) = self.order.iter().copied().find(|it| *it == entry.id) else { continue };
            if !entry.is_enabled {
                self.order.retain(|it| *it != name);
                self.mounts.remove(name);
            } else if entry.config_by.is_some()
                && let Some(plugin) = plugin_catalogue().into_iter().find(|it| it.name == name)
            {
                let config = entry.config.to_json();
                let mount = move |ctx: &Context| plugin.mount(ctx, &Mounting::default(), &config).map_err(Fault::from);
                self.mounts.insert(name, Box::new(mount));
            }
        }
    }
}

/// Builds a [`Harness`].
#[must_use = "nothing is mounted before `build`"]
#[derive(Default)]
pub struct HarnessBuilder {
    seams: Option<Seams>,
    setup: Setup,
    changes: Vec<Change>,
    looks_for_libraries: bool,
}

/// One change to the built-in plugins.
enum Change {
    Put(Box<dyn FnOnce(&mut Mounts) + Send>),
    Without(String),
}

impl HarnessBuilder {
    /// The folder that tools work in; without one there are no tools for files and commands.
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.setup.workspace = Some(folder.into());
        self
    }

    /// The folder that sessions are kept in; without one they live in memory alone.
    pub fn sessions(mut self, folder: impl Into<PathBuf>) -> Self {
        self.setup.sessions = Some(folder.into());
        self
    }

    /// The configuration: what it says of the built-in plugins, and what the `settings` service is about. Its workspace is
    /// that of the harness, unless [`workspace`](Self::workspace) names another.
    pub fn config(mut self, config: Config) -> Self {
        self.setup.workspace.get_or_insert_with(|| config.workspace().to_owned());
        self.setup.config = Some(Arc::new(LiveConfig::new(config)));
        self
    }

    /// Looks for libraries also where no entry asks for one, so that they can be listed.
    pub fn look_for_libraries(mut self) -> Self {
        self.looks_for_libraries = true;
        self
    }

    /// What knows the secrets of the harness, for a program that has texts of its own to keep them out of; by default one
    /// of its own, which `secrets` provides.
    pub fn secrets(mut self, keeper: SecretKeeper) -> Self {
        self.setup.secrets = keeper;
        self
    }

    /// Where tasks, time and chance come from; by default the tokio runtime that `build` runs on.
    pub fn seams(mut self, seams: Seams) -> Self {
        self.seams = Some(seams);
        self
    }

    /// A plugin more; if there is one of its name, it takes that one's place.
    pub fn plugin<P: Plugin>(mut self, config: P::Config) -> Self {
        self.changes.push(Change::Put(Box::new(move |mounts| mounts.put::<P>(config))));
        self
    }

    /// The harness without the plugin of this name.
    pub fn without(mut self, name: &str) -> Self {
        self.changes.push(Change::Without(name.to_owned()));
        self
    }

    /// Mounts everything and waits until it runs.
    ///
    /// # Errors
    ///
    /// A plugin does not start, or waits for a service that nobody provides; all is torn down again then.
    ///
    /// # Panics
    ///
    /// Without [`seams`](Self::seams), outside of a tokio runtime.
    pub async fn build(self) -> Result<Harness, BuildError> {
        if let Some(config) = &self.setup.config {
            configured::keep_secrets(&config.lock(), &self.setup.secrets);
        }
        let mut mounts = Mounts::default();
        builtins::put_all(&mut mounts, &self.setup);
        for change in self.changes {
            match change {
                Change::Put(put) => put(&mut mounts),
                Change::Without(name) => {
                    let place = mounts.order.iter().position(|it| *it == name);
                    let Some(place) = place else { return Err(BuildError::unknown(&name, &mounts.order)) };
                    mounts.order.remove(place);
                    mounts.mounts.remove(name.as_str());
                }
            }
        }
        let config = self.setup.config.clone();
        if let Some(config) = &config {
            mounts.heed(config.lock().tree());
        }
        let root = Root::new(self.seams.unwrap_or_else(linn_bus::TokioRuntime::seams));
        let mounted = async {
            let fibers = mount_all(&root, mounts).await?;
            let loader = match &config {
                Some(config) => added::load(&root, config, self.looks_for_libraries).await?,
                None => None,
            };
            Ok((fibers, loader))
        };
        match mounted.await {
            Ok((fibers, loader)) => Ok(Harness { root, fibers, workspace: self.setup.workspace, loader, config }),
            Err(error) => {
                if let Err(left) = root.fiber().dispose().await {
                    root.logger().error(left);
                }
                Err(error)
            }
        }
    }
}

/// Mounts the plugins and waits until all of them run.
async fn mount_all(root: &Root, mounts: Mounts) -> Result<Vec<Fiber>, BuildError> {
    let Mounts { order, mut mounts } = mounts;
    let mut fibers = Vec::with_capacity(order.len());
    for name in order {
        if let Some(mount) = mounts.remove(name) {
            let fiber = mount(root).map_err(|cause| BuildError::Mount { plugin: name.to_owned(), cause })?;
            fibers.push(fiber);
        }
    }
    for fiber in &fibers {
        let plugin = || fiber.name().to_owned();
        match fiber.settled().await.map_err(|source| BuildError::Plugin { plugin: plugin(), source })? {
            FiberState::Pending => {
                let waits_for: Vec<_> = fiber.waits_for().iter().map(ToString::to_string).collect();
                return Err(BuildError::Waits { plugin: plugin(), waits_for: waits_for.join(", ") });
            }
            _ => fiber.running().await.map_err(|source| BuildError::Plugin { plugin: plugin(), source })?,
        }
    }
    Ok(fibers)
}

/// Why a harness was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A plugin did not start.
    #[error("plugin `{plugin}` does not start")]
    Plugin {
        /// The plugin.
        plugin: String,
        /// Why.
        #[source]
        source: BusError,
    },
    /// A plugin was not mounted: most often its config is wrong.
    #[error("plugin `{plugin}` is not mounted: {cause:#}")]
    Mount {
        /// The plugin.
        plugin: String,
        /// Why.
        cause: Fault,
    },
    /// What mounts the entries that the configuration adds did not start.
    #[error("the loader of plugins does not start")]
    Loader(#[source] BusError),
    /// A plugin waits for what does not come.
    #[error("plugin `{plugin}` waits: {waits_for}")]
    Waits {
        /// The plugin.
        plugin: String,
        /// For what.
        waits_for: String,
    },
    /// There is no plugin to leave out.
    #[error("there is no plugin `{name}` to leave out; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
}

impl BuildError {
    fn unknown(name: &str, known: &[&'static str]) -> Self {
        Self::Unknown { name: name.to_owned(), known: known.join(", ") }
    }

    /// Stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::Plugin { source, .. } => source.code(),
            Self::Mount { cause, .. } => cause.code().unwrap_or("PLUGIN_NOT_MOUNTED"),
            Self::Loader(source) => source.code(),
            Self::Waits { .. } => "PLUGIN_WAITS",
            Self::Unknown { .. } => "UNKNOWN_PLUGIN",
        }
    }
}

#[cfg(test)]
mod tests {
    use linn_bus_test::Recorder;

    use super::*;

    #[tokio::test]
    async fn every_end_is_told_while_all_plugins_run() {
        for signal in [None, Some("SIGTERM")] {
            let harness = Harness::builder().build().await.unwrap();
            let heard = Recorder::new();
            let agents = harness.agents().unwrap();
            heard.note(harness.context(), move |it: &Exit| (it.signal.clone(), agents.list().is_ok())).unwrap();
            harness.shutdown_by(signal).await.unwrap();
            assert_eq!(heard.heard::<(Option<String>, bool)>(), [(signal.map(str::to_owned), true)]);
        }
    }
}
