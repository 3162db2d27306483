//! The body of a request.

use std::sync::Arc;

use linn_services::llm::wire::{arguments_text, unanswered};
use linn_services::model::{ContentBlock, GenerateRequest, Message, Role, text_of};
use serde_json::{Map, Value, json};

use crate::dialect::{Dialect, EarlierThinking};

/// A tool that a model has to call where it is offered.
const FORCED_TOOL: &str = "goal_write_plan";

/// What stands in for a result that is not in the history.
const NO_RESULT: &str = "The call was interrupted; there is no result.";

/// The body for a request, whose model the endpoint knows as `model`.
pub(crate) fn body(
    request: &GenerateRequest,
    model: &str,
    dialect: Dialect,
    effort: &str,
    max_tokens: Option<u32>,
) -> Map<String, Value> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    put("model", model.into());
    put("messages", messages(request, dialect.thinking()).into());
    put("stream", true.into());
    if dialect.takes_stream_options() {
        put("stream_options", json!({ "include_usage": true }));
    }
    if let Some(max_tokens) = max_tokens.filter(|it| *it > 0) {
        put(dialect.max_tokens_field(), max_tokens.into());
    }
    if let Some(temperature) = request.config.temperature {
        put("temperature", temperature.into());
    }
    if let Some(stop) = request.config.stop.as_ref().filter(|it| !it.is_empty()) {
        put("stop", stop.clone().into());
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<_> = request.tools.iter().collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let forced = tools.iter().any(|it| it.name == FORCED_TOOL);
        let tools: Vec<_> = tools
            .into_iter()
            .map(|it| {
                let function = json!({ "name": it.name, "description": it.description, "parameters": it.parameters });
                json!({ "type": "function", "function": function })
            })
            .collect();
        put("tools", tools.into());
        let choice =
            if forced { json!({ "type": "function", "function": { "name": FORCED_TOOL } }) } else { "auto".into() };
        put("tool_choice", choice);
    }
    dialect.put_effort(model, effort, &mut body);
    body
}

fn messages(request: &GenerateRequest, thinking: EarlierThinking) -> Vec<Value> {
    let mut sent = Vec::new();
    if let Some(system) = request.system.as_deref().filter(|it| !it.is_empty()) {
        sent.push(json!({ "role": "system", "content": system }));
    }
    for (at, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::System => sent.push(json!({ "role": "system", "content": text_of(&message.content) })),
            Role::User => put_user(message, &mut sent),
            Role::Assistant => {
                sent.push(assistant(message, thinking));
                put_missing(&request.messages, at, &mut sent);
            }
        }
    }
    sent
}

/// Results first: endpoints want them right behind the calls.
fn put_user(message: &Message, sent: &mut Vec<Value>) {
    let mut pictures = Vec::new();
    for block in &message.content {
        if let ContentBlock::ToolResult { tool_call_id, content, .. } = block {
            sent.push(json!({ "role": "tool", "tool_call_id": tool_call_id, "content": text_of(content) }));
            pictures.extend(content.iter().filter_map(picture));
        }
    }
    let own = message.content.iter().filter_map(|it| match it {
        ContentBlock::Text { text } => Some(json!({ "type": "text", "text": text })),
        other => picture(other),
    });
    let parts: Vec<_> = pictures.into_iter().chain(own).collect();
    let is_text = parts.iter().all(|it| it["type"] == "text");
    if is_text && !parts.is_empty() {
        sent.push(json!({ "role": "user", "content": text_of(&message.content) }));
    } else if !is_text {
        sent.push(json!({ "role": "user", "content": parts }));
    }
}

/// A picture is told in a message of the user: a result is text alone on this wire.
fn picture(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Image { url } => Some(json!({ "type": "image_url", "image_url": { "url": url } })),
        _ => None,
    }
}

fn assistant(message: &Message, thinking: EarlierThinking) -> Value {
    let calls: Vec<_> = message
        .content
        .iter()
        .filter_map(|it| match it {
            ContentBlock::ToolCall { id, name, arguments } => {
                let function = json!({ "name": name, "arguments": arguments_text(arguments) });
                Some(json!({ "id": id, "type": "function", "function": function }))
            }
            _ => None,
        })
        .collect();
    let thoughts: String = message
        .content
        .iter()
        .filter_map(|it| match it {
            ContentBlock::Reasoning { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let mut text = text_of(&message.content);
    if thinking == EarlierThinking::Tags && !thoughts.is_empty() {
        text = format!("<think>{thoughts}</think>{text}");
    }
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
    let mut sent = json!({ "role": "assistant", "content": content });
    if thinking == EarlierThinking::Field && !thoughts.is_empty() {
        sent["reasoning_content"] = thoughts.into();
    }
    if !calls.is_empty() {
        sent["tool_calls"] = calls.into();
    }
    sent
}

/// Results for the calls that have none: an endpoint refuses a history without them.
fn put_missing(messages: &[Arc<Message>], at: usize, sent: &mut Vec<Value>) {
    for id in unanswered(messages, at) {
        sent.push(json!({ "role": "tool", "tool_call_id": id, "content": NO_RESULT }));
    }
}
