//! The plugin tree: a flat list of entries, patched by id from layer to layer.
//!
//! The order of entries is the order in which listeners of their plugins run, so it is part of what is configured.

mod patch;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value as Json;

use crate::node::{Data, Node};
use crate::origin::{Layer, Origin, Place};
use crate::problem::{EntryFault, Problem, nearest};

pub(crate) use patch::{Patch, Side};

/// What a repository may change of an entry that is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// Its config.
    Config,
    /// Whether it runs.
    Disabled,
    /// Its place.
    Place,
}

impl Change {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Disabled => "disabled",
            Self::Place => "place",
        }
    }

    /// All of them.
    pub const ALL: [Self; 3] = [Self::Config, Self::Disabled, Self::Place];
}

/// An entry that the program is built with.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// Its id, which no other entry has.
    pub id: String,
    /// The plugin it mounts; `None` for a group.
    pub plugin: Option<String>,
    /// The group it is in; `None` for the top.
    pub parent: Option<String>,
    /// Its config, a JSON object.
    pub config: Json,
    /// Whether it runs only when the user says so.
    pub is_disabled: bool,
    /// What a repository may change of it.
    pub repository: Vec<Change>,
}

impl BuiltIn {
    /// The plugin `plugin` under its own name, at the top, without config, closed to repositories.
    pub fn plugin(plugin: impl Into<String>) -> Self {
        let plugin = plugin.into();
        Self {
            id: plugin.clone(),
            plugin: Some(plugin),
            parent: None,
            config: Json::Object(serde_json::Map::new()),
            is_disabled: false,
            repository: Vec::new(),
        }
    }

    /// An empty group at the top.
    pub fn group(id: impl Into<String>) -> Self {
        Self { id: id.into(), plugin: None, ..Self::plugin("") }
    }
}

/// The config of an entry: a table whose fields belong to the plugin.
///
/// `Debug` and `Display` show it as it is written: variables are not filled in, and fields that by their name hold
/// secrets
/// are left out.
#[derive(Clone)]
pub struct EntryConfig(Node);

impl EntryConfig {
    pub(crate) fn new(node: Node) -> Option<Self> {
        matches!(node.data, Data::Table(_)).then_some(Self(node))
    }

    pub(crate) fn empty() -> Self {
        Self(Node { data: Data::Table(indexmap::IndexMap::new()), place: Place::BuiltIn })
    }

    /// The config as a JSON object, with variables filled in. It may hold secrets.
    pub fn to_json(&self) -> Json {
        self.0.to_json()
    }

    /// Where the field at a path such as `a.b` is written, for problems that the plugin finds; names only, no indices.
    pub fn place_of(&self, path: &str) -> Option<&Place> {
        self.0.at_path(path).map(|it| &it.place)
    }
}

impl fmt::Display for EntryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown())
    }
}

impl fmt::Debug for EntryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an entry, or a group for all in it, says of services by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EntryServices {
    /// Services that the plugin waits for beside those it names itself.
    pub inject: Vec<String>,
    /// Services it has apart from others: for itself, or with all that name the same label.
    pub isolate: BTreeMap<String, Realm>,
    /// Config it gives services that it uses, by service.
    pub intercept: BTreeMap<String, Json>,
}

/// With whom an entry shares a service that it has apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Realm {
    /// With nobody but what is in it.
    Private,
    /// With every entry that names this label.
    Shared(String),
}

/// One entry of the merged tree, with who said what of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id, which no other entry has.
    pub id: String,
    /// The plugin it mounts; `None` for a group.
    pub plugin: Option<String>,
    /// The group it is in; `None` for the top.
    pub parent: Option<String>,
    /// Whether it is disabled itself; see [`is_enabled`](Self::is_enabled).
    pub is_disabled: bool,
    /// Whether neither it nor a group around it is disabled.
    pub is_enabled: bool,
    /// Its config; empty for a group.
    pub config: EntryConfig,
    /// What it says of services.
    pub services: EntryServices,
    /// What a repository may change of it.
    pub repository: Vec<Change>,
    /// Who inserted it.
    pub inserted_by: Origin,
    /// Who set its config last, if anybody did after it was inserted.
    pub config_by: Option<Origin>,
    /// Who disabled or enabled it last, likewise.
    pub disabled_by: Option<Origin>,
    /// Who placed it last, likewise.
    pub placed_by: Option<Origin>,
}

impl Entry {
    /// Whether it is the repository's own and so may be mounted only once its user trusts what it runs.
    pub fn needs_trust(&self) -> bool {
        self.inserted_by.layer == Layer::Workspace
    }
}

/// The merged plugin tree.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Siblings stand in their order; whoever reads the list gets it depth first.
    entries: Vec<Entry>,
}

impl Tree {
    /// The entries, depth first: a group, then what is in it.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this id.
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|it| it.id == id)
    }

    /// The entries that somebody added to those the program is built with, in their order.
    #[must_use]
    pub fn added(&self) -> Self {
        let is_added = |it: &&Entry| it.inserted_by.layer != Layer::BuiltIn;
        let mut entries: Vec<_> = self.entries.iter().filter(is_added).cloned().collect();
        let known: Vec<_> = entries.iter().map(|it| it.id.clone()).collect();
        for entry in &mut entries {
            // The group of the program that it was put in is not there.
            entry.parent = entry.parent.take().filter(|it| known.contains(it));
        }
        Self { entries }
    }

    /// Applies all patches in order, and gives what is wrong with each that is not applied.
    pub(crate) fn merge(patches: impl IntoIterator<Item = Patch>) -> (Self, Vec<Problem>) {
        let mut tree = Self::default();
        let mut problems = Vec::new();
        for patch in patches {
            if let Err((place, fault)) = tree.apply(&patch) {
                problems.push(Problem::Entry { place, id: patch.id.clone(), fault });
            }
        }
        tree.finish();
        (tree, problems)
    }

    fn index(&self, id: &str) -> Option<usize> {
        self.entries.iter().position(|it| it.id == id)
    }

    fn nearest(&self, id: &str) -> Option<String> {
        nearest(id, self.entries.iter().map(|it| it.id.as_str()))
    }

    /// Applies all of `patch` or nothing.
    fn apply(&mut self, patch: &Patch) -> Result<(), (Place, EntryFault)> {
        let at_patch = |fault| (patch.origin.place.clone(), fault);
        let known = self.index(&patch.id);
        let is_group = match known {
            Some(at) => self.entries[at].plugin.is_none(),
            None => patch.is_group,
        };
        if is_group && (patch.plugin.is_some() || patch.config.is_some()) || !is_group && patch.is_group {
            return Err(at_patch(EntryFault::GroupOrPlugin));
        }
        match (known, &patch.plugin) {
            (None, None) if !patch.is_group => {
                return Err(at_patch(EntryFault::Unknown { similar: self.nearest(&patch.id) }));
            }
            (Some(at), Some(wants)) if self.entries[at].plugin.as_ref() != Some(wants) => {
                let has = self.entries[at].plugin.clone().unwrap_or_default();
                return Err(at_patch(EntryFault::OtherPlugin { has, wants: wants.clone() }));
            }
            _ => {}
        }
        self.check_repository(known, patch)?;
        let target = self.target(patch)?;
        let is_placed = known.is_none_or(|at| match &target {
            Target { beside: Some(_), .. } => true,
            Target { parent, .. } => patch.parent.is_some() && *parent != self.entries[at].parent,
        });
        let mut entry = match known {
            Some(at) if is_placed => self.entries.remove(at),
            Some(at) => self.entries[at].clone(),
            None => Entry {
                id: patch.id.clone(),
                plugin: patch.plugin.clone(),
                parent: None,
                is_disabled: false,
                is_enabled: true,
                config: EntryConfig::empty(),
                services: EntryServices::default(),
                repository: Vec::new(),
                inserted_by: patch.origin.clone(),
                config_by: None,
                disabled_by: None,
                placed_by: None,
            },
        };
        let by = |place: &Place| known.map(|_| Origin::new(patch.origin.layer, place.clone()));
        if let Some((config, place)) = &patch.config {
            entry.config = config.clone();
            entry.config_by = by(place);
        }
        if let Some((is_disabled, place)) = &patch.disabled {
            entry.is_disabled = *is_disabled;
            entry.disabled_by = by(place);
        }
        if let Some(inject) = &patch.inject {
            entry.services.inject.clone_from(inject);
        }
        if let Some(isolate) = &patch.isolate {
            entry.services.isolate.clone_from(isolate);
        }
        if let Some(intercept) = &patch.intercept {
            entry.services.intercept.clone_from(intercept);
        }
        if let Some(repository) = &patch.repository {
            entry.repository.clone_from(repository);
        }
        if !is_placed {
            if let Some(at) = known {
                self.entries[at] = entry;
            }
            return Ok(());
        }
        entry.parent = target.parent;
        entry.placed_by = by(&patch.origin.place);
        let at = target.beside.and_then(|(side, other)| match (side, self.index(&other)) {
            (Side::Before, at) => at,
            (Side::After, at) => at.map(|it| it + 1),
        });
        self.entries.insert(at.unwrap_or(self.entries.len()), entry);
        Ok(())
    }

    /// Turns down what a repository may not change of an entry that is not its own.
    fn check_repository(&self, known: Option<usize>, patch: &Patch) -> Result<(), (Place, EntryFault)> {
        if patch.origin.layer != Layer::Workspace {
            return Ok(());
        }
        let closed = |field| Err((patch.origin.place.clone(), EntryFault::NotForRepository { field }));
        if patch.repository.is_some() {
            return closed("repository");
        }
        let Some(entry) = known.map(|at| &self.entries[at]).filter(|it| it.inserted_by.layer != Layer::Workspace)
        else {
            return Ok(());
        };
        let changes = [
            (Change::Config, patch.config.is_some() || patch.says_of_services()),
            (Change::Disabled, patch.disabled.is_some()),
            (Change::Place, patch.parent.is_some() || patch.before.is_some() || patch.after.is_some()),
        ];
        match changes.iter().find(|(change, is_made)| *is_made && !entry.repository.contains(change)) {
            Some((change, _)) => closed(change.name()),
            None => Ok(()),
        }
    }

    /// Where `patch` puts its entry.
    fn target(&self, patch: &Patch) -> Result<Target, (Place, EntryFault)> {
        let at_patch = |fault| (patch.origin.place.clone(), fault);
        let unknown = |field, other: &str| {
            at_patch(EntryFault::UnknownNeighbour { field, other: other.into(), similar: self.nearest(other) })
        };
        let mut target = Target { parent: None, beside: None };
        if let Some(parent) = &patch.parent {
            // The empty name is the top.
            if !parent.is_empty() {
                let at = self.index(parent).ok_or_else(|| unknown("parent", parent))?;
                if self.entries[at].plugin.is_some() {
                    return Err(at_patch(EntryFault::NoGroup { parent: parent.clone() }));
                }
                target.parent = Some(parent.clone());
            }
        }
        target.beside = match (&patch.before, &patch.after) {
            (Some(_), Some(_)) => return Err(at_patch(EntryFault::TwoPlaces)),
            (Some(other), None) => Some((Side::Before, other.clone())),
            (None, Some(other)) => Some((Side::After, other.clone())),
            (None, None) => None,
        };
        if let Some((side, other)) = &target.beside {
            let at = self.index(other).ok_or_else(|| unknown(side.name(), other))?;
            let parent = &self.entries[at].parent;
            if patch.parent.is_some() && *parent != target.parent {
                return Err(at_patch(EntryFault::TwoPlaces));
            }
            if *other == patch.id {
                return Err(at_patch(EntryFault::Cycle));
            }
            target.parent.clone_from(parent);
        }
        let mut above = target.parent.as_deref();
        while let Some(id) = above {
            if id == patch.id {
                return Err(at_patch(EntryFault::Cycle));
            }
            above = self.get(id).and_then(|it| it.parent.as_deref());
        }
        Ok(target)
    }

    /// Orders the list depth first and works out what is enabled.
    fn finish(&mut self) {
        let mut left = std::mem::take(&mut self.entries);
        let mut open: Vec<(Option<String>, bool)> = vec![(None, true)];
        while let Some((group, is_enabled)) = open.last().cloned() {
            let Some(at) = left.iter().position(|it| it.parent == group) else {
                open.pop();
                continue;
            };
            let mut entry = left.remove(at);
            entry.is_enabled = is_enabled && !entry.is_disabled;
            if entry.plugin.is_none() {
                open.push((Some(entry.id.clone()), entry.is_enabled));
            }
            self.entries.push(entry);
        }
    }
}

/// A place in the tree.
struct Target {
    parent: Option<String>,
    beside: Option<(Side, String)>,
}

#[cfg(test)]
mod tests;
