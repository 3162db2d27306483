//! What is known of a run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use linn_services::events::FsChanged;
use linn_services::ids::{CallId, SessionId};
use linn_services::model::ContentBlock;
use linn_services::session::{ApprovalOutcome, Record};
use tokio_util::sync::CancellationToken;

use crate::journal::Note;
use crate::models::Choice;
use crate::tally::Tally;

/// A prompt that shall be answered.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) content: Vec<ContentBlock>,
    /// The model; `None` leaves it to the agent.
    pub(crate) choice: Option<Choice>,
}

impl Wanted {
    /// What is said, without what goes with it.
    pub(crate) fn text(&self) -> String {
        linn_services::model::text_of(&self.content)
    }
}

/// The run in the foreground.
pub(crate) struct Run {
    pub(crate) id: Arc<str>,
    /// The session as the front end knows it.
    pub(crate) session_id: Arc<str>,
    pub(crate) choice: Option<Choice>,
    /// The turn of the agent, once it has begun.
    pub(crate) turn: Option<u32>,
    /// The agent has the prompt.
    pub(crate) is_sent: bool,
    pub(crate) tally: Tally,
    /// What came of the answer that is on its way.
    pub(crate) answer: Answer,
    /// Why its last answer may lack its end.
    pub(crate) cut_by: Option<String>,
    /// Calls that were told, by id.
    pub(crate) calls: HashMap<CallId, Call>,
    /// How many of them have no result yet.
    pub(crate) n_open: usize,
    /// Results that wait for those of the calls beside them.
    pub(crate) held: Vec<Arc<Record>>,
}

/// What came of an answer that is on its way.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Blocks of which something was told.
    pub(crate) told: HashSet<u32>,
    /// Numbers of the calls, by block.
    pub(crate) calls: HashMap<u32, CallInAnswer>,
}

/// A call that the model is writing.
#[derive(Debug)]
pub(crate) struct CallInAnswer {
    /// Its number in the answer.
    pub(crate) index: u32,
    pub(crate) is_named: bool,
}

/// A call that was told.
pub(crate) struct Call {
    pub(crate) name: String,
    /// What a human said.
    pub(crate) outcome: Option<ApprovalOutcome>,
    /// The question that the human was asked.
    pub(crate) question: Option<String>,
    /// What it changed.
    pub(crate) changes: Vec<FsChanged>,
    /// The list of things to do is another one.
    pub(crate) has_planned: bool,
    pub(crate) is_answered: bool,
}

impl Answer {
    /// The call of a block, and whether it is a new one.
    pub(crate) fn call(&mut self, block: u32) -> (&mut CallInAnswer, bool) {
        let n_calls = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        let is_new = !self.calls.contains_key(&block);
        (self.calls.entry(block).or_insert(CallInAnswer { index: n_calls, is_named: false }), is_new)
    }
}

impl Call {
    /// Whether it may be what changes the list of things to do right now.
    pub(crate) fn is_planning(&self) -> bool {
        self.name == "todo_write" && !self.is_answered && !self.has_planned
    }

    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            outcome: None,
            question: None,
            changes: Vec::new(),
            has_planned: false,
            is_answered: false,
        }
    }
}

impl Run {
    pub(crate) fn new(
        id: Arc<str>,
        session_id: Arc<str>,
        choice: Option<Choice>,
        now: Duration,
        context_tokens: u64,
    ) -> Self {
        Self {
            id,
            session_id,
            choice,
            turn: None,
            is_sent: false,
            tally: Tally::new(now, context_tokens),
            answer: Answer::default(),
            cut_by: None,
            calls: HashMap::new(),
            n_open: 0,
            held: Vec::new(),
        }
    }

    /// Name of the model, as front ends know it.
    pub(crate) fn model(&self) -> &str {
        self.choice.as_ref().map_or("", |it| it.model.id.as_str())
    }

    /// A note about it.
    pub(crate) fn note(
        &self,
        session: &SessionId,
        timestamp_ms: u64,
        state: &'static str,
        detail: Option<&str>,
    ) -> Note {
        Note {
            session: session.clone(),
            session_id: self.session_id.to_string(),
            run_id: self.id.to_string(),
            kind: "run".into(),
            parent_run_id: None,
            tool_call_id: None,
            state,
            timestamp_ms,
            detail: detail.map(str::to_owned),
        }
    }

    /// A note about a call of it.
    pub(crate) fn call_note(&self, session: &SessionId, call: &CallId, timestamp_ms: u64, state: &'static str) -> Note {
        Note {
            run_id: format!("{}:tool:{call}", self.id),
            kind: "tool".into(),
            parent_run_id: Some(self.id.to_string()),
            tool_call_id: Some(call.to_string()),
            ..self.note(session, timestamp_ms, state, None)
        }
    }

    /// Notes about its end, and that of its calls that have no result.
    pub(crate) fn closing_notes(
        &self,
        session: &SessionId,
        timestamp_ms: u64,
        state: &'static str,
        detail: Option<&str>,
    ) -> Vec<Note> {
        let open = self.calls.iter().filter(|(_, it)| !it.is_answered);
        let mut notes: Vec<Note> =
            open.map(|(call, _)| self.call_note(session, call, timestamp_ms, "cancelled")).collect();
        notes.push(self.note(session, timestamp_ms, state, detail));
        notes
    }
}

/// A turn that was cancelled and is not over yet.
#[derive(Debug, Clone)]
pub(crate) struct Unsettled {
    /// Its number; `None` if it has not begun, and may never.
    pub(crate) turn: Option<u32>,
    pub(crate) over: CancellationToken,
    mark: Arc<()>,
}

impl Unsettled {
    pub(crate) fn new(turn: Option<u32>) -> Self {
        Self { turn, over: CancellationToken::new(), mark: Arc::new(()) }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.mark, &other.mark)
    }
}
