//! Where a session may be forked.

use std::sync::Arc;

use crate::session::{Fact, Record, Session};

/// Why a session cannot be forked at a place.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The record is not the end of a turn.
    #[error("record {0} is not the end of a turn; a fork begins after one")]
    InvalidBoundary(u64),
    /// No boundary was named, and a turn is open.
    #[error("turn {0} is still open; wait for its end, or name the end of an earlier one")]
    OpenTurn(u32),
}

impl ForkError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidBoundary(_) => "INVALID_BOUNDARY",
            Self::OpenTurn(_) => "OPEN_TURN",
        }
    }
}

/// The records that a fork begins with.
pub(crate) fn seed_of_fork(source: &Session, boundary: Option<u64>) -> Result<Vec<Arc<Record>>, ForkError> {
    let mut records = source.records_from(0);
    match boundary {
        None => match source.turns().open_turn() {
            Some(turn) => Err(ForkError::OpenTurn(turn)),
            None => Ok(records),
        },
        Some(boundary) => match records.get(usize::try_from(boundary).unwrap_or(usize::MAX)) {
            Some(record) if matches!(record.fact, Fact::TurnEnd(_)) => {
                records.truncate(usize::try_from(boundary).unwrap_or(usize::MAX).saturating_add(1));
                Ok(records)
            }
            _ => Err(ForkError::InvalidBoundary(boundary)),
        },
    }
}
