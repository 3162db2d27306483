//! `workflow/*`: what runs of workflows tell. Each listener may fail without the others noticing, and gets a payload that no
//! other can change.

use linn_bus::Event;
use serde::Serialize;

use crate::workflows::{WorkflowAgentInfo, WorkflowAgentOutcome, WorkflowResultInfo, WorkflowRunInfo};

/// A workflow begins.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `workflows` service, once a run, when head and body were found right.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "workflow/start", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStart {
    /// The run.
    pub info: WorkflowRunInfo,
}

/// The script entered a phase.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `workflows` service; not after a cancellation.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "workflow/phase", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowPhase {
    /// The run.
    pub info: WorkflowRunInfo,
    /// The phase.
    pub title: String,
}

/// The script tells what it does.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `workflows` service; not after a cancellation.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "workflow/log", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowLog {
    /// The run.
    pub info: WorkflowRunInfo,
    /// What it says.
    pub message: String,
}

/// An agent of a run began to work.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `workflows` service.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "workflow/agent-start", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowAgentStart {
    /// The run.
    pub info: WorkflowRunInfo,
    /// The agent.
    pub agent: WorkflowAgentInfo,
}

/// An agent of a run is done; exactly once for each that began.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `workflows` service, before the end of the run.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "workflow/agent-end", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowAgentEnd {
    /// The run.
    pub info: WorkflowRunInfo,
    /// The agent.
    pub agent: WorkflowAgentInfo,
    /// What became of it.
    pub outcome: WorkflowAgentOutcome,
}

/// A workflow is over; exactly once for each that began.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `workflows` service.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "workflow/end", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowEnd {
    /// The run.
    pub info: WorkflowRunInfo,
    /// What it came to.
    pub result: WorkflowResultInfo,
}
