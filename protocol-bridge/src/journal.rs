//! What is noted about runs beside the session: that one began, and how it ended.
//!
//! A run without an end in these notes was cut off by the end of its program.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use linn_bus::Svc;
use linn_services::ids::SessionId;
use linn_services::persistence::{PersistenceError, SessionFiles};
use linn_services::session::Session;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::bridge::Bridge;
use crate::sink::Hold;

/// How long a front end may wait for what it is told to be on the medium.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// Something for the journal to do.
enum Entry {
    Note(Note),
    /// Have what was noted and logged before on the medium, and then let go of what waits for that.
    Settle(Session, Hold),
}

/// Notes on their way to the file. They are written in order, by a task: writing may take a while.
pub(crate) struct Journal {
    entries: Mutex<Option<UnboundedSender<Entry>>>,
    inbox: tokio::sync::Mutex<UnboundedReceiver<Entry>>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        let (entries, inbox) = unbounded_channel();
        Self { entries: Mutex::new(Some(entries)), inbox: tokio::sync::Mutex::new(inbox) }
    }

    /// Has a note written.
    pub(crate) fn note(&self, note: Note) {
        self.put(Entry::Note(note));
    }

    /// Holds something back until the session and all notes up to now are on the medium, or that has failed.
    pub(crate) fn settle(&self, session: &Session, hold: Hold) {
        self.put(Entry::Settle(session.clone(), hold));
    }

    fn put(&self, entry: Entry) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entries) = &*entries {
            // The other end is held by this very struct.
            let _ = entries.send(entry);
        }
    }

    fn close(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Bridge {
    /// Writes notes as they come.
    pub(crate) async fn keep_journal(&self) {
        let mut inbox = self.journal.inbox.lock().await;
        while let Some(entry) = inbox.recv().await {
            match entry {
                Entry::Note(note) => self.write_note(&note).await,
                Entry::Settle(session, hold) => {
                    // Who keeps sessions tells of a failure by itself; one that left the store was saved when it did.
                    match self.ctx.within(PATIENCE, self.needs.sessions.flush(&session)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => self.ctx.logger().debug(format_args!("{error}")),
                        Err(elapsed) => self.info(format!("the end of the turn may not be stored yet: {elapsed}")),
                    }
                    drop(hold);
                }
            }
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
