//! `compaction/*`: how the history of an agent is made smaller.

use linn_bus::Event;
use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::compaction::{CompactTrigger, Compacted, ContextBudget};
use crate::session::ErrorInfo;

/// The history of an agent is about to be compacted.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the `compaction` service, before it asks for a summary; an end follows in any case.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Serialize, Event)]
#[event(name = "compaction/start", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct CompactionStart {
    /// The agent.
    pub agent: Agent,
    /// Why.
    pub trigger: CompactTrigger,
    /// Tokens of its next request, by estimate.
    pub tokens: u64,
    /// How many would fit.
    pub budget: ContextBudget,
}

/// The compaction of a history is over.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the `compaction` service, once for each start.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event)]
#[event(name = "compaction/end", mode = Emit, subject = self.agent.key(), view = Self::shown)]
pub struct CompactionEnd {
    /// The agent.
    pub agent: Agent,
    /// Why it was compacted.
    pub trigger: CompactTrigger,
    /// What came of it.
    pub outcome: Result<Compacted, CompactionFailed>,
    /// How many tokens would fit.
    pub budget: ContextBudget,
}

/// Why a history is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionFailed {
    /// In words.
    pub message: String,
    /// Name and stable code.
    pub error: ErrorInfo,
}

impl CompactionEnd {
    fn shown(&self) -> Value {
        let Self { agent, trigger, outcome, budget } = self;
        match outcome {
            Ok(done) => json!({ "agent": agent.id(), "trigger": trigger, "compacted": done, "budget": budget }),
            Err(failed) => {
                let CompactionFailed { message, error } = failed;
                json!({
                    "agent": agent.id(), "trigger": trigger, "message": message, "error": error, "budget": budget,
                })
            }
        }
    }
}

/// Large tool results of a history were cut.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the `compaction` service, after they were.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Serialize, Event)]
#[event(name = "compaction/digest", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct CompactionDigest {
    /// The agent.
    pub agent: Agent,
    /// How many results were cut.
    pub n_results: usize,
    /// Tokens of its next request before, by estimate.
    pub tokens_before: u64,
    /// And after.
    pub tokens_after: u64,
    /// How many would fit.
    pub budget: ContextBudget,
}
