//! Logs, requests and messages in short, for comparisons that can be read.

use linn_services::model::{ContentBlock, GenerateRequest, Message, Role};
use linn_services::session::{Fact, Session, TurnEndReason, TurnTrigger};

/// The log of a session, one [`summary`] a record, without the chunks of answers.
pub fn log_of(session: &Session) -> Vec<String> {
    let records = session.records_from(0);
    records.iter().map(|it| &it.fact).filter(|it| !matches!(it, Fact::AssistantChunk(_))).map(summary).collect()
}

/// A fact in short: its kind, and for the end of a turn why it ended, as in `turn/end{completed}`; for a turn that an
/// injection began `turn/start{injection}`.
pub fn summary(fact: &Fact) -> String {
    match fact {
        Fact::TurnEnd(it) => format!("turn/end{{{}}}", reason(&it.reason)),
        Fact::TurnStart(it) if matches!(it.trigger, TurnTrigger::Injection { .. }) => {
            "turn/start{injection}".to_owned()
        }
        other => other.kind().to_owned(),
    }
}

fn reason(reason: &TurnEndReason) -> String {
    match reason {
        TurnEndReason::Completed => "completed".to_owned(),
        TurnEndReason::Aborted { reason } => format!("aborted {:?}", reason.as_deref().unwrap_or("")),
        TurnEndReason::Error { step, code, .. } => match code {
            Some(code) => format!("error in step {step}: {code}"),
            None => format!("error in step {step}"),
        },
        TurnEndReason::Disposed => "disposed".to_owned(),
        TurnEndReason::MaxTokens => "max-tokens".to_owned(),
        TurnEndReason::Rejected { reason } => format!("rejected {reason:?}"),
        TurnEndReason::Interrupted => "interrupted".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The messages of a request in short, one [`message`] each.
pub fn request_of(request: &GenerateRequest) -> Vec<String> {
    request.messages.iter().map(|it| message(it)).collect()
}

/// A message in short: who speaks, and each block, as in `assistant: call c1 echo {"a":1}` or `user: result c1 done`.
pub fn message(message: &Message) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let blocks: Vec<String> = message.content.iter().map(block).collect();
    format!("{role}: {}", blocks.join(" | "))
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Reasoning { text, .. } => format!("reasoning {text}"),
        ContentBlock::ToolCall { id, name, arguments } => format!("call {id} {name} {arguments}"),
        ContentBlock::ToolResult { tool_call_id, content, is_error } => {
            let content: Vec<String> = content.iter().map(self::block).collect();
            let failed = if *is_error { "failed " } else { "" };
            format!("result {tool_call_id} {failed}{}", content.join(" | "))
        }
        other => format!("{other:?}"),
    }
}
