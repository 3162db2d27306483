//! Agents that nobody drives.

use std::sync::Arc;

use linn_bus::{BoxFuture, Context, Fault, Root, Svc};
use linn_services::agent::{
    Agent, AgentDriver, AgentFactory, AgentHandle, AgentStatus, Agents, AgentsError, AgentsPlugin, CreateAgent, Prompt,
    SessionStartSource,
};
use linn_services::model::HookContext;
use linn_services::session::{Sessions, SessionsPlugin};

/// The service of agents, that nobody drives: what is sent to one gets no answer.
///
/// Where the services of sessions and agents are missing they are mounted, and stay.
///
/// # Panics
///
/// When something else drives agents already.
pub async fn undriven_agents(ctx: &Context) -> Svc<dyn Agents> {
    if ctx.get::<dyn Sessions>().is_none() {
        let sessions = ctx.mount::<SessionsPlugin>(()).expect("the context is active");
        sessions.running().await.expect("the service of sessions starts");
    }
    if ctx.get::<dyn Agents>().is_none() {
        let agents = ctx.mount::<AgentsPlugin>(()).expect("the context is active");
        agents.running().await.expect("the service of agents starts");
        let agents = ctx.get::<dyn Agents>().expect("the service runs");
        agents.install_factory(ctx, Arc::new(Undriven)).expect("nothing else drives agents");
    }
    ctx.get::<dyn Agents>().expect("the service runs")
}

/// An agent of [`undriven_agents`] with a session and a scope. Its session has its id, and `/` for a folder.
///
/// # Panics
///
/// As [`undriven_agents`], and when the id is taken.
pub async fn undriven_agent(root: &Root, id: &str) -> AgentHandle {
    let options = CreateAgent { cwd: Some("/".to_owned()), ..CreateAgent::new(id, id) };
    undriven_agents(root).await.create(root, options).await.expect("the id is free")
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
