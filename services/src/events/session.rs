//! `session/*`: what happens to logs.

use std::sync::Arc;

use linn_bus::{Event, ScopeKey};
use serde::Serialize;

use crate::session::{Record, Session};

/// A session entered the store.
///
/// - Mode: emit, to everybody.
/// - Scope: the owner of the session.
/// - Emitted by: the `sessions` service, before its creation returns.
/// - On listener error or panic: the session leaves the store again, and its creation fails.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "session/created", mode = Emit, subject = owner, view)]
#[serde(rename_all = "camelCase")]
pub struct SessionCreated {
    /// The session.
    pub session: Session,
    /// The scope it was entered through.
    #[serde(skip)]
    pub owner: Option<ScopeKey>,
}

/// A session left the store: nothing of it is told any more. What was logged and not flushed can be written down still.
///
/// - Mode: emit, to everybody.
/// - Scope: the owner of the session.
/// - Emitted by: the `sessions` service, when the context that the session was entered through lets go of it; once a
///   session that was entered, also one that a listener of `session/created` refused.
/// - On listener error or panic: it is logged; the session is gone all the same.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "session/disposed", mode = Emit, subject = owner, view)]
#[serde(rename_all = "camelCase")]
pub struct SessionDisposed {
    /// The session.
    pub session: Session,
    /// The scope it was entered through.
    #[serde(skip)]
    pub owner: Option<ScopeKey>,
}

/// Records of a session could not be written down. They are kept in memory, and written in order as soon as that works.
///
/// - Mode: emit, to everybody.
/// - Scope: the owner of the session.
/// - Emitted by: the plugin that keeps sessions, at the first failure, and again when the cause is another one.
/// - On listener error or panic: it is logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "session/unsaved", mode = Emit, subject = owner, view)]
#[serde(rename_all = "camelCase")]
pub struct SessionUnsaved {
    /// The session.
    pub session: Session,
    /// Its owner.
    #[serde(skip)]
    pub owner: Option<ScopeKey>,
    /// How many records exist in memory alone.
    pub n_records: u64,
    /// What failed, in words.
    pub why: String,
}

/// All records of a session are written down again, after a `session/unsaved`.
///
/// - Mode: emit, to everybody.
/// - Scope: the owner of the session.
/// - Emitted by: the plugin that keeps sessions.
/// - On listener error or panic: it is logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "session/saved", mode = Emit, subject = owner, view)]
#[serde(rename_all = "camelCase")]
pub struct SessionSaved {
    /// The session.
    pub session: Session,
    /// Its owner.
    #[serde(skip)]
    pub owner: Option<ScopeKey>,
}

/// A record is in the log.
///
/// - Mode: emit, to everybody, one record of a session after the other: what a listener logs is told when all have heard
///   of this one.
/// - Scope: the owner of the session.
/// - Emitted by: [`Session::append`], after the record is in the log.
/// - On listener error or panic: whoever logged the record gets the errors; the record stays.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "session/event", mode = Emit, subject = owner, view)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvent {
    /// The session.
    pub session: Session,
    /// Its owner.
    #[serde(skip)]
    pub owner: Option<ScopeKey>,
    /// The record.
    pub record: Arc<Record>,
}

/// What is in the log shall be written down now.
///
/// - Mode: parallel; the dispatch waits for everybody.
/// - Scope: the owner of the session.
/// - Emitted by: the `sessions` service; the loop asks for it after each turn.
/// - On listener error or panic: whoever asked gets the errors; nothing is lost, the next flush tries again.
/// - Cancelled by: dropping the dispatch.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "session/flush", mode = Parallel, subject = owner, view)]
#[serde(rename_all = "camelCase")]
pub struct SessionFlush {
    /// The session.
    pub session: Session,
    /// Its owner.
    #[serde(skip)]
    pub owner: Option<ScopeKey>,
}
