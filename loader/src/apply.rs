//! From a plugin tree to fibers, by the difference to the last one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use linn_bus::{Context, Demand, Fiber, Mounting, NeedList, PluginError, Updated};
use linn_config::{Entry, EntryServices, Place, Realm, Tree};
use linn_services::events::{
    LoaderConfigUpdate, LoaderEntryInit, LoaderPartialDispose, LoaderPatchContext, PluginEntry,
};

use crate::check::{Wrong, check, place_of, wrong};
use crate::library::{Digest, LibraryError, LibraryFile, open};
use crate::loader::{Applied, Live, Loader, State};
use crate::place::{Level, arranged, placed};
use crate::problem::{EntryFault, EntryProblem, nearest};
use crate::registry::Found;
use crate::system;

/// An entry as it is to run.
struct Wanted<'a> {
    written: &'a Entry,
    entry: PluginEntry,
    services: Vec<(String, EntryServices)>,
    place: Vec<u32>,
}

impl Wanted<'_> {
    fn problem(&self, fault: EntryFault) -> EntryProblem {
        let by = self.written.config_by.as_ref().unwrap_or(&self.written.inserted_by);
        EntryProblem { entry: self.entry.id.clone(), place: Some(by.place.clone()), fault }
    }

    /// A problem with a field of the config.
    fn field_problem(&self, Wrong { key, fault }: Wrong) -> EntryProblem {
        let place: Option<Place> = place_of(&self.written.config, &key);
        let problem = self.problem(fault);
        EntryProblem { place: place.or(problem.place.clone()), ..problem }
    }
}

impl Loader {
    /// Makes what runs what a tree says: exactly the difference to what ran before is done, in its order. What is wrong with
    /// one entry does not touch the others; an entry that ran and is written wrong now runs on as it was.
    ///
    /// Ends when everything that was started runs, waits for a service, or failed. Not cancel safe: dropping the future
    /// leaves the rest undone, and the next call does it.
    pub async fn apply(&self, tree: &Tree) -> Applied {
        let mut state = self.0.state.lock().await;
        state.set.clear();
        let applied = self.apply_to(&mut state, tree).await;
        state.problems.clone_from(&applied.problems);
        applied
    }

    /// Gives an entry that runs another config, as an edit of the file would, and tells so as `loader/config-update`, for
    /// whoever keeps it. It holds until a tree is applied again.
    ///
    /// # Errors
    ///
    /// What is wrong with the config, or why the entry did not start with it; there is no such entry, or it does not run.
    pub async fn set_config(&self, id: &str, config: serde_json::Value) -> Result<(), EntryProblem> {
        let mut state = self.0.state.lock().await;
        if state.live.get(id).is_none_or(|it| it.fiber.id().is_none()) {
            let known = nearest(id, state.live.keys().map(String::as_str));
            let fault = EntryFault::NoEntry { similar: known };
            return Err(EntryProblem { entry: id.to_owned(), place: None, fault });
        }
        let before = state.set.insert(id.to_owned(), config.clone());
        let tree = state.tree.clone();
        let mut applied = Applied::default();
        let wanted = tree.get(id).and_then(|it| wanted(&state, &tree, it));
        let outcome = match &wanted {
            Some(wanted) => self.realise(&mut state, wanted, &mut applied).await,
            None => Ok(None),
        };
        match outcome {
            Ok(_) => {
                self.0.ctx.emit(&LoaderConfigUpdate { id: id.to_owned(), config: Some(config), is_disabled: None });
                Ok(())
            }
            Err(mut problem) => {
                // What was not taken is not set; what was taken and did not start is.
                if state.live.get(id).is_some_and(|it| it.entry.config != config) {
                    state.set.remove(id);
                    state.set.extend(before.map(|it| (id.to_owned(), it)));
                }
                problem.place = None;
                Err(*problem)
            }
        }
    }

    pub(crate) async fn apply_to(&self, state: &mut State, tree: &Tree) -> Applied {
        let mut applied = Applied::default();
        arrange(state, tree);
        let wanted: Vec<_> = tree.entries().iter().filter_map(|it| wanted(state, tree, it)).collect();
        self.stop_others(state, &wanted, &mut applied).await;
        let mut settling: Vec<(usize, Fiber)> = Vec::new();
        for (at, wanted) in wanted.iter().enumerate() {
            match self.realise(state, wanted, &mut applied).await {
                Ok(fiber) => settling.extend(fiber.map(|it| (at, it))),
                Err(problem) => applied.problems.push(*problem),
            }
        }
        for (at, fiber) in settling {
            if let Err(error) = fiber.settled().await {
                applied.problems.push(wanted[at].problem(error.into()));
            }
        }
        for problem in &applied.problems {
            tracing::error!(entry = problem.entry, code = problem.fault.code(), "{problem}");
        }
        applied
    }

    /// Disposes what is not wanted any more, the last first.
    async fn stop_others(&self, state: &mut State, wanted: &[Wanted<'_>], applied: &mut Applied) {
        // What disposed itself is gone already.
        state.live.retain(|_, it| it.fiber.id().is_some());
        let mut others: Vec<_> =
            state.live.keys().filter(|id| wanted.iter().all(|it| it.entry.id != **id)).cloned().collect();
        others.sort_by_key(|id| std::cmp::Reverse(state.live[id].place.clone()));
        for id in others {
            let Some(live) = state.live.remove(&id) else { continue };
            self.0.ctx.emit(&LoaderPartialDispose { old: live.entry.clone(), is_active: false });
            self.0.forget(&live.fiber);
            if let Err(error) = live.fiber.dispose().await {
                applied.problems.push(EntryProblem { entry: id.clone(), place: None, fault: error.into() });
            }
            applied.stopped.push(id);
        }
    }

    /// Has one entry run as it is wanted; the fiber that has something to do for that.
    async fn realise(
        &self,
        state: &mut State,
        wanted: &Wanted<'_>,
        applied: &mut Applied,
    ) -> Result<Option<Fiber>, Box<EntryProblem>> {
        let problem = |fault| Box::new(wanted.problem(fault));
        let id = &wanted.entry.id;
        let Some(live) = state.live.get(id) else {
            if state.introduced.insert(id.clone()) {
                self.0.ctx.emit(&LoaderEntryInit { entry: wanted.entry.clone() });
            }
            let found = self.find(state, wanted).await.map_err(problem)?;
            let fiber = self.mount(state, wanted, found)?;
            applied.started.push(id.clone());
            return Ok(Some(fiber));
        };
        let changes = changes(live, wanted);
        if changes.is_empty() {
            return Ok(None);
        }
        let found = match changes.contains(&"plugin") {
            true => self.find(state, wanted).await.map_err(problem)?,
            false => live.found.clone(),
        };
        if changes.contains(&"config") || changes.contains(&"plugin") {
            check(found.descriptor, &wanted.entry.config).map_err(|it| Box::new(wanted.field_problem(*it)))?;
        }
        let patch = LoaderPatchContext {
            entry: wanted.entry.clone(),
            changed: changes.iter().map(|it| (*it).to_owned()).collect(),
        };
        let may = self
            .0
            .ctx
            .waterfall(&patch, async || true)
            .await
            .map_err(|error| problem(EntryFault::Bus(error.into())))?;
        if !may {
            return Err(problem(EntryFault::Kept));
        }
        let Some(live) = state.live.get(id) else { return Ok(None) };
        self.0.ctx.emit(&LoaderPartialDispose { old: live.entry.clone(), is_active: true });
        self.change(state, wanted, found, &changes, applied).await
    }

    /// Applies changes to an entry that runs.
    async fn change(
        &self,
        state: &mut State,
        wanted: &Wanted<'_>,
        found: Found,
        changes: &[&str],
        applied: &mut Applied,
    ) -> Result<Option<Fiber>, Box<EntryProblem>> {
        let problem = |fault| Box::new(wanted.problem(fault));
        let id = &wanted.entry.id;
        let Some(live) = state.live.get_mut(id) else { return Ok(None) };
        if changes.contains(&"services") || changes.contains(&"plugin") {
            // What it sees of services is part of its fiber, as its plugin is, so this takes another one.
            let old = live.fiber.clone();
            self.0.forget(&old);
            state.live.remove(id);
            let outcome = old.dispose().await;
            let fiber = self.mount(state, wanted, found)?;
            applied.replaced.push(id.clone());
            outcome.map_err(|error| problem(error.into()))?;
            return Ok(Some(fiber));
        }
        if changes.contains(&"place") {
            live.fiber.move_to(&wanted.place).map_err(|error| problem(error.into()))?;
            live.place.clone_from(&wanted.place);
            live.entry.parent.clone_from(&wanted.entry.parent);
            applied.moved.push(id.clone());
        }
        live.services.clone_from(&wanted.services);
        if !changes.contains(&"config") {
            return Ok(None);
        }
        let outcome = live.found.descriptor.update(&live.fiber, &wanted.entry.config).await;
        match outcome {
            Ok(Updated::Kept) => Err(problem(EntryFault::Kept)),
            Ok(_) => {
                live.entry.config.clone_from(&wanted.entry.config);
                applied.updated.push(id.clone());
                Ok(None)
            }
            Err(error) => {
                // It was stored, and failed to start: the next change is one to this config.
                live.entry.config.clone_from(&wanted.entry.config);
                Err(Box::new(plugin_problem(wanted, error)))
            }
        }
    }

    fn mount(&self, state: &mut State, wanted: &Wanted<'_>, found: Found) -> Result<Fiber, Box<EntryProblem>> {
        let descriptor = found.descriptor;
        check(descriptor, &wanted.entry.config).map_err(|it| Box::new(wanted.field_problem(*it)))?;
        let (ctx, mounting) = self.surroundings(state, wanted).map_err(|fault| Box::new(wanted.problem(fault)))?;
        let fiber = descriptor
            .mount(&ctx, &mounting, &wanted.entry.config)
            .map_err(|error| Box::new(plugin_problem(wanted, error)))?;
        self.0.ours().push((fiber.clone(), wanted.entry.id.clone()));
        let live = Live {
            entry: wanted.entry.clone(),
            services: wanted.services.clone(),
            place: wanted.place.clone(),
            fiber: fiber.clone(),
            found,
        };
        state.live.insert(wanted.entry.id.clone(), live);
        Ok(fiber)
    }

    fn surroundings(&self, state: &State, wanted: &Wanted<'_>) -> Result<(Context, Mounting), EntryFault> {
        let ctx = self.view(state, &wanted.services)?;
        let needs = needs_of(state, &wanted.services)?;
        Ok((ctx, Mounting { place: wanted.place.clone(), needs }))
    }

    /// The context in which an entry sees services as is said of it.
    pub(crate) fn view(&self, state: &State, services: &[(String, EntryServices)]) -> Result<Context, EntryFault> {
        let mut ctx = self.0.ctx.clone();
        for (owner, services) in services {
            for (name, realm) in &services.isolate {
                let service = state.registry.service("isolate", name)?;
                ctx = ctx.isolate_described(service, Some(&label_of(owner, realm)));
            }
            for (name, config) in &services.intercept {
                ctx = ctx.intercept_described(state.registry.service("intercept", name)?, config);
            }
        }
        Ok(ctx)
    }

    /// Finds the plugin of an entry, and opens its library if need be.
    async fn find(&self, state: &mut State, wanted: &Wanted<'_>) -> Result<Found, EntryFault> {
        let PluginEntry { plugin, config, .. } = &wanted.entry;
        if wanted.written.needs_trust() {
            let digest = entry_digest(plugin, config);
            let trust = self.0.settings.trust.clone();
            let is_trusted = system::off_thread(move || trust.is_some_and(|it| it.is_trusted(&digest))).await;
            if !is_trusted.unwrap_or(false) {
                return Err(EntryFault::NotTrusted { digest });
            }
        }
        match state.registry.find(plugin) {
            Ok(found) => return Ok(found),
            Err(None) => return Err(state.registry.unknown(plugin)),
            Err(Some(path)) => {
                let outcome = self.open(state, &path).await;
                outcome.map_err(|source| EntryFault::Library { plugin: plugin.clone(), source })?;
            }
        }
        state.registry.find(plugin).map_err(|_| state.registry.unknown(plugin))
    }

    /// Opens a library for the first time.
    async fn open(&self, state: &mut State, path: &Path) -> Result<(), LibraryError> {
        let file = read(path).await?;
        state.registry.objection(&file, self.0.settings.trust.as_ref())?;
        let image = self.open_file(state, file).await?;
        state.registry.opened(path, image);
        Ok(())
    }

    /// Opens what was read and found to be in order.
    pub(crate) async fn open_file(
        &self,
        state: &mut State,
        file: LibraryFile,
    ) -> Result<Arc<crate::library::Image>, LibraryError> {
        state.n_opened += 1;
        let (number, folder, path) = (state.n_opened, self.0.scratch.path().to_owned(), file.path.clone());
        let opened = system::off_thread(move || open(&file, &folder, number)).await;
        opened.map_err(|error| crate::library::file_error("open", &path, error))?.map(Arc::new)
    }
}

/// Reads a library off the thread.
pub(crate) async fn read(path: &Path) -> Result<LibraryFile, LibraryError> {
    let owned = path.to_owned();
    let read = system::off_thread(move || LibraryFile::read(&owned)).await;
    read.map_err(|error| crate::library::file_error("read", path, error))?
}

/// Stands for an entry of a repository among what is trusted: another plugin or config is another digest.
pub(crate) fn entry_digest(plugin: &str, config: &serde_json::Value) -> Digest {
    Digest::of(format!("entry\n{plugin}\n{config}").as_bytes())
}

fn plugin_problem(wanted: &Wanted<'_>, error: PluginError) -> EntryProblem {
    match error {
        PluginError::Config { plugin, source } => wanted.field_problem(wrong(&plugin, &wanted.entry.config, &source)),
        PluginError::Bus(error) => wanted.problem(error.into()),
        other => {
            let plugin = wanted.entry.plugin.clone();
            let (key, value) = (String::new(), String::new());
            wanted.problem(EntryFault::Config { plugin, key, value, message: other.to_string() })
        }
    }
}

/// Services that entries name for plugins to wait for.
pub(crate) fn needs_of(state: &State, services: &[(String, EntryServices)]) -> Result<NeedList, EntryFault> {
    let mut needs = NeedList::default();
    for name in services.iter().flat_map(|(_, it)| &it.inject) {
        needs.add_described(state.registry.service("inject", name)?, Demand::Required);
    }
    Ok(needs)
}

/// What changes of an entry that runs.
fn changes(live: &Live, wanted: &Wanted<'_>) -> Vec<&'static str> {
    let mut changes = Vec::new();
    if live.entry.plugin != wanted.entry.plugin {
        changes.push("plugin");
    }
    if live.services != wanted.services && concerns(live, &wanted.services) {
        changes.push("services");
    }
    if live.place != wanted.place {
        changes.push("place");
    }
    if live.entry.config != wanted.entry.config {
        changes.push("config");
    }
    changes
}

/// Whether other words about services make a difference to a plugin: they are about one that it needs or provides.
fn concerns(live: &Live, services: &[(String, EntryServices)]) -> bool {
    let declared = [live.found.descriptor.needs(), live.found.descriptor.provides()];
    let declared: Vec<_> = declared.iter().flatten().flat_map(NeedList::iter).map(|it| it.service.name).collect();
    let meant = |services: &[(String, EntryServices)]| {
        let mut isolated = BTreeMap::new();
        for (owner, services) in services {
            isolated.extend(services.isolate.iter().map(|(name, realm)| (name.clone(), label_of(owner, realm))));
        }
        isolated.retain(|name, _| declared.contains(&name.as_str()));
        let inject: Vec<_> = services.iter().flat_map(|(_, it)| it.inject.clone()).collect();
        let intercept: Vec<_> = services.iter().flat_map(|(_, it)| it.intercept.clone()).collect();
        (isolated, inject, intercept)
    };
    meant(&live.services) != meant(services)
}

/// Names a realm. Those of entries and those of labels in files are never the same.
fn label_of(owner: &str, realm: &Realm) -> String {
    match realm {
        Realm::Private => format!("entry\0{owner}"),
        Realm::Shared(label) => format!("label\0{label}"),
    }
}

/// Gives every entry of a tree its place among its siblings, leaving as many as possible where they are.
fn arrange(state: &mut State, tree: &Tree) {
    let mut siblings: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    for entry in tree.entries() {
        siblings.entry(entry.parent.as_deref()).or_default().push(&entry.id);
    }
    let mut levels = BTreeMap::new();
    for (parent, ids) in siblings {
        let old: Vec<Option<Level>> = ids
            .iter()
            .map(|id| state.levels.get(*id).filter(|(it, _)| it.as_deref() == parent).map(|(_, level)| level.clone()))
            .collect();
        for (id, level) in ids.into_iter().zip(arranged(&old)) {
            levels.insert(id.to_owned(), (parent.map(str::to_owned), level));
        }
    }
    state.levels = levels;
    state.tree = tree.clone();
}

/// The groups around an entry and it itself, by id, the outermost first.
fn groups_of(tree: &Tree, entry: &Entry) -> Vec<String> {
    let mut around = vec![entry.id.clone()];
    let mut above = entry.parent.as_deref();
    while let Some(group) = above.and_then(|id| tree.get(id)) {
        around.push(group.id.clone());
        above = group.parent.as_deref();
    }
    around.reverse();
    around
}

fn wanted<'a>(state: &State, tree: &Tree, written: &'a Entry) -> Option<Wanted<'a>> {
    let plugin = written.plugin.clone().filter(|_| written.is_enabled)?;
    let around = groups_of(tree, written);
    let levels = around.iter().filter_map(|id| state.levels.get(id)).map(|(_, level)| level);
    let services = around.iter().filter_map(|id| Some((id.clone(), tree.get(id)?.services.clone()))).collect();
    let entry = PluginEntry {
        id: written.id.clone(),
        plugin,
        parent: written.parent.clone(),
        config: state.set.get(&written.id).cloned().unwrap_or_else(|| written.config.to_json()),
    };
    Some(Wanted { written, entry, services, place: placed(levels) })
}
