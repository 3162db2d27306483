//! What is fixed about a session from its first moment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;

/// The version of the log that this code writes, and the only one that it reads.
pub const SESSION_VERSION: u32 = 0;

/// What is fixed about a session; it stands outside of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionHeader {
    /// Version of the log, [`SESSION_VERSION`].
    pub version: u32,
    /// The session.
    pub id: SessionId,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_at: i64,
    /// The folder it works in, an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The session it was forked from, or that delegated to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<SessionId>,
    /// How many records at the beginning of the log came from the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_length: Option<u64>,
}
