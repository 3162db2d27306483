//! A model that gets nowhere.

use linn_bus::Event;
use serde::Serialize;

use crate::agent::Agent;
use crate::ids::ToolName;

/// A model makes the same call over and over, and is told so.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: what counts the calls, once such a call has its result.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/stuck", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentStuck {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// What is called.
    pub tool: ToolName,
    /// How often it was called with the same arguments, nothing having been changed in between.
    pub n_calls: u32,
    /// What the model is told.
    pub message: String,
}
