//! What is noted about runs beside the session: that one began, and how it ended.
//!
//! A run without an end in these notes was cut off by the end of its program.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use linn_bus::Svc;
use linn_services::ids::SessionId;
use linn_services::persistence::{PersistenceError, SessionFiles};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::bridge::Bridge;

/// What is noted of a run, or a tool call of one.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    /// The session in the store, whose file gets the note.
    pub(crate) session: SessionId,
    /// The session as the front end knows it.
    pub(crate) session_id: String,
    pub(crate) run_id: String,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) parent_run_id: Option<String>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) timestamp_ms: u64,
    pub(crate) detail: Option<String>,
}

impl Note {
    pub(crate) fn as_value(&self) -> Value {
        let mut note = json!({
            "session_id": self.session_id,
            "run_id": self.run_id,
            "kind": self.kind,
            "state": self.state,
            "timestamp_ms": self.timestamp_ms,
        });
        let more =
            [("parent_run_id", &self.parent_run_id), ("tool_call_id", &self.tool_call_id), ("detail", &self.detail)];
        for (name, value) in more {
            if let Some(value) = value {
                note[name] = value.as_str().into();
            }
        }
        note
    }
}

/// Notes on their way to the file. They are written in order, by a task: writing may take a while.
pub(crate) struct Journal {
    notes: Mutex<Option<UnboundedSender<Note>>>,
    inbox: tokio::sync::Mutex<UnboundedReceiver<Note>>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        let (notes, inbox) = unbounded_channel();
        Self { notes: Mutex::new(Some(notes)), inbox: tokio::sync::Mutex::new(inbox) }
    }

    /// Has a note written.
    pub(crate) fn note(&self, note: Note) {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = &*notes {
            // The other end is held by this very struct.
            let _ = notes.send(note);
        }
    }

    fn close(&self) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Bridge {
    /// Writes notes as they come.
    pub(crate) async fn keep_journal(&self) {
        let mut inbox = self.journal.inbox.lock().await;
        while let Some(note) = inbox.recv().await {
            self.write_note(&note).await;
        }
    }

    /// Writes the notes that wait; there are no more after that.
    pub(crate) async fn close_journal(&self) {
        self.journal.close();
        self.keep_journal().await;
    }

    async fn write_note(&self, note: &Note) {
        let Some(files) = self.service::<dyn SessionFiles>() else { return };
        if let Err(error) = files.note_run(&note.session, &note.as_value()).await {
            self.ctx.logger().warn(format_args!("run {} is not noted: {error}", note.run_id));
        }
    }
}

/// Runs and calls that a program before this one did not end: each with its kind and what it belongs to.
pub(crate) async fn interrupted(
    files: &Svc<dyn SessionFiles>,
    session: &SessionId,
) -> Result<Vec<Value>, PersistenceError> {
    let notes = files.run_notes(session).await?;
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (at, note) in notes.iter().enumerate() {
        if let Some(run_id) = note.get("run_id").and_then(Value::as_str) {
            last.insert(run_id, at);
        }
    }
    let mut open: Vec<usize> =
        last.into_values().filter(|at| notes[*at].get("state").and_then(Value::as_str) == Some("started")).collect();
    open.sort_unstable();
    Ok(open.into_iter().map(|at| notes[at].clone()).collect())
}
