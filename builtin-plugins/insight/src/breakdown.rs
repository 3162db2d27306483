//! What fills the context of an agent.

use std::collections::BTreeMap;

use linn_services::agent::Agent;
use linn_services::compaction::{ContextBudget, TokenEstimator};
use linn_services::model::{ContentBlock, Message, Role, text_of};
use linn_services::usage::{Consumer, ContextBreakdown};

/// How many of the largest messages are told.
const TOP: usize = 10;

/// How many characters of a message are shown.
const PREVIEW_CHARS: usize = 100;

/// Takes the context apart. `total` is the estimate of who makes room in it, if anybody does.
pub(crate) fn breakdown(agent: &Agent, total: Option<u64>, budget: ContextBudget) -> ContextBreakdown {
    let estimator = TokenEstimator::default();
    let session = agent.session();
    let header = session.request_header();
    let system = header.as_ref().and_then(|it| it.system.as_deref()).map_or(0, |it| estimator.text(it));
    let tools = header.as_ref().and_then(|it| it.tools.as_deref()).map_or(0, |it| estimator.tools(it));
    let prefix = header.as_ref().and_then(|it| it.message_prefix.as_deref()).unwrap_or_default();
    let prefix: u64 = prefix.iter().map(|it| estimator.message(it)).sum();

    let messages = session.messages();
    let mut by_role: BTreeMap<String, u64> = BTreeMap::new();
    by_role.insert("system".to_owned(), system + tools + prefix);
    let mut consumers = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let (role, tokens) = (role_of(message), estimator.message(message));
        *by_role.entry(role.to_owned()).or_default() += tokens;
        consumers.push((tokens, index));
    }
    // The largest first; of two alike the older one.
    consumers.sort_by_key(|(tokens, index)| (std::cmp::Reverse(*tokens), *index));
    let consumer = |(tokens, index): (u64, usize)| Consumer {
        index: index as u64,
        role: role_of(&messages[index]).to_owned(),
        tokens,
        preview: preview(&messages[index]),
    };
    ContextBreakdown {
        total_tokens: total.unwrap_or_else(|| by_role.values().sum()),
        budget,
        messages: messages.len() as u64,
        system_tokens: system + tools,
        top_consumers: consumers.into_iter().take(TOP).map(consumer).collect(),
        by_role,
    }
}

fn role_of(message: &Message) -> &'static str {
    let is_result = |it: &ContentBlock| matches!(it, ContentBlock::ToolResult { .. });
    match message.role {
        Role::System => "system",
        Role::Assistant => "assistant",
        Role::User if message.content.iter().any(is_result) => "tool",
        Role::User => "user",
    }
}

fn preview(message: &Message) -> String {
    let mut text = String::new();
    for block in &message.content {
        let part = match block {
            ContentBlock::Text { text } | ContentBlock::Reasoning { text, .. } => text.clone(),
            ContentBlock::ToolCall { name, arguments, .. } => format!("{name} {arguments}"),
            ContentBlock::ToolResult { content, .. } => text_of(content),
            ContentBlock::Image { .. } => "[image]".to_owned(),
            _ => continue,
        };
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&part);
        if text.len() > PREVIEW_CHARS * 4 {
            break;
        }
    }
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
