//! The conversation, and the sessions there are.

use serde::Deserialize;

use super::bare;

bare! { Reset Clear Undo ListSessions ListCheckpoints Stats RuntimeStatus Context }

#[derive(Deserialize)]
pub(crate) struct LoadSession {
    pub(crate) path: String,
}

#[derive(Deserialize)]
pub(crate) struct NewSession {
    pub(crate) path: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct RenameSession {
    pub(crate) path: String,
    pub(crate) title: String,
}

#[derive(Deserialize)]
pub(crate) struct DeleteSession {
    pub(crate) path: String,
}

#[derive(Deserialize)]
pub(crate) struct PinSession {
    pub(crate) path: String,
    pub(crate) pinned: bool,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are checked, and nothing makes checkpoints yet")]
pub(crate) struct CreateCheckpoint {
    label: Option<String>,
    paths: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub(crate) struct RestoreCheckpoint {
    pub(crate) id: String,
}
