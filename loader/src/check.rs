//! The config of an entry held to what its plugin takes.

use linn_bus::{ConfigError, PluginDescriptor};
use linn_config::EntryConfig;
use serde_json::{Map, Value};

use crate::problem::{EntryFault, nearest};

/// Parts of names of fields whose values are not shown.
const SECRET: [&str; 5] = ["key", "token", "secret", "password", "authorization"];

/// What is wrong with a field of a config.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// Path of the field; empty for the config as a whole.
    pub(crate) key: String,
    pub(crate) fault: EntryFault,
}

/// Whether a config is one of the plugin.
pub(crate) fn check(plugin: &PluginDescriptor, config: &Value) -> Result<(), Box<Wrong>> {
    let schema = plugin.schema().unwrap_or(Value::Bool(true));
    if let Some((key, similar)) = unknown_field(&schema, &schema, config, "") {
        let fault = EntryFault::UnknownKey { plugin: plugin.name.to_owned(), key: key.clone(), similar };
        return Err(Box::new(Wrong { key, fault }));
    }
    plugin.check(config).map_err(|error| Box::new(wrong(plugin.name, config, &error)))
}

/// A config error as a fault of the entry.
pub(crate) fn wrong(plugin: &str, config: &Value, error: &ConfigError) -> Wrong {
    let key = error.path.clone();
    let value = value_at(config, &key).filter(|_| !is_secret(&key)).map(Value::to_string).unwrap_or_default();
    let fault =
        EntryFault::Config { plugin: plugin.to_owned(), key: key.clone(), value, message: error.message.clone() };
    Wrong { key, fault }
}

/// Where a field is written: itself, or what it is in.
pub(crate) fn place_of(config: &EntryConfig, path: &str) -> Option<linn_config::Place> {
    let mut path = path;
    loop {
        if let Some(place) = config.place_of(path) {
            return Some(place.clone());
        }
        path = path.rsplit_once('.')?.0;
    }
}

fn is_secret(path: &str) -> bool {
    let path = path.to_lowercase();
    SECRET.iter().any(|it| path.contains(it))
}

fn value_at<'a>(config: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|it| !it.is_empty()).try_fold(config, |value, name| value.get(name))
}

/// The first field that a schema does not know, and the nearest name it does. Only what says all its fields is looked at.
fn unknown_field(root: &Value, schema: &Value, config: &Value, path: &str) -> Option<(String, Option<String>)> {
    let schema = resolved(root, schema);
    let (Some(fields), Some(known)) = (config.as_object(), properties(schema)) else { return None };
    // What is put together from several schemas, or takes further fields, may have any.
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let is_open = ["anyOf", "oneOf", "allOf", "patternProperties", "if"].iter().any(|it| schema.get(*it).is_some())
        || schema.get("additionalProperties").is_some_and(|it| *it != Value::Bool(false));
    fields.iter().find_map(|(name, value)| {
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match known.get(name) {
            Some(schema) => unknown_field(root, schema, value, &inner),
            None if is_closed || !is_open => Some((inner, nearest(name, known.keys().map(String::as_str)))),
            None => None,
        }
    })
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
    reference.and_then(|it| root.pointer(it)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_a_schema_does_not_know_are_found_with_the_nearest() {
        let schema = json!({
            "properties": { "limit": { "$ref": "#/$defs/Limit" }, "name": {}, "free": { "type": "object", "additionalProperties": {} } },
            "$defs": { "Limit": { "properties": { "seconds": {} }, "additionalProperties": false } },
        });
        let find = |config| unknown_field(&schema, &schema, &config, "");
        assert_eq!(find(json!({ "name": 1, "free": { "x": 1 }, "limit": { "seconds": 1 } })), None);
        assert_eq!(find(json!({ "nmae": 1 })), Some(("nmae".into(), Some("name".into()))));
        assert_eq!(find(json!({ "limit": { "secnds": 1 } })), Some(("limit.secnds".into(), Some("seconds".into()))));
        assert_eq!(find(json!({ "zzz": 1 })), Some(("zzz".into(), None)));
    }

    #[test]
    fn values_of_fields_that_hold_secrets_are_not_shown() {
        let error = |path: &str| {
            let mut error = plugin_error();
            error.path = path.to_owned();
            wrong("p", &json!({ "api_key": "hunter-2", "n": 7 }), &error).fault.to_string()
        };
        assert!(!error("api_key").contains("hunter-2"));
        assert!(error("n").contains("`n` cannot be 7"), "{}", error("n"));
    }

    fn plugin_error() -> ConfigError {
        let todo = linn_bus::plugin_catalogue().into_iter().find(|it| it.name == "tools-service" || it.name == "tools");
        todo.map(|it| it.check(&json!({ "x": 1 })).unwrap_err()).expect("linn-services registers its plugins")
    }
}
