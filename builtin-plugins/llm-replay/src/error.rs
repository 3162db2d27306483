//! What can be wrong with a recording, or with who replays it.

use linn_services::llm::LlmError;

use crate::compare::Difference;

/// Why a recording did not answer, or could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There is no recording of this name.
    #[error("there is no recording `{name}`; bundled are: {bundled}; looked for the file {looked_for}")]
    NotFound {
        /// The name asked for.
        name: String,
        /// Names of those that are bundled.
        bundled: String,
        /// Where a file was looked for.
        looked_for: String,
    },
    /// A line of the recording is none.
    #[error("recording `{name}` is damaged at line {line}: {why}")]
    Damaged {
        /// The recording.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The last line of the recording was cut off.
    #[error("recording `{name}` is cut off in line {line}; take that line out, and the request it belongs to")]
    Torn {
        /// The recording.
        name: String,
        /// The line, from 1.
        line: usize,
    },
    /// The answer to a request does not end.
    #[error("recording `{name}` ends too early: the answer to request {request}, from line {line} on, has no end")]
    Unfinished {
        /// The recording.
        name: String,
        /// The request, from 1.
        request: usize,
        /// The line of the request, from 1.
        line: usize,
    },
    /// A later version of Linn made the recording.
    #[error("recording `{name}` is version {found}, newer than supported ({supported}); update Linn to replay it")]
    Newer {
        /// The recording.
        name: String,
        /// Its version.
        found: u64,
        /// The latest this code reads.
        supported: u64,
    },
    /// More was asked than was recorded.
    #[error("recording `{name}` is used up: it answers {recorded} requests, and one more was made")]
    UsedUp {
        /// The recording.
        name: String,
        /// How many requests it answers.
        recorded: usize,
    },
    /// A request is not the recorded one.
    #[error("request {request} is not the one of recording `{name}`, which differs at {difference}")]
    Mismatch {
        /// The recording.
        name: String,
        /// Number of the recorded request that is next, from 1.
        request: usize,
        /// The first difference.
        difference: Difference,
    },
    /// The file system failed.
    #[error("{what} recording {file}: {why}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        file: String,
        /// What the system says.
        why: String,
    },
}

impl ReplayError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "RECORDING_NOT_FOUND",
            Self::Damaged { .. } => "RECORDING_DAMAGED",
            Self::Torn { .. } => "RECORDING_TORN",
            Self::Unfinished { .. } => "RECORDING_UNFINISHED",
            Self::Newer { .. } => "RECORDING_NEWER",
            Self::UsedUp { .. } => "RECORDING_USED_UP",
            Self::Mismatch { .. } => "REPLAY_MISMATCH",
            Self::Io { .. } => "RECORDING_IO",
        }
    }
}

impl From<ReplayError> for LlmError {
    fn from(error: ReplayError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
