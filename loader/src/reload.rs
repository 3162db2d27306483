//! A new version of a library takes the place of the old one while plugins of it run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_bus::{AnyPlugin, BusError, Fiber, FiberState, Mounting, Prepared, Switched};
use linn_services::events::HmrReload;

use crate::apply::{needs_of, read};
use crate::check::{check, wrong};
use crate::library::{Digest, Image, LibraryError, give_back};
use crate::loader::{Loader, State};
use crate::problem::EntryFault;
use crate::registry::Found;

/// What a reload came to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reloaded {
    /// The file has the content that runs.
    Unchanged,
    /// Nothing of the library ran; it was looked at anew, and entries that want it were mounted.
    Known,
    /// The new version runs.
    Switched {
        /// Ids of the entries that were switched.
        entries: Vec<String>,
        /// Content of the new version.
        digest: Digest,
    },
}

/// Why the old version runs on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The new library is not one to load.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// An entry does not run with the new version.
    #[error("entry `{entry}` does not run with the new version, so the old one runs on: {fault}")]
    Entry {
        /// Id of the entry.
        entry: String,
        /// Why.
        #[source]
        fault: EntryFault,
    },
}

impl ReloadError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Library(error) => error.code(),
            Self::Entry { fault, .. } => fault.code(),
        }
    }
}

/// An entry with its new version in the wings.
struct Coming {
    id: String,
    found: Found,
    prepared: Prepared<AnyPlugin>,
}

impl Loader {
    /// Loads the version of a library that its file has now, and switches every entry that runs a plugin of it: the new
    /// version starts unseen, takes the place of the old one in one step, and the old one ends once its calls have. Where
    /// anything fails, the old version runs on.
    ///
    /// The old library stays in memory, without its clean pages, and is counted; see
    /// [`LoaderSettings::max_pinned`](crate::LoaderSettings::max_pinned).
    ///
    /// # Errors
    ///
    /// Why the old version runs on. Not cancel safe: dropping the future leaves new versions in the wings.
    pub async fn reload(&self, path: &Path) -> Result<Reloaded, ReloadError> {
        let mut state = self.0.state.lock().await;
        let state = &mut *state;
        let needs_trust = state.registry.libraries.get(path).is_none_or(|it| it.needs_trust);
        let file = match read(path).await {
            Ok(file) => file,
            Err(error) => {
                state.registry.learn(path.to_owned(), needs_trust, Err(error.clone()));
                return Err(error.into());
            }
        };
        let image = state.registry.libraries.get(path).and_then(|it| it.image.clone());
        let Some(old) = image else {
            state.registry.learn(path.to_owned(), needs_trust, Ok(file));
            let tree = state.tree.clone();
            let applied = self.apply_to(state, &tree).await;
            state.problems = applied.problems;
            return Ok(Reloaded::Known);
        };
        if old.file.digest == file.digest {
            return Ok(Reloaded::Unchanged);
        }
        state.registry.objection(&file, self.0.settings.trust.as_ref())?;
        let max_pinned = self.0.settings.max_pinned;
        if state.n_pinned >= max_pinned {
            return Err(LibraryError::TooManyPinned { n_pinned: state.n_pinned, max_pinned }.into());
        }
        let digest = file.digest;
        let new = self.open_file(state, file).await?;
        // Whichever of the two is not used from here on stays in memory.
        state.n_pinned += 1;
        let outcome = self.switch_all(state, &new).await;
        let Ok(switched) = outcome else {
            new.detach();
            give_back(new.copy(), self.0.scratch.path());
            return outcome.map(|_| Reloaded::Unchanged);
        };
        state.registry.opened(path, new);
        let entries: Vec<String> = switched.iter().map(|(id, _)| id.clone()).collect();
        let plugins: BTreeMap<String, PathBuf> = entries.iter().map(|id| (id.clone(), path.to_owned())).collect();
        self.retire(old, switched.into_iter().map(|(_, it)| it).collect());
        // Plugins that the old version did not have may be wanted.
        let tree = state.tree.clone();
        state.problems = self.apply_to(state, &tree).await.problems;
        self.0.ctx.emit(&HmrReload { plugins });
        Ok(Reloaded::Switched { entries, digest })
    }

    /// Prepares all entries of the library, and switches them once all are ready.
    async fn switch_all(
        &self,
        state: &mut State,
        new: &Arc<Image>,
    ) -> Result<Vec<(String, Option<Switched<AnyPlugin>>)>, ReloadError> {
        let of_library = |it: &crate::loader::Live| {
            it.fiber.id().is_some() && it.found.image.as_ref().is_some_and(|it| it.file.path == new.file.path)
        };
        let ids: Vec<_> = state.live.iter().filter(|(_, it)| of_library(it)).map(|(id, _)| id.clone()).collect();
        let mut coming = Vec::new();
        let mut waiting = Vec::new();
        for id in ids {
            match self.prepare(state, &id, new).await {
                Ok(Some(it)) => coming.push(it),
                Ok(None) => waiting.push(id),
                Err(fault) => {
                    abandon(coming).await;
                    return Err(ReloadError::Entry { entry: id, fault });
                }
            }
        }
        for at in 0..coming.len() {
            let fault = match coming[at].prepared.fiber().settled().await {
                Ok(FiberState::Active) => continue,
                Ok(_) => BusError::Waiting {
                    plugin: coming[at].prepared.fiber().name().into(),
                    waits_for: coming[at].prepared.fiber().waits_for(),
                },
                Err(error) => error,
            };
            let entry = coming[at].id.clone();
            abandon(coming).await;
            return Err(ReloadError::Entry { entry, fault: fault.into() });
        }
        let mut switched = Vec::new();
        let mut coming = coming.into_iter();
        while let Some(Coming { id, found, prepared }) = coming.next() {
            let Some(live) = state.live.get_mut(&id) else { continue };
            self.0.forget(&live.fiber);
            self.0.ours().push((prepared.fiber().clone(), id.clone()));
            let new_fiber = prepared.fiber().clone();
            match prepared.switch().await {
                Ok(done) => {
                    live.fiber = new_fiber;
                    live.found = found;
                    switched.push((id, Some(done)));
                }
                Err(error) => {
                    self.0.forget(&new_fiber);
                    self.0.ours().push((live.fiber.clone(), id.clone()));
                    abandon(coming.collect()).await;
                    self.switch_back(state, &switched).await;
                    return Err(ReloadError::Entry { entry: id, fault: error.into() });
                }
            }
        }
        // What did not run has nothing to lose.
        for id in waiting {
            if let Some(live) = state.live.remove(&id) {
                self.0.forget(&live.fiber);
                live.fiber
                    .dispose()
                    .await
                    .map_err(|error| ReloadError::Entry { entry: id.clone(), fault: error.into() })?;
                switched.push((id, None));
            }
        }
        Ok(switched)
    }

    /// Prepares one entry; none when the old version does not run either.
    async fn prepare(&self, state: &State, id: &str, new: &Arc<Image>) -> Result<Option<Coming>, EntryFault> {
        let Some(live) = state.live.get(id) else { return Ok(None) };
        let plugin = &live.entry.plugin;
        let gone = || EntryFault::PluginGone { plugin: plugin.clone() };
        let descriptor = new.contents().plugins.iter().find(|it| it.name == plugin).copied().ok_or_else(gone)?;
        check(descriptor, &live.entry.config).map_err(|it| it.fault)?;
        if live.fiber.state() != FiberState::Active {
            return Ok(None);
        }
        let found = Found { descriptor, image: Some(new.clone()) };
        let prepared = self.prepare_with(state, id, &live.fiber, &found)?;
        Ok(Some(Coming { id: id.to_owned(), found, prepared }))
    }

    fn prepare_with(
        &self,
        state: &State,
        id: &str,
        old: &Fiber,
        found: &Found,
    ) -> Result<Prepared<AnyPlugin>, EntryFault> {
        let Some(live) = state.live.get(id) else { return Err(EntryFault::Kept) };
        let ctx = self.view(state, &live.services)?;
        let mounting = Mounting { place: live.place.clone(), needs: needs_of(state, &live.services)? };
        found.descriptor.prepare(&ctx, Some(old), &mounting, &live.entry.config).map_err(|error| match error {
            linn_bus::PluginError::Bus(error) => error.into(),
            linn_bus::PluginError::Config { plugin, source } => wrong(&plugin, &live.entry.config, &source).fault,
            _ => EntryFault::Kept,
        })
    }

    /// Puts the old version back for entries that were switched before one could not be.
    async fn switch_back(&self, state: &mut State, switched: &[(String, Option<Switched<AnyPlugin>>)]) {
        for (id, _) in switched {
            let Some(live) = state.live.get(id) else { continue };
            let path = live.found.image.as_ref().map(|it| it.file.path.clone());
            let old = path.and_then(|it| state.registry.libraries.get(&it)?.image.clone());
            let plugin = live.entry.plugin.clone();
            let descriptor =
                old.as_ref().and_then(|it| it.contents().plugins.iter().find(|it| it.name == plugin)).copied();
            let Some(descriptor) = descriptor else { continue };
            let found = Found { descriptor, image: old };
            let back = match self.prepare_with(state, id, &live.fiber, &found) {
                Ok(prepared) => {
                    let fiber = prepared.fiber().clone();
                    self.0.forget(&live.fiber);
                    self.0.ours().push((fiber.clone(), id.clone()));
                    prepared.switch().await.map(|_| fiber).map_err(EntryFault::from)
                }
                Err(fault) => Err(fault),
            };
            match (back, state.live.get_mut(id)) {
                (Ok(fiber), Some(live)) => {
                    live.fiber = fiber;
                    live.found = found;
                }
                (Ok(_), None) => {}
                (Err(fault), _) => {
                    let entry = id.as_str();
                    tracing::error!(
                        entry,
                        code = fault.code(),
                        "the new version runs on, for the old one does not: {fault}"
                    );
                }
            }
        }
    }

    /// Lets go of an old version once everything of it has ended.
    fn retire(&self, old: Arc<Image>, switched: Vec<Option<Switched<AnyPlugin>>>) {
        let (path, folder) = (old.file.path.clone(), self.0.scratch.path().to_owned());
        let work = async move {
            for switched in switched.into_iter().flatten() {
                if let Err(error) = switched.old_gone().await {
                    // What would not end may be inside the library still.
                    tracing::error!(library = %path.display(), code = error.code(), "{error}");
                    return;
                }
            }
            old.detach();
            let n_bytes = give_back(old.copy(), &folder);
            tracing::debug!(library = %path.display(), n_bytes, "the old version ended");
        };
        if let Err(error) = self.0.ctx.spawn(work) {
            // The loader is going down, and with it all there is.
            tracing::debug!(code = error.code(), "{error}");
        }
    }
}

/// Takes back what was prepared.
async fn abandon(coming: Vec<Coming>) {
    for coming in coming {
        if let Err(error) = coming.prepared.fiber().dispose().await {
            tracing::error!(entry = coming.id, code = error.code(), "{error}");
        }
    }
}
