//! Providers, models and settings.

use std::collections::BTreeMap;

use linn_services::providers::{ModelInfo, ProviderPreset, ProviderUsage};
use serde_json::Value;

use super::wire_events;

wire_events! {
    Models<'a> = "models", plain { models: &'a [ModelInfo], }
    ModelsRefreshed<'a> = "models_refreshed", plain { count: usize, providers: &'a BTreeMap<&'a str, Vec<&'a str>>, }
    ProviderPresets<'a> = "provider_presets", plain { presets: &'a [ProviderPreset], }
    ProviderModelsPreview<'a> = "provider_models_preview", plain {
        models: &'a [ModelInfo],
        base_url: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    }
    ProviderChanged<'a> = "provider_changed", plain {
        provider: &'a str,
        kind: &'a str,
        base_url: &'a str,
        has_key: bool,
    }
    Authed<'a> = "authed", plain {
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<&'a str>,
    }
    OauthPrompt<'a> = "oauth_prompt", plain { url: &'a str, code: &'a str, message: &'a str, }
    SearchKeySet<'a> = "search_key_set", plain { provider: &'a str, has_key: bool, }
    ConfigChanged<'a> = "config_changed", checked { key: &'a str, value: &'a Value, }
    UsageReport<'a> = "usage", checked {
        #[serde(flatten)]
        usage: &'a ProviderUsage,
    }
    UmansConc<'a> = "umans_conc", plain {
        used: Option<u64>,
        limit: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<&'a str>,
    }
    VisionConfig<'a> = "vision_config", plain {
        enabled: bool,
        vision_models: &'a [String],
        vision_model: Option<&'a str>,
        models: &'a [Value],
    }
}
