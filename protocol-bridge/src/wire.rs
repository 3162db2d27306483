//! What goes over the wire: commands of a front end, and events for it.
//!
//! These types are the wire's own. What the harness has is made into them in one place each, and nothing else in the
//! workspace knows them.

pub(crate) mod commands;
pub(crate) mod events;

/// The version of the protocol.
pub(crate) const PROTOCOL_VERSION: u32 = 2;

/// The longest line of a command, in bytes, its end included.
pub(crate) const MAX_COMMAND_BYTES: usize = 8 << 20;

/// The oldest clients that can speak to this program.
pub(crate) const MIN_CLIENT: &str = "0.2.0";

/// What this side can do, as clients learn of it.
pub(crate) const CAPABILITIES: &[&str] = &[
    "protocol_v2",
    "run_ids",
    "session_ids",
    "event_sequence",
    "stale_event_rejection",
    "worktree",
    "checkpoint",
    "file_change",
    "audit",
    "routing",
    "allow_pattern",
    "cost_update",
];
