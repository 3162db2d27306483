//! An agent as others see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use linn_bus::{BoxFuture, Context, Fault, Scope, ScopeKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::AgentsError;
use crate::ids::AgentId;
use crate::model::{ContentBlock, HookContext, MessageSource};
use crate::secrets::secrets_of;
use crate::session::Session;

/// An agent: a session, a scope of its own, and what drives it. A handle, cheap to clone.
///
/// Listeners registered through [`context`](Agent::context) hear of this agent alone.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

struct Inner {
    id: AgentId,
    options: AgentOptions,
    session: Session,
    scope: Scope,
    driving: Mutex<Driving>,
    /// The verbs may be used.
    is_published: AtomicBool,
}

/// What drives an agent; another one when the plugin that drives it was replaced.
#[derive(Default)]
struct Driving {
    driver: Option<Arc<dyn AgentDriver>>,
    /// The agent is torn down: nothing drives it on.
    is_over: bool,
}

impl Agent {
    pub(crate) fn new(id: AgentId, options: AgentOptions, session: Session, scope: Scope) -> Self {
        let (driving, is_published) = (Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Inner { id, options, session, scope, driving, is_published }))
    }

    fn driving(&self) -> MutexGuard<'_, Driving> {
        self.0.driving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the agent what drives it from now on; `false` if it is torn down.
    pub(crate) fn install(&self, driver: Arc<dyn AgentDriver>) -> bool {
        let mut driving = self.driving();
        let is_wanted = !driving.is_over;
        let before = is_wanted.then(|| driving.driver.replace(driver)).flatten();
        drop(driving);
        drop(before);
        is_wanted
    }

    /// Has nothing drive the agent on, and waits until what drives it has stopped.
    pub(crate) async fn end(&self) {
        let driver = {
            let mut driving = self.driving();
            driving.is_over = true;
            driving.driver.clone()
        };
        if let Some(driver) = driver {
            driver.stop().await;
        }
    }

    /// Unlocks the verbs.
    pub(crate) fn publish(&self) {
        self.0.is_published.store(true, Ordering::Release);
    }

    pub(crate) fn driver(&self) -> Option<Arc<dyn AgentDriver>> {
        self.driving().driver.clone()
    }

    /// What a verb goes to.
    fn driver_for(&self, verb: &'static str) -> Result<Arc<dyn AgentDriver>, AgentsError> {
        let driver = self.driver().filter(|_| self.0.is_published.load(Ordering::Acquire));
        let Some(driver) = driver else { return Err(AgentsError::NotPublished { id: self.id().clone(), verb }) };
        if driver.status() == AgentStatus::Disposed {
            return Err(AgentsError::Disposed { id: self.id().clone(), verb });
        }
        Ok(driver)
    }

    /// Id of the agent.
    pub fn id(&self) -> &AgentId {
        &self.0.id
    }

    /// What it was made with.
    pub fn options(&self) -> &AgentOptions {
        &self.0.options
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        &self.0.session
    }

    /// Where tools, sections and listeners for this agent alone are registered; they go with it.
    pub fn context(&self) -> &Context {
        self.0.scope.context()
    }

    /// The key of its scope, which events about it carry.
    pub fn key(&self) -> &ScopeKey {
        self.0.scope.key()
    }

    /// Whether it works, waits or is gone.
    pub fn status(&self) -> AgentStatus {
        self.driver().map_or(AgentStatus::Idle, |it| it.status())
    }

    /// Sends a prompt; it begins a turn now, or after the one that runs. Returns when it is in the inbox.
    pub fn send(&self, prompt: impl Into<Prompt>) -> Result<(), AgentsError> {
        self.driver_for("send")?.send(self.without_secrets(prompt.into()))
    }

    /// Sends a message into the turn that runs: it joins the next step. While idle the same as [`send`](Agent::send).
    pub fn steer(&self, prompt: impl Into<Prompt>) -> Result<(), AgentsError> {
        self.driver_for("steer")?.steer(self.without_secrets(prompt.into()))
    }

    /// Adds context to the conversation without asking for an answer.
    pub fn inject(&self, context: HookContext) -> Result<(), AgentsError> {
        self.driver_for("inject")?.inject(context)
    }

    /// The prompt as everybody may see it.
    fn without_secrets(&self, mut prompt: Prompt) -> Prompt {
        let secrets = secrets_of(self.context());
        if !secrets.is_empty() {
            prompt.content.iter_mut().for_each(|it| secrets.redact_block(it));
        }
        prompt
    }

    /// Ends the turn that runs and forgets what waits. `None` gives the reason `cancelled`. While idle it does nothing.
    pub fn cancel(&self, reason: Option<&str>) -> Result<(), AgentsError> {
        self.driver_for("cancel")?.cancel(reason.unwrap_or("cancelled"));
        Ok(())
    }

    /// Ready when nothing runs and nothing waits, or when the agent is gone.
    ///
    /// Cancel safe.
    pub async fn when_idle(&self) {
        if let Some(driver) = self.driver() {
            driver.when_idle().await;
        }
    }
}

impl Agent {
    /// A handle that does not keep the agent in memory; for its driver, which it keeps itself.
    pub fn downgrade(&self) -> WeakAgent {
        WeakAgent(Arc::downgrade(&self.0))
    }
}

/// A handle on an [`Agent`] that does not keep it in memory.
#[derive(Clone)]
pub struct WeakAgent(Weak<Inner>);

impl WeakAgent {
    /// The agent, if somebody keeps it still.
    pub fn upgrade(&self) -> Option<Agent> {
        self.0.upgrade().map(Agent)
    }
}

impl std::fmt::Debug for WeakAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WeakAgent")
    }
}

/// An agent is shown by its id.
impl Serialize for Agent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id().serialize(serializer)
    }
}

impl PartialEq for Agent {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("id", self.id()).field("status", &self.status()).finish_non_exhaustive()
    }
}

/// What an agent is made with. Plugins may carry options of their own in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentOptions {
    /// The model it asks, if no listener of `agent/request` chooses another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How deep it stands below the agent a human speaks to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_depth: Option<u32>,
    /// Options of plugins.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Whether an agent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// It waits for a prompt.
    Idle,
    /// A turn runs.
    Running,
    /// It is gone, or nothing drives it.
    Disposed,
}

/// A message for an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prompt {
    /// What is said.
    pub content: Vec<ContentBlock>,
    /// Who says it.
    pub source: MessageSource,
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        vec![ContentBlock::text(text)].into()
    }
}
impl From<String> for Prompt {
    fn from(text: String) -> Self {
        vec![ContentBlock::Text { text }].into()
    }
}
impl From<Vec<ContentBlock>> for Prompt {
    fn from(content: Vec<ContentBlock>) -> Self {
        Self { content, source: MessageSource::User }
    }
}

/// Why the session of an agent starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionStartSource {
    /// It is new, or a fork.
    Startup,
    /// It was stored before.
    Resume,
    /// The conversation was cleared.
    Clear,
    /// The conversation was compacted.
    Compact,
}

/// What becomes of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum PromptDecision {
    /// It is admitted.
    Allow {
        /// What is admitted in its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Vec<ContentBlock>>,
        /// What the model learns beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        additional_context: Option<HookContext>,
    },
    /// It is refused.
    Block {
        /// Why, for the human.
        reason: String,
    },
}

impl PromptDecision {
    /// Admits the prompt as it is.
    pub const fn allow() -> Self {
        Self::Allow { content: None, additional_context: None }
    }
}

/// Whether a turn goes on after a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum ContinuationDecision {
    /// The turn ends.
    Stop,
    /// Another step follows.
    Continue {
        /// What the model is told about it, as steering.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<HookContext>,
    },
}

/// A turn ends here, whatever else was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum ContinuationStop {
    /// The turn ends.
    Stop,
}

/// What runs an agent: an inbox, and a loop that turns it into turns. Made by an [`AgentFactory`].
///
/// The verbs come through [`Agent`], which refuses them before the agent was published and after it was disposed.
pub trait AgentDriver: Send + Sync + 'static {
    /// Takes a prompt into the inbox.
    fn send(&self, prompt: Prompt) -> Result<(), AgentsError>;
    /// Takes a message for the turn that runs.
    fn steer(&self, prompt: Prompt) -> Result<(), AgentsError>;
    /// Logs context.
    fn inject(&self, context: HookContext) -> Result<(), AgentsError>;
    /// Ends the turn that runs and empties the inbox.
    fn cancel(&self, reason: &str);
    /// Whether it works.
    fn status(&self) -> AgentStatus;
    /// Ready when it is idle with nothing queued, or has stopped.
    fn when_idle(&self) -> BoxFuture<'static, ()>;
    /// Begins to drive; called once, when the agent is published.
    fn start(&self);
    /// Ends the turn that runs as `disposed` and waits until the loop is over, the last flush included. Also called for an
    /// agent that was never started.
    fn stop(&self) -> BoxFuture<'static, ()>;
    /// The prompts that no turn has begun with, for who drives the agent on; asked after [`stop`](AgentDriver::stop).
    fn leftover(&self) -> Vec<Prompt> {
        Vec::new()
    }
}

/// Makes what drives agents. One is installed in a harness.
pub trait AgentFactory: Send + Sync + 'static {
    /// What shall drive this agent; `source` tells why its session starts.
    fn build(&self, agent: &Agent, source: SessionStartSource) -> Result<Arc<dyn AgentDriver>, Fault>;
}
