//! What sessions of these tests go through.

use linn_services::ids::CallId;
use linn_services::model::{ContentBlock, MessageSource, StreamChunk};
use linn_services::session::{
    AssistantChunk, AssistantMessage, Session, StepEnd, StepStart, ToolCall, ToolResult, TurnEnd, TurnEndReason,
    TurnStart, TurnTrigger, UserMessage,
};

pub(crate) fn begin(session: &Session, prompt: &str) -> u32 {
    let turn = session.turns().last_turn + 1;
    session.append(TurnStart { turn, trigger: TurnTrigger::Message { source: MessageSource::User } }).unwrap();
    session.say(UserMessage { content: vec![prompt.into()], source: MessageSource::User }).unwrap();
    turn
}

pub(crate) fn chunk(session: &Session, turn: u32, text: &str) {
    let chunk = StreamChunk::TextDelta { index: 0, text: text.to_owned() };
    session.append(AssistantChunk { turn, step: 1, chunk }).unwrap();
}

pub(crate) fn end(session: &Session, turn: u32) {
    session.append(TurnEnd { turn, reason: TurnEndReason::Completed }).unwrap();
}

pub(crate) fn answer(session: &Session, turn: u32, text: &str) {
    session.append(StepStart { turn, step: 1 }).unwrap();
    for word in text.split_inclusive(' ') {
        chunk(session, turn, word);
    }
    session.say(AssistantMessage { turn, step: 1, content: vec![text.into()], usage: None }).unwrap();
    session.append(StepEnd { turn, step: 1 }).unwrap();
}

/// A turn with a prompt and an answer.
pub(crate) fn turn(session: &Session, prompt: &str, text: &str) {
    let turn = begin(session, prompt);
    answer(session, turn, text);
    end(session, turn);
}

/// A turn whose first step calls tools.
pub(crate) fn turn_with_calls(session: &Session, n_calls: u32) {
    let turn = begin(session, "do it");
    let step = 1;
    session.append(StepStart { turn, step }).unwrap();
    chunk(session, turn, "on it");
    let ids: Vec<CallId> = (0..n_calls).map(|it| format!("call-{turn}-{it}").into()).collect();
    let call = |id: &CallId| ContentBlock::ToolCall { id: id.clone(), name: "echo".into(), arguments: "{}".into() };
    let content = ids.iter().map(call).collect();
    session.say(AssistantMessage { turn, step, content, usage: None }).unwrap();
    for call_id in ids {
        let arguments = "{}".to_owned();
        session.append(ToolCall { turn, step, call_id: call_id.clone(), name: "echo".into(), arguments }).unwrap();
        let content = vec!["done".into()];
        let result = ToolResult { turn, step, call_id, content, is_error: false, error: None, meta: None };
        session.say(result).unwrap();
    }
    session.append(StepEnd { turn, step }).unwrap();
    end(session, turn);
}

/// A history is one that a model can be sent: each call has its result, and each result its call.
pub(crate) fn assert_paired(session: &Session) {
    assert!(!session.turns().is_open && session.turns().open_step.is_none());
    let (mut open, mut n_calls) = (std::collections::HashSet::new(), 0);
    for message in session.messages() {
        for block in &message.content {
            match block {
                ContentBlock::ToolCall { id, .. } => {
                    n_calls += 1;
                    assert!(open.insert(id.clone()), "call {id} twice");
                }
                ContentBlock::ToolResult { tool_call_id, .. } => {
                    assert!(open.remove(tool_call_id), "result of {tool_call_id} without its call");
                }
                _ => {}
            }
        }
    }
    assert!(open.is_empty(), "{} of {n_calls} calls without a result", open.len());
}
