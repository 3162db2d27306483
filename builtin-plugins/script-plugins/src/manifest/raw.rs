//! The manifest as it is written.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A manifest as it is written: types are right, nothing else is known.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
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
#[serde(expecting = "an object")]
pub(crate) struct RawHook {
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) pass_args: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object")]
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
#[serde(expecting = "an object")]
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
#[serde(expecting = "an object")]
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
#[serde(expecting = "an object")]
pub(crate) struct RawMemory {
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
}

impl RawManifest {
    /// What can be read of a manifest that cannot be read as a whole, and what is wrong with each of its parts, with its
    /// place in the text; `None` if the text is no object of JSON.
    pub(crate) fn in_parts(text: &str) -> Option<(Self, Vec<String>)> {
        let Entries(fields) = serde_json::from_str(text).ok()?;
        let mut parts = Parts { text, fields, problems: Vec::new() };
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
        Some((raw, parts.problems))
    }
}

/// The keys of an object with what they are for, as they are written; a key may be there twice.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Every;

        impl<'de> Visitor<'de> for Every {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Every)
    }
}

struct Parts<'a> {
    text: &'a str,
    fields: Vec<(String, &'a RawValue)>,
    problems: Vec<String>,
}

impl<'a> Parts<'a> {
    fn one<T: Deserialize<'a>>(&mut self, place: &str, raw: &'a RawValue) -> Option<T> {
        match serde_json::from_str(raw.get()) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.push(format!("{place}: {}", self.located(raw, &error)));
                None
            }
        }
    }

    /// An error in a part of the text, with its place in the whole.
    fn located(&self, part: &RawValue, error: &serde_json::Error) -> String {
        let told = error.to_string();
        let what = told.strip_suffix(&format!(" at line {} column {}", error.line(), error.column())).unwrap_or(&told);
        let at = part.get().as_ptr().addr() - self.text.as_ptr().addr();
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + error.line();
        let ahead = if error.line() == 1 { before.len() - before.rfind('\n').map_or(0, |it| it + 1) } else { 0 };
        format!("{what} at line {line} column {}", ahead + error.column())
    }

    fn field(&mut self, key: &str) -> Option<&'a RawValue> {
        let mut found = self.fields.iter().filter(|(name, _)| name == key).map(|(_, raw)| *raw);
        let (first, is_repeated) = (found.next(), found.next().is_some());
        if is_repeated {
            self.problems.push(format!("{key}: it is there more than once"));
        }
        first
    }

    fn required<T: Deserialize<'a> + Default>(&mut self, key: &str) -> T {
        if !self.fields.iter().any(|(name, _)| name == key) {
            self.problems.push(format!("{key}: missing"));
        }
        self.optional(key)
    }

    fn optional<T: Deserialize<'a> + Default>(&mut self, key: &str) -> T {
        let Some(raw) = self.field(key) else { return T::default() };
        self.one(key, raw).unwrap_or_default()
    }

    fn entries<T: Deserialize<'a>>(&mut self, key: &str) -> BTreeMap<String, T> {
        let Some(raw) = self.field(key) else { return BTreeMap::new() };
        let Some(Entries(entries)) = self.one(key, raw) else { return BTreeMap::new() };
        entries
            .into_iter()
            .filter_map(|(name, raw)| {
                let value = self.one(&format!("{key}.{name}"), raw)?;
                Some((name, value))
            })
            .collect()
    }

    fn list<T: Deserialize<'a>>(&mut self, key: &str) -> Vec<T> {
        let Some(raw) = self.field(key) else { return Vec::new() };
        let list: Vec<&RawValue> = self.one(key, raw).unwrap_or_default();
        list.into_iter().enumerate().filter_map(|(at, raw)| self.one(&format!("{key}[{at}]"), raw)).collect()
    }
}
