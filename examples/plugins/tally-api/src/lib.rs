//! An event and a service of their own, which pass between libraries that were built apart.

use linn_sdk::prelude::*;

linn_sdk::shared_crate!();

/// A call of a tool was counted.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the plugin `tally`, once a call.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event)]
#[event(name = "tally/counted", mode = Emit)]
pub struct TallyCounted {
    /// The tool.
    pub tool: String,
    /// How often it was called so far.
    pub n_calls: u64,
}

/// Knows how often tools were called.
#[service("tally")]
pub trait Tally {
    /// How often a tool was called.
    fn calls(&self, tool: &str) -> Result<u64, ServiceError>;
}
