//! The agents that live in a harness.

use std::sync::Arc;

use linn_bus::{
    BusError, Context, Disposing, EffectHandle, Fault, ListenerError, ListenerErrors, ServiceError, service,
};

use crate::agent::{Agent, AgentFactory, AgentOptions, Setup};
use crate::ids::{AgentId, SessionId};
use crate::kept::Kept;
use crate::persistence::StoredSession;
use crate::session::{Record, SessionError};

/// The agents that live in a harness: made here and found here.
///
/// An agent belongs to the context it was made through, and is torn down with it: its loop stops and flushes, then it
/// leaves the registry, then its session leaves the store, then what was registered for it goes.
#[service("agents")]
pub trait Agents {
    /// What `install_factory` is for whoever provides this.
    fn admit_factory(&self, ctx: &Context, factory: Kept<dyn AgentFactory>) -> Result<EffectHandle, AgentsError>;

    /// Makes an agent with a new session, and publishes it when its set-up is done.
    ///
    /// Dropping the future unwinds what was begun; both ids are free again.
    async fn create(&self, ctx: &Context, options: CreateAgent) -> Result<AgentHandle, AgentsError>;

    /// Makes an agent with a session that was stored.
    ///
    /// Dropping the future unwinds what was begun; both ids are free again.
    async fn resume(&self, ctx: &Context, options: ResumeAgent) -> Result<AgentHandle, AgentsError>;

    /// Makes an agent with a session that was read already, as `session-files` does. What was noticed while it was read is
    /// for who read it to tell.
    ///
    /// Dropping the future unwinds what was begun; both ids are free again.
    async fn restore(
        &self,
        ctx: &Context,
        options: ResumeAgent,
        stored: StoredSession,
    ) -> Result<AgentHandle, AgentsError>;

    /// The agent of this id, once it is published.
    fn get(&self, id: &AgentId) -> Result<Option<Agent>, ServiceError>;

    /// All agents, by id.
    fn list(&self) -> Result<Vec<Agent>, ServiceError>;
}

/// A new agent with a new session.
pub struct CreateAgent {
    /// Id of the agent.
    pub agent_id: AgentId,
    /// Id of its session.
    pub session_id: SessionId,
    /// The folder it works in, an absolute path.
    pub cwd: Option<String>,
    /// The session it comes from.
    pub parent_session: Option<SessionId>,
    /// How many records of the seed came from the parent.
    pub seed_length: Option<u64>,
    /// Records the session begins with.
    pub seed: Vec<Arc<Record>>,
    /// Options.
    pub options: AgentOptions,
    /// Set-up.
    pub setup: Option<Setup>,
}

impl CreateAgent {
    /// A new agent without anything else.
    pub fn new(agent_id: impl Into<AgentId>, session_id: impl Into<SessionId>) -> Self {
        Self {
            agent_id: agent_id.into(),
            session_id: session_id.into(),
            cwd: None,
            parent_session: None,
            seed_length: None,
            seed: Vec::new(),
            options: AgentOptions::default(),
            setup: None,
        }
    }
}

/// A new agent with a session that was stored.
pub struct ResumeAgent {
    /// Id of the agent.
    pub agent_id: AgentId,
    /// The stored session.
    pub session_id: SessionId,
    /// Options.
    pub options: AgentOptions,
    /// Set-up.
    pub setup: Option<Setup>,
}

/// An agent and the right to end it.
#[derive(Clone)]
pub struct AgentHandle {
    agent: Agent,
    handle: EffectHandle,
}

impl AgentHandle {
    pub(crate) fn new(agent: Agent, handle: EffectHandle) -> Self {
        Self { agent, handle }
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Ends the agent; it begins at once. Awaiting what it returns waits until the agent is torn down; all calls wait for
    /// the same end.
    ///
    /// Cancel safe: the end goes on without the waiter.
    pub fn dispose(&self) -> Disposing {
        self.handle.dispose()
    }
}

impl std::fmt::Debug for AgentHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AgentHandle").field(&self.agent).finish()
    }
}

/// Why an agent could not be made or used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AgentsError {
    /// The id is taken.
    #[error("agent \"{0}\" is already registered")]
    Exists(AgentId),
    /// Nothing drives agents.
    #[error("no agent factory registered")]
    NoFactory,
    /// Something drives agents already.
    #[error("an agent factory is already registered")]
    FactoryTaken,
    /// The factory failed.
    #[error("the agent factory made nothing for agent \"{id}\": {cause:#}")]
    Factory {
        /// The agent.
        id: AgentId,
        /// Why.
        cause: Fault,
    },
    /// What drives the agent failed at a verb.
    #[error("what drives the agent failed: {cause:#}")]
    Driver {
        /// Why.
        cause: Fault,
    },
    /// A verb was used before the agent was published.
    #[error("cannot {verb} before creation setup completes: agent \"{id}\"")]
    NotPublished {
        /// The agent.
        id: AgentId,
        /// The verb.
        verb: &'static str,
    },
    /// A verb was used after the agent was disposed.
    #[error("cannot {verb}: agent \"{id}\" is disposed")]
    Disposed {
        /// The agent.
        id: AgentId,
        /// The verb.
        verb: &'static str,
    },
    /// The set-up failed.
    #[error("the setup of agent \"{id}\" failed: {cause:#}")]
    Setup {
        /// The agent.
        id: AgentId,
        /// Why.
        cause: Fault,
    },
    /// The owner went while the agent was made.
    #[error("setup aborted: owner disposed during setup")]
    OwnerGone,
    /// A listener of `agent/created` refused it.
    #[error("agent \"{id}\" was refused by who heard of it: {errors}")]
    Refused {
        /// The agent.
        id: AgentId,
        /// Their errors.
        #[source]
        errors: ListenerErrors,
    },
    /// Nothing stores sessions.
    #[error("session \"{0}\" cannot be resumed: no session persistence is there")]
    NoPersistence(SessionId),
    /// What stores sessions could not be looked up.
    #[error("the session persistence could not be looked up: {0:#}")]
    Lookup(#[source] ListenerError),
    /// Context could not be logged.
    #[error("context for agent \"{id}\" was not logged")]
    Inject {
        /// The agent.
        id: AgentId,
        /// Why.
        #[source]
        source: crate::session::AppendError,
    },
    /// The stored session could not be loaded.
    #[error("session \"{id}\" cannot be resumed")]
    Load {
        /// The session.
        id: SessionId,
        /// Why.
        #[source]
        source: crate::persistence::PersistenceError,
    },
    /// The session could not be made.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The context cannot own an agent any more.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl AgentsError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Exists(_) => "AGENT_ALREADY_EXISTS",
            Self::NoFactory => "NO_AGENT_FACTORY",
            Self::FactoryTaken => "AGENT_FACTORY_TAKEN",
            Self::Factory { .. } => "AGENT_FACTORY_FAILED",
            Self::NotPublished { .. } => "AGENT_NOT_PUBLISHED",
            Self::Disposed { .. } => "AGENT_DISPOSED",
            Self::Driver { .. } => "AGENT_DRIVER_FAILED",
            Self::Setup { .. } => "AGENT_SETUP_FAILED",
            Self::OwnerGone => "AGENT_OWNER_GONE",
            Self::Refused { .. } => "AGENT_REFUSED",
            Self::NoPersistence(_) => "NO_PERSISTENCE",
            Self::Lookup(error) => error.code(),
            Self::Inject { source, .. } => source.code(),
            Self::Load { source, .. } => source.code(),
            Self::Session(error) => error.code(),
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
