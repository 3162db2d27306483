//! The plugin, and the services that a loop uses.

use std::sync::Arc;

use linn_bus::{Context, Fault, Inject, Lookup, Plugin, Service, Svc};
use linn_services::agent::{Agent, AgentDriver, AgentFactory, Agents, SessionStartSource};
use linn_services::compaction::Compaction;
use linn_services::llm::Llm;
use linn_services::prompt::{AssembleContext, SystemPrompt, ToolSource, Variable};
use linn_services::session::Sessions;
use linn_services::tools::Tools;

use crate::LoopConfig;
use crate::driver::{Driver, DriverHandle};
use crate::halt::LoopError;

/// Drives the agents of a harness.
#[derive(Debug)]
pub struct AgentLoopPlugin;

/// What [`AgentLoopPlugin`] needs. All but the agents is looked up where it is used: a service may be replaced while a turn
/// runs, and the turn goes on with the new one.
#[derive(Inject)]
pub struct AgentLoopNeeds {
    agents: Svc<dyn Agents>,
    sessions: Lookup<dyn Sessions>,
    llm: Lookup<dyn Llm>,
    tools: Lookup<dyn Tools>,
    prompt: Lookup<dyn SystemPrompt>,
    compaction: Lookup<dyn Compaction>,
}

impl std::fmt::Debug for AgentLoopNeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentLoopNeeds").finish_non_exhaustive()
    }
}

linn_bus::plugin!(AgentLoopPlugin);

impl Plugin for AgentLoopPlugin {
    const NAME: &'static str = "agent-loop";
    type Config = LoopConfig;
    type Needs = AgentLoopNeeds;

    async fn start(ctx: &Context, config: LoopConfig, needs: AgentLoopNeeds) -> Result<(), Fault> {
        // A plugin of its own, so that another prompt service restarts it and not the loops.
        let parts = ctx.mount_fn("agent-loop prompt", async |ctx: Context, prompt: Svc<dyn SystemPrompt>| {
            prompt_parts(&ctx, &prompt)
        })?;
        parts.settled().await?;
        let agents = needs.agents.clone();
        let seams = Arc::new(Seams { ctx: ctx.clone(), config, needs });
        agents.install_factory(ctx, Arc::new(Loops(seams)))?;
        Ok(())
    }
}

/// What the loop gives to the prompts of agents: the tools they see, and the variables `model` and `cwd`.
fn prompt_parts(ctx: &Context, prompt: &Svc<dyn SystemPrompt>) -> Result<(), Fault> {
    let finder = ctx.clone();
    let tools = move |prompt: &AssembleContext| {
        let tools = finder.get::<dyn Tools>().map(|it| it.schemas(prompt.scope.as_ref()));
        // Without the service there are no tools to call either.
        tools.and_then(Result::ok).unwrap_or_default()
    };
    prompt.tools(ctx, ToolSource::new(tools))?;
    let model = |prompt: &AssembleContext| {
        let agent = prompt.agent.as_ref()?;
        let logged = agent.session().request_header().map(|it| it.config.model.clone());
        logged.or_else(|| agent.options().model.clone())
    };
    prompt.variable(ctx, "model", Variable::new(model))?;
    let cwd = |prompt: &AssembleContext| prompt.agent.as_ref()?.session().header().cwd.clone();
    prompt.variable(ctx, "cwd", Variable::new(cwd))?;
    Ok(())
}

/// What every loop of this plugin uses.
pub(crate) struct Seams {
    pub(crate) ctx: Context,
    pub(crate) config: LoopConfig,
    needs: AgentLoopNeeds,
}

impl Seams {
    pub(crate) async fn sessions(&self) -> Result<Svc<dyn Sessions>, LoopError> {
        found(&self.needs.sessions).await
    }

    pub(crate) async fn llm(&self) -> Result<Svc<dyn Llm>, LoopError> {
        found(&self.needs.llm).await
    }

    pub(crate) async fn tools(&self) -> Result<Svc<dyn Tools>, LoopError> {
        found(&self.needs.tools).await
    }

    pub(crate) async fn prompt(&self) -> Result<Svc<dyn SystemPrompt>, LoopError> {
        found(&self.needs.prompt).await
    }

    /// Makes room in the window of a model, if something does.
    pub(crate) async fn compaction(&self) -> Result<Option<Svc<dyn Compaction>>, LoopError> {
        Ok(self.needs.compaction.get().await?)
    }
}

async fn found<T: Service + ?Sized>(lookup: &Lookup<T>) -> Result<Svc<T>, LoopError> {
    lookup.get().await?.ok_or(LoopError::NoService { service: T::NAME })
}

/// Makes a loop for each agent.
struct Loops(Arc<Seams>);

impl AgentFactory for Loops {
    fn build(&self, agent: &Agent, _: SessionStartSource) -> Result<Arc<dyn AgentDriver>, Fault> {
        Ok(Arc::new(DriverHandle(Arc::new(Driver::new(self.0.clone(), agent)))))
    }
}
