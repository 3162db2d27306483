//! What holds in every log that the harness writes, as a plugin for tests and debug builds.
//!
//! [`LogChecker`] looks at the records of one log, one after the other. [`InvariantsPlugin`] has one for each session that
//! lives; whoever logs a record that breaks a rule gets the failure as an error of a listener.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Fault, Plugin};

use crate::events::{SessionCreated, SessionDisposed, SessionEvent};
use crate::ids::{CallId, SessionId};
use crate::session::surface::Surface;
use crate::session::{AppendError, Fact, Record, SurfaceOp, ToolResult};

/// A rule that a record breaks.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Records are numbered from 0 without gaps.
    #[error("record {found} stands where record {expected} belongs")]
    Seq {
        /// Seq that belongs there.
        expected: u64,
        /// Seq that stands there.
        found: u64,
    },
    /// Turns are numbered from 1, and the steps of a turn too, without gaps.
    #[error("record {seq}: `{kind}` has number {found}, the next one is {expected}")]
    Number {
        /// The record.
        seq: u64,
        /// Its kind.
        kind: String,
        /// The number that belongs there.
        expected: u32,
        /// The number that stands there.
        found: u32,
    },
    /// A record stands where its kind has no place.
    #[error("record {seq}: `{kind}` {why}")]
    Place {
        /// The record.
        seq: u64,
        /// Its kind.
        kind: String,
        /// What is wrong with its place.
        why: &'static str,
    },
    /// A result answers a call that its step did not make.
    #[error("record {seq}: a result for call \"{call}\", which this step did not make or which was answered before")]
    Call {
        /// The record.
        seq: u64,
        /// The call.
        call: CallId,
    },
    /// What takes the place of records names all of them as its sources.
    #[error("record {seq} takes the place of record {shadowed} and does not name it as a source")]
    Source {
        /// The record.
        seq: u64,
        /// The record that it replaces.
        shadowed: u64,
    },
    /// The record does not fit on the surface.
    #[error("record {seq} does not fit on the surface")]
    Surface {
        /// The record.
        seq: u64,
        /// Why.
        #[source]
        source: AppendError,
    },
}

impl Violation {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Seq { .. } => "INVARIANT_SEQ",
            Self::Number { .. } => "INVARIANT_NUMBER",
            Self::Place { .. } => "INVARIANT_PLACE",
            Self::Call { .. } => "INVARIANT_CALL",
            Self::Source { .. } => "INVARIANT_SOURCE",
            Self::Surface { .. } => "INVARIANT_SURFACE",
        }
    }
}

/// Checks the records of one log.
#[derive(Debug, Default)]
pub struct LogChecker {
    records: Vec<Arc<Record>>,
    surface: Surface,
    last_turn: u32,
    turn: Option<OpenTurn>,
}

#[derive(Debug, Default)]
struct OpenTurn {
    last_step: u32,
    /// Calls of the open step that wait for a result.
    step: Option<HashSet<CallId>>,
}

impl LogChecker {
    /// Takes the next record in, and tells the first rule that it breaks. The checker goes on as if it broke none.
    pub fn take(&mut self, record: &Arc<Record>) -> Result<(), Violation> {
        let checked = self.check(record);
        let surface = |source| Violation::Surface { seq: record.seq, source };
        self.records.push(record.clone());
        self.surface.put(record).map_err(surface)?;
        if let Fact::SessionRewind(it) = &record.fact {
            self.surface.go_back(&self.records, record.seq, it.to).map_err(surface)?;
        }
        checked
    }

    fn check(&mut self, record: &Record) -> Result<(), Violation> {
        let expected = self.records.len() as u64;
        if record.seq != expected {
            return Err(Violation::Seq { expected, found: record.seq });
        }
        self.check_sources(record)?;
        let place = |why| Violation::Place { seq: record.seq, kind: record.fact.kind().to_owned(), why };
        let number = |expected, found| match expected == found {
            true => Ok(()),
            false => Err(Violation::Number { seq: record.seq, kind: record.fact.kind().to_owned(), expected, found }),
        };
        match (&record.fact, &mut self.turn) {
            (Fact::TurnStart(it), open) => {
                let is_nested = open.replace(OpenTurn::default()).is_some();
                let expected = self.last_turn + 1;
                self.last_turn = it.turn;
                number(expected, it.turn)?;
                if is_nested { Err(place("begins while a turn is open")) } else { Ok(()) }
            }
            // What is set for the session, and what is about the session as a whole.
            (Fact::ApprovalPolicyChanged(_) | Fact::BashSandboxMode(_) | Fact::Other { .. }, _) => Ok(()),
            (Fact::SessionRewind(_), None) => Ok(()),
            (Fact::SessionRewind(_), Some(_)) => Err(place("stands within a turn")),
            (_, None) => Err(place("stands outside of a turn")),
            (Fact::TurnEnd(it), Some(turn)) => {
                let has_open_step = turn.step.is_some();
                self.turn = None;
                number(self.last_turn, it.turn)?;
                if has_open_step { Err(place("ends while a step is open")) } else { Ok(()) }
            }
            (Fact::StepStart(it), Some(turn)) => {
                let is_nested = turn.step.replace(HashSet::new()).is_some();
                let expected = turn.last_step + 1;
                turn.last_step = it.step;
                number(self.last_turn, it.turn)?;
                number(expected, it.step)?;
                if is_nested { Err(place("begins while a step is open")) } else { Ok(()) }
            }
            (fact, Some(turn)) => {
                let Some((in_turn, in_step)) = step_of(fact) else { return Ok(()) };
                number(self.last_turn, in_turn)?;
                number(turn.last_step, in_step)?;
                let Some(calls) = &mut turn.step else { return Err(place("stands outside of a step")) };
                match fact {
                    Fact::ToolCall(it) => drop(calls.insert(it.call_id.clone())),
                    Fact::ToolResult(it) if !calls.remove(&it.call_id) && !is_interrupted(it) => {
                        return Err(Violation::Call { seq: record.seq, call: it.call_id.clone() });
                    }
                    Fact::StepEnd(_) => turn.step = None,
                    _ => {}
                }
                Ok(())
            }
        }
    }

    fn check_sources(&self, record: &Record) -> Result<(), Violation> {
        let Some(surface) = &record.surface else { return Ok(()) };
        let SurfaceOp::Replace { start, end } = surface.op else { return Ok(()) };
        let seqs = self.surface.seqs();
        let place = |seq| seqs.iter().position(|it| *it == seq);
        let (Some(start), Some(end)) = (place(start), place(end)) else { return Ok(()) };
        let sources: HashSet<u64> = surface.source_seqs.iter().flatten().copied().collect();
        match seqs.get(start..=end).unwrap_or(&[]).iter().find(|it| !sources.contains(it)) {
            Some(&shadowed) => Err(Violation::Source { seq: record.seq, shadowed }),
            None => Ok(()),
        }
    }
}

/// Turn and step of a fact that belongs into a step.
fn step_of(fact: &Fact) -> Option<(u32, u32)> {
    match fact {
        Fact::StepEnd(it) => Some((it.turn, it.step)),
        Fact::AssistantChunk(it) => Some((it.turn, it.step)),
        Fact::AssistantMessage(it) => Some((it.turn, it.step)),
        Fact::ToolCall(it) => Some((it.turn, it.step)),
        Fact::ToolResult(it) => Some((it.turn, it.step)),
        _ => None,
    }
}

/// Whether repair wrote the result; then the call may be one that was never logged.
fn is_interrupted(result: &ToolResult) -> bool {
    result.error.as_ref().is_some_and(|it| it.code == "interrupted")
}

/// Checks all sessions that live. Mount it before the first session is made.
#[derive(Debug, Default)]
pub struct InvariantsPlugin {
    checkers: Mutex<HashMap<SessionId, LogChecker>>,
}

linn_bus::register_plugin!(InvariantsPlugin);

impl Plugin for InvariantsPlugin {
    const NAME: &'static str = "session-invariants";
    type Config = ();
    type Needs = ();

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        let plugin = Arc::new(Self::default());
        ctx.on_with(&plugin, Self::created)?;
        ctx.on_with(&plugin, Self::logged)?;
        ctx.on_with(&plugin, Self::disposed)?;
        Ok(())
    }
}

impl InvariantsPlugin {
    fn created(&self, event: &SessionCreated) -> Result<(), Violation> {
        self.take_up_to(&event.session, u64::MAX)
    }

    fn logged(&self, event: &SessionEvent) -> Result<(), Violation> {
        self.take_up_to(&event.session, event.record.seq)
    }

    fn disposed(&self, event: &SessionDisposed) {
        self.checkers.lock().unwrap_or_else(PoisonError::into_inner).remove(event.session.id());
    }

    /// Checks what was not checked yet, up to and with the record `seq`, and gives what is wrong with the last one.
    fn take_up_to(&self, session: &crate::session::Session, seq: u64) -> Result<(), Violation> {
        let mut checkers = self.checkers.lock().unwrap_or_else(PoisonError::into_inner);
        let checker = checkers.entry(session.id().clone()).or_default();
        let news = session.records_from(checker.records.len() as u64);
        let mut outcome = Ok(());
        for record in news.iter().take_while(|it| it.seq <= seq) {
            // Every record is taken in, also behind one that breaks a rule.
            outcome = outcome.and(checker.take(record));
        }
        outcome
    }
}
