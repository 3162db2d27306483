//! How a turn is brought to its end: the model looks back, and says what it did.

use linn_bus::Event;
use serde::Serialize;

use crate::agent::Agent;

/// A turn would have ended without a word for the human, and its model is asked to look back first.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: what closes turns, before the model is asked again.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/reflecting", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentReflecting {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// How often this agent was asked so, this time included.
    pub recurrence: u64,
}

/// A turn would have ended without a word for the human even so, and its model is told to write one.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: what closes turns, before the model is asked again.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/summary-required", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentSummaryRequired {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// Which time this is, from 1.
    pub attempt: u32,
    /// How often it is told so at most.
    pub max_attempts: u32,
}
