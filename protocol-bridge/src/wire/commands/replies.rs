//! What a human answers.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Approve {
    pub(crate) request_id: String,
    pub(crate) decision: String,
    pub(crate) pattern: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct AskReply {
    pub(crate) request_id: String,
    pub(crate) answers: Value,
}

#[derive(Deserialize)]
pub(crate) struct SudoReply {
    pub(crate) request_id: String,
    #[serde(default)]
    pub(crate) approved: bool,
    pub(crate) password: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct IntercomReply {
    pub(crate) request_id: String,
    #[expect(dead_code, reason = "the field is checked, and no subagent asks yet")]
    reply: String,
}
