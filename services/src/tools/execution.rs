//! One tool call on its way.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::ScopeKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::ids::{CallId, ToolName};
use crate::model::{ContentBlock, HookContext};
use crate::session::ErrorInfo;

/// A call to run.
#[derive(Debug, Clone)]
pub struct ToolExecutionInput {
    /// Id of the call.
    pub call_id: CallId,
    /// The tool.
    pub name: ToolName,
    /// The arguments.
    pub arguments: Value,
    /// Who calls.
    pub agent: Option<Agent>,
    /// The call on whose behalf this one is made.
    pub parent: Option<ToolToken>,
    /// Ends the call; by default nobody does.
    pub signal: CancellationToken,
}

impl ToolExecutionInput {
    /// A call of nobody, that nobody ends.
    pub fn new(call_id: impl Into<CallId>, name: impl Into<ToolName>, arguments: Value) -> Self {
        let (call_id, name) = (call_id.into(), name.into());
        Self { call_id, name, arguments, agent: None, parent: None, signal: CancellationToken::new() }
    }
}

/// The identity of a call that is on its way, given by the registry alone.
#[derive(Debug, Clone)]
pub struct ToolToken(Arc<Issued>);

#[derive(Debug)]
struct Issued {
    by: Arc<Mint>,
}

/// What gives out tokens: one for each registry, known by its place in memory.
#[derive(Debug)]
pub(crate) struct Mint {
    // Without a size it would have no place of its own.
    _place: u8,
}

impl Mint {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { _place: 0 })
    }
}

impl ToolToken {
    pub(crate) fn mint(by: &Arc<Mint>) -> Self {
        Self(Arc::new(Issued { by: by.clone() }))
    }

    /// Whether this registry gave it out.
    pub(crate) fn is_of(&self, mint: &Arc<Mint>) -> bool {
        Arc::ptr_eq(&self.0.by, mint)
    }
}

impl PartialEq for ToolToken {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for ToolToken {}
impl std::hash::Hash for ToolToken {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A call on its way: who calls which tool with what. A handle, cheap to clone.
///
/// Nothing of it changes, but a listener of `tools/execute` may put another signal in place for what runs inside of it.
#[derive(Clone)]
pub struct ToolExecution(Arc<Inner>);

struct Inner {
    token: ToolToken,
    call_id: CallId,
    name: ToolName,
    arguments: Arc<Value>,
    agent: Option<Agent>,
    parent: Option<ToolToken>,
    signal: Mutex<CancellationToken>,
}

impl ToolExecution {
    pub(crate) fn new(token: ToolToken, input: &ToolExecutionInput, arguments: Arc<Value>) -> Self {
        Self(Arc::new(Inner {
            token,
            call_id: input.call_id.clone(),
            name: input.name.clone(),
            arguments,
            agent: input.agent.clone(),
            parent: input.parent.clone(),
            signal: Mutex::new(input.signal.clone()),
        }))
    }

    /// A call that no registry knows, to run the body of a tool by itself, as a test does.
    pub fn detached(input: &ToolExecutionInput) -> Self {
        Self::new(ToolToken::mint(&Mint::new()), input, Arc::new(input.arguments.clone()))
    }

    /// The same call with other arguments.
    pub(crate) fn with_arguments(&self, arguments: Arc<Value>) -> Self {
        Self(Arc::new(Inner {
            token: self.0.token.clone(),
            call_id: self.0.call_id.clone(),
            name: self.0.name.clone(),
            arguments,
            agent: self.0.agent.clone(),
            parent: self.0.parent.clone(),
            signal: Mutex::new(self.signal()),
        }))
    }

    /// Its identity, to name as parent of calls made on its behalf.
    pub fn token(&self) -> &ToolToken {
        &self.0.token
    }

    /// Id of the call.
    pub fn call_id(&self) -> &CallId {
        &self.0.call_id
    }

    /// The tool.
    pub fn name(&self) -> &ToolName {
        &self.0.name
    }

    /// The arguments it runs with, amended if they were.
    pub fn arguments(&self) -> &Arc<Value> {
        &self.0.arguments
    }

    /// Who calls.
    pub fn agent(&self) -> Option<&Agent> {
        self.0.agent.as_ref()
    }

    /// The call on whose behalf it is made.
    pub fn parent(&self) -> Option<&ToolToken> {
        self.0.parent.as_ref()
    }

    /// The scope that hears of it.
    pub fn scope(&self) -> Option<&ScopeKey> {
        self.agent().map(Agent::key)
    }

    /// What ends it.
    pub fn signal(&self) -> CancellationToken {
        self.0.signal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another signal in place and gives the one before; put that back after `next`.
    pub fn replace_signal(&self, signal: CancellationToken) -> CancellationToken {
        std::mem::replace(&mut *self.0.signal.lock().unwrap_or_else(PoisonError::into_inner), signal)
    }
}

/// A call is shown as `{callId, name, arguments, agent?}`.
impl Serialize for ToolExecution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shown<'a> {
            call_id: &'a CallId,
            name: &'a ToolName,
            arguments: &'a Value,
            #[serde(skip_serializing_if = "Option::is_none")]
            agent: Option<&'a Agent>,
        }
        let shown =
            Shown { call_id: self.call_id(), name: self.name(), arguments: self.arguments(), agent: self.agent() };
        shown.serialize(serializer)
    }
}

impl std::fmt::Debug for ToolExecution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolExecution")
            .field("call_id", self.call_id())
            .field("name", self.name())
            .finish_non_exhaustive()
    }
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecutionResult {
    /// Id of the call.
    pub call_id: CallId,
    /// For the model.
    pub content: Vec<ContentBlock>,
    /// Whether it failed.
    pub is_error: bool,
    /// Which error it was, if it has a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// What the model learns beside the results of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<HookContext>,
    /// For front ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

impl ToolExecutionResult {
    /// A result that is an error without a code: `Error: <message>`.
    pub fn failed(call_id: CallId, message: impl std::fmt::Display) -> Self {
        Self::failed_with(call_id, message, None)
    }

    /// The same with the kind of error and its code.
    pub(crate) fn failed_with(call_id: CallId, message: impl std::fmt::Display, error: Option<ErrorInfo>) -> Self {
        Self {
            call_id,
            content: vec![ContentBlock::text(format!("Error: {message}"))],
            is_error: true,
            error,
            additional_context: None,
            meta: None,
        }
    }
}

/// What becomes of the arguments of a call; answer of `tools/amend`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "kebab-case")]
pub enum AmendDecision {
    /// The call goes on with the arguments as they stand.
    Proceed,
    /// The call is refused.
    Refuse {
        /// Why, for the model.
        reason: String,
    },
}

/// Whether a call may run; answer of `tools/pre-execute`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "kebab-case")]
pub enum PreToolDecision {
    /// It may.
    Allow,
    /// It may not.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// A human decides.
    Ask {
        /// Why, for the human.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// Reads an object with exactly the fields of its decision. What the derive makes would take a list as well, and any
/// field beside `allow`.
impl<'de> Deserialize<'de> for PreToolDecision {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(tag = "decision", rename_all = "kebab-case", deny_unknown_fields)]
        enum Written {
            Allow {},
            Deny {
                reason: String,
            },
            Ask {
                #[serde(default)]
                reason: Option<String>,
            },
        }

        let object = serde_json::Map::deserialize(deserializer)?;
        Ok(match Written::deserialize(object).map_err(serde::de::Error::custom)? {
            Written::Allow {} => Self::Allow,
            Written::Deny { reason } => Self::Deny { reason },
            Written::Ask { reason } => Self::Ask { reason },
        })
    }
}

/// What becomes of a result; answer of `tools/post-execute`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum PostToolDecision {
    /// It stands, but for what is given here.
    Accept {
        /// New content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Vec<ContentBlock>>,
        /// New outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// New data for front ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
        /// What the model learns beside the results of the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        additional_context: Option<HookContext>,
    },
    /// The model sees feedback in its place, as an error.
    Block {
        /// For the model.
        feedback: Vec<ContentBlock>,
        /// What the model learns beside the results of the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        additional_context: Option<HookContext>,
    },
}

impl PostToolDecision {
    /// Lets the result stand as it is.
    pub const fn accept() -> Self {
        Self::Accept { content: None, is_error: None, meta: None, additional_context: None }
    }
}
