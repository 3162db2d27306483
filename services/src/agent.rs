//! Agents: whoever lives in a session and drives it.

mod birth;
mod provider;
mod registry;
mod request;
mod types;

pub use crate::kept::Setup;
pub use provider::{AgentsNeeds, AgentsPlugin};
pub use registry::{AgentHandle, Agents, AgentsError, CreateAgent, ResumeAgent};
pub use request::{build_request, paired, rebuild_request, with_own_ids};
pub use types::{
    Agent, AgentDriver, AgentFactory, AgentOptions, AgentStatus, ContinuationDecision, ContinuationStop, Prompt,
    PromptDecision, SessionStartSource, WeakAgent,
};
