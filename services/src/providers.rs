//! Who answers for models: endpoints, their keys, and the models they offer.

use std::collections::BTreeMap;
use std::fmt;

use linn_bus::{ServiceError, service};
use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::settings::SettingsError;

/// The providers of models.
///
/// A model is asked for by its id, or by `<provider>:<id>`, which says whose it shall be.
#[service("providers")]
pub trait Providers {
    /// The providers configured, in their order.
    fn list(&self) -> Result<Vec<ProviderInfo>, ServiceError>;

    /// The one that is asked first. While none is configured, one named `default` stands in.
    fn active(&self) -> Result<ProviderInfo, ServiceError>;

    /// What one can log in to.
    fn presets(&self) -> Result<Vec<ProviderPreset>, ServiceError>;

    /// The models of all providers, as far as they were found. Nothing is looked for before somebody calls this or
    /// [`settled`](Providers::settled), or asks a model.
    fn models(&self) -> Result<Vec<ModelInfo>, ServiceError>;

    /// The model that is asked for: of the provider named, if it has one of this id; else of the only one that has; else of
    /// the active one, also where only others are known to have it. `None` if nobody is.
    fn route(&self, model: &str, provider: Option<&str>) -> Result<Option<ModelInfo>, ServiceError>;

    /// Ready when no models are looked for: those of the start, and those of a provider that was changed since, were found
    /// or given up. Cancel safe.
    async fn settled(&self) -> Result<(), ServiceError>;

    /// Looks for the models of all providers anew. One that does not answer keeps what it had. Cancel safe: what was found
    /// until then stays.
    async fn refresh(&self) -> Result<Refreshed, ProvidersError>;

    /// Looks for the models of an endpoint that is not configured. Nothing of it is kept.
    async fn preview(&self, endpoint: EndpointDraft) -> Result<Vec<ModelInfo>, ProvidersError>;

    /// Configures the provider of a preset, makes it the active one and keeps it for good.
    async fn log_in(&self, preset: &str, key: Option<SecretString>) -> Result<LoggedIn, ProvidersError>;

    /// Forgets a provider and its key for good; the first of those left becomes the active one.
    async fn log_out(&self, provider: &str) -> Result<Kept, ProvidersError>;

    /// Gives a provider a key until the program ends; `None` is the active one. Gives its name. Whether there is such a
    /// provider is not asked: a key may come before it.
    async fn set_key(&self, provider: Option<&str>, key: SecretString) -> Result<String, ProvidersError>;

    /// Makes a provider the active one until the program ends.
    async fn set_active(&self, provider: &str) -> Result<ProviderInfo, ProvidersError>;

    /// Adds a provider, or puts it in the place of the one of its name; makes it the active one and keeps it for good.
    async fn put(&self, provider: ProviderSpec) -> Result<Put, ProvidersError>;

    /// What its provider says of the use of a model: the last one used, if none is named.
    async fn usage(&self, model: Option<&str>) -> Result<ProviderUsage, ServiceError>;
}

/// What a search for models came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// The models of all providers, those of before where one did not answer.
    pub models: Vec<ModelInfo>,
    /// The providers that did not answer.
    pub silent: Vec<SilentProvider>,
}

impl Refreshed {
    /// All answered, with these models.
    pub fn new(models: Vec<ModelInfo>) -> Self {
        Self { models, silent: Vec::new() }
    }
}

/// A provider that did not tell of its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentProvider {
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: String,
}

/// A model that can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// Id, as its provider knows it.
    pub id: String,
    /// Name for humans.
    pub name: String,
    /// Whether it can think.
    pub reasoning: bool,
    /// Its window, in tokens.
    pub context_window: u64,
    /// Longest answer, in tokens.
    pub max_tokens: u64,
    /// The words for how hard it can think; empty if it has none.
    pub thinking_levels: Vec<String>,
    /// Whether it can see.
    pub vision: bool,
    /// The provider it belongs to.
    pub provider: String,
}

impl ModelInfo {
    /// The name under which exactly this model is asked for: `<provider>:<id>`.
    pub fn qualified(&self) -> String {
        format!("{}:{}", self.provider, self.id)
    }
}

/// A provider as others see it: without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderInfo {
    /// Name.
    pub name: String,
    /// The wire it speaks: `openai`, `anthropic`, or one that a plugin brings.
    pub kind: String,
    /// Where it is asked.
    pub base_url: String,
    /// Whether it has a key.
    pub has_key: bool,
    /// Whether it can be asked: it has a key, or needs none.
    pub is_logged_in: bool,
}

/// Something one can log in to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderPreset {
    /// Id.
    pub id: String,
    /// Name for humans.
    pub label: String,
    /// The wire it speaks.
    pub kind: String,
    /// Where it is asked.
    #[serde(rename = "base_url")]
    pub base_url: String,
    /// The variable that may hold a key; empty if none is needed, `None` if it is logged in to otherwise.
    pub env_var: Option<String>,
    /// Other variables that may.
    pub alt_envs: Vec<String>,
    /// What it is.
    pub description: String,
    /// Whether a key is configured, or none needed. A variable does not count.
    pub has_key: bool,
    /// Whether a provider of its name is configured.
    pub configured: bool,
    /// Whether it is configured and has a key.
    pub logged_in: bool,
    /// Whether one logs in to it in a browser.
    pub supports_oauth: bool,
}

/// A provider as it is configured.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderSpec {
    /// Name.
    pub name: String,
    /// Where it is asked.
    pub base_url: String,
    /// The wire it speaks; `openai` if empty.
    pub kind: String,
    /// Its key.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
    /// The variable that holds its key; empty if it needs none.
    pub api_key_env: Option<String>,
    /// Headers of every request. Their values may be secrets.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: Vec<(String, SecretString)>,
    /// Window of its models, in tokens, whatever they say themselves; `models_override` says it for one.
    pub context_window: Option<u64>,
    /// What holds of its models whatever they say themselves, by id: `name`, `context_window`, `max_tokens`, `reasoning`,
    /// `thinking_levels`, `vision`. One that it does not list is added.
    pub models_override: Vec<(String, Map<String, Value>)>,
    /// Path that lists its models, appended to `base_url`.
    pub models_endpoint: Option<String>,
}

impl ProviderSpec {
    /// Its key, if one is written down that is not empty.
    pub fn key(&self) -> Option<&SecretString> {
        self.api_key.as_ref().filter(|it| !it.expose_secret().is_empty())
    }
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSpec")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("has_key", &self.key().is_some())
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// An endpoint whose models are looked for.
#[derive(Debug, Clone, Default)]
pub struct EndpointDraft {
    /// Where it is asked.
    pub base_url: String,
    /// The wire it speaks; `openai` if empty.
    pub kind: String,
    /// Its key.
    pub api_key: Option<SecretString>,
    /// Headers of every request.
    pub headers: Vec<(String, SecretString)>,
}

/// Whether a change is kept for good, and if not, why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Why it holds until the program ends only.
    pub failure: Option<String>,
}

/// What a login came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// Name of the preset for humans.
    pub label: String,
    /// The provider that is active now.
    pub provider: ProviderInfo,
    /// Whether a key was given; else none is needed.
    pub with_key: bool,
    /// Whether it is kept.
    pub kept: Kept,
}

/// What adding a provider came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The provider.
    pub provider: ProviderInfo,
    /// Whether one of its name was there.
    pub replaced: bool,
    /// Whether it is kept.
    pub kept: Kept,
}

/// What a provider says of the use of its models.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProviderUsage {
    /// The provider.
    pub provider: String,
    /// The wire it speaks.
    pub provider_kind: String,
    /// The model.
    pub model: String,
    /// Where it is asked.
    pub base_url: String,
    /// Whether it says anything.
    pub available: bool,
    /// The plan of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Why there is nothing, or what else there is to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is limited.
    pub windows: Vec<UsageWindow>,
}

/// One limit of a provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsageWindow {
    /// Id.
    pub id: String,
    /// Name for humans.
    pub label: String,
    /// What is counted: `percent`, `sessions`, `requests`, `tokens`, `credits` or `count`.
    pub unit: String,
    /// How much was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// How much may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// When it begins anew, in seconds since 1970 UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<i64>,
    /// More in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Why providers were not changed or asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProvidersError {
    /// There is none of this name.
    #[error("there is no provider `{name}`; there are: {}", listed(known))]
    UnknownProvider {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// There is no such preset.
    #[error("there is no provider preset `{preset}`; there are: {}", listed(known))]
    UnknownPreset {
        /// The preset.
        preset: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A key is needed.
    #[error("a key is needed for {label}")]
    NoKey {
        /// The preset.
        label: String,
    },
    /// The provider is not configured.
    #[error("not logged in to `{0}`")]
    NotLoggedIn(String),
    /// A provider needs both.
    #[error("a provider needs a name and a `base_url` that begins with `https://` or `http://`")]
    Incomplete,
    /// The endpoint lists no models.
    #[error("no models were found at {base_url}: {why}")]
    NoModels {
        /// The endpoint.
        base_url: String,
        /// Why.
        why: String,
    },
    /// The change could not be kept.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl ProvidersError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownProvider { .. } => "UNKNOWN_PROVIDER",
            Self::UnknownPreset { .. } => "UNKNOWN_PRESET",
            Self::NoKey { .. } => "NO_KEY",
            Self::NotLoggedIn(_) => "NOT_LOGGED_IN",
            Self::Incomplete => "PROVIDER_INCOMPLETE",
            Self::NoModels { .. } => "NO_MODELS",
            Self::Settings(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
