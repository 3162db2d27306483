//! What is wrong with an entry of the plugin tree.

use linn_bus::{BusError, DisposeError};
use linn_config::Place;

use crate::library::LibraryError;

/// Why an entry does not run as it is written. All others do.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}entry `{entry}`: {fault}", place.as_ref().map(|it| format!("{it}: ")).unwrap_or_default())]
pub struct EntryProblem {
    /// Id of the entry.
    pub entry: String,
    /// Where it is written, or the field that is wrong.
    pub place: Option<Place>,
    /// What is wrong.
    #[source]
    pub fault: EntryFault,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// No plugin has this name.
    #[error("there is no plugin `{plugin}`{}", did_you_mean(similar))]
    UnknownPlugin {
        /// The name.
        plugin: String,
        /// The nearest there is.
        similar: Option<String>,
    },
    /// The plugin is in a library that could not be loaded.
    #[error("the library of plugin `{plugin}` is not loaded: {source}")]
    Library {
        /// The plugin.
        plugin: String,
        /// Why.
        #[source]
        source: LibraryError,
    },
    /// The config has a field that the plugin does not know.
    #[error("the config of plugin `{plugin}` has no field `{key}`{}", did_you_mean(similar))]
    UnknownKey {
        /// The plugin.
        plugin: String,
        /// Path of the field.
        key: String,
        /// The nearest there is.
        similar: Option<String>,
    },
    /// A field of the config has a value it cannot have.
    #[error("the config of plugin `{plugin}` does not fit: {}{message}", of_field(key, value))]
    Config {
        /// The plugin.
        plugin: String,
        /// Path of the field; empty for the config as a whole.
        key: String,
        /// The value as written; empty where it is not known, or is secret by its name.
        value: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// It names a service that nobody declares.
    #[error("`{field}` names the service `{service}`, which there is not{}", did_you_mean(similar))]
    UnknownService {
        /// `inject`, `isolate` or `intercept`.
        field: &'static str,
        /// The name.
        service: String,
        /// The nearest there is.
        similar: Option<String>,
    },
    /// A repository inserted it, and its user did not say that it may run.
    #[error("it comes with the workspace and is not trusted; look at it, then say `linn plugin trust {digest}`")]
    NotTrusted {
        /// Of its plugin and config.
        digest: crate::library::Digest,
    },
    /// The new version of its library does not have its plugin any more.
    #[error("the new version of its library has no plugin `{plugin}`")]
    PluginGone {
        /// The plugin.
        plugin: String,
    },
    /// The bus refused, or the plugin did not start.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// Something of the plugin did not end.
    #[error(transparent)]
    Dispose(#[from] DisposeError),
    /// No entry that runs has this id.
    #[error("no entry that runs has this id{}", did_you_mean(similar))]
    NoEntry {
        /// The nearest there is.
        similar: Option<String>,
    },
    /// A listener on `loader/patch-context` kept it as it was.
    #[error("a listener on `loader/patch-context` kept it as it was")]
    Kept,
}

impl EntryFault {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownPlugin { .. } => "ENTRY_UNKNOWN_PLUGIN",
            Self::Library { source, .. } => source.code(),
            Self::UnknownKey { .. } => "ENTRY_UNKNOWN_KEY",
            Self::Config { .. } => "ENTRY_CONFIG",
            Self::UnknownService { .. } => "ENTRY_UNKNOWN_SERVICE",
            Self::NotTrusted { .. } => "ENTRY_NOT_TRUSTED",
            Self::PluginGone { .. } => "ENTRY_PLUGIN_GONE",
            Self::Bus(error) => error.code(),
            Self::Dispose(error) => error.code(),
            Self::NoEntry { .. } => "ENTRY_NONE",
            Self::Kept => "ENTRY_KEPT",
        }
    }
}

fn did_you_mean(similar: &Option<String>) -> String {
    similar.as_ref().map(|it| format!("; did you mean `{it}`?")).unwrap_or_default()
}

fn of_field(key: &str, value: &str) -> String {
    match (key, value) {
        ("", _) => String::new(),
        (key, "") => format!("`{key}`: "),
        (key, value) => format!("`{key}` cannot be {value}: "),
    }
}

/// The nearest of `names` to `name`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_lowercase();
    let scored = names.into_iter().map(|it| (strsim::jaro_winkler(&lower, &it.to_lowercase()), it));
    let best = scored.filter(|(score, _)| *score >= 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, it)| it.to_owned())
}
