//! What is wrong with a configuration, in words that say what would be right.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::origin::{Origin, Place};

/// One thing that is wrong. What it is about is left out; all the rest is loaded.
///
/// No message shows a secret.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file is no TOML or no JSON; nothing of it is loaded.
    #[error("{place}: {message}")]
    Syntax {
        /// Where reading stopped.
        place: Place,
        /// What the parser says, without text of the file.
        message: String,
    },
    /// A file is there and cannot be read, or cannot be written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// `read`, `write`, `list` or `lock`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// No key has this name.
    #[error("{place}: there is no key `{key}`{}", Similar(similar))]
    UnknownKey {
        /// Where it is written.
        place: Place,
        /// The name as written, from the top of the file.
        key: String,
        /// The valid name that is nearest.
        similar: Option<String>,
    },
    /// A key has a value it cannot have.
    #[error("{place}: `{key}` cannot be {value}; it is {expected}{}", Similar(similar))]
    WrongValue {
        /// Where the value is written.
        place: Place,
        /// The key.
        key: String,
        /// The value as written; not shown where it is a secret.
        value: Box<str>,
        /// What would be right.
        expected: Box<str>,
        /// The valid value that is nearest, where there is a set of them.
        similar: Option<String>,
    },
    /// A flag is the last argument, and its value is missing.
    #[error("{flag} needs a value: {expected}")]
    MissingValue {
        /// The flag with its dashes.
        flag: String,
        /// What would be right.
        expected: String,
    },
    /// A file of a repository sets what only its user may set.
    #[error("{place}: a repository cannot set `{key}`; set it in {user_file}")]
    NotForRepository {
        /// Where it is written.
        place: Place,
        /// The key.
        key: String,
        /// Where its user may set it.
        user_file: String,
    },
    /// A file sets what has to be asked for at each start.
    #[error("{place}: no file can set `{key}`; {how}")]
    NotForFiles {
        /// Where it is written.
        place: Place,
        /// The key.
        key: String,
        /// The flags and variables that set it.
        how: String,
    },
    /// `${env:NAME}` names a variable that is not set.
    #[error("{place}: the variable `{variable}` of `{key}` is not set")]
    VariableUnset {
        /// Where it is used.
        place: Place,
        /// The key whose value names it.
        key: String,
        /// The name of the variable.
        variable: String,
    },
    /// `${env:NAME}` stands in a file that may not read variables.
    #[error("{place}: `{key}` uses `${{env:..}}`, which only the user file and what it includes may do")]
    VariableForbidden {
        /// Where it is used.
        place: Place,
        /// The key whose value names it.
        key: String,
    },
    /// A file includes one that is missing, itself, or one outside the repository.
    #[error("{place}: cannot include {}: {reason}", path.display())]
    Include {
        /// Where it is named.
        place: Place,
        /// The file as it would be opened.
        path: PathBuf,
        /// Why not.
        reason: IncludeFault,
    },
    /// An entry of the plugin tree is wrong; the tree is as if it had not been written.
    #[error("{place}: entry `{id}` {fault}")]
    Entry {
        /// Where the entry, or the field that is wrong, is written.
        place: Place,
        /// Id of the entry; empty if it has none.
        id: String,
        /// What is wrong with it.
        fault: EntryFault,
    },
    /// The active provider is none of the configured ones; the first of them is used.
    #[error("{origin}: there is no provider `{name}`; configured: {}{}", List(known), Similar(similar))]
    UnknownProvider {
        /// Who names it.
        origin: Origin,
        /// The name.
        name: String,
        /// The providers that there are.
        known: Vec<String>,
        /// The nearest of them.
        similar: Option<String>,
    },
    /// Two values are each right and exclude one another; the second is as if it had not been set.
    #[error("{place}: `{key}` is {value}, but has to be below `{other}`, which is {limit}")]
    Conflict {
        /// Where the value that is left out is written.
        place: Place,
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The key it collides with.
        other: &'static str,
        /// The value of that.
        limit: String,
    },
    /// Nobody knows where the user's files are.
    #[error("there is no home folder, so {what} has no place; set `HOME`")]
    NoHome {
        /// What was to be read or written.
        what: &'static str,
    },
}

/// Why a file cannot be included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IncludeFault {
    /// It is not there.
    #[error("there is no such file")]
    Missing,
    /// It is being read already: it includes itself, directly or through others.
    #[error("it is the file that includes it, or one above that")]
    Cycle,
    /// It is named by a file of a repository and is not below the folder of that file.
    #[error("a repository includes files from its own `.linn` folder only, by a relative path without `..`")]
    Outside,
}

/// What is wrong with an entry of the plugin tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// It has no `id`.
    #[error("has no `id`; give it a text that is no other entry's")]
    NoId,
    /// It is no table, or a field of it has the wrong form.
    #[error("cannot have {value} as `{field}`; it is {expected}")]
    Field {
        /// The field.
        field: Box<str>,
        /// What stands there.
        value: Box<str>,
        /// What would be right.
        expected: Box<str>,
    },
    /// It has a field that entries do not have.
    #[error("has no field `{field}`{}", Similar(similar))]
    UnknownField {
        /// The field.
        field: String,
        /// The nearest one.
        similar: Option<String>,
    },
    /// It changes an entry that is not there.
    #[error("changes an entry that is not there, and names no `plugin` to insert{}", Similar(similar))]
    Unknown {
        /// The nearest id.
        similar: Option<String>,
    },
    /// It names another plugin than the entry of this id has.
    #[error("is of plugin `{has}`, which no later file can change to `{wants}`; disable it and insert another id")]
    OtherPlugin {
        /// The plugin it has.
        has: String,
        /// The plugin that was asked for.
        wants: String,
    },
    /// It is both a group and a plugin, or has the config of one and is the other.
    #[error("is a group, which has neither `plugin` nor `config`")]
    GroupOrPlugin,
    /// It is to be placed in or beside an entry that is not there.
    #[error("is placed by `{field}` at `{other}`, which is not there{}", Similar(similar))]
    UnknownNeighbour {
        /// `parent`, `before` or `after`.
        field: &'static str,
        /// The id it names.
        other: Box<str>,
        /// The nearest id.
        similar: Option<String>,
    },
    /// Its parent is no group.
    #[error("has the parent `{parent}`, which is no group")]
    NoGroup {
        /// The id it names.
        parent: String,
    },
    /// It would be inside itself, or its own neighbour.
    #[error("would be inside or beside itself")]
    Cycle,
    /// It is placed more than once, in places that differ.
    #[error("is placed twice; give it one of `before` and `after`, and no `parent` that differs from theirs")]
    TwoPlaces,
    /// A repository changes what its user did not open to it.
    #[error("cannot be changed by a repository in `{field}`; its user opens it by `repository = [\"{field}\"]`")]
    NotForRepository {
        /// The field.
        field: &'static str,
    },
}

impl Problem {
    /// A stable code, for programs and tests.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "CONFIG_SYNTAX",
            Self::File { .. } => "CONFIG_FILE",
            Self::UnknownKey { .. } => "CONFIG_UNKNOWN_KEY",
            Self::WrongValue { .. } => "CONFIG_WRONG_VALUE",
            Self::MissingValue { .. } => "CONFIG_MISSING_VALUE",
            Self::NotForRepository { .. } => "CONFIG_NOT_FOR_REPOSITORY",
            Self::NotForFiles { .. } => "CONFIG_NOT_FOR_FILES",
            Self::VariableUnset { .. } => "CONFIG_VARIABLE_UNSET",
            Self::VariableForbidden { .. } => "CONFIG_VARIABLE_FORBIDDEN",
            Self::Include { .. } => "CONFIG_INCLUDE",
            Self::Entry { .. } => "CONFIG_ENTRY",
            Self::UnknownProvider { .. } => "CONFIG_UNKNOWN_PROVIDER",
            Self::Conflict { .. } => "CONFIG_CONFLICT",
            Self::NoHome { .. } => "CONFIG_NO_HOME",
        }
    }

    /// Where it is, if it is at a place.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Syntax { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::WrongValue { place, .. }
            | Self::NotForRepository { place, .. }
            | Self::NotForFiles { place, .. }
            | Self::VariableUnset { place, .. }
            | Self::VariableForbidden { place, .. }
            | Self::Include { place, .. }
            | Self::Entry { place, .. }
            | Self::Conflict { place, .. } => Some(place),
            Self::UnknownProvider { origin, .. } => Some(&origin.place),
            Self::File { .. } | Self::MissingValue { .. } | Self::NoHome { .. } => None,
        }
    }

    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, error: io::Error) -> Self {
        Self::File { action, path: path.into(), source: Arc::new(error) }
    }
}

/// The nearest of `names` to `name`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_lowercase();
    let scored = names.into_iter().map(|it| (strsim::jaro_winkler(&lower, &it.to_lowercase()), it));
    let best = scored.filter(|(score, _)| *score >= 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, it)| it.to_owned())
}

struct Similar<'a>(&'a Option<String>);

impl fmt::Display for Similar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

struct List<'a>(&'a [String]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("none") } else { f.write_str(&self.0.join(", ")) }
    }
}
