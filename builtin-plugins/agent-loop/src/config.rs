//! What the loop can be told.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of the loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoopConfig {
    /// How often listeners of `agent/turn-continuation` may keep a turn going that would end, before the turn ends with the
    /// error `CONTINUATION_LIMIT`. A message of the human begins the count anew. By default 5.
    pub max_forced_continues: u32,
    /// How long a tool call that was aborted may take to say how it ended, in milliseconds, before it is left behind and
    /// answered for. By default 1000.
    pub abort_grace_ms: u64,
    /// How long writing the session down may take after a turn, in milliseconds, before the loop goes on without it and
    /// tells so. By default 30000.
    pub flush_limit_ms: u64,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self { max_forced_continues: 5, abort_grace_ms: 1000, flush_limit_ms: 30_000 }
    }
}

impl LoopConfig {
    pub(crate) fn flush_limit(&self) -> Duration {
        Duration::from_millis(self.flush_limit_ms)
    }

    pub(crate) fn abort_grace(&self) -> Duration {
        Duration::from_millis(self.abort_grace_ms)
    }
}
