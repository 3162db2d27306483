//! The public list of models: what is known of a model whoever serves it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{count, text, words};

/// What the list says of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context_window: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vision: Option<bool>,
}

/// The list, by id in lower case: with and without what stands before the last `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Catalogue(BTreeMap<String, Listed>);

impl Catalogue {
    /// Reads the list: models by id, or vendors with their models below `models`.
    pub(crate) fn read(answer: &Value) -> Self {
        let mut catalogue = Self::default();
        let Some(entries) = answer.as_object() else { return catalogue };
        for (id, entry) in entries {
            match entry.get("models").and_then(Value::as_object) {
                Some(models) => models.iter().for_each(|(id, told)| catalogue.add(id, told)),
                None => catalogue.add(id, entry),
            }
        }
        catalogue
    }

    fn add(&mut self, id: &str, told: &Value) {
        let limit = told.get("limit");
        let modalities = words(told.get("modalities").and_then(|it| it.get("input")));
        let listed = Listed {
            name: text(told.get("name")),
            context_window: count(limit.and_then(|it| it.get("context"))),
            max_tokens: count(limit.and_then(|it| it.get("output"))),
            reasoning: told.get("reasoning").and_then(Value::as_bool),
            vision: modalities.map(|it| it.iter().any(|it| it == "image")),
        };
        let id = id.to_ascii_lowercase();
        if let Some((_, short)) = id.rsplit_once('/').filter(|(_, it)| !it.is_empty()) {
            // Of two vendors with one name the first counts.
            self.0.entry(short.to_owned()).or_insert_with(|| listed.clone());
        }
        self.0.insert(id, listed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Listed> {
        let id = id.to_ascii_lowercase();
        let short = id.rsplit_once('/').map(|(_, short)| short);
        self.0.get(&id).or_else(|| self.0.get(short?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wp_8_6_models_are_found_with_and_without_their_vendor() {
        let told = json!({ "name": "One", "reasoning": true, "modalities": { "input": ["text", "image"] },
            "limit": { "context": 256_000, "output": 32_000 } });
        for answer in [json!({ "acme/one-1": told }), json!({ "acme": { "models": { "one-1": told } } })] {
            let catalogue = Catalogue::read(&answer);
            for id in ["one-1", "ONE-1", "other/one-1"] {
                let found = catalogue.find(id).unwrap();
                assert_eq!(
                    (found.context_window, found.max_tokens, found.vision),
                    (Some(256_000), Some(32_000), Some(true))
                );
            }
            assert!(catalogue.find("one").is_none());
        }
        assert!(Catalogue::read(&json!([])).is_empty());
    }
}
