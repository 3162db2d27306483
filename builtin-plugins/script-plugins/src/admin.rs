//! What a human does with plugins: looks, decides, enables, installs, removes.

mod provider;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BusError, Fault};
use linn_http::Network;
use linn_services::events::{PluginNoticeLevel, PluginsChange};
use linn_services::plugin_admin::{
    PluginAdminError, PluginInfo, PluginScope, PluginTrust, PluginTrustApplied, PluginsReloaded,
};

use crate::config::Setting;
use crate::discovery::{Loaded, Scan, scan};
use crate::fleet::Fleet;
use crate::hooks::Life;
use crate::install::network;
use crate::memory::Memory;
use crate::plugin::Farewell;
use crate::system::{Staging, blocking, move_away, real_path};
use crate::tell::notice;
use crate::trust::{Book, Decision, NotKept, Store};

pub(crate) use provider::AdminProvider;
use world::World;

/// Manages plugins. One change at a time; reading waits for nobody.
pub(crate) struct Admin {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) life: Arc<Life>,
    farewell: Farewell,
    memory: Arc<Memory>,
    network: Network,
    /// What is mounted.
    world: tokio::sync::Mutex<World>,
    /// What readers see.
    view: Mutex<Arc<View>>,
}

/// The plugins as they were after the last change.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) plugins: Vec<PluginInfo>,
    pub(crate) loaded: Vec<(Loaded, bool)>,
    pub(crate) skipped: Vec<PluginTrust>,
    pub(crate) failures: Vec<linn_services::plugin_admin::PluginFailure>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl From<NotKept> for PluginAdminErrorOf {
    fn from(error: NotKept) -> Self {
        Self(PluginAdminError::Store(error.to_string()))
    }
}

/// An error on its way to a caller.
#[derive(Debug)]
pub(crate) struct PluginAdminErrorOf(pub(crate) PluginAdminError);

impl From<PluginAdminError> for PluginAdminErrorOf {
    fn from(error: PluginAdminError) -> Self {
        Self(error)
    }
}

impl From<BusError> for PluginAdminErrorOf {
    fn from(error: BusError) -> Self {
        Self(error.into())
    }
}

type Done<T> = Result<T, PluginAdminErrorOf>;

impl Admin {
    pub(crate) fn new(fleet: Arc<Fleet>, life: Arc<Life>, farewell: Farewell, memory: Arc<Memory>) -> Arc<Self> {
        let (world, view) = (tokio::sync::Mutex::default(), Mutex::default());
        Arc::new(Self { fleet, life, farewell, memory, network: network(), world, view })
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    pub(crate) fn setting(&self) -> &Arc<Setting> {
        &self.fleet.setting
    }

    /// Where decisions are kept; nowhere without a folder of the user.
    pub(crate) fn store(&self) -> Result<Store, PluginAdminError> {
        store(self.setting()).ok_or_else(|| {
            let what = "decisions about plugins are kept in ~/.config/catalyst-code, and there is no HOME";
            PluginAdminError::Store(what.to_owned())
        })
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finds and mounts what may run.
    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        let mut world = self.world.lock().await;
        self.look(&mut world).await.map_err(|it| Fault::msg(it.0))
    }

    /// Looks at the folders again, and has the plugins that run be those found there.
    async fn look(&self, world: &mut World) -> Done<()> {
        let setting = self.setting().clone();
        let (scan, book) = blocking(move || {
            let book = store(&setting).map(|it| it.read()).unwrap_or_default();
            (scan(&setting, &book), book)
        })
        .await;
        for warning in &scan.warnings {
            self.fleet.ctx.logger().warn(format_args!("[plugins] {warning}"));
        }
        self.take(world, scan, &book).await
    }

    async fn take(&self, world: &mut World, scan: Scan, book: &Book) -> Done<()> {
        let is_enabled = |name: &str| {
            let by_config = !self.setting().config.disabled.iter().any(|it| it == name);
            book.enabled(name).unwrap_or(by_config)
        };
        let done = world.become_like(&self.fleet, scan, is_enabled).await;
        self.show(world).await?;
        done
    }

    /// Has readers see what is, and tells that it changed.
    async fn show(&self, world: &World) -> Done<()> {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(world.view());
        self.farewell.renew()?;
        self.memory.provider_changed();
        self.fleet.ctx.emit(&PluginsChange {});
        Ok(())
    }

    /// Does something to its end, also when nobody waits for it any more.
    pub(crate) async fn to_the_end<T, F>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<T, PluginAdminError>
    where
        T: Send + 'static,
        F: Future<Output = Done<T>> + Send + 'static,
    {
        let task = self.fleet.ctx.spawn(work(self.clone()))?;
        match task.join().await {
            Ok(done) => done.map_err(|it| it.0),
            Err(error) => Err(PluginAdminError::Store(format!("the change was not made to its end: {error}"))),
        }
    }

    pub(crate) async fn reload(self: Arc<Self>) -> Done<PluginsReloaded> {
        let mut world = self.world.lock().await;
        self.look(&mut world).await?;
        let view = self.view();
        Ok(PluginsReloaded { loaded: view.plugins.len(), skipped: view.skipped.len(), errors: view.failures.len() })
    }

    pub(crate) async fn decide(self: Arc<Self>, said: BTreeMap<String, String>) -> Done<PluginTrustApplied> {
        let wrong: Vec<&str> =
            said.iter().filter(|(_, it)| Decision::parse(it).is_none()).map(|(name, _)| name.as_str()).collect();
        if !wrong.is_empty() {
            return Err(PluginAdminError::Decision(wrong.join(", ")).into());
        }
        let mut world = self.world.lock().await;
        let decisions: Vec<_> = said
            .iter()
            .flat_map(|(name, said)| {
                let decision = Decision::parse(said);
                let concerned = world.decidable(name);
                concerned.into_iter().filter_map(move |(folder, digest)| Some((folder, digest?, decision?)))
            })
            .collect();
        if !decisions.is_empty() {
            let store = self.store()?;
            let aside = blocking(move || store.decide(&decisions)).await?;
            self.tell_set_aside(aside);
            self.look(&mut world).await?;
        }
        let named = |wanted: &str| said.iter().filter(|it| it.1 == wanted).map(|it| it.0.clone()).collect();
        Ok(PluginTrustApplied { trusted: named("trust"), denied: named("deny"), loaded: self.view().plugins.len() })
    }

    pub(crate) async fn set_enabled(self: Arc<Self>, name: String, is_enabled: bool) -> Done<()> {
        let mut world = self.world.lock().await;
        if !world.has(&name) {
            return Err(PluginAdminError::NotFound(name).into());
        }
        let store = self.store()?;
        let kept = name.clone();
        let aside = blocking(move || store.enable(&kept, is_enabled)).await?;
        self.tell_set_aside(aside);
        let done = world.set_enabled(&self.fleet, &name, is_enabled).await;
        self.show(&world).await?;
        done
    }

    pub(crate) async fn remove(self: Arc<Self>, name: String) -> Done<()> {
        let mut world = self.world.lock().await;
        let Some(loaded) = world.loaded(&name) else { return Err(PluginAdminError::NotFound(name).into()) };
        let was_enabled = world.is_enabled(&name);
        // Its scripts are gone before their files are.
        world.set_enabled(&self.fleet, &name, false).await?;
        let (path, folder, forgotten) = (loaded.found_at.clone(), loaded.folder, name.clone());
        let store = store(self.setting());
        let removed = blocking(move || take_away(&path, || store.map(|it| it.forget(&folder, &forgotten)).transpose()));
        let removed = removed.await;
        match &removed {
            Ok(Removed { set_aside, left }) => {
                self.tell_set_aside(set_aside.clone().flatten());
                if let Some(left) = left {
                    self.tell_left(&name, &format!("it is removed, but {left}"));
                }
            }
            // A gate does not open because it could not be removed.
            Err(_) => world.set_enabled(&self.fleet, &name, was_enabled).await?,
        }
        // What it stood in front of is there again.
        self.look(&mut world).await?;
        removed.map(drop).map_err(|why| match why {
            NotRemoved::NotKept(why) => why.into(),
            NotRemoved::Io(why) => {
                let message = format!("plugin '{name}' in {} was not removed: {why}", loaded.found_at.display());
                PluginAdminError::Install { code: "PLUGIN_NOT_REMOVED", message }.into()
            }
        })
    }

    /// Tells the user what could not be cleared away.
    pub(crate) fn tell_left(&self, name: &str, left: &str) {
        self.fleet.ctx.logger().warn(format_args!("[plugins] {name}: {left}"));
        notice(&self.fleet.ctx, name, None, None, PluginNoticeLevel::Warning, format!("[{name}] {left}"));
    }

    /// Has what was put into a folder run, if it may.
    pub(crate) async fn look_again(self: Arc<Self>) -> Done<()> {
        let mut world = self.world.lock().await;
        self.look(&mut world).await
    }

    pub(crate) fn tell_set_aside(&self, aside: Option<PathBuf>) {
        if let Some(aside) = aside {
            let aside = aside.display();
            let what = format!("a file of decisions about plugins could not be read; it is kept as {aside}");
            self.fleet.ctx.logger().warn(format_args!("[plugins] {what}"));
        }
    }

    /// Where plugins of a scope are.
    pub(crate) fn root(&self, scope: PluginScope) -> Result<PathBuf, PluginAdminError> {
        let (root, message) = match scope {
            PluginScope::Global => {
                (self.setting().global_root(), "global plugin install unavailable (no ~/.catalyst-code/plugins)")
            }
            PluginScope::Workspace => (self.setting().workspace_root(), "there is no workspace to install a plugin in"),
        };
        root.ok_or_else(|| PluginAdminError::Install { code: "PLUGIN_NO_ROOT", message: message.to_owned() })
    }
}

/// What came of taking a plugin away.
#[derive(Debug)]
struct Removed<T> {
    /// What forgetting it gave.
    set_aside: T,
    /// What could not be cleared away, in words.
    left: Option<String>,
}

/// Why a plugin is in its place still.
#[derive(Debug)]
enum NotRemoved {
    Io(std::io::Error),
    NotKept(NotKept),
}

/// Takes a plugin out of its place, in one step and whole, and has what was decided about it forgotten; a link goes itself.
fn take_away<T>(path: &Path, forget: impl FnOnce() -> Result<T, NotKept>) -> Result<Removed<T>, NotRemoved> {
    let root = path.parent().unwrap_or(Path::new("/"));
    let beside = Staging::new(root).map_err(NotRemoved::Io)?;
    let aside = beside.path().join("removed");
    move_away(path, &aside).map_err(NotRemoved::Io)?;
    match forget() {
        Ok(set_aside) => {
            let place = beside.path().display().to_string();
            let left = beside.close().err();
            let left = left.map(|why| format!("{place} could not be cleared away: {why}; the next install does that"));
            Ok(Removed { set_aside, left })
        }
        Err(why) => {
            if let Err(error) = move_away(&aside, path) {
                let kept = beside.keep();
                let what = format!("{why}; and it could not be put back: {error}; it is kept in {}", kept.display());
                return Err(NotRemoved::Io(std::io::Error::other(what)));
            }
            Err(NotRemoved::NotKept(why))
        }
    }
}

/// Where decisions are kept.
fn store(setting: &Setting) -> Option<Store> {
    let workspace = setting.workspace().map(|it| real_path(it).unwrap_or_else(|_| it.to_owned()));
    setting.kept_folder().map(|it| Store::new(&it, workspace.as_deref().map(Path::new)))
}
