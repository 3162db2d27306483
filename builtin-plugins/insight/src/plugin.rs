//! The plugin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Demand, Fault, NeedList, Next, Plugin, ServiceError, provider};
use linn_services::agent::Agent;
use linn_services::compaction::Compaction;
use linn_services::events::{LlmStream, SessionDisposed};
use linn_services::ids::SessionId;
use linn_services::llm::{ChunkStream, LlmError};
use linn_services::session::Session;
use linn_services::usage::{ContextBreakdown, SessionStats, Usage};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::breakdown::breakdown;
use crate::tally::Tally;

/// What [`InsightPlugin`] is configured with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InsightConfig {
    /// Tokens, read and written, after which the model of a session is asked no more; 0 is no limit.
    pub max_session_tokens: u64,
}

/// Provides [`Usage`], and keeps sessions within their budget.
#[derive(Debug)]
pub struct InsightPlugin;

linn_bus::plugin!(InsightPlugin);

impl Plugin for InsightPlugin {
    const NAME: &'static str = "insight";
    type Config = InsightConfig;
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Usage>(Demand::Required);
    }

    async fn start(ctx: &Context, config: InsightConfig, (): ()) -> Result<(), Fault> {
        let insight = Arc::new(Insight { ctx: ctx.clone(), tallies: Mutex::default() });
        ctx.on_with(&insight, Insight::forget)?;
        if config.max_session_tokens > 0 {
            let budget = Arc::new(Budget { insight: insight.clone(), tokens: config.max_session_tokens });
            ctx.on_with(&budget, Budget::check)?;
        }
        ctx.provide::<dyn Usage>(Arc::new(Provider(insight)))?;
        Ok(())
    }
}

/// How much sessions may take.
struct Budget {
    insight: Arc<Insight>,
    tokens: u64,
}

impl Budget {
    /// Refuses a request of an agent whose session has taken too much.
    async fn check(&self, call: &LlmStream, next: Next<'_, LlmStream>) -> Result<ChunkStream, Fault> {
        let Some(agent) = &call.agent else { return Ok(next.run().await?) };
        let (spent, budget) = (self.insight.stats(agent.session()).tokens_total, self.tokens);
        if spent < budget {
            return Ok(next.run().await?);
        }
        let why = format!("session token budget exhausted ({spent} >= {budget}); start a new session");
        Err(call.fail(LlmError::new("SESSION_BUDGET", why)))
    }
}

struct Insight {
    ctx: Context,
    /// How far the log of each session was counted.
    tallies: Mutex<HashMap<SessionId, Tally>>,
}

impl Insight {
    fn stats(&self, session: &Session) -> SessionStats {
        if !session.is_live() {
            // Nobody would say when it may be forgotten.
            let mut tally = Tally::default();
            tally.read_on(session);
            return tally.stats(session);
        }
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry(session.id().clone()).or_default();
        tally.read_on(session);
        tally.stats(session)
    }

    fn forget(&self, event: &SessionDisposed) {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner).remove(event.session.id());
    }
}

struct Provider(Arc<Insight>);

#[provider]
impl Usage for Provider {
    fn stats(&self, session: &Session) -> Result<SessionStats, ServiceError> {
        Ok(self.0.stats(session))
    }

    fn breakdown(&self, agent: &Agent) -> Result<ContextBreakdown, ServiceError> {
        let compaction = self.0.ctx.get::<dyn Compaction>();
        let total = compaction.as_ref().and_then(|it| it.estimate(agent).ok());
        let budget = compaction.as_ref().and_then(|it| it.budget(agent).ok()).unwrap_or_default();
        Ok(breakdown(agent, total, budget))
    }
}
