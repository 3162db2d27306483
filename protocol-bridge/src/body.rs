//! An event as bytes, without what the sink adds.

use std::borrow::Cow;

use memchr::memmem;
use serde::Serialize;
use serde_json::{Map, Value};

/// An event of the wire.
pub(crate) trait WireEvent: Serialize {
    /// Its name.
    const TYPE: &'static str;
    /// Whether none of its fields can be a secret or an id of a run or session, so that nobody has to look.
    const IS_PLAIN: bool;
    /// What it may be merged with, if the front end is slow.
    fn merge(&self) -> Option<Merge> {
        None
    }
}

/// Events whose text can be put behind that of an event before. Their text is their last field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Text of an answer.
    Delta,
    /// Thoughts.
    Thinking,
    /// Arguments of the call of this index.
    Arguments(u32),
}

/// An event as bytes, up to the end of its last field.
#[derive(Debug)]
pub(crate) struct Body {
    /// `{"type":..,..` without the last brace.
    pub(crate) bytes: Vec<u8>,
    pub(crate) has_session_id: bool,
    pub(crate) has_run_id: bool,
    pub(crate) merge: Option<Merge>,
}

/// What stands where a secret was.
const REDACTED: &str = "[REDACTED]";

/// Fields whose values are secrets.
const SECRET_FIELDS: &[&str] =
    &["api_key", "authorization", "password", "access_token", "refresh_token", "id_token", "client_secret"];

impl Body {
    /// Makes bytes of an event. `None` for one that JSON cannot hold, which is a defect of its type.
    pub(crate) fn of<E: WireEvent>(event: &E) -> Result<Self, serde_json::Error> {
        let mut has = (false, false);
        let fields = if E::IS_PLAIN {
            serde_json::to_vec(event)?
        } else {
            let mut value = serde_json::to_value(event)?;
            redact(&mut value);
            if let Value::Object(fields) = &value {
                has = (fields.contains_key("session_id"), fields.contains_key("run_id"));
            }
            serde_json::to_vec(&value)?
        };
        let mut bytes = Vec::with_capacity(fields.len() + E::TYPE.len() + 160);
        bytes.extend_from_slice(b"{\"type\":\"");
        bytes.extend_from_slice(E::TYPE.as_bytes());
        bytes.push(b'"');
        // An event without fields is `{}`, or `null` for a unit struct.
        if let Some(inner) = fields.strip_prefix(b"{").and_then(|it| it.strip_suffix(b"}")).filter(|it| !it.is_empty())
        {
            bytes.push(b',');
            bytes.extend_from_slice(&escape_separators(inner));
        }
        Ok(Self { bytes, has_session_id: has.0, has_run_id: has.1, merge: event.merge() })
    }

    /// Where more text of an event that can be merged goes.
    pub(crate) fn text_end(&self) -> usize {
        self.bytes.len() - 1
    }

    /// The text of an event that can be merged, as it is written in JSON.
    pub(crate) fn text(&self) -> &[u8] {
        // The text has no quote that is not escaped, and what stands before it has no colon followed by one.
        let start = match self.merge {
            Some(Merge::Arguments(_)) => memmem::find(&self.bytes, b",\"args\":\"").map(|at| at + 9),
            _ => memmem::find(&self.bytes, b",\"text\":\"").map(|at| at + 9),
        };
        &self.bytes[start.unwrap_or(self.text_end())..self.text_end()]
    }
}

/// Writes U+2028 and U+2029 as escapes: some readers take them for the end of a line. They stand in strings alone.
fn escape_separators(json: &[u8]) -> Cow<'_, [u8]> {
    let mut found =
        memmem::find_iter(json, b"\xE2\x80").filter(|at| matches!(json.get(at + 2), Some(0xA8 | 0xA9))).peekable();
    if found.peek().is_none() {
        return Cow::Borrowed(json);
    }
    let mut escaped = Vec::with_capacity(json.len() + 32);
    let mut end = 0;
    for at in found {
        escaped.extend_from_slice(&json[end..at]);
        escaped.extend_from_slice(if json[at + 2] == 0xA8 { b"\\u2028" } else { b"\\u2029" });
        end = at + 3;
    }
    escaped.extend_from_slice(&json[end..]);
    Cow::Owned(escaped)
}

/// Whether a field of this name holds a secret.
pub(crate) fn is_secret_field(name: &str) -> bool {
    SECRET_FIELDS.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Takes out the values of all fields whose names say that they are secrets.
pub(crate) fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => redact_fields(fields),
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

fn redact_fields(fields: &mut Map<String, Value>) {
    for (name, value) in fields {
        if is_secret_field(name) {
            *value = REDACTED.into();
        } else {
            redact(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::events::{Delta, Done, ToolCallArgs};

    fn written(body: &Body) -> String {
        String::from_utf8(body.bytes.clone()).unwrap() + "}"
    }

    #[test]
    fn an_event_begins_with_its_type() {
        assert_eq!(written(&Body::of(&Done {}).unwrap()), r#"{"type":"done"}"#);
        let body = Body::of(&Delta { text: "a\"b" }).unwrap();
        assert_eq!(written(&body), r#"{"type":"delta","text":"a\"b"}"#);
        assert_eq!(body.text(), br#"a\"b"#);
        let body = Body::of(&ToolCallArgs { index: 3, args: "{\"text\":1}" }).unwrap();
        assert_eq!(body.text(), br#"{\"text\":1}"#);
    }

    #[test]
    fn r127_line_separators_are_escaped() {
        let body = Body::of(&Delta { text: "a\u{2028}b\u{2029}c\u{2027}" }).unwrap();
        assert_eq!(written(&body), "{\"type\":\"delta\",\"text\":\"a\\u2028b\\u2029c\u{2027}\"}");
        let back: Value = serde_json::from_str(&written(&body)).unwrap();
        assert_eq!(back["text"], "a\u{2028}b\u{2029}c\u{2027}");
    }

    #[test]
    fn secrets_are_taken_out_by_the_names_of_their_fields_at_any_depth() {
        let mut value = json!({
            "API_KEY": "sk-1", "tokens_in": 3, "has_key": true,
            "headers": [{ "Authorization": "Bearer x", "other": "y" }],
            "deep": { "password": { "nested": 1 }, "api_key_env": "NAME" },
        });
        redact(&mut value);
        assert_eq!(
            value,
            json!({
                "API_KEY": "[REDACTED]", "tokens_in": 3, "has_key": true,
                "headers": [{ "Authorization": "[REDACTED]", "other": "y" }],
                "deep": { "password": "[REDACTED]", "api_key_env": "NAME" },
            })
        );
    }
}
