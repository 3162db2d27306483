//! `tools/*`: the way of a tool call.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::Event;
use serde::Serialize;
use serde_json::Value;

use crate::tools::{AmendDecision, PostToolDecision, PreToolDecision, ToolExecution, ToolExecutionResult};

/// The tools that can be called changed, for all or for one agent.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `tools` service, after a tool or a restriction came or went.
/// - On listener error or panic: what was registered is taken back; when something went, logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "tools/change", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolsChange {}

impl ToolsChange {
    pub(crate) const fn new() -> Self {
        Self {}
    }
}

/// The arguments of a call may be changed, or the call refused, before anybody judges it.
///
/// A listener changes them with [`replace`](ToolsAmend::replace) before it runs `next`: so each sees them as amended so
/// far, in the order of the listeners.
///
/// - Mode: waterfall; the default goes on with the arguments as they stand.
/// - Scope: the agent that calls.
/// - Emitted by: the `tools` service, once a call, before the arguments are checked against the tool's schema. Approval,
///   diff and execution all see the amended arguments.
/// - On listener error or panic: the call is refused.
/// - Cancelled by: the call's signal.
#[derive(Debug, Event, Serialize)]
#[event(name = "tools/amend", mode = Waterfall, output = AmendDecision, subject = self.execution.scope(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct ToolsAmend {
    /// The call, with the arguments as the model wrote them.
    pub execution: ToolExecution,
    amended: Mutex<Option<(Arc<Value>, String)>>,
}

impl ToolsAmend {
    /// The question about a call.
    pub fn new(execution: ToolExecution) -> Self {
        Self { execution, amended: Mutex::new(None) }
    }

    /// The arguments as amended so far.
    pub fn arguments(&self) -> Arc<Value> {
        let amended = self.amended.lock().unwrap_or_else(PoisonError::into_inner);
        amended.as_ref().map_or_else(|| self.execution.arguments().clone(), |(arguments, _)| arguments.clone())
    }

    /// Puts other arguments in their place; `by` names the plugin.
    pub fn replace(&self, arguments: Value, by: &str) {
        let new = Some((Arc::new(arguments), by.to_owned()));
        drop(std::mem::replace(&mut *self.amended.lock().unwrap_or_else(PoisonError::into_inner), new));
    }

    /// What the arguments became and through whom, if they changed.
    pub fn amended(&self) -> Option<(Arc<Value>, String)> {
        self.amended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A call may run, may not, or a human decides.
///
/// - Mode: waterfall; the default allows it.
/// - Scope: the agent that calls.
/// - Emitted by: the `tools` service, once a call, after the arguments fit the tool's schema.
/// - On listener error or panic: the call fails and does not run.
/// - Cancelled by: the call's signal.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "tools/pre-execute", mode = Waterfall, output = PreToolDecision, subject = self.execution.scope(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct ToolsPreExecute {
    /// The call.
    pub execution: ToolExecution,
}

/// A call runs.
///
/// - Mode: waterfall; the default runs the tool, and gives a result also when it fails. Running `next` again runs the
///   layers inside and the tool again.
/// - Scope: the agent that calls.
/// - Emitted by: the `tools` service, once a call that may run.
/// - On listener error or panic: the call fails.
/// - Cancelled by: the call's signal, which a listener may replace for what runs inside.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "tools/execute", mode = Waterfall, output = ToolExecutionResult, subject = self.execution.scope(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct ToolsExecute {
    /// The call.
    pub execution: ToolExecution,
}

/// A result may be changed before the model sees it.
///
/// - Mode: waterfall; the default lets it stand.
/// - Scope: the agent that calls.
/// - Emitted by: the `tools` service, once a call, also for one that was refused.
/// - On listener error or panic: the call fails; the model sees the error in place of the result.
/// - Cancelled by: the call's signal.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "tools/post-execute", mode = Waterfall, output = PostToolDecision, subject = self.execution.scope(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct ToolsPostExecute {
    /// The call.
    pub execution: ToolExecution,
    /// The result.
    pub result: Arc<ToolExecutionResult>,
}

/// A call has its final result.
///
/// - Mode: parallel; the dispatch waits for everybody.
/// - Scope: the agent that calls.
/// - Emitted by: the `tools` service, exactly once a call, whatever became of it.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "tools/result", mode = Parallel, subject = self.execution.scope(), view)]
#[serde(rename_all = "camelCase")]
pub struct ToolsResult {
    /// The call.
    pub execution: ToolExecution,
    /// The result.
    pub result: Arc<ToolExecutionResult>,
}
