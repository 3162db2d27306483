//! The plugin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, ServiceError, provider};
use linn_services::agent::Agent;
use linn_services::compaction::Compaction;
use linn_services::events::SessionDisposed;
use linn_services::ids::SessionId;
use linn_services::session::Session;
use linn_services::usage::{ContextBreakdown, SessionStats, Usage};

use crate::breakdown::breakdown;
use crate::tally::Tally;

/// Provides [`Usage`].
#[derive(Debug)]
pub struct InsightPlugin;

linn_bus::plugin!(InsightPlugin);

impl Plugin for InsightPlugin {
    const NAME: &'static str = "insight";
    type Config = ();
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Usage>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        let insight = Arc::new(Insight { ctx: ctx.clone(), tallies: Mutex::default() });
        ctx.on_with(&insight, Insight::forget)?;
        ctx.provide::<dyn Usage>(Arc::new(Provider(insight)))?;
        Ok(())
    }
}

struct Insight {
    ctx: Context,
    /// How far the log of each session was counted.
    tallies: Mutex<HashMap<SessionId, Tally>>,
}

impl Insight {
    fn forget(&self, event: &SessionDisposed) {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner).remove(event.session.id());
    }
}

struct Provider(Arc<Insight>);

#[provider]
impl Usage for Provider {
    fn stats(&self, session: &Session) -> Result<SessionStats, ServiceError> {
        if !session.is_live() {
            // Nobody would say when it may be forgotten.
            let mut tally = Tally::default();
            tally.read_on(session);
            return Ok(tally.stats(session));
        }
        let mut tallies = self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.entry(session.id().clone()).or_default();
        tally.read_on(session);
        Ok(tally.stats(session))
    }

    fn breakdown(&self, agent: &Agent) -> Result<ContextBreakdown, ServiceError> {
        let compaction = self.0.ctx.get::<dyn Compaction>();
        let total = compaction.as_ref().and_then(|it| it.estimate(agent).ok());
        let budget = compaction.as_ref().and_then(|it| it.budget(agent).ok()).unwrap_or_default();
        Ok(breakdown(agent, total, budget))
    }
}
