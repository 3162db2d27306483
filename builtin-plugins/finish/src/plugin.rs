//! The plugin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, Fault, ListenerError, Next, Plugin, Svc};
use linn_services::agent::{Agent, ContinuationDecision};
use linn_services::events::{
    AgentDisposed, AgentReflecting, AgentSummaryRequired, AgentTurnContinuation, ToolsPreExecute,
};
use linn_services::ids::AgentId;
use linn_services::model::{ContentBlock, HookContext, MessageSource};
use linn_services::tools::{PreToolDecision, Tool, ToolExecution, ToolFailure, Tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rounds::{FINISH, MAX_SUMMARIES, Round, lacks_words};

const DESCRIPTION: &str =
    "Ends this turn. Call it alone, when everything that was asked is done and the user was told.";

/// What [`FinishPlugin`] is configured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FinishConfig {
    /// Whether a model that has told the human nothing is asked to.
    pub reflect: bool,
    /// After how many calls of tools in a turn.
    pub min_tool_calls: u64,
}

impl Default for FinishConfig {
    fn default() -> Self {
        Self { reflect: true, min_tool_calls: 1 }
    }
}

/// The tool `finish`, and the last word of a turn.
#[derive(Debug)]
pub struct FinishPlugin;

linn_bus::plugin!(FinishPlugin);

impl Plugin for FinishPlugin {
    const NAME: &'static str = "finish";
    type Config = FinishConfig;
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, config: FinishConfig, tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let closer = Arc::new(Closer { ctx: ctx.clone(), config, turns: Mutex::default() });
        ctx.on_with(&closer, Closer::pre_execute)?;
        ctx.on_with(&closer, Closer::continuation)?;
        ctx.on_with(&closer, Closer::forget)?;
        let tool = Tool::new(FINISH, DESCRIPTION, move |_: Nothing, call| {
            let closer = closer.clone();
            async move { closer.finish(&call) }
        });
        tools.register(ctx, tool.read_only().sequential())?;
        Ok(())
    }
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// What is known of the latest turn of an agent.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    number: u32,
    /// How often its model was asked to say more.
    n_asked: u32,
    /// The model has finished it.
    is_finished: bool,
    /// In how many turns the model was asked to look back.
    n_reflected: u64,
}

struct Closer {
    ctx: Context,
    config: FinishConfig,
    turns: Mutex<HashMap<AgentId, Turn>>,
}

impl Closer {
    fn turns(&self) -> MutexGuard<'_, HashMap<AgentId, Turn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a turn.
    fn with<T>(&self, agent: &Agent, number: u32, change: impl FnOnce(&mut Turn) -> T) -> T {
        let mut turns = self.turns();
        let turn = turns.entry(agent.id().clone()).or_default();
        if turn.number != number {
            *turn = Turn { number, n_reflected: turn.n_reflected, ..Turn::default() };
        }
        change(turn)
    }

    /// What the model is asked before its turn may end; nothing if the human was told, or it was asked often enough.
    fn ask(&self, agent: &Agent, turn: u32) -> Option<Round> {
        if !self.config.reflect || !lacks_words(agent.session(), turn, self.config.min_tool_calls) {
            return None;
        }
        let (round, recurrence) = self.with(agent, turn, |it| {
            let round = Round::after(it.n_asked)?;
            it.n_asked += 1;
            it.n_reflected += u64::from(round == Round::Reflect);
            Some((round, it.n_reflected))
        })?;
        let agent = agent.clone();
        match round {
            Round::Reflect => self.ctx.emit(&AgentReflecting { agent, turn, recurrence }),
            Round::Summarise(attempt) => {
                self.ctx.emit(&AgentSummaryRequired { agent, turn, attempt, max_attempts: MAX_SUMMARIES })
            }
        };
        Some(round)
    }

    fn finish(&self, call: &ToolExecution) -> Result<String, ToolFailure> {
        let turn = call.agent().and_then(|it| Some((it, it.session().turns().open_turn()?)));
        if let Some((agent, turn)) = turn {
            if let Some(round) = self.ask(agent, turn) {
                return Ok(round.text().to_owned());
            }
            self.with(agent, turn, |it| it.is_finished = true);
        }
        Ok("This turn has finished".to_owned())
    }

    fn is_finished(&self, agent: &Agent, turn: u32) -> bool {
        self.turns().get(agent.id()).is_some_and(|it| it.number == turn && it.is_finished)
    }

    /// What stands behind `finish` in an answer does not run.
    async fn pre_execute(
        &self,
        event: &ToolsPreExecute,
        next: Next<'_, ToolsPreExecute>,
    ) -> Result<PreToolDecision, ListenerError> {
        let agent = event.execution.agent();
        let turn = agent.and_then(|it| Some((it, it.session().turns().open_turn()?)));
        match turn {
            Some((agent, turn)) if self.is_finished(agent, turn) => {
                Ok(PreToolDecision::Deny { reason: "the turn has finished, and the call was not run".to_owned() })
            }
            _ => next.run().await,
        }
    }

    async fn continuation(
        &self,
        event: &AgentTurnContinuation,
        next: Next<'_, AgentTurnContinuation>,
    ) -> Result<ContinuationDecision, ListenerError> {
        let decision = next.run().await?;
        // What the human said meanwhile keeps the turn going all the same, and then it is not finished any more.
        if self.with(&event.agent, event.turn, |it| std::mem::take(&mut it.is_finished)) {
            return Ok(ContinuationDecision::Stop);
        }
        if decision != ContinuationDecision::Stop {
            return Ok(decision);
        }
        let Some(round) = self.ask(&event.agent, event.turn) else { return Ok(decision) };
        let content = vec![ContentBlock::text(round.text())];
        let reason = HookContext { content, source: MessageSource::plugin(FinishPlugin::NAME) };
        Ok(ContinuationDecision::Continue { reason: Some(reason) })
    }

    fn forget(&self, event: &AgentDisposed) {
        self.turns().remove(event.agent.id());
    }
}
