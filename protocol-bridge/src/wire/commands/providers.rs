//! Providers, keys, models and settings.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use super::bare;

bare! { ListProviderPresets RefreshModels GetVisionConfig GetSandboxStatus PrepareSandbox ResetSandbox }

#[derive(Deserialize)]
pub(crate) struct Usage {
    pub(crate) model: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SetKey {
    pub(crate) api_key: SecretString,
    pub(crate) provider: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SetSearchKey {
    pub(crate) provider: String,
    pub(crate) api_key: SecretString,
}

#[derive(Deserialize)]
pub(crate) struct SetProvider {
    pub(crate) name: String,
}

#[derive(Deserialize)]
pub(crate) struct Login {
    pub(crate) preset: String,
    pub(crate) api_key: Option<SecretString>,
}

#[derive(Deserialize)]
pub(crate) struct Logout {
    pub(crate) provider: String,
}

#[derive(Deserialize)]
pub(crate) struct LoginOauth {
    pub(crate) preset: String,
}

#[derive(Deserialize)]
pub(crate) struct OauthCode {
    pub(crate) code: String,
}

#[derive(Deserialize)]
pub(crate) struct AddCustomProvider {
    pub(crate) name: String,
    pub(crate) base_url: String,
    pub(crate) kind: Option<String>,
    pub(crate) api_key: Option<SecretString>,
    pub(crate) api_key_env: Option<String>,
    pub(crate) headers: Option<Headers>,
    pub(crate) context_window: Option<u64>,
    pub(crate) models_override: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct DiscoverProviderModels {
    pub(crate) base_url: String,
    pub(crate) kind: Option<String>,
    pub(crate) api_key: Option<SecretString>,
    pub(crate) headers: Option<Headers>,
}

/// Headers, in one of the forms that clients write them in.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Headers {
    /// `{name: value}`.
    Object(BTreeMap<String, SecretString>),
    /// `[[name, value]]`.
    Pairs(Vec<(String, SecretString)>),
}

impl Headers {
    /// As pairs.
    pub(crate) fn into_pairs(self) -> Vec<(String, SecretString)> {
        match self {
            Self::Object(fields) => fields.into_iter().collect(),
            Self::Pairs(pairs) => pairs,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct SetApproval {
    pub(crate) mode: String,
}

#[derive(Deserialize)]
pub(crate) struct SetConfig {
    pub(crate) key: String,
    pub(crate) value: Value,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are checked, and nothing sees for other models yet")]
pub(crate) struct SetVisionConfig {
    enabled: Option<bool>,
    vision_models: Option<Vec<String>>,
    vision_model: Option<String>,
}
