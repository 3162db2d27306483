//! Messages as scripts see them, and back.
//!
//! What comes back as it was sent is the message it was made of, with everything that scripts are not shown.

use std::collections::HashMap;
use std::sync::Arc;

use linn_services::ids::CallId;
use linn_services::model::{ContentBlock, Message, Role, text_of};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many messages a script may give back.
const MAX_MESSAGES: usize = 500;

/// Messages as scripts see them, each with what it was made of.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) values: Vec<Value>,
    sources: HashMap<String, Message>,
}

/// Why what a script gives back is no list of messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMessages {
    #[error("`messages` is no list of messages: {0}")]
    Shape(#[from] serde_json::Error),
    #[error("it gives {0} messages, and {MAX_MESSAGES} are taken")]
    TooMany(usize),
    #[error("a message of the role `tool` has no `tool_call_id`")]
    NoCallId,
}

#[derive(Debug, Deserialize)]
struct Wire {
    role: WireRole,
    #[serde(default)]
    content: Option<WireContent>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<WireCall>>,
    #[serde(default)]
    tool_call_id: Option<CallId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireRole {
    System,
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WireContent {
    Text(String),
    Parts(Vec<WirePart>),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart {
    Text { text: String },
    ImageUrl { image_url: WireImage },
}

#[derive(Debug, Deserialize)]
struct WireImage {
    url: String,
}

#[derive(Debug, Deserialize)]
struct WireCall {
    id: CallId,
    function: WireFunction,
}

#[derive(Debug, Deserialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

impl Shown {
    /// Messages as scripts see them.
    pub(crate) fn of(messages: &[Arc<Message>]) -> Self {
        let mut shown = Self { values: Vec::new(), sources: HashMap::new() };
        for message in messages {
            match message.role {
                Role::System => shown.push(json!({ "role": "system", "content": text_of(&message.content) }), message),
                Role::Assistant => shown.push(assistant(&message.content), message),
                Role::User => shown.push_user(message),
            }
        }
        shown
    }

    fn push(&mut self, value: Value, source: &Message) {
        self.sources.insert(value.to_string(), source.clone());
        self.values.push(value);
    }

    /// Results stand in messages of their own.
    fn push_user(&mut self, message: &Message) {
        let is_result = |it: &ContentBlock| matches!(it, ContentBlock::ToolResult { .. });
        for blocks in message.content.chunk_by(|a, b| !is_result(a) && !is_result(b)) {
            let value = match &blocks[0] {
                ContentBlock::ToolResult { tool_call_id, content, .. } => {
                    json!({ "role": "tool", "tool_call_id": tool_call_id, "content": text_of(content) })
                }
                _ => json!({ "role": "user", "content": content(blocks) }),
            };
            self.push(value, &Message::user(blocks));
        }
    }

    /// The messages that a script gives back.
    pub(crate) fn taken_back(&self, given: &Value) -> Result<Vec<Message>, NotMessages> {
        let given = Vec::<Value>::deserialize(given)?;
        if given.len() > MAX_MESSAGES {
            return Err(NotMessages::TooMany(given.len()));
        }
        given.iter().map(|it| self.message(it)).collect()
    }

    fn message(&self, given: &Value) -> Result<Message, NotMessages> {
        let wire = Wire::deserialize(given)?;
        if let Some(source) = self.sources.get(&given.to_string()) {
            return Ok(source.clone());
        }
        let mut content = match wire.content {
            None => Vec::new(),
            Some(WireContent::Text(text)) => vec![ContentBlock::Text { text }],
            Some(WireContent::Parts(parts)) => parts.into_iter().map(block).collect(),
        };
        Ok(match wire.role {
            WireRole::System => Message { role: Role::System, content },
            WireRole::User => Message::user(content),
            WireRole::Assistant => {
                content.retain(|it| it.as_text() != Some(""));
                let thought = wire.reasoning_content.map(|text| ContentBlock::Reasoning { text, signature: None });
                let calls = wire.tool_calls.into_iter().flatten().map(|it| ContentBlock::ToolCall {
                    id: it.id,
                    name: it.function.name.into(),
                    arguments: it.function.arguments,
                });
                Message::assistant(thought.into_iter().chain(content).chain(calls).collect::<Vec<_>>())
            }
            WireRole::Tool => {
                let tool_call_id = wire.tool_call_id.ok_or(NotMessages::NoCallId)?;
                Message::user([ContentBlock::ToolResult { tool_call_id, content, is_error: false }])
            }
        })
    }
}

fn assistant(blocks: &[ContentBlock]) -> Value {
    let mut value = json!({ "role": "assistant", "content": text_of(blocks) });
    let thought: String = blocks
        .iter()
        .filter_map(|it| match it {
            ContentBlock::Reasoning { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !thought.is_empty() {
        value["reasoning_content"] = thought.into();
    }
    let calls: Vec<Value> = blocks
        .iter()
        .filter_map(|it| match it {
            ContentBlock::ToolCall { id, name, arguments } => Some(json!({
                "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
            })),
            _ => None,
        })
        .collect();
    if !calls.is_empty() {
        value["tool_calls"] = calls.into();
    }
    value
}

/// Text where there is nothing else, else parts.
fn content(blocks: &[ContentBlock]) -> Value {
    if blocks.iter().all(|it| it.as_text().is_some()) {
        return text_of(blocks).into();
    }
    let part = |it: &ContentBlock| match it {
        ContentBlock::Text { text } => Some(json!({ "type": "text", "text": text })),
        ContentBlock::Image { url } => Some(json!({ "type": "image_url", "image_url": { "url": url } })),
        _ => None,
    };
    blocks.iter().filter_map(part).collect::<Vec<_>>().into()
}

fn block(part: WirePart) -> ContentBlock {
    match part {
        WirePart::Text { text } => ContentBlock::Text { text },
        WirePart::ImageUrl { image_url } => ContentBlock::Image { url: image_url.url },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> Vec<Arc<Message>> {
        let call = ContentBlock::ToolCall { id: "c1".into(), name: "bash".into(), arguments: "{}".into() };
        let thought = ContentBlock::Reasoning { text: "hm".into(), signature: Some("proof".into()) };
        let result = |id: &str, is_error| ContentBlock::ToolResult {
            tool_call_id: id.into(),
            content: vec![ContentBlock::text("out")],
            is_error,
        };
        let picture = ContentBlock::Image { url: "data:,".into() };
        vec![
            Arc::new(Message { role: Role::System, content: vec![ContentBlock::text("frame")] }),
            Arc::new(Message::user([ContentBlock::text("look"), picture])),
            Arc::new(Message::assistant([thought, ContentBlock::text("so"), call])),
            Arc::new(Message::user([result("c1", true), ContentBlock::text("and"), ContentBlock::text(" then")])),
        ]
    }

    #[test]
    fn script_7_3_messages_are_shown_in_the_shape_that_scripts_know() {
        assert_eq!(
            Value::from(Shown::of(&history()).values),
            json!([
                { "role": "system", "content": "frame" },
                { "role": "user", "content": [
                    { "type": "text", "text": "look" }, { "type": "image_url", "image_url": { "url": "data:," } },
                ] },
                { "role": "assistant", "content": "so", "reasoning_content": "hm", "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "bash", "arguments": "{}" } },
                ] },
                { "role": "tool", "tool_call_id": "c1", "content": "out" },
                { "role": "user", "content": "and then" },
            ])
        );
    }

    #[test]
    fn script_7_3_what_comes_back_as_it_was_is_what_it_was() {
        let history = history();
        let shown = Shown::of(&history);
        let back = shown.taken_back(&Value::from(shown.values.clone())).unwrap();
        assert_eq!(back[..3], history.iter().take(3).map(|it| (**it).clone()).collect::<Vec<_>>()[..]);
        assert_eq!(back[3].content, history[3].content[..1], "a failed result is one still");
        assert_eq!(back[4].content, history[3].content[1..]);
    }

    #[test]
    fn script_7_3_what_is_new_is_read_and_what_is_wrong_refused() {
        let shown = Shown::of(&history());
        let back = shown.taken_back(&json!([{ "role": "user", "content": "new" }])).unwrap();
        assert_eq!(back, [Message::user([ContentBlock::text("new")])]);
        for wrong in [
            json!("x"),
            json!([{ "role": "king" }]),
            json!([{ "role": "user", "content": 7 }]),
            json!([{ "role": "tool" }]),
        ] {
            assert!(shown.taken_back(&wrong).is_err(), "{wrong}");
        }
        let many = vec![json!({ "role": "user", "content": "x" }); MAX_MESSAGES + 1];
        assert!(matches!(shown.taken_back(&many.into()), Err(NotMessages::TooMany(501))));
    }
}
