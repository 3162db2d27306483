//! What has to be put right in a history before an endpoint takes it.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::ids::CallId;
use crate::model::{ContentBlock, Message, Role};

/// The arguments of a call as an object; empty if they are none.
pub fn arguments_object(arguments: &str) -> Map<String, Value> {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// The arguments of a call as the text of an object: as they are if they are one, else `{}`.
pub fn arguments_text(arguments: &str) -> Cow<'_, str> {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(_)) => Cow::Borrowed(arguments),
        _ => Cow::Borrowed("{}"),
    }
}

/// The calls of message `at` that have no result before the model speaks again.
pub fn unanswered(messages: &[Arc<Message>], at: usize) -> Vec<&CallId> {
    let calls = messages[at].content.iter().filter_map(|it| match it {
        ContentBlock::ToolCall { id, .. } if messages[at].role == Role::Assistant => Some(id),
        _ => None,
    });
    let answers = messages[at + 1..].iter().take_while(|it| it.role != Role::Assistant).flat_map(|it| &it.content);
    let is_answered = |call: &CallId| {
        let mut answers = answers.clone();
        answers.any(|it| matches!(it, ContentBlock::ToolResult { tool_call_id, .. } if tool_call_id == call))
    };
    calls.filter(|call| !is_answered(call)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_sent_as_an_empty_one() {
        for (arguments, sent) in [
            (r#"{"path": "a"}"#, r#"{"path": "a"}"#),
            ("", "{}"),
            ("null", "{}"),
            ("[\"ls\"]", "{}"),
            ("7", "{}"),
            (r#"{"content":"partial te"#, "{}"),
        ] {
            assert_eq!(arguments_text(arguments), sent);
            assert_eq!(Value::Object(arguments_object(arguments)), serde_json::from_str::<Value>(sent).unwrap());
        }
    }

    #[test]
    fn calls_without_a_result_are_found() {
        let call = |id: &str| ContentBlock::ToolCall { id: id.into(), name: "t".into(), arguments: "{}".into() };
        let result =
            |id: &str| ContentBlock::ToolResult { tool_call_id: id.into(), content: Vec::new(), is_error: false };
        let messages: Vec<_> = [
            Message::assistant([call("a"), call("b")]),
            Message::user([result("b")]),
            Message::user([ContentBlock::text("go on")]),
            Message::assistant([ContentBlock::text("no")]),
            Message::user([result("a")]),
        ]
        .map(Arc::new)
        .into();
        assert_eq!(unanswered(&messages, 0), [&CallId::from("a")]);
        assert!(unanswered(&messages, 3).is_empty());
        assert!(unanswered(&messages, 4).is_empty());
    }
}
