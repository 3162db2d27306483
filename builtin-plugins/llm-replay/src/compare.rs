//! Whether a request is the recorded one, and where it is not.

use std::fmt;

use linn_services::model::{GenerateRequest, Message, ToolSchema};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The first place where two requests differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where, such as `messages[2].content[0].text`.
    pub place: String,
    /// What the recording holds there, in short; `nothing` if it has no such place.
    pub recorded: String,
    /// What was asked, in short.
    pub asked: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:\n- {}\n+ {}", self.place, self.recorded, self.asked)
    }
}

/// What is compared of a request, as JSON.
fn canonical(model: &str, messages: &[impl AsRef<Message>], tools: &[ToolSchema]) -> Value {
    let messages = messages.iter().map(|it| json(it.as_ref())).collect();
    let tools = tools.iter().map(json).collect();
    let parts = [("model", Value::from(model)), ("messages", Value::Array(messages)), ("tools", Value::Array(tools))];
    Value::Object(parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("messages and tools are JSON")
}

/// A digest of model, messages and tools, in hexadecimal. The order of the members of objects is of no account.
pub(crate) fn digest(model: &str, request: &GenerateRequest) -> String {
    let mut text = String::new();
    write_sorted(&canonical(model, &request.messages, &request.tools), &mut text);
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|it| format!("{it:02x}")).collect()
}

fn write_sorted(value: &Value, to: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            to.push('{');
            for (name, value) in members {
                to.push_str(&Value::from(name.as_str()).to_string());
                to.push(':');
                write_sorted(value, to);
                to.push(',');
            }
            to.push('}');
        }
        Value::Array(items) => {
            to.push('[');
            for item in items {
                write_sorted(item, to);
                to.push(',');
            }
            to.push(']');
        }
        plain => to.push_str(&plain.to_string()),
    }
}

/// The first difference between two lists of messages or tools.
pub(crate) fn difference_of_lists<A: Serialize, B: Serialize>(
    name: &str,
    recorded: &[A],
    asked: &[B],
) -> Option<Difference> {
    let both = recorded.iter().zip(asked).enumerate();
    for (at, (recorded, asked)) in both {
        let found = difference(&format!("{name}[{at}]"), &json(recorded), &json(asked));
        if found.is_some() {
            return found;
        }
    }
    let at = recorded.len().min(asked.len());
    (recorded.len() != asked.len()).then(|| Difference {
        place: format!("{name}[{at}]"),
        recorded: shown(recorded.get(at).map(json).as_ref()),
        asked: shown(asked.get(at).map(json).as_ref()),
    })
}

/// The first difference between two values; `place` is where they are.
pub(crate) fn difference(place: &str, recorded: &Value, asked: &Value) -> Option<Difference> {
    match (recorded, asked) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<_> = a.keys().chain(b.keys()).collect();
            names.sort_unstable();
            names.dedup();
            names.into_iter().find_map(|name| {
                let place = format!("{place}.{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => difference(&place, a, b),
                    (a, b) => Some(Difference { place, recorded: shown(a), asked: shown(b) }),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => difference_of_lists(place, a, b),
        (Value::String(a), Value::String(b)) if a != b => {
            let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
            let same = (0..=same).rev().find(|at| a.is_char_boundary(*at) && b.is_char_boundary(*at)).unwrap_or(0);
            let place = format!("{place}, byte {same}");
            Some(Difference { place, recorded: shortened(a, same), asked: shortened(b, same) })
        }
        (a, b) if a != b => {
            Some(Difference { place: place.to_owned(), recorded: shown(Some(a)), asked: shown(Some(b)) })
        }
        _ => None,
    }
}

/// How many characters are shown before a place; twice as many are shown behind it.
const SHOWN: usize = 40;

/// A text around the byte `at`, in quotes.
fn shortened(text: &str, at: usize) -> String {
    let (before, behind) = text.split_at(at);
    let start = before.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
    let end = at + first(behind).len();
    let (open, close) = (if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    format!("{open}{:?}{close}", &text[start..end])
}

/// A value as JSON, in short.
fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    let start = first(&text);
    if start.len() < text.len() { format!("{start}…") } else { text }
}

/// The beginning of a text.
fn first(text: &str) -> &str {
    text.char_indices().nth(SHOWN * 2).map_or(text, |(at, _)| &text[..at])
}
