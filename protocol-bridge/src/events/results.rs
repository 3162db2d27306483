//! How calls ended, and what they changed.

use std::sync::Arc;

use linn_services::events::FsChanged;
use linn_services::ids::CallId;
use linn_services::model::text_of;
use linn_services::session::{ApprovalOutcome, Fact, Record, ToolResult};
use serde_json::Value;

use crate::bridge::{Bridge, State};
use crate::run::Call;
use crate::sink::Origin;
use crate::wire::events::{Error, FileChange, ToolResult as ToolResultEvent, WorkState};

impl Bridge {
    /// A tool of the agent changed a file; told behind the result of its call.
    pub(crate) fn file_changed(&self, event: &FsChanged) {
        let mut state = self.state();
        if event.agent.is_none() || event.agent.as_ref() != state.agent() {
            return;
        }
        state.work.touch(event.tool.as_str(), &event.change.path);
        let call = state.run.as_mut().and_then(|it| it.calls.get_mut(&event.call_id));
        if let Some(call) = call {
            call.changes.push(event.clone());
        }
    }

    /// A call of the run has a result. Those of calls that ran side by side are told together, in the order of the calls.
    pub(crate) fn call_answered(&self, state: &mut State, call_id: &CallId, record: &Arc<Record>) {
        let Some(run) = &mut state.run else { return };
        if let Some(call) = run.calls.get_mut(call_id) {
            call.is_answered = true;
        }
        run.held.push(record.clone());
        run.n_open = run.n_open.saturating_sub(1);
        if run.n_open > 0 {
            return;
        }
        for record in std::mem::take(&mut run.held) {
            if let Fact::ToolResult(result) = &record.fact {
                self.tell_result(state, result);
            }
        }
    }

    fn tell_result(&self, state: &mut State, result: &ToolResult) {
        let Some(run) = &mut state.run else { return };
        let origin = Origin::Run(&run.id);
        let unknown = Call::new("");
        let call = run.calls.get(&result.call_id).unwrap_or(&unknown);
        let output = match call.outcome {
            Some(ApprovalOutcome::Rejected) => format!("tool call '{}' was denied by the user", call.name),
            _ => text_of(&result.content),
        };
        let meta = |name: &str| result.meta.as_ref()?.get(name)?.as_str();
        if call.has_planned || (!result.is_error && !call.changes.is_empty()) {
            self.sink.emit(origin, &WorkState { state: &state.work.as_value() });
        }
        if let Some(message) = meta("error").filter(|_| meta("code") == Some("INVALID_QUESTIONS")) {
            self.sink.emit(origin, &Error { message, code: None });
        }
        let status = status_of(result, call.outcome, &output);
        let event = ToolResultEvent {
            id: result.call_id.as_str(),
            name: &call.name,
            ok: !result.is_error,
            output: &output,
            status,
            diff: meta("diff"),
        };
        self.sink.emit(origin, &event);
        for change in &call.changes {
            let unified_diff = change.change.diff.as_deref();
            self.sink.emit(origin, &FileChange { path: &change.change.path, unified_diff, tool: change.tool.as_str() });
        }
        let session = state.current.as_ref().map(|it| it.handle.agent().session().id());
        if let Some(session) = session {
            let state = if result.is_error { "failed" } else { "completed" };
            self.journal.note(run.call_note(session, &result.call_id, self.now_ms(), state));
        }
    }
}

/// Words in a result that say how a call ended, where nothing else does; the first that is found counts.
const WORDS: &[(&str, &[&str])] = &[
    ("denied", &["denied", "declined", "not approved"]),
    ("cancelled", &["cancelled", "canceled", "aborted"]),
    ("timed_out", &["timed out", "timeout"]),
    ("partially_completed", &["partially completed", "partial success"]),
];

/// How a call ended.
fn status_of(result: &ToolResult, outcome: Option<ApprovalOutcome>, output: &str) -> &'static str {
    if !result.is_error {
        return "success";
    }
    match outcome {
        Some(ApprovalOutcome::Rejected | ApprovalOutcome::Unavailable) => return "denied",
        Some(ApprovalOutcome::Cancelled) => return "cancelled",
        Some(ApprovalOutcome::AllowedOnce) | None => {}
    }
    let timed_out = result.meta.as_ref().and_then(|it| it.get("timedOut")).and_then(Value::as_bool);
    match result.error.as_ref().map(|it| it.code.as_str()) {
        _ if timed_out == Some(true) => return "timed_out",
        Some("TOOL_TIMEOUT") => return "timed_out",
        Some("ABORTED") => return "cancelled",
        _ => {}
    }
    let output = output.to_lowercase();
    let found = WORDS.iter().find(|(_, words)| words.iter().any(|it| output.contains(it)));
    found.map_or("failed", |(status, _)| *status)
}

#[cfg(test)]
mod tests {
    use linn_services::model::ContentBlock;
    use linn_services::session::ErrorInfo;
    use serde_json::json;

    use super::*;

    fn status(text: &str, outcome: Option<ApprovalOutcome>, code: Option<&str>, meta: Option<Value>) -> &'static str {
        let error = code.map(|it| ErrorInfo { name: "Error".into(), code: it.into() });
        let content = vec![ContentBlock::text(text)];
        let result = ToolResult { turn: 1, step: 1, call_id: "c".into(), content, is_error: true, error, meta };
        status_of(&result, outcome, text)
    }

    #[test]
    fn the_status_goes_by_what_is_known_and_else_by_words() {
        assert_eq!(status("no", Some(ApprovalOutcome::Rejected), None, None), "denied");
        assert_eq!(status("x", None, Some("TOOL_TIMEOUT"), None), "timed_out");
        assert_eq!(status("x", None, None, Some(json!({"timedOut": true}))), "timed_out");
        assert_eq!(status("x", None, Some("ABORTED"), None), "cancelled");
        assert_eq!(status("bash aborted", None, None, None), "cancelled");
        assert_eq!(status("Permission DENIED, timed out", None, None, None), "denied");
        assert_eq!(status("request timeout", None, None, None), "timed_out");
        assert_eq!(status("partial success", None, None, None), "partially_completed");
        assert_eq!(status("exit code 1", Some(ApprovalOutcome::AllowedOnce), None, None), "failed");
    }
}
