//! The manifest as it is written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A manifest as it is written: types are right, nothing else is known.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct RawManifest {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) protocol_version: Option<u32>,
    #[serde(default)]
    pub(crate) capabilities: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) system_prompt: String,
    #[serde(default)]
    pub(crate) hooks: BTreeMap<String, RawHook>,
    #[serde(default)]
    pub(crate) tools: Vec<RawTool>,
    #[serde(default)]
    pub(crate) commands: Vec<RawCommand>,
    #[serde(default)]
    pub(crate) disable_tools: Vec<String>,
    #[serde(default)]
    pub(crate) oauth: Option<RawOAuth>,
    #[serde(default)]
    pub(crate) memory_provider: Option<RawMemory>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawHook {
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) pass_args: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawTool {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) parameters: Value,
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default, rename = "override")]
    pub(crate) is_override: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawCommand {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) script: Option<String>,
    #[serde(default)]
    pub(crate) prompt_file: Option<String>,
    #[serde(default)]
    pub(crate) mode: Option<String>,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawOAuth {
    pub(crate) provider_id: String,
    #[serde(default)]
    pub(crate) label: Option<String>,
    #[serde(default)]
    pub(crate) kind: Option<String>,
    pub(crate) base_url: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) headers: Vec<(String, String)>,
    #[serde(default)]
    pub(crate) token_path: Option<String>,
    #[serde(default)]
    pub(crate) detect_path: Option<String>,
    #[serde(default)]
    pub(crate) script: Option<String>,
    #[serde(default)]
    pub(crate) login_script: Option<String>,
    #[serde(default)]
    pub(crate) complete_script: Option<String>,
    #[serde(default)]
    pub(crate) token_script: Option<String>,
    #[serde(default)]
    pub(crate) login_timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) token_timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) env_passthrough: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawMemory {
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
}

impl RawManifest {
    /// What can be read of a manifest that cannot be read as a whole, and what is wrong with each of its parts.
    pub(crate) fn in_parts(object: &Map<String, Value>) -> (Self, Vec<String>) {
        let mut parts = Parts { object, problems: Vec::new() };
        let raw = Self {
            name: parts.required("name"),
            version: parts.required("version"),
            protocol_version: parts.optional("protocol_version"),
            capabilities: parts.optional("capabilities"),
            description: parts.optional("description"),
            system_prompt: parts.optional("system_prompt"),
            hooks: parts.entries("hooks"),
            tools: parts.list("tools"),
            commands: parts.list("commands"),
            disable_tools: parts.optional("disable_tools"),
            oauth: parts.optional("oauth"),
            memory_provider: parts.optional("memory_provider"),
        };
        (raw, parts.problems)
    }
}

struct Parts<'a> {
    object: &'a Map<String, Value>,
    problems: Vec<String>,
}

impl Parts<'_> {
    fn one<T: DeserializeOwned>(&mut self, place: &str, value: &Value) -> Option<T> {
        T::deserialize(value).map_err(|error| self.problems.push(format!("{place}: {error}"))).ok()
    }

    fn required<T: DeserializeOwned + Default>(&mut self, key: &str) -> T {
        if !self.object.contains_key(key) {
            self.problems.push(format!("{key}: missing"));
        }
        self.optional(key)
    }

    fn optional<T: DeserializeOwned + Default>(&mut self, key: &str) -> T {
        let Some(value) = self.object.get(key) else { return T::default() };
        self.one(key, value).unwrap_or_default()
    }

    fn entries<T: DeserializeOwned>(&mut self, key: &str) -> BTreeMap<String, T> {
        let Some(Value::Object(entries)) = self.object.get(key) else { return self.optional(key) };
        let read =
            entries.iter().filter_map(|(name, it)| Some((name.clone(), self.one(&format!("{key}.{name}"), it)?)));
        read.collect()
    }

    fn list<T: DeserializeOwned>(&mut self, key: &str) -> Vec<T> {
        let Some(Value::Array(list)) = self.object.get(key) else { return self.optional(key) };
        list.iter().enumerate().filter_map(|(at, it)| self.one(&format!("{key}[{at}]"), it)).collect()
    }
}
