//! Compaction: an older part of the history gives way to a summary.

mod estimate;

pub use estimate::TokenEstimator;

use linn_bus::{ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::session::AppendError;

/// Makes room in the window of a model.
#[service("compaction")]
pub trait Compaction {
    /// Compacts the history of an agent; `None` if there is nothing that could go.
    ///
    /// While the agent is idle it opens a turn of its own. What a human asks for while a turn runs happens when that is over;
    /// the other triggers are for the loop, between two steps, and fail as [`CompactionError::Off`] where histories are not
    /// compacted by themselves. Dropping the future leaves the history as it was.
    async fn compact(&self, request: CompactRequest) -> Result<Option<Compacted>, CompactionError>;

    /// The tokens that the next request of an agent would take, by estimate.
    fn estimate(&self, agent: &Agent) -> Result<u64, CompactionError>;

    /// The window of the model that an agent asks, and how far it may be filled.
    fn budget(&self, agent: &Agent) -> Result<ContextBudget, CompactionError>;
}

/// A compaction asked for.
#[derive(Debug, Clone)]
pub struct CompactRequest {
    /// Whose history.
    pub agent: Agent,
    /// Why.
    pub trigger: CompactTrigger,
    /// What the summary shall heed, in words.
    pub instructions: Option<String>,
    /// Ends it.
    pub signal: CancellationToken,
}

/// The window of a model, in tokens, and how far it may be filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextBudget {
    /// The window.
    pub context_window: u64,
    /// From here on old tool results are cut.
    pub digest_tokens: u64,
    /// From here on the history is compacted.
    pub threshold_tokens: u64,
    /// No request takes more.
    pub hard_limit_tokens: u64,
    /// What is kept free for the answer.
    pub reserve_tokens: u64,
    /// What is kept free because the estimate may be wrong.
    pub safety_tokens: u64,
}

/// Why a history is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactTrigger {
    /// A human asked for it.
    Manual,
    /// It comes near the size of the window.
    Threshold,
    /// The same, and nobody has spoken for so long that no endpoint has it cached any more.
    IdleThreshold,
    /// The endpoint said that it is too long.
    ContextLength,
}

/// What a compaction came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compacted {
    /// The summary.
    pub summary: String,
    /// What of the history is worth keeping beyond the session, in sentences.
    pub facts: Vec<String>,
    /// Tokens of the request before, by estimate.
    pub tokens_before: u64,
    /// Tokens of the request after, by estimate.
    pub tokens_after: u64,
}

/// Why a history was not compacted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// Histories are compacted only when a human asks for it.
    #[error("automatic compaction is off")]
    Off,
    /// Another one runs.
    #[error("a compaction of this session is under way")]
    InProgress,
    /// The region cannot be replaced.
    #[error("the history cannot be cut there: {0}")]
    Region(&'static str),
    /// There was no usable summary.
    #[error("no summary was made: {0}")]
    Summary(String),
    /// The summary was no smaller than what it replaces.
    #[error("the summary has {summary_tokens} tokens, no fewer than the {shadowed_tokens} it would replace")]
    NotSmaller {
        /// Tokens of the summary.
        summary_tokens: u64,
        /// Tokens of what it would replace.
        shadowed_tokens: u64,
    },
    /// Nothing more can go, and it is still too much.
    #[error(
        "the context is too large for the model: about {tokens} tokens, and {limit} fit; the largest part is {largest} with \
         about {largest_tokens}; make that smaller, or choose a model with a larger window"
    )]
    CannotShrink {
        /// Tokens of the request.
        tokens: u64,
        /// Tokens that fit.
        limit: u64,
        /// The largest part, in words.
        largest: String,
        /// Its tokens.
        largest_tokens: u64,
    },
    /// The log did not take it.
    #[error("the compaction was not logged")]
    Log(#[from] AppendError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl CompactionError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Off => "COMPACTION_OFF",
            Self::InProgress => "COMPACTION_IN_PROGRESS",
            Self::Region(_) => "COMPACTION_REGION",
            Self::Summary(_) => "COMPACTION_SUMMARY",
            Self::NotSmaller { .. } => "COMPACTION_NOT_SMALLER",
            Self::CannotShrink { .. } => "CONTEXT_CANNOT_SHRINK",
            Self::Log(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
