//! Subagents: work that an agent hands to another one.

mod registry;

pub use registry::SubagentsPlugin;

use std::sync::Arc;

use linn_bus::{BoxFuture, BusError, Context, EffectHandle, Fault, ListenerErrors, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::ids::{SubagentRunId, ToolName};
use crate::kept::Kept;
use crate::model::ContentBlock;

/// Hands work to other agents. Providers say how these come about.
#[service("subagents")]
pub trait Subagents {
    /// What `register` is for whoever provides this.
    fn admit(&self, ctx: &Context, provider: Kept<dyn SubagentProvider>) -> Result<EffectHandle, SubagentError>;

    /// The providers there are, in the order of their plugins.
    fn providers(&self) -> Result<Vec<SubagentProviderInfo>, SubagentError>;

    /// Starts a run. What the run comes to is its result, also when it fails; an error says that none began.
    ///
    /// Dropping the future before it is ready starts nothing.
    async fn start(&self, provider: &str, request: SubagentRequest) -> Result<SubagentRun, SubagentError>;
}

/// Brings subagents into being.
pub trait SubagentProvider: Send + Sync + 'static {
    /// Name, unique among providers.
    fn name(&self) -> &str;
    /// What it can do.
    fn capabilities(&self) -> SubagentCapabilities;
    /// Whether its agents know the conversation of the parent.
    fn inherits_parent_context(&self) -> bool;
    /// Begins a run. The result never fails; a child that does is an outcome of its own.
    fn start(&self, request: SubagentRequest) -> BoxFuture<'static, Result<StartedSubagent, Fault>>;
}

/// A provider in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentProviderInfo {
    /// Its name.
    pub name: String,
    /// What it can do.
    pub capabilities: SubagentCapabilities,
    /// Whether its agents know the conversation of the parent.
    pub inherits_parent_context: bool,
}

/// What a provider can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentCapabilities {
    /// Hold the answer to a JSON schema.
    pub output_schema: bool,
    /// Hold delegation to a depth.
    pub depth_limit: bool,
    /// Limit the tools.
    pub tool_filter: bool,
    /// Give the agent a persona.
    pub persona: bool,
}

/// Work to hand over.
#[derive(Debug, Clone)]
pub struct SubagentRequest {
    /// Who hands it over.
    pub parent: Agent,
    /// What is to be done.
    pub task: Vec<ContentBlock>,
    /// The model; by default that of the parent.
    pub model: Option<String>,
    /// JSON schema of the answer; needs the capability.
    pub output_schema: Option<Value>,
    /// How deep delegation may go; needs the capability.
    pub max_depth: Option<u32>,
    /// The tools the child may use; needs the capability.
    pub tools: Option<Vec<ToolName>>,
    /// Who the child is; needs the capability.
    pub persona: Option<String>,
    /// Ends the run.
    pub signal: CancellationToken,
}

impl SubagentRequest {
    /// Work with nothing else said.
    pub fn new(parent: Agent, task: impl Into<String>) -> Self {
        Self {
            parent,
            task: vec![ContentBlock::text(task)],
            model: None,
            output_schema: None,
            max_depth: None,
            tools: None,
            persona: None,
            signal: CancellationToken::new(),
        }
    }
}

/// A run that a provider began.
pub struct StartedSubagent {
    /// Id of the run.
    pub id: SubagentRunId,
    /// What it comes to.
    pub result: BoxFuture<'static, SubagentOutcome>,
    /// How to reach it.
    pub control: Arc<dyn SubagentControl>,
}

/// How to reach a run.
pub trait SubagentControl: Send + Sync + 'static {
    /// Ends the run.
    fn cancel(&self, reason: Option<&str>);
    /// Gives up everything the run holds; waits until it is gone.
    fn dispose(&self) -> BoxFuture<'static, ()>;
    /// Says something to the child.
    fn send_message(&self, content: Vec<ContentBlock>) -> BoxFuture<'static, Result<(), Fault>> {
        drop(content);
        Box::pin(std::future::ready(Err(Fault::msg("this subagent takes no messages"))))
    }
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentOutcome {
    /// The last answer.
    pub output: Vec<ContentBlock>,
    /// The answer held to the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// How it ended.
    pub stop_reason: SubagentStopReason,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SubagentStopReason {
    /// It was done.
    Completed,
    /// It was cancelled.
    Aborted,
    /// It failed.
    Error,
    /// The limit of an answer was reached.
    MaxTokens,
    /// The model would not do it.
    Refusal,
    /// A reason of the provider.
    #[serde(untagged)]
    Other(String),
}

/// A run that goes on.
#[derive(Clone)]
pub struct SubagentRun {
    id: SubagentRunId,
    provider: String,
    result: futures_util::future::Shared<BoxFuture<'static, SubagentOutcome>>,
    control: Arc<dyn SubagentControl>,
}

impl SubagentRun {
    /// Id of the run.
    pub fn id(&self) -> &SubagentRunId {
        &self.id
    }

    /// Who runs it.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Waits for what it comes to; it never fails, a child that does is an outcome.
    ///
    /// Cancel safe: the run goes on without the waiter.
    pub async fn result(&self) -> SubagentOutcome {
        self.result.clone().await
    }

    /// Ends the run.
    pub fn cancel(&self, reason: Option<&str>) {
        self.control.cancel(reason);
    }

    /// Gives up everything the run holds, and waits until it is gone.
    pub async fn dispose(&self) {
        self.control.dispose().await;
    }

    /// Says something to the child.
    pub async fn send_message(&self, content: Vec<ContentBlock>) -> Result<(), Fault> {
        self.control.send_message(content).await
    }
}

impl std::fmt::Debug for SubagentRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubagentRun").field("id", &self.id).field("provider", &self.provider).finish_non_exhaustive()
    }
}

/// Why no run began.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubagentError {
    /// The name is taken.
    #[error("a subagent provider `{0}` is registered already")]
    DuplicateProvider(String),
    /// No such provider.
    #[error("there is no subagent provider `{name}`; there are: {known}")]
    NoProvider {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The provider cannot do what is asked.
    #[error("subagent provider `{provider}` cannot do `{capability}`")]
    UnsupportedCapability {
        /// The provider.
        provider: String,
        /// What it lacks.
        capability: &'static str,
    },
    /// The schema of the answer is none.
    #[error("the output schema is no JSON schema of an object: {0}")]
    BadSchema(String),
    /// The provider began nothing.
    #[error("subagent provider `{provider}` began no run: {cause:#}")]
    Start {
        /// The provider.
        provider: String,
        /// Why.
        cause: Fault,
    },
    /// A listener of `subagent/provider-added` failed; what was registered is taken back.
    #[error("who heard of the change failed: {0}")]
    Refused(#[source] ListenerErrors),
    /// The context cannot register anything any more.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl SubagentError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DuplicateProvider(_) => "DUPLICATE_SUBAGENT_PROVIDER",
            Self::NoProvider { .. } => "NO_PROVIDER",
            Self::UnsupportedCapability { .. } => "UNSUPPORTED_CAPABILITY",
            Self::BadSchema(_) => "BAD_SCHEMA",
            Self::Start { .. } => "SUBAGENT_START",
            Self::Refused(_) => "CHANGE_REFUSED",
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
