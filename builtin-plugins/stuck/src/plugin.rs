//! The plugin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, Fault, Plugin, Svc};
use linn_services::agent::Agent;
use linn_services::events::{AgentDisposed, AgentStuck, ToolsResult};
use linn_services::ids::AgentId;
use linn_services::model::{ContentBlock, HookContext, MessageSource};
use linn_services::tools::{ToolClass, ToolExecution, Tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::repeats::{Repeats, is_told};

/// What [`StuckPlugin`] is configured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StuckConfig {
    /// Which call of a kind is the first one too many.
    #[schemars(range(min = 2))]
    pub after: u32,
}

impl Default for StuckConfig {
    fn default() -> Self {
        Self { after: 3 }
    }
}

/// Tells a model that it makes the same call over and over.
#[derive(Debug)]
pub struct StuckPlugin;

linn_bus::plugin!(StuckPlugin);

impl Plugin for StuckPlugin {
    const NAME: &'static str = "stuck";
    type Config = StuckConfig;
    type Needs = Svc<dyn Tools>;

    fn validate(config: &StuckConfig) -> Result<(), Fault> {
        if config.after < 2 {
            return Err(Fault::msg(format!("`after` is {}, and has to be 2 or more", config.after)));
        }
        Ok(())
    }

    async fn start(ctx: &Context, config: StuckConfig, tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let watch = Arc::new(Watch { ctx: ctx.clone(), config, tools, agents: Mutex::default() });
        ctx.on_with(&watch, Watch::called)?;
        ctx.on_with(&watch, Watch::forget)?;
        Ok(())
    }
}

struct Watch {
    ctx: Context,
    config: StuckConfig,
    tools: Svc<dyn Tools>,
    agents: Mutex<HashMap<AgentId, Repeats>>,
}

impl Watch {
    fn agents(&self) -> MutexGuard<'_, HashMap<AgentId, Repeats>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn called(&self, event: &ToolsResult) -> Result<(), Fault> {
        let call = &event.execution;
        let Some(agent) = call.agent() else { return Ok(()) };
        let Some(turn) = agent.session().turns().open_turn() else { return Ok(()) };
        let n_calls = {
            let is_look = self.only_looks(call)?;
            let mut agents = self.agents();
            let repeats = agents.entry(agent.id().clone()).or_default();
            if !is_look {
                repeats.changed(turn);
                return Ok(());
            }
            repeats.looked(turn, call.name(), call.arguments())
        };
        if is_told(n_calls, self.config.after) {
            self.tell(agent, turn, call, n_calls)?;
        }
        Ok(())
    }

    /// A tool that does not exist changes nothing either.
    fn only_looks(&self, call: &ToolExecution) -> Result<bool, Fault> {
        let tool = self.tools.get(call.scope(), call.name())?;
        Ok(tool.is_none_or(|it| it.class == ToolClass::ReadOnly))
    }

    fn tell(&self, agent: &Agent, turn: u32, call: &ToolExecution, n_calls: u32) -> Result<(), Fault> {
        let tool = call.name().clone();
        let message = format!(
            "`{tool}` was called {n_calls} times with the same arguments, and nothing was changed in between: its result \
             is the same. Use what it told, or try something else."
        );
        let content = vec![ContentBlock::text(&message)];
        self.ctx.emit(&AgentStuck { agent: agent.clone(), turn, tool, n_calls, message });
        agent.inject(HookContext { content, source: MessageSource::plugin(StuckPlugin::NAME) })?;
        Ok(())
    }

    fn forget(&self, event: &AgentDisposed) {
        self.agents().remove(event.agent.id());
    }
}
