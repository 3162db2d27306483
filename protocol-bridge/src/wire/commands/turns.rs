//! Handshake and turns.

use serde::{Deserialize, Serialize};

use super::bare;

/// Who the client is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Client {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) capabilities: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Init {
    pub(crate) protocol_version: Option<u64>,
    pub(crate) client: Option<Client>,
}

#[derive(Deserialize)]
pub(crate) struct Send {
    pub(crate) prompt: String,
    pub(crate) model: String,
    pub(crate) provider: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
    pub(crate) images: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub(crate) struct Steer {
    pub(crate) prompt: String,
    pub(crate) model: String,
    pub(crate) provider: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Compact {
    pub(crate) instructions: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ApplySkill {
    pub(crate) name: String,
    pub(crate) task: Option<String>,
    pub(crate) model: String,
    pub(crate) reasoning_effort: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct UserBash {
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) exclude_from_context: bool,
}

bare! { Abort ClearQueue }
