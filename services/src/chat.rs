//! Conversations in the shape of chat requests, as front ends and their files have them.

use serde_json::{Map, Value, json};

use crate::model::{ContentBlock, MessageSource, text_of};
use crate::session::{Fact, Session};

/// The messages of a conversation as it stands, the oldest first.
pub fn chat_messages(session: &Session) -> Vec<Value> {
    session.surface().into_iter().filter_map(|it| chat_message(&session.record(it)?.fact)).collect()
}

/// The message of a fact, if it has one: `{role, content, ..}`, with `reasoning_content` and `tool_calls` where an assistant
/// has them, and with `tool_call_id` where a tool speaks.
pub fn chat_message(fact: &Fact) -> Option<Value> {
    match fact {
        Fact::UserMessage(it) => Some(json!({ "role": "user", "content": content_of(&it.content) })),
        Fact::SteeringMessage(it) => Some(json!({ "role": "user", "content": content_of(&it.content) })),
        Fact::ContextMessage(it) if it.source == MessageSource::User => {
            Some(json!({ "role": "user", "content": content_of(&it.content) }))
        }
        // Nobody who reads it should take it for what the human said.
        Fact::ContextMessage(it) => {
            let text = format!("<context source=\"{}\">{}</context>", it.source.kind(), text_of(&it.content));
            Some(json!({ "role": "user", "content": text }))
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{ContextMessage, UserMessage};

    fn context(source: MessageSource) -> Value {
        let fact = ContextMessage { content: vec![ContentBlock::text("it rains")], source };
        chat_message(&fact.into()).unwrap()
    }

    #[test]
    fn context_of_a_plugin_is_marked_and_that_of_the_human_is_not() {
        assert_eq!(context(MessageSource::User)["content"], "it rains");
        assert_eq!(
            context(MessageSource::plugin("weather"))["content"],
            "<context source=\"plugin\">it rains</context>"
        );
    }

    #[test]
    fn pictures_make_a_list_of_the_content() {
        let content = vec![ContentBlock::text("look"), ContentBlock::Image { url: "data:x".into() }];
        let message = chat_message(&UserMessage { content, source: MessageSource::User }.into()).unwrap();
        assert_eq!(
            message["content"],
            json!([{ "type": "text", "text": "look" }, { "type": "image_url", "image_url": { "url": "data:x" } }])
        );
    }

    #[test]
    fn an_answer_of_calls_alone_has_no_content() {
        let call = ContentBlock::ToolCall { id: "c".into(), name: "ls".into(), arguments: "{}".into() };
        let thought = ContentBlock::Reasoning { text: "hm".into(), signature: None };
        let message = answer(&[thought, call]);
        assert_eq!((&message["content"], &message["reasoning_content"]), (&Value::Null, &json!("hm")));
        assert_eq!(message["tool_calls"][0]["function"], json!({ "name": "ls", "arguments": "{}" }));
    }
}
