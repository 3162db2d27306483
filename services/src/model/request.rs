//! What is asked of a model.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ids::{ModelId, SessionId, ToolName};
use crate::model::Message;

/// What a model learns of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSchema {
    /// Name.
    pub name: ToolName,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of the arguments, an object.
    pub parameters: Value,
}

/// Which model, and how it shall sample. Equal if every field is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmCallConfig {
    /// Model; empty means none was chosen.
    pub model: String,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Limit of the answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
    /// How hard the model shall think, in the words of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

impl LlmCallConfig {
    /// The config that names a model and leaves the rest to the endpoint.
    pub fn of_model(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }
}

/// What stands in front of the history in each request of a session, as the log records it.
///
/// In canonical form an empty system text, tool list or prefix is absent; [`EpochHeader::canonical`] makes it so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EpochHeader {
    /// Model and sampling.
    pub config: LlmCallConfig,
    /// System text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tools offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSchema>>,
    /// Messages in front of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_prefix: Option<Vec<Message>>,
}

impl EpochHeader {
    /// The same with empty parts left out.
    pub fn canonical(mut self) -> Self {
        self.system = self.system.filter(|it| !it.is_empty());
        self.tools = self.tools.filter(|it| !it.is_empty());
        self.message_prefix = self.message_prefix.filter(|it| !it.is_empty());
        self
    }
}

/// One call of a model. It is shared and never changed; who wants another one makes another one.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateRequest {
    /// Model and sampling.
    #[serde(flatten)]
    pub config: LlmCallConfig,
    /// The messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// System text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tools offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSchema>,
    /// The session it belongs to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Ends the call.
    #[serde(skip)]
    pub signal: CancellationToken,
}

impl GenerateRequest {
    /// The model asked.
    pub fn model(&self) -> ModelId {
        ModelId::from(self.config.model.as_str())
    }
}
