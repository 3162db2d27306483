//! Sessions and conversations.

use serde_json::Value;

use super::wire_events;

wire_events! {
    Reset = "reset", plain {}
    History<'a> = "history", checked { messages: &'a [Value], tokens_in: u64, }
    SessionList<'a> = "sessions", plain { sessions: &'a [Value], files: &'a [String], }
    SessionChanged<'a> = "session_changed", plain { path: &'a str, new: bool, }
    SessionChangeFailed<'a> = "session_change_failed", plain { path: &'a str, message: &'a str, }
    SessionRenamed<'a> = "session_renamed", plain { path: &'a str, title: &'a str, }
    SessionDeleted<'a> = "session_deleted", plain { path: &'a str, }
    SessionPinned<'a> = "session_pinned", plain { path: &'a str, pinned: bool, }
}
