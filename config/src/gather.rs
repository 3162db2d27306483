//! Collects what every layer says, lowest first, each value checked as it comes in.

mod arguments;
mod client;
mod linn;

use std::path::{Path, PathBuf};

use crate::check::{Form, check, shown};
use crate::key::{Base, Declaration, Kind, Who};
use crate::keys;
use crate::node::{Data, Node};
use crate::origin::{Layer, Origin, Place};
use crate::paths;
use crate::problem::Problem;
use crate::sources::{Files, Sources};
use crate::tree::Patch;
use crate::value::Value;

pub(crate) use linn::{Named, PLUGINS, unknown};

use arguments::Arguments;

/// A value that one layer has for a key.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) origin: Origin,
    pub(crate) value: Value,
    /// The value as it may be shown.
    pub(crate) shown: String,
}

/// What the layers say.
pub(crate) struct Gathered {
    /// For each key in the order of [`keys::all`], what was said of it, lowest layer first.
    pub(crate) candidates: Vec<Vec<Candidate>>,
    /// Entries of the plugin tree in the order in which they apply.
    pub(crate) patches: Vec<Patch>,
    pub(crate) problems: Vec<Problem>,
}

impl Gathered {
    /// Reads all layers but the built-in one of the plugin tree.
    pub(crate) fn read(sources: &Sources) -> Self {
        let mut gathered =
            Self { candidates: vec![Vec::new(); keys::all().len()], patches: Vec::new(), problems: Vec::new() };
        let arguments = Arguments::read(&sources.arguments, &mut gathered.problems);
        client::read(sources, &arguments, &mut gathered);
        if let Some(home) = &sources.home {
            linn::read_file(sources, &paths::user_file(home), Layer::User, &mut gathered);
        }
        // The layers above the workspace file may say where the workspace is.
        let mut above =
            Self { candidates: vec![Vec::new(); keys::all().len()], patches: Vec::new(), problems: Vec::new() };
        linn::read_variables(sources, &mut above);
        linn::read_arguments(&arguments, &mut above);
        let workspace = [&above, &gathered].into_iter().find_map(|it| it.last_path(&keys::WORKSPACE.declaration));
        let workspace = absolute(sources, &sources.folder, &workspace.unwrap_or_default());
        linn::read_file(sources, &paths::workspace_file(&workspace), Layer::Workspace, &mut gathered);
        make_absolute(sources, &workspace, &mut gathered.candidates);
        make_absolute(sources, &workspace, &mut above.candidates);
        for (below, above) in gathered.candidates.iter_mut().zip(above.candidates) {
            below.extend(above);
        }
        gathered.patches.extend(above.patches);
        gathered.problems.extend(above.problems);
        gathered
    }

    fn last_path(&self, key: &Declaration) -> Option<PathBuf> {
        let said = keys::index_of(key.name).map(|at| &self.candidates[at])?;
        said.iter().rev().find_map(|it| match &it.value {
            Value::Path(path) => Some(path.clone()),
            _ => None,
        })
    }

    /// Takes what a layer says of `key`, if the layer may say it and it is right.
    fn set(&mut self, key: &'static Declaration, node: &Node, layer: Layer, form: Form, trust: Trust) {
        // In files of clients, null and blank text are how they leave something out.
        let is_blank = form == Form::Client && node.as_text().is_some_and(|it| it.trim().is_empty());
        if matches!(node.data, Data::Null) || is_blank {
            return;
        }
        let place = || node.place.clone();
        match (key.who, trust) {
            (Who::Start, Trust::User | Trust::Repository) => {
                return self.problems.push(Problem::NotForFiles {
                    place: place(),
                    key: key.name.to_owned(),
                    how: key.at_start(),
                });
            }
            (Who::User, Trust::Repository) => {
                let user_file = paths::USER_FILE_SHOWN.to_owned();
                return self.problems.push(Problem::NotForRepository {
                    place: place(),
                    key: key.name.to_owned(),
                    user_file,
                });
            }
            _ => {}
        }
        let origin = Origin::new(layer, place());
        let checked = check(key, node, &origin, form);
        self.problems.extend(checked.problems);
        if let (Some(value), Some(at)) = (checked.value, keys::index_of(key.name)) {
            self.candidates[at].push(Candidate { origin, value, shown: shown(key, node) });
        }
    }
}

/// Makes the paths in `candidates` absolute, now that the workspace is known.
fn make_absolute(sources: &Sources, workspace: &Path, candidates: &mut [Vec<Candidate>]) {
    for (key, candidates) in keys::all().iter().zip(candidates) {
        let Kind::Path { base } = key.kind else {
            continue;
        };
        for candidate in candidates {
            if let Value::Path(path) = &mut candidate.value {
                *path = absolute(sources, base_folder(sources, workspace, base), path);
            }
        }
    }
}

/// The folder that relative paths begin in.
pub(crate) fn base_folder<'a>(sources: &'a Sources, workspace: &'a Path, base: Base) -> &'a Path {
    match base {
        Base::Start => &sources.folder,
        Base::Workspace => workspace,
    }
}

/// `path` from `base` on, without parts that say nothing.
pub(crate) fn absolute(sources: &Sources, base: &Path, path: &Path) -> PathBuf {
    sources.absolute_from(base, &path.to_string_lossy()).components().collect()
}

/// Who wrote a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Whoever started the program, by a variable or flag.
    Start,
    /// The user, in a file of theirs.
    User,
    /// Whoever wrote the repository.
    Repository,
}

/// The text of a file without a byte order mark; `None` if it is not there.
fn read_text(files: &dyn Files, path: &Path, problems: &mut Vec<Problem>) -> Option<String> {
    match files.read(path) {
        Ok(text) => Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) if is_absent(&error) => None,
        Err(error) => {
            problems.push(Problem::file("read", path, error));
            None
        }
    }
}

/// Whether an error says that there is no such file; a file where a folder would be is as good as nothing there.
pub(crate) fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn variable(name: &str) -> Place {
    Place::Variable(name.into())
}
