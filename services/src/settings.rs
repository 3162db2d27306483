//! What a user has set, and what a front end changes.

use std::collections::BTreeMap;

use linn_bus::{ServiceError, service};
use secrecy::SecretString;
use serde_json::Value;

use crate::providers::ProviderSpec;

/// The settings of this harness: files, variables, flags, and what was changed since, in their order of precedence.
#[service("settings")]
pub trait Settings {
    /// The effective value of a setting, by its name or by the name that existing clients have for it. `None` if it has
    /// none, is not known, or is a secret.
    fn get(&self, name: &str) -> Result<Option<Value>, ServiceError>;

    /// Sets a setting until the program ends, gives the value it has now, and tells it as `settings/changed`.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Unknown`], and [`SettingsError::WrongValue`]; the setting keeps its value then.
    fn set(&self, name: &str, value: &Value) -> Result<Value, SettingsError>;

    /// A variable of the environment of the program, if it is set and not empty.
    fn variable(&self, name: &str) -> Result<Option<SecretString>, ServiceError>;

    /// Keeps a change of the providers for good, where existing clients look for it.
    async fn save_providers(&self, change: ProviderChange) -> Result<(), SettingsError>;

    /// What front ends changed about the providers while the program runs, as it was last remembered.
    fn provider_memory(&self) -> Result<ProviderMemory, ServiceError>;

    /// Remembers, until the program ends, what front ends changed about the providers: whoever provides them next goes on
    /// from there.
    fn remember_providers(&self, memory: ProviderMemory) -> Result<(), ServiceError>;

    /// The key of a service that searches the web.
    fn search_key(&self, service: &str) -> Result<Option<SecretString>, ServiceError>;

    /// Keeps the key of a service that searches the web for good; `None` takes it away.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Unknown`] for a service that is not known; [`SettingsError::Store`].
    async fn save_search_key(&self, service: &str, key: Option<SecretString>) -> Result<(), SettingsError>;
}

/// What a login, a logout or a change of a provider keeps.
#[derive(Debug, Clone, Default)]
pub struct ProviderChange {
    /// Providers to add, or to put in the place of those of their names.
    pub put: Vec<ProviderSpec>,
    /// Names of providers to take away.
    pub remove: Vec<String>,
    /// The provider that is active from then on; `None` takes the first that is left.
    pub active: Option<String>,
}

/// What front ends changed about the providers while the program runs. `Debug` shows no key.
#[derive(Debug, Clone, Default)]
pub struct ProviderMemory {
    /// Providers that were added, or took the place of those of their names.
    pub put: Vec<ProviderSpec>,
    /// Names of providers that were taken away.
    pub removed: Vec<String>,
    /// Keys that were set, by name of provider.
    pub keys: BTreeMap<String, SecretString>,
    /// The provider that was made the active one.
    pub active: Option<String>,
}

/// Why a setting was not changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// There is none of this name.
    #[error("there is no setting `{name}`{}", nearest.as_ref().map(|it| format!("; did you mean `{it}`?")).unwrap_or_default())]
    Unknown {
        /// The name.
        name: String,
        /// One whose name is near.
        nearest: Option<String>,
    },
    /// It has no such value.
    #[error("{0}")]
    WrongValue(String),
    /// It could not be written down.
    #[error("{0}")]
    Store(String),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl SettingsError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "UNKNOWN_SETTING",
            Self::WrongValue(_) => "WRONG_SETTING_VALUE",
            Self::Store(_) => "SETTINGS_NOT_KEPT",
            Self::Service(error) => error.code(),
        }
    }
}
