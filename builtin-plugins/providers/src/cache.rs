//! What was learnt of models and is kept for a while, as text.

use std::collections::BTreeMap;

use linn_services::providers::ProviderSpec;
use serde::{Deserialize, Serialize};

use crate::discovery::{Catalogue, KnownModel};

/// Name of the file with the models of endpoints.
pub(crate) const MODELS_FILE: &str = "models-cache.json";

/// Name of the file with the public list of models.
pub(crate) const CATALOGUE_FILE: &str = "models-dev-cache.json";

/// How long models of an endpoint count as fresh: 8 hours.
pub(crate) const MODELS_SECS: u64 = 28_800;

/// How long the public list does: a day.
pub(crate) const CATALOGUE_SECS: u64 = 86_400;

/// What is written is of this form; what has another is passed over.
const VERSION: u64 = 10;

#[derive(Debug, Serialize, Deserialize)]
struct Models {
    version: u64,
    #[serde(default)]
    entries: BTreeMap<String, Kept>,
}

/// The models of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Seconds since 1970 UTC.
    pub(crate) updated_at: u64,
    pub(crate) models: Vec<KnownModel>,
}

/// The name of an endpoint in the file.
pub(crate) fn place_of(spec: &ProviderSpec) -> String {
    format!("{}|{}|{}", spec.base_url.trim_end_matches('/'), spec.kind, models_path(spec))
}

/// The path below the address of a provider that lists its models.
pub(crate) fn models_path(spec: &ProviderSpec) -> String {
    let own = spec.models_endpoint.as_deref().map(str::trim).filter(|it| !it.is_empty());
    match own {
        Some(path) if path.starts_with('/') => path.to_owned(),
        Some(path) => format!("/{path}"),
        None => "/models".to_owned(),
    }
}

/// Whether what was learnt at one time counts at another. What comes from the future does not.
pub(crate) fn is_fresh(updated_at: u64, now: u64, limit_secs: u64) -> bool {
    now.checked_sub(updated_at).is_some_and(|age| age < limit_secs)
}

fn read(text: &str) -> BTreeMap<String, Kept> {
    let models: Option<Models> = serde_json::from_str(text).ok();
    models.filter(|it| it.version == VERSION).map(|it| it.entries).unwrap_or_default()
}

/// What the file keeps of an endpoint.
pub(crate) fn kept(text: &str, place: &str) -> Option<Kept> {
    read(text).remove(place)
}

/// The file with what was learnt of an endpoint put in.
pub(crate) fn merged(text: Option<&str>, place: &str, kept: Kept) -> String {
    let mut entries = text.map(read).unwrap_or_default();
    entries.insert(place.to_owned(), kept);
    json(&Models { version: VERSION, entries })
}

/// The public list as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct KeptCatalogue {
    version: u64,
    updated_at: u64,
    models: Catalogue,
}

pub(crate) fn catalogue(text: &str) -> Option<(u64, Catalogue)> {
    let kept: KeptCatalogue = serde_json::from_str(text).ok()?;
    (kept.version == VERSION).then_some((kept.updated_at, kept.models))
}

pub(crate) fn catalogue_text(updated_at: u64, models: &Catalogue) -> String {
    json(&KeptCatalogue { version: VERSION, updated_at, models: models.clone() })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists are JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn model(id: &str) -> KnownModel {
        KnownModel {
            id: id.to_owned(),
            name: id.to_owned(),
            reasoning: true,
            context_window: 10,
            max_tokens: 5,
            thinking_levels: vec![],
            vision: false,
        }
    }

    #[test]
    fn wp_8_6_the_file_keeps_endpoints_side_by_side() {
        let first = merged(None, "a", Kept { updated_at: 7, models: vec![model("m")] });
        let both = merged(Some(&first), "b", Kept { updated_at: 8, models: vec![] });
        let file: Value = serde_json::from_str(&both).unwrap();
        assert_eq!(file["version"], 10);
        assert_eq!(
            file["entries"]["a"],
            json!({ "updated_at": 7, "models": [{ "id": "m", "name": "m", "reasoning": true,
            "context_window": 10, "max_tokens": 5, "thinking_levels": [], "vision": false }] })
        );
        assert_eq!(kept(&both, "b").unwrap().updated_at, 8);
        assert!(kept(&both, "c").is_none());
    }

    #[test]
    fn wp_8_6_another_version_is_passed_over() {
        for text in [r#"{"version":9,"entries":{"a":{"updated_at":7,"models":[]}}}"#, "half a fi", "[]"] {
            assert!(kept(text, "a").is_none(), "{text}");
            assert!(kept(&merged(Some(text), "b", Kept { updated_at: 1, models: vec![] }), "a").is_none());
            assert!(catalogue(text).is_none());
        }
    }

    #[test]
    fn wp_8_6_endpoints_are_told_apart_by_address_wire_and_path() {
        let spec = |url: &str, path: Option<&str>| ProviderSpec {
            base_url: url.to_owned(),
            kind: "openai".to_owned(),
            models_endpoint: path.map(str::to_owned),
            ..ProviderSpec::default()
        };
        assert_eq!(place_of(&spec("https://h/v1/", None)), "https://h/v1|openai|/models");
        assert_eq!(place_of(&spec("https://h/v1", Some("list"))), "https://h/v1|openai|/list");
    }

    #[test]
    fn wp_8_6_what_is_eight_hours_old_is_not_fresh() {
        assert!(is_fresh(100, 100 + MODELS_SECS - 1, MODELS_SECS));
        assert!(!is_fresh(100, 100 + MODELS_SECS, MODELS_SECS));
        assert!(!is_fresh(101, 100, MODELS_SECS), "it is of the future");
    }
}
