//! Agents: whoever lives in a session and drives it.

mod birth;
mod provider;
mod registry;
mod request;
mod types;

pub use provider::{AgentsNeeds, AgentsPlugin};
pub use registry::{AgentHandle, Agents, AgentsError, CreateAgent, ResumeAgent, Setup, SetupFuture};
pub use request::{build_request, paired, rebuild_request, with_own_ids};
pub use types::{
    Agent, AgentDriver, AgentFactory, AgentOptions, AgentStatus, ContinuationDecision, ContinuationStop, Prompt,
    PromptDecision, SessionStartSource, WeakAgent,
};
