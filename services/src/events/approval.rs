//! `approval/*`: questions to a human about tool calls.

use linn_bus::Event;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::approval::{ApprovalMode, Permission};
use crate::ids::{ApprovalRequestId, CallId, SessionId, ToolName};
use crate::session::ApprovalOutcome;
use crate::tools::{ToolClass, ToolPreview, ToolToken};

/// A human is asked whether a call may run.
///
/// - Mode: waterfall; whoever can answer does so without `next`. The default is that nobody can.
/// - Scope: the agent that calls.
/// - Emitted by: the `approval` service alone; ask through it.
/// - On listener error or panic: nobody could answer, so the call does not run.
/// - Cancelled by: `signal`; an answer that comes later is thrown away.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "approval/request", mode = Waterfall, output = ApprovalOutcome, subject = self.agent.key(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Id of the question, as it is logged; the service gives it.
    pub id: Option<ApprovalRequestId>,
    /// The agent that calls.
    pub agent: Agent,
    /// The tool.
    pub tool_name: ToolName,
    /// The call.
    pub call_id: Option<CallId>,
    /// The identity of the call.
    #[serde(skip)]
    pub token: Option<ToolToken>,
    /// The arguments it would run with.
    pub arguments: Option<Arc<Value>>,
    /// Whether the tool changes anything.
    pub class: Option<ToolClass>,
    /// What the call would do.
    pub preview: Option<ToolPreview>,
    /// Why it is asked.
    pub reason: Option<String>,
    /// Takes the question back.
    #[serde(skip)]
    pub signal: CancellationToken,
}

impl ApprovalRequest {
    /// A question about a tool, with nothing else said.
    pub fn new(agent: Agent, tool_name: impl Into<ToolName>) -> Self {
        Self {
            id: None,
            agent,
            tool_name: tool_name.into(),
            call_id: None,
            token: None,
            arguments: None,
            class: None,
            preview: None,
            reason: None,
            signal: CancellationToken::new(),
        }
    }
}

/// What runs without a question changed.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `approval-modes` service, after the change.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, PartialEq, Eq, Event, Serialize)]
#[event(name = "approval/changed", mode = Emit, view)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum ApprovalChanged {
    /// Another mode holds.
    Mode {
        /// The mode.
        mode: ApprovalMode,
    },
    /// A human permitted something from now on.
    Permitted {
        /// For this session, and those that come from it.
        session: SessionId,
        /// What.
        permission: Permission,
    },
    /// What was permitted for a session no longer is.
    Cleared {
        /// The session.
        session: SessionId,
    },
}
