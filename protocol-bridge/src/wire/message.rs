//! The conversation in the shape of chat requests, as front ends read it.

use linn_services::model::{ContentBlock, text_of};
use linn_services::session::{Fact, Session};
use serde_json::{Map, Value, json};

/// The messages of a conversation, the oldest first.
pub(crate) fn history_of(session: &Session) -> Vec<Value> {
    session.surface().into_iter().filter_map(|it| message_of(&session.record(it)?.fact)).collect()
}

/// The message of a fact, if it has one.
fn message_of(fact: &Fact) -> Option<Value> {
    match fact {
        Fact::UserMessage(it) => Some(json!({ "role": "user", "content": content_of(&it.content) })),
        Fact::SteeringMessage(it) => Some(json!({ "role": "user", "content": content_of(&it.content) })),
        Fact::ContextMessage(it) => Some(json!({ "role": "user", "content": content_of(&it.content) })),
        Fact::AssistantMessage(it) if it.content.is_empty() => None,
        Fact::AssistantMessage(it) => Some(answer(&it.content)),
        Fact::ToolResult(it) => {
            Some(json!({ "role": "tool", "tool_call_id": it.call_id, "content": text_of(&it.content) }))
        }
        _ => None,
    }
}

/// A text, or a list of parts where there are pictures.
fn content_of(content: &[ContentBlock]) -> Value {
    if !content.iter().any(|it| matches!(it, ContentBlock::Image { .. })) {
        return text_of(content).into();
    }
    let part = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => Some(json!({ "type": "text", "text": text })),
        ContentBlock::Image { url } => Some(json!({ "type": "image_url", "image_url": { "url": url } })),
        _ => None,
    };
    content.iter().filter_map(part).collect()
}

fn answer(content: &[ContentBlock]) -> Value {
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    let (mut reasoning, mut calls) = (String::new(), Vec::new());
    for block in content {
        match block {
            ContentBlock::Reasoning { text, .. } => reasoning.push_str(text),
            ContentBlock::ToolCall { id, name, arguments } => calls.push(json!({
                "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
            })),
            _ => {}
        }
    }
    let text = text_of(content);
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
    message.insert("content".to_owned(), content);
    if !reasoning.is_empty() {
        message.insert("reasoning_content".to_owned(), reasoning.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    message.into()
}
