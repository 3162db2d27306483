//! Sessions: the log, what derives from it, the store, repair and the invariants. Names begin with the id of the case.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod delivery;
mod headers;
mod invariants;
mod log;
mod records;
mod repair;
mod rewind;
mod store;

use std::sync::Arc;

use linn_bus::{Root, Svc};
use linn_services::ids::CallId;
use linn_services::model::{ContentBlock, MessageSource, text_of};
use linn_services::session::{
    AssistantMessage, CreateSession, Fact, Session, Sessions, SessionsPlugin, StepEnd, StepStart, SurfaceOp, ToolCall,
    ToolResult, TurnEnd, TurnEndReason, TurnStart, TurnTrigger, UserMessage,
};

/// The service, mounted.
async fn sessions(root: &Root) -> Svc<dyn Sessions> {
    root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Sessions>().unwrap()
}

/// A session in the store.
async fn session(root: &Root) -> Session {
    sessions(root).await.create(root, CreateSession::default()).unwrap()
}

fn turn_start(turn: u32) -> TurnStart {
    TurnStart { turn, trigger: TurnTrigger::Message { source: MessageSource::User } }
}

fn turn_end(turn: u32) -> TurnEnd {
    TurnEnd { turn, reason: TurnEndReason::Completed }
}

fn step_start(turn: u32, step: u32) -> StepStart {
    StepStart { turn, step }
}

fn step_end(turn: u32, step: u32) -> StepEnd {
    StepEnd { turn, step }
}

fn user(text: &str) -> UserMessage {
    UserMessage { content: vec![text.into()], source: MessageSource::User }
}

fn assistant(turn: u32, step: u32, content: Vec<ContentBlock>) -> AssistantMessage {
    AssistantMessage { turn, step, content, usage: None }
}

fn call_block(id: &str) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: "echo".into(), arguments: "{}".to_owned() }
}

fn call(turn: u32, step: u32, id: &str) -> ToolCall {
    ToolCall { turn, step, call_id: id.into(), name: "echo".into(), arguments: "{}".to_owned() }
}

fn result(turn: u32, step: u32, id: &str) -> ToolResult {
    let call_id = CallId::from(id);
    ToolResult { turn, step, call_id, content: vec!["ok".into()], is_error: false, error: None, meta: None }
}

/// Replaces what lies from record `start` to record `end`.
fn replace(session: &Session, text: &str, start: u64, end: u64) -> u64 {
    session.append_to_surface(user(text), SurfaceOp::Replace { start, end }, None).unwrap().seq
}

/// A whole turn with one prompt and one answer.
fn turn(session: &Session, turn: u32) {
    session.append(turn_start(turn)).unwrap();
    session.say(user(&format!("prompt {turn}"))).unwrap();
    session.append(step_start(turn, 1)).unwrap();
    session.say(assistant(turn, 1, vec![format!("answer {turn}").into()])).unwrap();
    session.append(step_end(turn, 1)).unwrap();
    session.append(turn_end(turn)).unwrap();
}

/// The texts of the history.
fn texts(session: &Session) -> Vec<String> {
    session.messages().iter().map(|it| text_of(&it.content)).collect()
}

/// A session made of records, in a store of its own id.
fn seeded(sessions: &Svc<dyn Sessions>, root: &Root, seed: Vec<Arc<linn_services::session::Record>>) -> Session {
    sessions.create(root, CreateSession { seed, ..CreateSession::default() }).unwrap()
}

fn other(kind: &str, data: serde_json::Value) -> Fact {
    Fact::Other { kind: kind.to_owned(), data }
}
