//! The loader, and what it keeps of what it mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::lock::Mutex as AsyncMutex;
use linn_bus::{BusError, Context, Fault, Fiber, FiberState, InternalPlugin};
use linn_config::{EntryServices, Tree};
use linn_services::events::{LoaderConfigUpdate, PluginEntry};

use crate::library::{LibraryFile, TrustStore};
use crate::place::Level;
use crate::problem::EntryProblem;
use crate::registry::{Found, LibrarySource, Registry, expand};
use crate::system::{self, Scratch};

/// What a loader is set to.
#[derive(Debug, Clone)]
pub struct LoaderSettings {
    /// Where libraries are; a path that is not there is passed over if it is a folder.
    pub libraries: Vec<LibrarySource>,
    /// What of a repository may run; nothing without it.
    pub trust: Option<TrustStore>,
    /// How many libraries that were replaced may stay in memory before a reload is refused.
    pub max_pinned: usize,
}

impl Default for LoaderSettings {
    fn default() -> Self {
        Self { libraries: Vec::new(), trust: None, max_pinned: 64 }
    }
}

/// Mounts plugins, and keeps them as they are configured. A cheap handle.
///
/// Everything it mounts is below its own fiber: disposing that disposes all of it.
#[derive(Clone)]
pub struct Loader(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ctx: Context,
    pub(crate) fiber: Fiber,
    pub(crate) settings: LoaderSettings,
    /// Where copies of libraries are opened.
    pub(crate) scratch: Scratch,
    pub(crate) state: AsyncMutex<State>,
    /// The fibers that entries run in now. One that goes by itself is still in here when it goes.
    pub(crate) ours: Mutex<Vec<(Fiber, String)>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) live: BTreeMap<String, Live>,
    /// The order of siblings, by id, with the group they are in.
    pub(crate) levels: BTreeMap<String, (Option<String>, Level)>,
    /// Entries that were told of as new.
    pub(crate) introduced: BTreeSet<String>,
    /// What was applied last.
    pub(crate) tree: Tree,
    /// Configs that were set through the loader since, by id.
    pub(crate) set: BTreeMap<String, serde_json::Value>,
    pub(crate) problems: Vec<EntryProblem>,
    pub(crate) n_opened: u64,
    pub(crate) n_pinned: usize,
}

/// An entry that is mounted.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) entry: PluginEntry,
    /// What the groups around it, and it itself, say of services, each with its id; the outermost first.
    pub(crate) services: Vec<(String, EntryServices)>,
    pub(crate) place: Vec<u32>,
    pub(crate) fiber: Fiber,
    pub(crate) found: Found,
}

/// What became of a tree.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Applied {
    /// Entries that were mounted, by id.
    pub started: Vec<String>,
    /// Entries that were given another config, and restarted with it.
    pub updated: Vec<String>,
    /// Entries that were put in another place; they run on.
    pub moved: Vec<String>,
    /// Entries that were disposed and mounted again, since what they see of services changed.
    pub replaced: Vec<String>,
    /// Entries that were disposed.
    pub stopped: Vec<String>,
    /// What is wrong with entries. What is not in here runs as it is written, or waits for a service.
    pub problems: Vec<EntryProblem>,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Loader {
    /// A loader below `ctx` that has mounted nothing yet. Libraries are looked at and not opened.
    ///
    /// # Errors
    ///
    /// The context is going down, or there is no folder for temporary files.
    pub async fn start(ctx: &Context, settings: LoaderSettings) -> Result<Self, BusError> {
        let fiber = ctx.mount_fn("loader", async |_: Context, (): ()| Ok::<(), Fault>(()))?;
        fiber.running().await?;
        let gone = || BusError::Disposed { plugin: "loader".into() };
        let own = fiber.context().ok_or_else(gone)?;
        let sources = settings.libraries.clone();
        let prepared = system::off_thread(move || {
            let scratch = Scratch::new()?;
            let looked_at = expand(&sources).into_iter().map(|(path, needs_trust, error)| {
                let file = error.map_or_else(|| LibraryFile::read(&path).map(LibraryFile::without_bytes), Err);
                (path, needs_trust, file)
            });
            Ok::<_, std::io::Error>((scratch, looked_at.collect::<Vec<_>>()))
        });
        let failed = |error: std::io::Error| BusError::StartFailed { plugin: "loader".into(), cause: error.into() };
        let (scratch, looked_at) = prepared.await.and_then(|it| it).map_err(failed)?;
        let mut registry = Registry::new();
        for (path, needs_trust, file) in looked_at {
            registry.learn(path, needs_trust, file);
        }
        let state = State {
            registry,
            live: BTreeMap::new(),
            levels: BTreeMap::new(),
            introduced: BTreeSet::new(),
            tree: Tree::default(),
            set: BTreeMap::new(),
            problems: Vec::new(),
            n_opened: 0,
            n_pinned: 0,
        };
        let state = AsyncMutex::new(state);
        let inner = Inner { ctx: own, fiber, settings, scratch, state, ours: Mutex::default() };
        let loader = Self(Arc::new(inner));
        let listener = Arc::downgrade(&loader.0);
        loader.0.ctx.on(move |it: &InternalPlugin| {
            if let Some(inner) = listener.upgrade() {
                inner.noticed(&it.fiber);
            }
        })?;
        Ok(loader)
    }

    /// The fiber that everything is mounted below.
    pub fn fiber(&self) -> &Fiber {
        &self.0.fiber
    }

    /// What is wrong with entries now.
    pub async fn problems(&self) -> Vec<EntryProblem> {
        self.0.state.lock().await.problems.clone()
    }

    /// The fiber of an entry, if it is mounted.
    pub async fn entry(&self, id: &str) -> Option<Fiber> {
        self.0.state.lock().await.live.get(id).map(|it| it.fiber.clone())
    }

    /// How many libraries stay in memory that are not in use any more.
    pub async fn n_pinned(&self) -> usize {
        self.0.state.lock().await.n_pinned
    }

    /// Files that libraries are loaded from.
    pub(crate) async fn library_files(&self) -> Vec<PathBuf> {
        self.0.state.lock().await.registry.libraries.keys().cloned().collect()
    }
}

impl Inner {
    pub(crate) fn ours(&self) -> std::sync::MutexGuard<'_, Vec<(Fiber, String)>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on what becomes of the fiber is the loader's doing.
    pub(crate) fn forget(&self, fiber: &Fiber) -> Option<String> {
        let mut ours = self.ours();
        let at = ours.iter().position(|(it, _)| it == fiber)?;
        Some(ours.swap_remove(at).1)
    }

    /// A fiber came or goes. A plugin that disposed itself is disabled from then on.
    fn noticed(&self, fiber: &Fiber) {
        if fiber.id().is_some() || self.fiber.state() != FiberState::Active {
            return;
        }
        if let Some(id) = self.forget(fiber) {
            self.ctx.emit(&LoaderConfigUpdate { id, config: None, is_disabled: Some(true) });
        }
    }
}
