//! Questions to the human, and what is permitted.

use serde_json::Value;

use super::wire_events;

wire_events! {
    ApprovalRequest<'a> = "approval_request", checked {
        request_id: &'a str,
        session_id: &'a str,
        run_id: &'a str,
        tool_call_id: &'a str,
        tool: &'a str,
        risk: &'a str,
        requested_permission: &'a str,
        created_at: u64,
        args: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        diff: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    }
    ApprovalExpired<'a> = "approval_expired", plain { request_id: &'a str, tool_call_id: &'a str, }
    ApprovalChanged<'a> = "approval_changed", plain {
        mode: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pattern: Option<&'a str>,
    }
    AskRequest<'a> = "ask_request", checked { request_id: &'a str, questions: &'a [Value], }
    SudoRequest<'a> = "sudo_request", plain { request_id: &'a str, command: &'a str, }
}
