//! Agents that nobody drives.

use std::sync::Arc;

use linn_bus::{BoxFuture, Fault, Root};
use linn_services::agent::{
    Agent, AgentDriver, AgentFactory, AgentHandle, AgentStatus, Agents, AgentsError, AgentsPlugin, CreateAgent, Prompt,
    SessionStartSource,
};
use linn_services::model::HookContext;
use linn_services::session::{Sessions, SessionsPlugin};

/// An agent with a session and a scope, that nobody drives: what is sent to it gets no answer. Its session has its id, and
/// `/` for a folder.
///
/// Where the services of sessions and agents are missing they are mounted, and stay.
///
/// # Panics
///
/// When something else drives agents already, or the id is taken.
pub async fn undriven_agent(root: &Root, id: &str) -> AgentHandle {
    if root.get::<dyn Sessions>().is_none() {
        let sessions = root.mount::<SessionsPlugin>(()).expect("the root is active");
        sessions.running().await.expect("the service of sessions starts");
    }
    if root.get::<dyn Agents>().is_none() {
        let agents = root.mount::<AgentsPlugin>(()).expect("the root is active");
        agents.running().await.expect("the service of agents starts");
        let agents = root.get::<dyn Agents>().expect("the service runs");
        agents.install_factory(root, Arc::new(Undriven)).expect("nothing else drives agents");
    }
    let agents = root.get::<dyn Agents>().expect("the service runs");
    let options = CreateAgent { cwd: Some("/".to_owned()), ..CreateAgent::new(id, id) };
    agents.create(root, options).await.expect("the id is free")
}

struct Undriven;

impl AgentFactory for Undriven {
    fn build(&self, _: &Agent, _: SessionStartSource) -> Result<Arc<dyn AgentDriver>, Fault> {
        Ok(Arc::new(Self))
    }
}

impl AgentDriver for Undriven {
    fn send(&self, _: Prompt) -> Result<(), AgentsError> {
        Ok(())
    }
    fn steer(&self, _: Prompt) -> Result<(), AgentsError> {
        Ok(())
    }
    fn inject(&self, _: HookContext) -> Result<(), AgentsError> {
        Ok(())
    }
    fn cancel(&self, _: &str) {}
    fn status(&self) -> AgentStatus {
        AgentStatus::Idle
    }
    fn when_idle(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    fn start(&self) {}
    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
