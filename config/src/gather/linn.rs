//! Linn's own layers: its files with what they include, its variables and its flags.

use std::path::{Component, Path, PathBuf};

use crate::check::Form;
use crate::gather::arguments::EntryFlag;
use crate::gather::{Arguments, Gathered, Trust, read_text, variable};
use crate::key::{Declaration, Kind};
use crate::keys;
use crate::node::{Data, Node};
use crate::origin::{Layer, Origin, Place};
use crate::problem::{IncludeFault, Problem, nearest};
use crate::read_toml::{self, Fill};
use crate::sources::Sources;
use crate::tree::Patch;

/// The list of entries of the plugin tree in a file.
pub(crate) const PLUGINS: &str = "plugins";
/// The list of files that a file includes.
pub(crate) const INCLUDE: &str = "include";
/// The variable with entries of the plugin tree.
const PLUGINS_VARIABLE: &str = "LINN_PLUGINS";

/// Reads a file, if it is there, and what it includes.
pub(crate) fn read_file(sources: &Sources, path: &Path, layer: Layer, gathered: &mut Gathered) {
    let Some(text) = read_text(&*sources.files, path, &mut gathered.problems) else {
        return;
    };
    let folder = path.parent().unwrap_or(path);
    let mut reader = FileReader { sources, layer, folder, open: Vec::new(), seen: Vec::new(), gathered };
    reader.file(path, &text);
}

struct FileReader<'a> {
    sources: &'a Sources,
    layer: Layer,
    /// Folder of the file that all others are included from.
    folder: &'a Path,
    /// The files being read, each included by the one before.
    open: Vec<PathBuf>,
    /// The files that were read. Each is read once, or a few files that include one another would take for ever.
    seen: Vec<PathBuf>,
    gathered: &'a mut Gathered,
}

impl FileReader<'_> {
    fn trust(&self) -> Trust {
        if self.layer == Layer::Workspace { Trust::Repository } else { Trust::User }
    }

    fn file(&mut self, path: &Path, text: &str) {
        let node = match read_toml::read(path, text) {
            Ok(node) => node,
            Err(problem) => return self.gathered.problems.push(problem),
        };
        let Data::Table(fields) = node.data else {
            return;
        };
        self.open.push(path.to_owned());
        self.seen.push(path.to_owned());
        // What includes wins over what is included.
        if let Some(include) = fields.get(INCLUDE) {
            self.include(path, include);
        }
        for (name, field) in fields {
            match name.as_str() {
                INCLUDE => {}
                PLUGINS => self.plugins(&field),
                _ => self.key(&name, field),
            }
        }
        self.open.pop();
    }

    fn include(&mut self, from: &Path, include: &Node) {
        let names = match &include.data {
            Data::List(items) if items.iter().all(|it| it.as_text().is_some()) => items,
            _ => {
                let expected = "a list of paths";
                return self.gathered.problems.push(wrong(&include.place, INCLUDE, include.shown(), expected));
            }
        };
        for name in names {
            let text = name.as_text().unwrap_or_default();
            let path = clean(&self.sources.absolute_from(from.parent().unwrap_or(from), text));
            let is_open = self.open.contains(&path);
            if self.seen.contains(&path) && !is_open {
                continue;
            }
            let fault = if self.layer == Layer::Workspace && !self.is_inside(text, &path) {
                Some(IncludeFault::Outside)
            } else if is_open {
                Some(IncludeFault::Cycle)
            } else {
                None
            };
            let text = match fault {
                Some(_) => None,
                None => {
                    let known = self.gathered.problems.len();
                    let text = read_text(&*self.sources.files, &path, &mut self.gathered.problems);
                    if text.is_none() && self.gathered.problems.len() > known {
                        continue;
                    }
                    text
                }
            };
            match text {
                Some(text) => self.file(&path, &text),
                None => self.gathered.problems.push(Problem::Include {
                    place: name.place.clone(),
                    path,
                    reason: fault.unwrap_or(IncludeFault::Missing),
                }),
            }
        }
    }

    /// Whether a file that a repository includes is in the folder of its `linn.toml`.
    fn is_inside(&self, written: &str, path: &Path) -> bool {
        let plain = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
        Path::new(written).components().all(plain) && !written.starts_with('~') && path.starts_with(self.folder)
    }

    fn fill(&mut self, node: &mut Node, key: &str) -> bool {
        let with = match self.trust() {
            Trust::Repository => Fill::Forbidden,
            Trust::User | Trust::Start => Fill::From(&self.sources.variables),
        };
        let filled = read_toml::fill(node, key, with);
        let is_filled = filled.is_ok();
        self.gathered.problems.extend(filled.err());
        is_filled
    }

    fn key(&mut self, path: &str, mut node: Node) {
        match Named::find(path) {
            Named::Key(key) => {
                if self.fill(&mut node, path) {
                    self.gathered.set(key, &node, self.layer, Form::Exact, self.trust());
                }
            }
            Named::Group => match node.data {
                Data::Table(fields) => {
                    for (name, field) in fields {
                        self.key(&format!("{path}.{name}"), field);
                    }
                }
                _ => self.gathered.problems.push(wrong(&node.place, path, node.shown(), "a table of keys")),
            },
            Named::Nothing => self.gathered.problems.push(unknown(path, node.place)),
        }
    }

    fn plugins(&mut self, node: &Node) {
        let Data::List(entries) = &node.data else {
            let expected = "a list of entries, each below `[[plugins]]`";
            return self.gathered.problems.push(wrong(&node.place, PLUGINS, node.form().to_owned(), expected));
        };
        for entry in entries {
            let mut entry = entry.clone();
            let id = entry.field("id").and_then(Node::as_text).unwrap_or("?").to_owned();
            if self.fill(&mut entry, &format!("{PLUGINS}.{id}")) {
                take_entry(&entry, self.layer, self.gathered);
            }
        }
    }
}

fn take_entry(node: &Node, layer: Layer, gathered: &mut Gathered) {
    match Patch::read(node, layer) {
        Ok(patch) => gathered.patches.push(patch),
        Err(problem) => gathered.problems.push(problem),
    }
}

/// Reads the variables `LINN_*`.
pub(crate) fn read_variables(sources: &Sources, gathered: &mut Gathered) {
    let names = sources.variables.names().filter(|it| it.starts_with("LINN_"));
    for name in names {
        let text = sources.variables.get(name).unwrap_or_default();
        // An empty variable is one that is not set.
        if text.is_empty() {
            continue;
        }
        let place = variable(name);
        if name == PLUGINS_VARIABLE {
            match read_toml::read_value(&place, text) {
                Ok(Node { data: Data::List(entries), .. }) => {
                    for entry in &entries {
                        take_entry(entry, Layer::Environment, gathered);
                    }
                }
                Ok(other) => gathered.problems.push(wrong(&place, name, other.shown(), "a list of entries")),
                Err(problem) => gathered.problems.push(problem),
            }
            continue;
        }
        match keys::all().iter().find(|it| it.linn_variable() == name) {
            Some(key) => set_text(key, text, place, Layer::Environment, gathered),
            None => {
                let known: Vec<String> = keys::all().iter().map(|it| it.linn_variable()).collect();
                let known = known.iter().map(String::as_str).chain([PLUGINS_VARIABLE]);
                gathered.problems.push(Problem::UnknownKey {
                    place,
                    key: name.to_owned(),
                    similar: nearest(name, known),
                });
            }
        }
    }
}

/// Takes Linn's own flags.
pub(crate) fn read_arguments(arguments: &Arguments, gathered: &mut Gathered) {
    for (name, node) in &arguments.set {
        match Named::find(name) {
            Named::Key(key) => {
                let text = node.as_text().unwrap_or_default();
                set_text(key, text, node.place.clone(), Layer::CommandLine, gathered);
            }
            Named::Group | Named::Nothing => gathered.problems.push(unknown(name, node.place.clone())),
        }
    }
    for entry in &arguments.entries {
        match entry {
            EntryFlag::Table(node) => take_entry(node, Layer::CommandLine, gathered),
            EntryFlag::Switch { id, is_disabled, place } => {
                let origin = Origin::new(Layer::CommandLine, place.clone());
                let disabled = Some((*is_disabled, place.clone()));
                gathered.patches.push(Patch { disabled, ..Patch::new(id.clone(), origin) });
            }
        }
    }
}

/// Sets a key from text; lists and tables may be written as in TOML.
fn set_text(key: &'static Declaration, text: &str, place: Place, layer: Layer, gathered: &mut Gathered) {
    let is_toml = matches!(key.kind, Kind::List | Kind::Rules | Kind::Secrets | Kind::Providers | Kind::Table)
        && text.trim_start().starts_with(['[', '{']);
    let node = if is_toml { read_toml::read_value(&place, text) } else { Ok(Node::text(text, place)) };
    match node {
        Ok(node) => gathered.set(key, &node, layer, Form::Text, Trust::Start),
        Err(problem) => gathered.problems.push(problem),
    }
}

/// What a path in a file names.
pub(crate) enum Named {
    Key(&'static Declaration),
    /// A table with keys in it.
    Group,
    Nothing,
}

impl Named {
    pub(crate) fn find(path: &str) -> Self {
        if let Some(key) = keys::all().iter().find(|it| it.name == path) {
            return Self::Key(key);
        }
        let below = |it: &&&Declaration| it.name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        if keys::all().iter().any(|it| below(&it)) { Self::Group } else { Self::Nothing }
    }
}

/// The problem of a name that no key has. Whoever writes what existing clients call a key is told what Linn calls it.
pub(crate) fn unknown(path: &str, place: Place) -> Problem {
    let by_client = keys::all().iter().find(|it| it.client.keys.contains(&path)).map(|it| it.name.to_owned());
    let groups = keys::all().iter().filter_map(|it| it.name.split_once('.')).map(|(group, _)| group);
    let names = keys::all().iter().map(|it| it.name).chain(groups).chain([PLUGINS, INCLUDE]);
    Problem::UnknownKey { place, key: path.to_owned(), similar: by_client.or_else(|| nearest(path, names)) }
}

fn wrong(place: &Place, key: &str, value: String, expected: &str) -> Problem {
    Problem::WrongValue {
        place: place.clone(),
        key: key.to_owned(),
        value: value.into(),
        expected: expected.into(),
        similar: None,
    }
}

/// `path` without `.` and with `..` resolved by the names alone, so that one file has one path.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            _ => clean.push(part),
        }
    }
    clean
}
