//! The body of a request.

use std::sync::Arc;

use linn_services::llm::wire::{Endpoint, arguments_object, is_effort_off, resolve_effort, unanswered};
use linn_services::model::{ContentBlock, GenerateRequest, Message, Role, text_of};
use serde_json::{Map, Value, json};

/// Limit of an answer where neither the request nor the model has one.
const DEFAULT_MAX_TOKENS: u32 = 8192;

/// The smallest budget for thinking that is taken.
const MIN_BUDGET: u32 = 1024;

/// What stands in for a result that is not in the history.
const NO_RESULT: &str = "The call was interrupted; there is no result.";

/// The body for a request, whose model the endpoint knows as `model`.
pub(crate) fn body(request: &GenerateRequest, model: &str, endpoint: &Endpoint) -> Map<String, Value> {
    let known = endpoint.model(model);
    let max_tokens = request.config.max_tokens.or(known.and_then(|it| it.max_tokens)).filter(|it| *it > 0);
    let max_tokens = max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let levels = known.map_or(&[][..], |it| it.effort_levels.as_slice());
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    put("model", model.into());
    put("stream", true.into());
    put("max_tokens", max_tokens.into());
    let n_leading = request.messages.iter().take_while(|it| it.role == Role::System).count();
    let (leading, history) = request.messages.split_at(n_leading);
    let leading = leading.iter().map(|it| text_of(&it.content));
    let system: Vec<_> = request.system.iter().cloned().chain(leading).filter(|it| !it.is_empty()).collect();
    if !system.is_empty() {
        put("system", json!([cached(json!({ "type": "text", "text": system.join("\n\n") }))]));
    }
    put("messages", messages(history).into());
    let effort = request.config.effort.as_deref().unwrap_or_default();
    let thinking = thinking(endpoint, model, effort, levels, max_tokens);
    if let Some(temperature) = request.config.temperature.filter(|_| thinking.is_none()) {
        put("temperature", temperature.into());
    }
    if let Some(stop) = request.config.stop.as_ref().filter(|it| !it.is_empty()) {
        put("stop_sequences", stop.clone().into());
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<_> = request
            .tools
            .iter()
            .map(|it| json!({ "name": it.name, "description": it.description, "input_schema": it.parameters }))
            .collect();
        tools.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        put_breakpoint(tools.last_mut());
        put("tools", tools.into());
        put("tool_choice", json!({ "type": "auto" }));
    }
    if let Some(thinking) = thinking {
        put("thinking", thinking);
    }
    body
}

/// The effort that a model is asked with in place of the one that was asked for, if they differ.
pub(crate) fn replaced_effort(request: &GenerateRequest, model: &str, endpoint: &Endpoint) -> Option<String> {
    let effort = request.config.effort.as_deref().unwrap_or_default();
    let levels = endpoint.model(model).map_or(&[][..], |it| it.effort_levels.as_slice());
    if is_off(effort) || is_adaptive(endpoint, model) {
        return None;
    }
    let used = resolve_effort(effort, levels);
    (!used.eq_ignore_ascii_case(effort)).then(|| used.into_owned())
}

fn is_off(effort: &str) -> bool {
    is_effort_off(effort) || ["minimal", "off"].iter().any(|it| effort.eq_ignore_ascii_case(it))
}

/// Whether a model decides by itself how much it thinks.
fn is_adaptive(endpoint: &Endpoint, model: &str) -> bool {
    let host = endpoint.host();
    matches!(&*host, "api.minimax.io" | "api.minimaxi.com") || model.to_ascii_lowercase().contains("minimax")
}

fn thinking(endpoint: &Endpoint, model: &str, effort: &str, levels: &[String], max_tokens: u32) -> Option<Value> {
    let is_off = is_off(effort);
    if is_adaptive(endpoint, model) {
        return Some(json!({ "type": if is_off { "disabled" } else { "adaptive" } }));
    }
    if is_off || levels.is_empty() {
        return None;
    }
    let budget = match &*resolve_effort(effort, levels).to_ascii_lowercase() {
        "low" => 4096,
        "medium" => 12_288,
        "minimal" | "none" | "off" => return None,
        _ => 24_576,
    };
    let budget = budget.min(max_tokens.saturating_sub(1024));
    (budget >= MIN_BUDGET).then(|| json!({ "type": "enabled", "budget_tokens": budget }))
}

fn cached(mut block: Value) -> Value {
    block["cache_control"] = json!({ "type": "ephemeral" });
    block
}

fn put_breakpoint(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({ "type": "ephemeral" });
    }
}

/// A message on its way: who speaks, and the blocks.
type Turn = (&'static str, Vec<Value>);

/// The messages in turns; those of one side that follow each other are one.
fn messages(history: &[Arc<Message>]) -> Vec<Value> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut later_system = Vec::new();
    for (at, message) in history.iter().enumerate() {
        match message.role {
            Role::System => later_system.push(text_of(&message.content)),
            Role::User => add(&mut turns, "user", user(message)),
            Role::Assistant => {
                add(&mut turns, "assistant", assistant(message));
                let missing = unanswered(history, at);
                if !missing.is_empty() {
                    add(
                        &mut turns,
                        "user",
                        missing.iter().map(|id| tool_result(id.as_str(), json!(NO_RESULT), true)).collect(),
                    );
                }
            }
        }
    }
    // Results stand before everything else that the user says.
    for (_, blocks) in turns.iter_mut().filter(|(role, _)| *role == "user") {
        blocks.sort_by_key(|it| it["type"] != "tool_result");
    }
    put_breakpoint(turns.last_mut().and_then(|(_, blocks)| blocks.last_mut()));
    later_system.retain(|it| !it.is_empty());
    if !later_system.is_empty() {
        add(&mut turns, "user", vec![json!({ "type": "text", "text": later_system.join("\n\n") })]);
    }
    turns.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

fn add(turns: &mut Vec<Turn>, role: &'static str, blocks: Vec<Value>) {
    // A message of nothing is refused by the wire.
    if blocks.is_empty() {
        return;
    }
    match turns.last_mut() {
        Some((last, content)) if *last == role => content.extend(blocks),
        _ => turns.push((role, blocks)),
    }
}

fn tool_result(id: &str, content: Value, is_error: bool) -> Value {
    let mut block = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
    if is_error {
        block["is_error"] = true.into();
    }
    block
}

/// Text and pictures. A text of nothing is refused by the wire.
fn shown(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } if !text.is_empty() => Some(json!({ "type": "text", "text": text })),
        ContentBlock::Image { url } => Some(json!({ "type": "image", "source": source(url) })),
        _ => None,
    }
}

fn source(url: &str) -> Value {
    let parts = url.strip_prefix("data:").and_then(|it| it.split_once(";base64,"));
    match parts {
        Some((media_type, data)) => json!({ "type": "base64", "media_type": media_type, "data": data }),
        None => json!({ "type": "url", "url": url }),
    }
}

fn user(message: &Message) -> Vec<Value> {
    let block = |it: &ContentBlock| match it {
        ContentBlock::ToolResult { tool_call_id, content, is_error } => {
            let content: Vec<_> = content.iter().filter_map(shown).collect();
            Some(tool_result(tool_call_id.as_str(), content.into(), *is_error))
        }
        other => shown(other),
    };
    message.content.iter().filter_map(block).collect()
}

fn assistant(message: &Message) -> Vec<Value> {
    let block = |it: &ContentBlock| match it {
        ContentBlock::ToolCall { id, name, arguments } => {
            Some(json!({ "type": "tool_use", "id": id, "name": name, "input": arguments_object(arguments) }))
        }
        other => shown(other),
    };
    let blocks: Vec<_> = message.content.iter().filter_map(block).collect();
    if blocks.is_empty() { vec![json!({ "type": "text", "text": "" })] } else { blocks }
}
