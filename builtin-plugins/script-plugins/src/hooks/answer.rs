//! What a script answers.

use serde_json::{Map, Value};

use crate::hooks::Policy;

/// What a script of a hook answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// `Some(false)` refuses; nothing does too, where anything can be refused.
    pub(crate) allow: Option<bool>,
    pub(crate) reason: String,
    /// What shall be otherwise, if it is an object.
    pub(crate) modify: Option<Map<String, Value>>,
    pub(crate) told: Told,
}

/// Why what a script wrote is no answer, as what it did.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("returned invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("returned {0} where a JSON object is wanted, such as {{\"allow\": true}}")]
    NoObject(&'static str),
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// What a script tells the user beside its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) notify: Option<String>,
    /// An empty line clears the one before.
    pub(crate) status: Option<String>,
}

impl Told {
    pub(crate) fn of(answer: &Value) -> Self {
        let notify = answer.get("notify").and_then(Value::as_str).filter(|it| !it.is_empty());
        let status = answer.get("status").map(|it| it.as_str().unwrap_or_default());
        Self { notify: notify.map(str::to_owned), status: status.map(str::to_owned) }
    }
}

impl Answer {
    /// Reads the output of a script of a point with this policy.
    ///
    /// # Errors
    ///
    /// It is not one JSON value; or it is no object, and nothing is refused by that.
    pub(crate) fn read(text: &str, policy: Policy) -> Result<Self, NoAnswer> {
        let value: Value = serde_json::from_str(text)?;
        if !value.is_object() && policy != Policy::Blocking {
            return Err(NoAnswer::NoObject(kind_of(&value)));
        }
        Ok(Self {
            allow: value.get("allow").and_then(Value::as_bool),
            reason: value.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
            modify: value.get("modify").and_then(Value::as_object).cloned(),
            told: Told::of(&value),
        })
    }

    /// Why it refuses, if it does.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self.allow {
            Some(true) => None,
            Some(false) => Some(&self.reason),
            None if self.reason.is_empty() => Some("response has no boolean \"allow\""),
            None => Some(&self.reason),
        }
    }

    /// What a script writes for the model beside its answer.
    pub(crate) fn note(&self) -> Option<&str> {
        Some(self.reason.as_str()).filter(|it| !it.is_empty())
    }

    /// A text that shall be otherwise.
    pub(crate) fn modified_text(&self, key: &str) -> Option<&str> {
        self.modify.as_ref()?.get(key)?.as_str()
    }
}

/// What a script of a tool or command answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) is_ok: bool,
    pub(crate) text: String,
    pub(crate) told: Told,
}

impl Output {
    /// Reads the output of a script; `who` is the tool or command, for an error that it tells.
    pub(crate) fn read(text: &str, who: &str) -> Self {
        let plain = |told| Self { is_ok: true, text: text.to_owned(), told };
        let Ok(Value::Object(answer)) = serde_json::from_str::<Value>(text) else { return plain(Told::default()) };
        let answer = Value::Object(answer);
        let told = Told::of(&answer);
        if let Some(error) = answer.get("error").and_then(Value::as_str).filter(|it| !it.is_empty()) {
            return Self { is_ok: false, text: format!("{who}: {error}"), told };
        }
        let is_ok = answer.get("ok").and_then(Value::as_bool).unwrap_or(true);
        match answer.get("output").or_else(|| answer.get("result")).and_then(Value::as_str) {
            Some(output) => Self { is_ok, text: output.to_owned(), told },
            None => Self { is_ok, ..plain(told) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_20_25_an_answer_without_allow_refuses_and_says_why() {
        for (text, refusal) in [
            (r#"{"allow":true}"#, None),
            (r#"{"allow":true,"reason":"fine"}"#, None),
            (r#"{"allow":false,"reason":"no"}"#, Some("no")),
            (r#"{"allow":false}"#, Some("")),
            (r#"{"allow":"yes"}"#, Some("response has no boolean \"allow\"")),
            ("{}", Some("response has no boolean \"allow\"")),
            ("[]", Some("response has no boolean \"allow\"")),
            ("true", Some("response has no boolean \"allow\"")),
        ] {
            assert_eq!(Answer::read(text, Policy::Blocking).unwrap().refusal(), refusal, "{text}");
        }
        let spoilt = Answer::read("loading\n{\"allow\":true}", Policy::Blocking);
        assert!(spoilt.is_err(), "R034: log lines spoil the answer");
    }

    #[test]
    fn script_6_3_where_nothing_is_refused_what_is_no_object_is_no_answer() {
        for (text, what) in
            [("[1]", "an array"), ("\"x\"", "a string"), ("3", "a number"), ("true", "a boolean"), ("null", "null")]
        {
            let expected = format!("returned {what} where a JSON object is wanted, such as {{\"allow\": true}}");
            for policy in [Policy::BestEffort, Policy::Advisory] {
                assert_eq!(Answer::read(text, policy).unwrap_err().to_string(), expected, "{text}");
            }
        }
        Answer::read("{}", Policy::Advisory).unwrap();
    }

    #[test]
    fn script_6_2_what_is_told_beside() {
        let told = |text: &str| Answer::read(text, Policy::Advisory).unwrap().told;
        let both = told(r#"{"notify":"n","status":"s"}"#);
        assert_eq!((both.notify.as_deref(), both.status.as_deref()), (Some("n"), Some("s")));
        let cleared = told(r#"{"notify":"","status":7}"#);
        assert_eq!((cleared.notify, cleared.status.as_deref()), (None, Some("")));
        assert_eq!(told("{}"), Told::default());
    }

    #[test]
    fn script_8_1_what_a_tool_answers() {
        for (text, is_ok, shown) in [
            ("plain text", true, "plain text"),
            ("[1]", true, "[1]"),
            (r#"{"ok":true,"error":"e"}"#, false, "plugin tool 't': e"),
            (r#"{"output":"o","result":"r"}"#, true, "o"),
            (r#"{"result":"r","ok":false}"#, false, "r"),
            (r#"{"ok":"no","output":"o"}"#, true, "o"),
            (r#"{"output":7}"#, true, r#"{"output":7}"#),
            (r#"{"error":""}"#, true, r#"{"error":""}"#),
        ] {
            let output = Output::read(text, "plugin tool 't'");
            assert_eq!((output.is_ok, output.text.as_str()), (is_ok, shown), "{text}");
        }
    }
}
