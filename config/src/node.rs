//! What a file, a variable or a flag holds, before anything is known about it, each part with its place.

use std::fmt;

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::origin::Place;

/// What stands in for a value that nobody may see.
pub(crate) const NOT_SHOWN: &str = "(not shown)";

/// A value and where it is written.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) place: Place,
}

/// The forms that TOML, JSON and plain text have in common.
#[derive(Clone)]
pub(crate) enum Data {
    /// JSON has it, TOML has not.
    Null,
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text {
        value: String,
        /// The text before variables were filled in, where there were any. This form may be shown.
        written: Option<String>,
    },
    List(Vec<Node>),
    Table(IndexMap<String, Node>),
}

impl Node {
    pub(crate) fn text(value: impl Into<String>, place: Place) -> Self {
        Self { data: Data::Text { value: value.into(), written: None }, place }
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self) -> Json {
        match &self.data {
            Data::Null => Json::Null,
            Data::Bool(it) => Json::Bool(*it),
            Data::Integer(it) => Json::from(*it),
            Data::Number(it) => Json::from(*it),
            Data::Text { value, .. } => Json::from(value.as_str()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Table(fields) => fields.iter().map(|(name, it)| (name.clone(), it.to_json())).collect(),
        }
    }

    /// A value that has no places of its own; all of it is at `place`.
    pub(crate) fn from_json(json: &Json, place: &Place) -> Self {
        let data = match json {
            Json::Null => Data::Null,
            Json::Bool(it) => Data::Bool(*it),
            Json::Number(it) => match it.as_i64() {
                Some(it) => Data::Integer(it),
                None => Data::Number(it.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(it) => Data::Text { value: it.clone(), written: None },
            Json::Array(items) => Data::List(items.iter().map(|it| Self::from_json(it, place)).collect()),
            Json::Object(fields) => {
                let field = |(name, it): (&String, &Json)| (name.clone(), Self::from_json(it, place));
                Data::Table(fields.iter().map(field).collect())
            }
        };
        Self { data, place: place.clone() }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match &self.data {
            Data::Table(fields) => fields.get(name),
            _ => None,
        }
    }

    /// What is at a path such as `a.b`, names only.
    pub(crate) fn at_path(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, name| node.field(name))
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Text { value, .. } => Some(value),
            _ => None,
        }
    }

    /// A name for the form, for errors.
    pub(crate) fn form(&self) -> &'static str {
        match self.data {
            Data::Null => "null",
            Data::Bool(_) => "true or false",
            Data::Integer(_) => "a whole number",
            Data::Number(_) => "a number",
            Data::Text { .. } => "text",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
        }
    }

    /// The value as it may be shown: variables as written, and fields that hold secrets by their name without value.
    pub(crate) fn shown(&self) -> String {
        let mut out = String::new();
        self.write_shown(&mut out);
        out
    }

    fn write_shown(&self, out: &mut String) {
        match &self.data {
            Data::Text { value, written } => {
                out.push_str(&Json::from(written.as_ref().unwrap_or(value).as_str()).to_string())
            }
            Data::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    item.write_shown(out);
                }
                out.push(']');
            }
            Data::Table(fields) => {
                out.push('{');
                for (at, (name, field)) in fields.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    out.push_str(name);
                    out.push_str(" = ");
                    if names_secret(name) {
                        out.push_str(NOT_SHOWN);
                    } else {
                        field.write_shown(out);
                    }
                }
                out.push('}');
            }
            _ => out.push_str(&self.to_json().to_string()),
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.form(), self.place)
    }
}

/// Whether a field of this name is likely to hold something that may not be shown.
pub(crate) fn names_secret(name: &str) -> bool {
    let words = split_words(name);
    let is_one = |word: &String| {
        matches!(
            word.as_str(),
            "key"
                | "keys"
                | "apikey"
                | "token"
                | "secret"
                | "secrets"
                | "password"
                | "passphrase"
                | "authorization"
                | "credential"
                | "credentials"
                | "headers"
                | "cookie"
                | "bearer"
        )
    };
    // `api_key_env` names a variable, and `max_tokens` counts.
    words.iter().any(is_one) && words.last().is_none_or(|it| it != "env")
}

/// `apiKey`, `api-key` and `API_KEY` as `api`, `key`.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous_is_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && previous_is_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        previous_is_lower = c.is_lowercase();
    }
    words.retain(|it| !it.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known() {
        let secret = ["api_key", "apiKey", "API_KEY", "authToken", "password", "X-Api-Key", "headers", "provider_keys"];
        assert!(secret.iter().all(|it| names_secret(it)));
        let open = ["api_key_env", "max_tokens", "keyboard", "monkey", "name", "tokenizer"];
        assert!(!open.iter().any(|it| names_secret(it)));
    }

    #[test]
    fn secrets_and_filled_in_variables_are_not_shown() {
        let text = |value: &str, written: Option<&str>| Node {
            data: Data::Text { value: value.into(), written: written.map(Into::into) },
            place: Place::BuiltIn,
        };
        let fields = [
            ("url", text("http://hidden/x", Some("http://${env:HOST}/x"))),
            ("token", text("hidden", None)),
            ("n", Node { data: Data::Integer(1), place: Place::BuiltIn }),
        ];
        let table = fields.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
        let node = Node { data: Data::Table(table), place: Place::BuiltIn };
        assert_eq!(node.shown(), r#"{url = "http://${env:HOST}/x", token = (not shown), n = 1}"#);
        assert_eq!(format!("{node:?}"), "a table at built-in default");
    }
}
