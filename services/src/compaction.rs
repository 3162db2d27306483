//! Compaction: an older part of the history gives way to a summary.

use linn_bus::{ServiceError, service};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::session::AppendError;

/// Makes room in the window of a model.
#[service("compaction")]
pub trait Compaction {
    /// Compacts the history of an agent now; `None` if there is nothing that could go.
    ///
    /// Needs an open turn, or opens one of its own while the agent is idle. Dropping the future leaves the history as it
    /// was.
    async fn compact(&self, request: CompactRequest) -> Result<Option<Compacted>, CompactionError>;

    /// The tokens that the next request of an agent would take, by estimate.
    fn estimate(&self, agent: &Agent) -> Result<u64, CompactionError>;
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

/// Why a history is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactTrigger {
    /// A human asked for it.
    Manual,
    /// It comes near the size of the window.
    Threshold,
    /// The endpoint said that it is too long.
    ContextLength,
}

/// What a compaction came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The summary.
    pub summary: String,
    /// Tokens of the request before, by estimate.
    pub tokens_before: u64,
    /// Tokens of the request after, by estimate.
    pub tokens_after: u64,
}

/// Why a history was not compacted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
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
    #[error("{0}")]
    CannotShrink(String),
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
            Self::InProgress => "COMPACTION_IN_PROGRESS",
            Self::Region(_) => "COMPACTION_REGION",
            Self::Summary(_) => "COMPACTION_SUMMARY",
            Self::NotSmaller { .. } => "COMPACTION_NOT_SMALLER",
            Self::CannotShrink(_) => "CONTEXT_CANNOT_SHRINK",
            Self::Log(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
