//! Workflows: scripts that have many agents work together.

use linn_bus::{BoxFuture, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Agent;
use crate::ids::{AgentId, WorkflowRunId};

/// Runs workflows.
#[service("workflows")]
pub trait Workflows {
    /// Begins a run, once its head and body are found right. What it comes to is its result; an error says that none began.
    fn start(&self, request: WorkflowRequest) -> Result<WorkflowRun, WorkflowError>;
}

/// A workflow to run.
#[derive(Debug, Clone)]
pub struct WorkflowRequest {
    /// Who runs it.
    pub parent: Option<Agent>,
    /// What it is.
    pub meta: WorkflowMeta,
    /// The script.
    pub script: String,
    /// What the script gets.
    pub input: Value,
}

/// A run that goes on.
pub struct WorkflowRun {
    /// What runs.
    pub info: WorkflowRunInfo,
    /// What it comes to; it never fails, a script that does is a result.
    pub result: BoxFuture<'static, WorkflowResultInfo>,
    /// Ends it; idempotent.
    pub cancel: Box<dyn Fn() + Send + Sync>,
}

/// What a workflow is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowMeta {
    /// Name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// When to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// The phases it goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<WorkflowPhaseMeta>>,
}

/// A phase that a workflow goes through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowPhaseMeta {
    /// Title.
    pub title: String,
    /// What happens in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The model its agents ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowRunInfo {
    /// Its id.
    pub id: WorkflowRunId,
    /// What it is.
    pub meta: WorkflowMeta,
}

/// An agent of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowAgentInfo {
    /// Number of the agent in the run, from 1.
    pub seq: u32,
    /// What it is called.
    pub label: String,
    /// The phase it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The agent.
    pub child_id: AgentId,
}

/// What became of an agent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkflowAgentOutcome {
    /// It was done.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowResultInfo {
    /// How it ended.
    pub stop_reason: WorkflowStopReason,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many agents it started.
    pub agents_started: u32,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkflowStopReason {
    /// The script came to its end.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// The script failed.
    Error,
}

/// Why no run began.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowError {
    /// The head is wrong.
    #[error("the head of the workflow is wrong: {0}")]
    MetaInvalid(String),
    /// The script cannot be read.
    #[error("the script cannot be read: {0}")]
    ScriptParse(String),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl WorkflowError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MetaInvalid(_) => "META_INVALID",
            Self::ScriptParse(_) => "SCRIPT_PARSE",
            Self::Service(error) => error.code(),
        }
    }
}
