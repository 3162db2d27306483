//! Events of tool calls, and of what they change.

use super::wire_events;

wire_events! {
    ToolCallStart<'a> = "tool_call_start", plain { id: &'a str, index: u32, }
    ToolCallName<'a> = "tool_call_name", plain { index: u32, name: &'a str, }
    ToolCallArgs<'a> = "tool_call_args", plain { index: u32, args: &'a str, }
    ToolCall<'a> = "tool_call", plain { id: &'a str, name: &'a str, args: &'a str, }
    ToolResult<'a> = "tool_result", plain {
        id: &'a str,
        name: &'a str,
        ok: bool,
        output: &'a str,
        status: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        diff: Option<&'a str>,
    }
    FileChange<'a> = "file_change", plain {
        path: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        unified_diff: Option<&'a str>,
        tool: &'a str,
    }
    BashExecution<'a> = "bash_execution", plain {
        command: &'a str,
        output: &'a str,
        ok: bool,
        exclude_from_context: bool,
    }
}
