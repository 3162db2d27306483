//! What the plugin is configured with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use linn_services::providers::ProviderSpec;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::fetch::Fetch;

/// Where models are looked up that a provider says nothing about.
const CATALOGUE_URL: &str = "https://models.dev/models.json";

/// What [`ProvidersPlugin`](crate::ProvidersPlugin) is configured with.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProvidersConfig {
    /// The providers, in order. Of two with one name the first counts.
    pub providers: Vec<ProviderSpec>,
    /// Keys by name of provider; they win over those of the providers themselves.
    #[schemars(with = "BTreeMap<String, String>")]
    pub provider_keys: BTreeMap<String, SecretString>,
    /// The provider that is asked first; by default the first.
    pub active: Option<String>,
    /// What stands in while no provider is configured.
    pub default: DefaultProvider,
    /// Folder for what was learnt of models; by default nothing is kept.
    pub cache_folder: Option<PathBuf>,
    /// Address of a public list of models, for those that their provider says nothing about; empty for none.
    pub catalogue_url: String,
    /// How long a stream may be silent, in milliseconds, before the call fails.
    pub idle_timeout_ms: u64,
    /// What requests go through; by default the network.
    #[serde(skip)]
    pub fetch: Option<Arc<dyn Fetch>>,
}

/// The provider `default`.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DefaultProvider {
    /// Where it is asked.
    pub base_url: String,
    /// Its key.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
}

impl Default for DefaultProvider {
    fn default() -> Self {
        Self { base_url: "https://api.code.umans.ai/v1".to_owned(), api_key: None }
    }
}

impl Default for ProvidersConfig {
    fn default() -> Self {
        Self {
            providers: Vec::new(),
            provider_keys: BTreeMap::new(),
            active: None,
            default: DefaultProvider::default(),
            cache_folder: None,
            catalogue_url: CATALOGUE_URL.to_owned(),
            idle_timeout_ms: 120_000,
            fetch: None,
        }
    }
}

impl fmt::Debug for DefaultProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultProvider").field("has_key", &self.api_key.is_some()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ProvidersConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvidersConfig")
            .field("providers", &self.providers)
            .field("keys_of", &self.provider_keys.keys().collect::<Vec<_>>())
            .field("active", &self.active)
            .field("default", &self.default)
            .field("cache_folder", &self.cache_folder)
            .finish_non_exhaustive()
    }
}
