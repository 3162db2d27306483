//! One turn, watched from outside: how it ended, and whether something was refused on the way.

use std::sync::{Arc, Mutex, PoisonError};

use linn::bus::{BusError, Context};
use linn::services::agent::Agent;
use linn::services::events::SessionEvent;
use linn::services::session::{ApprovalOutcome, Fact, TurnEndReason};

/// How a turn ended, as the exit code of the program tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The model was done.
    Completed,
    /// The turn failed.
    Failed,
    /// The prompt was refused, or a call that needed a human's word did not get it.
    Denied,
    /// The turn was cancelled.
    Aborted,
}

impl Outcome {
    /// The exit code of the program.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::Failed => 1,
            Self::Denied => 3,
            Self::Aborted => 4,
        }
    }
}

/// Notes what happens in the turns of one agent.
#[derive(Default)]
struct Notes {
    end: Mutex<Option<TurnEndReason>>,
    was_denied: Mutex<bool>,
}

impl Notes {
    fn record(&self, event: &SessionEvent) {
        match &event.record.fact {
            Fact::ApprovalDecided(it) if it.outcome != ApprovalOutcome::AllowedOnce => {
                *self.was_denied.lock().unwrap_or_else(PoisonError::into_inner) = true;
            }
            // Each turn speaks for itself.
            Fact::TurnStart(_) => {
                *self.was_denied.lock().unwrap_or_else(PoisonError::into_inner) = false;
                *self.end.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            Fact::TurnEnd(it) => *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(it.reason.clone()),
            _ => {}
        }
    }

    fn outcome(&self) -> Outcome {
        let was_denied = *self.was_denied.lock().unwrap_or_else(PoisonError::into_inner);
        match &*self.end.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(TurnEndReason::Completed) if was_denied => Outcome::Denied,
            Some(TurnEndReason::Completed) => Outcome::Completed,
            Some(TurnEndReason::Rejected { .. }) => Outcome::Denied,
            Some(TurnEndReason::Aborted { .. }) | None => Outcome::Aborted,
            Some(_) => Outcome::Failed,
        }
    }
}

/// Watches the turns of an agent.
pub(crate) struct TurnWatch {
    agent: Agent,
    notes: Arc<Notes>,
}

impl TurnWatch {
    /// Watches from now on.
    pub(crate) fn new(agent: &Agent) -> Result<Self, BusError> {
        let notes = Arc::new(Notes::default());
        let ctx: &Context = agent.context();
        ctx.on_with(&notes, Notes::record)?;
        Ok(Self { agent: agent.clone(), notes })
    }

    /// The seq of the prompt of the last turn, if the turn ended because its prompt fits into no request of the model.
    pub(crate) fn oversized(&self) -> Option<u64> {
        let end = self.notes.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(TurnEndReason::Error { code: Some(code), .. }) = end else { return None };
        if code != "CONTEXT_CANNOT_SHRINK" {
            return None;
        }
        // An answer in the turn says that the prompt did fit.
        let session = self.agent.session();
        session.find_last(|it| match &it.fact {
            Fact::TurnStart(_) => Some(Some(it.seq)),
            Fact::AssistantMessage(_) => Some(None),
            _ => None,
        })?
    }

    /// Waits until the agent has nothing to do, and says how its last turn ended.
    pub(crate) async fn outcome(&self) -> Outcome {
        self.agent.when_idle().await;
        self.notes.outcome()
    }
}
