//! Files that change while the program runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_channel::mpsc;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use linn_bus::{BusError, Fault};
use linn_config::Tree;
use linn_services::events::HmrChange;
use notify::{RecursiveMode, Watcher as _};

use crate::library::give_back;
use crate::loader::{Live, Loader};
use crate::registry::{LibrarySource, is_library};
use crate::system;

/// What is watched, and what a change of the config means.
#[derive(Clone)]
pub struct Watching {
    /// Files that the plugin tree is read from.
    pub config: Vec<PathBuf>,
    /// Files whose changes are told as `hmr/change`.
    pub others: Vec<PathBuf>,
    /// How long nothing may have changed before something is done.
    pub debounce: Duration,
    /// Reads the plugin tree anew; it is called on a thread that may wait.
    pub tree: Arc<dyn Fn() -> Tree + Send + Sync>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watching").field("config", &self.config).field("others", &self.others).finish_non_exhaustive()
    }
}

impl Watching {
    /// Libraries, and these config files, from which `tree` is read.
    pub fn new(config: Vec<PathBuf>, tree: impl Fn() -> Tree + Send + Sync + 'static) -> Self {
        Self { config, others: Vec::new(), debounce: Duration::from_millis(100), tree: Arc::new(tree) }
    }
}

/// The folders that are watched, by the name that the system has for each: some systems tell of changes by that one.
#[derive(Default)]
struct Named(BTreeMap<PathBuf, PathBuf>);

impl Named {
    /// A file that changed, by the name that it was given here.
    fn as_given(&self, path: PathBuf) -> PathBuf {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path };
        match self.0.get(folder) {
            Some(given) => given.join(name),
            None => path,
        }
    }
}

impl Loader {
    /// Watches libraries and files until the loader goes: a library that was built anew is reloaded, a config file that was
    /// edited is applied, and any other file is told of. Several changes at once are one.
    ///
    /// # Errors
    ///
    /// The system does not watch; the loader is going down.
    pub async fn watch(&self, watching: Watching) -> Result<(), BusError> {
        let (sender, receiver) = mpsc::unbounded();
        let failed =
            |error: notify::Error| BusError::StartFailed { plugin: "loader".into(), cause: Fault::from(error) };
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if let Ok(event) = event
                && !event.kind.is_access()
            {
                for path in event.paths {
                    // Nobody listens once the loader is gone.
                    drop(sender.unbounded_send(path));
                }
            }
        })
        .map_err(failed)?;
        let mut folders = Folders { watcher, watched: BTreeSet::new(), named: Named::default() };
        folders.watch(&self.folders(&watching).await).map_err(failed)?;
        let loader = self.clone();
        self.0.ctx.spawn(async move { loader.follow(receiver, watching, folders).await })?;
        Ok(())
    }

    /// The folders that anything of interest is in, or would be.
    async fn folders(&self, watching: &Watching) -> BTreeSet<PathBuf> {
        let libraries = self.library_files().await;
        let files = libraries.iter().chain(&watching.config).chain(&watching.others);
        let parents = files.filter_map(|it| it.parent()).map(Path::to_owned);
        let is_file = |it: &&LibrarySource| is_library(&it.path) && !it.path.is_dir();
        let sources = self.0.settings.libraries.iter().filter(|it| !is_file(it)).map(|it| it.path.clone());
        parents.chain(sources).collect()
    }

    async fn follow(&self, mut changes: mpsc::UnboundedReceiver<PathBuf>, watching: Watching, mut folders: Folders) {
        while let Some(first) = changes.next().await {
            let mut changed = BTreeSet::from([first]);
            loop {
                let quiet = std::pin::pin!(self.0.ctx.sleep(watching.debounce));
                match select(changes.next(), quiet).await {
                    Either::Left((Some(more), _)) => {
                        changed.insert(more);
                    }
                    Either::Left((None, _)) | Either::Right((Err(_), _)) => return,
                    Either::Right((Ok(()), _)) => break,
                }
            }
            // A folder that was made meanwhile may hold files already, which nobody told of.
            match folders.watch(&self.folders(&watching).await) {
                Ok(new) => changed.extend(new.iter().flat_map(|it| system::files_in(it).unwrap_or_default())),
                Err(error) => tracing::error!("folders are not watched: {error}"),
            }
            let changed = changed.into_iter().map(|it| folders.named.as_given(it)).collect();
            self.changed(&changed, &watching).await;
        }
    }

    async fn changed(&self, changed: &BTreeSet<PathBuf>, watching: &Watching) {
        if changed.iter().any(|it| watching.config.contains(it)) {
            let read = watching.tree.clone();
            match system::off_thread(move || read()).await {
                Ok(tree) => self.apply_and_tell(&tree).await,
                Err(error) => tracing::error!("the config was not read again: {error}"),
            }
        }
        let libraries = self.library_files().await;
        for path in changed {
            let is_new = is_library(path)
                && path.is_file()
                && self.0.settings.libraries.iter().any(|it| path.parent() == Some(it.path.as_path()));
            if libraries.contains(path) && !path.exists() {
                self.library_went(path).await;
            } else if libraries.contains(path) || is_new {
                match self.reload(path).await {
                    Ok(outcome) => tracing::info!(library = %path.display(), "{outcome:?}"),
                    Err(error) => tracing::error!(library = %path.display(), code = error.code(), "{error}"),
                }
            } else if watching.others.contains(path) {
                self.0.ctx.emit(&HmrChange { path: path.clone() });
            }
        }
    }

    /// Applies a tree, and tells what is wrong with it that was not wrong before.
    async fn apply_and_tell(&self, tree: &Tree) {
        let known: Vec<_> = self.problems().await.iter().map(ToString::to_string).collect();
        for problem in self.apply(tree).await.problems {
            let text = problem.to_string();
            if !known.contains(&text) {
                tracing::warn!(entry = problem.entry, code = problem.fault.code(), "{text}");
            }
        }
    }

    /// Forgets a library whose file went, if nothing of it runs.
    async fn library_went(&self, path: &Path) {
        let mut state = self.0.state.lock().await;
        let is_of_it = |it: &Live| it.found.image.as_ref().is_some_and(|it| it.file.path == path);
        if state.live.values().any(is_of_it) {
            tracing::warn!(library = %path.display(), "the file is gone; what runs of it runs on");
        } else if let Some(image) = state.registry.forget(path) {
            state.n_pinned += 1;
            image.detach();
            give_back(image.copy(), self.0.scratch.path());
        }
    }
}

/// What is watched: folders, because files are replaced by renaming others over them.
struct Folders {
    watcher: notify::RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    named: Named,
}

impl Folders {
    /// Watches these folders too; in place of one that is not there, the nearest around it that is. Which of them it did not
    /// watch before.
    fn watch(&mut self, wanted: &BTreeSet<PathBuf>) -> notify::Result<Vec<PathBuf>> {
        // One that was removed is another one when it comes back.
        self.watched.retain(|it| it.is_dir());
        let mut new = Vec::new();
        for folder in wanted {
            let Some(there) = folder.ancestors().find(|it| it.is_dir()) else { continue };
            if self.watched.contains(there) {
                continue;
            }
            match self.watcher.watch(there, RecursiveMode::NonRecursive) {
                Ok(()) if there == folder => new.push(folder.clone()),
                Ok(()) => {}
                Err(error) if there == folder => return Err(error),
                // What stands in for it is of others.
                Err(_) => continue,
            }
            self.named.0.insert(system::canonical(there), there.to_owned());
            self.watched.insert(there.to_owned());
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_the_name_of_its_folder_that_was_given() {
        let named = Named([("/private/var/x".into(), "/var/x".into())].into_iter().collect());
        let as_given = |path: &str| named.as_given(path.into()).display().to_string();
        assert_eq!(as_given("/private/var/x/libgate.dylib"), "/var/x/libgate.dylib");
        assert_eq!(as_given("/var/x/libgate.dylib"), "/var/x/libgate.dylib");
        assert_eq!(as_given("/other/libgate.dylib"), "/other/libgate.dylib");
    }
}
