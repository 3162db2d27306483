//! What JSON would not give back as it was.

use serde_json::Value;

use crate::model::{ContentBlock, EpochHeader, LlmCallConfig, Message, MessageSource, StreamChunk};
use crate::session::{Fact, Overlay, TurnTrigger};

/// How deep values and content may be nested. Readers of JSON stop at 128 levels, and a record adds a few of its own.
const MAX_DEPTH: usize = 96;

/// What of a fact would be lost or changed on the way through JSON, in words.
pub(crate) fn not_lossless(fact: &Fact) -> Option<String> {
    match fact {
        Fact::TurnStart(it) => match &it.trigger {
            TurnTrigger::Message { source } | TurnTrigger::Injection { source } => of_source(source),
            TurnTrigger::Other(value) => of_value(value, MAX_DEPTH),
        },
        Fact::UserMessage(it) => of_said(&it.content, &it.source),
        Fact::PromptBlocked(it) => of_said(&it.content, &it.source),
        Fact::ContextMessage(it) => of_said(&it.content, &it.source),
        Fact::SteeringMessage(it) => of_said(&it.content, &it.source),
        Fact::AssistantChunk(it) => match &it.chunk {
            StreamChunk::BlockEnd { block, .. } => of_block(block, MAX_DEPTH),
            _ => None,
        },
        Fact::AssistantMessage(it) => of_content(&it.content),
        Fact::ToolAmended(it) => of_value(&it.arguments, MAX_DEPTH),
        Fact::ToolResult(it) => of_content(&it.content).or_else(|| of_value(it.meta.as_ref()?, MAX_DEPTH)),
        Fact::ToolCodeDispatch(it) => of_value(&it.arguments, MAX_DEPTH),
        Fact::RequestHeader(it) => of_header(&it.header),
        Fact::RequestHeaderDelta(it) => {
            let tools = it.tools.iter().flat_map(|it| it.added.iter().chain(&it.changed));
            let prefix = it.message_prefix.iter().flatten();
            it.config
                .as_ref()
                .and_then(of_config)
                .or_else(|| tools.map(|it| &it.parameters).find_map(|it| of_value(it, MAX_DEPTH)))
                .or_else(|| of_messages(prefix))
        }
        Fact::RequestOverlay(it) => match &it.overlay {
            Overlay::Messages(messages) | Overlay::Replacement(messages) => of_messages(messages),
        },
        Fact::Other { data, .. } => of_value(data, MAX_DEPTH),
        Fact::TurnEnd(_)
        | Fact::StepStart(_)
        | Fact::StepEnd(_)
        | Fact::ToolCall(_)
        | Fact::TodoWrite(_)
        | Fact::ApprovalAsked(_)
        | Fact::ApprovalDecided(_)
        | Fact::ApprovalPolicyChanged(_)
        | Fact::CompactStart(_)
        | Fact::CompactSummary(_)
        | Fact::CompactEnd(_)
        | Fact::HookInvoked(_)
        | Fact::HookResult(_)
        | Fact::BashSandboxMode(_)
        | Fact::SessionRewind(_) => None,
    }
}

fn of_said(content: &[ContentBlock], source: &MessageSource) -> Option<String> {
    of_source(source).or_else(|| of_content(content))
}

fn of_source(source: &MessageSource) -> Option<String> {
    let MessageSource::Other(value) = source else { return None };
    match value.get("kind").and_then(Value::as_str) {
        None => Some("a source without a `kind`".to_owned()),
        Some(kind @ ("user" | "plugin")) => Some(format!("a source of the kind `{kind}` that is none")),
        Some(_) => of_value(value, MAX_DEPTH),
    }
}

fn of_messages<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Option<String> {
    messages.into_iter().find_map(|it| of_content(&it.content))
}

fn of_content(content: &[ContentBlock]) -> Option<String> {
    content.iter().find_map(|it| of_block(it, MAX_DEPTH))
}

fn of_block(block: &ContentBlock, depth: usize) -> Option<String> {
    match block {
        ContentBlock::Text { .. }
        | ContentBlock::Reasoning { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Image { .. } => None,
        // A block in a block is two levels: the list and the block.
        ContentBlock::ToolResult { content, .. } => match depth.checked_sub(2) {
            None => Some(too_deep()),
            Some(depth) => content.iter().find_map(|it| of_block(it, depth)),
        },
        ContentBlock::Other(value) => match value.get("type").and_then(Value::as_str) {
            None => Some("a content block without a `type`".to_owned()),
            Some(kind) if ContentBlock::KINDS.contains(&kind) => Some(format!("a `{kind}` block that is none")),
            Some(_) => of_value(value, depth),
        },
    }
}

fn of_header(header: &EpochHeader) -> Option<String> {
    let parameters = header.tools.iter().flatten().map(|it| &it.parameters);
    of_config(&header.config)
        .or_else(|| parameters.into_iter().find_map(|it| of_value(it, MAX_DEPTH)))
        .or_else(|| of_messages(header.message_prefix.iter().flatten()))
}

fn of_config(config: &LlmCallConfig) -> Option<String> {
    config.temperature.filter(|it| !it.is_finite()).map(|it| format!("a temperature of {it}"))
}

fn of_value(value: &Value, depth: usize) -> Option<String> {
    let mut inner: &mut dyn Iterator<Item = &Value> = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        Value::Array(items) => &mut items.iter(),
        Value::Object(fields) => &mut fields.values(),
    };
    match depth.checked_sub(1) {
        None => Some(too_deep()),
        Some(depth) => (&mut inner).find_map(|it| of_value(it, depth)),
    }
}

fn too_deep() -> String {
    format!("values nested deeper than {MAX_DEPTH} levels")
}
