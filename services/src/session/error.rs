//! Why a record was not logged, and why records make no session.

use linn_bus::{ListenerErrors, MAX_NESTING};

/// Why a record was not appended, or was but not all heard of it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The kind belongs on the surface, and no place there was named.
    #[error("`{kind}` lies on the surface; say where, with `append_to_surface`")]
    SurfaceOpMissing {
        /// The kind.
        kind: String,
    },
    /// The kind has no place on the surface.
    #[error("`{kind}` does not lie on the surface; append it with `append`")]
    SurfaceOpUnexpected {
        /// The kind.
        kind: String,
    },
    /// The end of a range to replace is not on the surface.
    #[error("record {seq} is not on the surface")]
    NotOnSurface {
        /// The record.
        seq: u64,
    },
    /// The range to replace runs backwards.
    #[error("the range to replace begins at record {start}, which lies after its end, record {end}")]
    RangeReversed {
        /// First record.
        start: u64,
        /// Last record.
        end: u64,
    },
    /// A record names another one as its source that is not older, or names one twice, or names none.
    #[error("`{kind}` names record {seq} as a source, which is not an older record named once")]
    BadSource {
        /// The kind.
        kind: String,
        /// The record named.
        seq: u64,
    },
    /// JSON would not give back what the fact holds, such as a number that is not finite.
    #[error("`{kind}` holds what JSON cannot: {what}")]
    NotJson {
        /// The kind.
        kind: String,
        /// What it holds.
        what: String,
    },
    /// The fact was given as one of a kind that Linn does not know, and is of one that it knows.
    #[error("the data is wrong for `{kind}`: {why}")]
    BadData {
        /// The kind.
        kind: String,
        /// What is wrong.
        why: String,
    },
    /// The log holds a chain of records that listeners of `session/event` logged, each in answer to the one before.
    #[error("`{kind}` is logged in answer to a record that is {MAX_NESTING} answers deep; a listener answers itself")]
    TooDeep {
        /// The kind.
        kind: String,
    },
    /// A header changed in a log that has none.
    #[error("`request/header-delta` before any `request/header`: nothing to change")]
    DeltaWithoutHeader,
    /// The conversation cannot go back to there.
    #[error("cannot go back to record {to}: {why}")]
    BadRewind {
        /// Where it should go.
        to: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The record is in the log; listeners of `session/event` failed.
    #[error("record {seq} is logged, but who heard of it failed: {errors}")]
    Listeners {
        /// The record.
        seq: u64,
        /// Their errors.
        #[source]
        errors: ListenerErrors,
    },
}

impl AppendError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SurfaceOpMissing { .. } => "SURFACE_OP_MISSING",
            Self::SurfaceOpUnexpected { .. } => "SURFACE_OP_UNEXPECTED",
            Self::NotOnSurface { .. } => "NOT_ON_SURFACE",
            Self::RangeReversed { .. } => "RANGE_REVERSED",
            Self::BadSource { .. } => "BAD_SOURCE",
            Self::NotJson { .. } => "NOT_JSON",
            Self::BadData { .. } => "BAD_DATA",
            Self::TooDeep { .. } => "TOO_DEEP",
            Self::DeltaWithoutHeader => "DELTA_WITHOUT_HEADER",
            Self::BadRewind { .. } => "BAD_REWIND",
            Self::Listeners { .. } => "LISTENERS_FAILED",
        }
    }

    /// Whether the record is in the log all the same.
    pub fn is_logged(&self) -> bool {
        matches!(self, Self::Listeners { .. })
    }
}

/// Why the records of an earlier life make no session.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// A record is missing, or in the wrong place.
    #[error("the log has a gap: record {found} stands where record {expected} belongs")]
    Gap {
        /// Seq that belongs there.
        expected: u64,
        /// Seq that stands there.
        found: u64,
    },
    /// A record cannot be appended to those before it.
    #[error("record {seq} does not fit those before it")]
    Record {
        /// The record.
        seq: u64,
        /// Why.
        #[source]
        source: AppendError,
    },
}
