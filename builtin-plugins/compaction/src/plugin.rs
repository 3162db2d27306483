//! The plugin: the provider of `compaction`, and its listeners.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, Demand, Fault, Inject, Lookup, NeedList, Plugin, Svc, provider};
use linn_services::agent::Agent;
use linn_services::compaction::{
    CompactRequest, CompactTrigger, Compacted, Compaction, CompactionError, ContextBudget,
};
use linn_services::events::{AgentPreStep, SessionEvent, SettingsChanged};
use linn_services::ids::SessionId;
use linn_services::llm::{CONTEXT_LENGTH, Llm};
use linn_services::session::{Fact, Sessions, TurnEndReason};
use tokio_util::sync::CancellationToken;

use crate::compactor::{Compactor, Job};
use crate::config::CompactionConfig;
use crate::region::{Retain, cut};
use crate::repair::answer_open_calls;

/// Provides `compaction`, and makes room before each step.
#[derive(Debug)]
pub struct CompactionPlugin;

/// What [`CompactionPlugin`] needs.
#[derive(Inject)]
pub struct Needs {
    llm: Svc<dyn Llm>,
    sessions: Lookup<dyn Sessions>,
}

impl std::fmt::Debug for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Needs")
    }
}

linn_bus::plugin!(CompactionPlugin);

impl Plugin for CompactionPlugin {
    const NAME: &'static str = "compaction";
    type Config = CompactionConfig;
    type Needs = Needs;

    fn validate(config: &CompactionConfig) -> Result<(), Fault> {
        config.check()
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Compaction>(Demand::Required);
    }

    async fn start(ctx: &Context, config: CompactionConfig, needs: Needs) -> Result<(), Fault> {
        let compactor = Compactor::new(ctx.clone(), needs.llm, needs.sessions, config);
        let is_auto = AtomicBool::new(compactor.config.auto);
        let service = Arc::new(Service { compactor, is_auto, waiting: Mutex::default(), refused: Mutex::default() });
        ctx.on_with(&service, Service::setting_changed)?;
        ctx.on_with(&service, Service::pre_step)?;
        ctx.on_with(&service, Service::logged)?;
        ctx.provide::<dyn Compaction>(Arc::new(Provider(service)))?;
        Ok(())
    }
}

struct Service {
    compactor: Compactor,
    /// Whether histories are made smaller by themselves: as configured, until somebody sets it anew.
    is_auto: AtomicBool,
    /// Who asked for a compaction while a turn ran: told when it may be made.
    waiting: Mutex<HashMap<SessionId, Vec<CancellationToken>>>,
    /// Sessions whose last turn failed because a request was too long.
    refused: Mutex<HashSet<SessionId>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    fn setting_changed(&self, change: &SettingsChanged) {
        if change.name == "context.auto_compact"
            && let Some(is_auto) = change.value.as_bool()
        {
            self.is_auto.store(is_auto, Ordering::Relaxed);
        }
    }

    async fn pre_step(&self, step: &AgentPreStep) -> Result<(), Fault> {
        let id = step.agent.session().id();
        let is_forced = lock(&self.refused).remove(id);
        let coded = |error: CompactionError| Fault::msg(&error).with_code(error.code());
        if self.is_auto.load(Ordering::Relaxed) {
            self.compactor.relieve(step, is_forced).await.map_err(coded)?;
        }
        Ok(())
    }

    fn logged(&self, event: &SessionEvent) {
        let Fact::TurnEnd(end) = &event.record.fact else { return };
        let id = event.session.id();
        if matches!(&end.reason, TurnEndReason::Error { code: Some(code), .. } if code == CONTEXT_LENGTH) {
            lock(&self.refused).insert(id.clone());
        }
        for waiting in lock(&self.waiting).remove(id).into_iter().flatten() {
            waiting.cancel();
        }
    }

    /// Ready when no turn of the agent is open.
    async fn turn_over(&self, agent: &Agent) {
        loop {
            let told = CancellationToken::new();
            lock(&self.waiting).entry(agent.session().id().clone()).or_default().push(told.clone());
            if !agent.session().turns().is_open {
                return;
            }
            told.cancelled().await;
        }
    }

    async fn compact(&self, request: &CompactRequest) -> Result<Option<Compacted>, CompactionError> {
        let agent = &request.agent;
        if request.trigger == CompactTrigger::Manual {
            self.turn_over(agent).await;
        }
        if request.trigger != CompactTrigger::Manual && !self.is_auto.load(Ordering::Relaxed) {
            return Err(CompactionError::Off);
        }
        if agent.session().turns().open_step.is_some() {
            return Err(CompactionError::Region("a step is open"));
        }
        if agent.session().turns().is_open {
            answer_open_calls(agent)?;
        }
        let measure = self.compactor.measure(agent, None);
        let window = self.compactor.budget_of(agent).context_window;
        let end = match request.trigger {
            // A human who asks means it, and an endpoint that refuses has a smaller window than was believed: half of the
            // messages may stay, and as many tokens.
            CompactTrigger::Manual | CompactTrigger::ContextLength => {
                let n_messages = measure.nodes.iter().filter(|it| it.message.is_some()).count();
                if n_messages <= 2 {
                    return Ok(None);
                }
                let all = measure.nodes.iter().map(|it| it.tokens).sum::<u64>();
                let config = &self.compactor.config;
                let tokens = config.retain_tokens(window).min(all / 2);
                cut(&measure.nodes, Retain { messages: config.retain_messages.min(n_messages / 2), tokens })?
            }
            _ => self.compactor.cut(&measure, window, 0)?,
        };
        if end == 0 {
            return Ok(None);
        }
        let CompactRequest { agent, trigger, instructions, signal } = request;
        let job = Job { agent, trigger: *trigger, instructions: instructions.as_deref(), signal, front: None };
        self.compactor.compact(job, 0..end).await.map(Some)
    }
}

struct Provider(Arc<Service>);

#[provider]
impl Compaction for Provider {
    async fn compact(&self, request: CompactRequest) -> Result<Option<Compacted>, CompactionError> {
        let compacting = self.0.compact(&request);
        match request.signal.run_until_cancelled(compacting).await {
            Some(outcome) => outcome,
            None => Err(CompactionError::Summary("the compaction was aborted".to_owned())),
        }
    }

    fn estimate(&self, agent: &Agent) -> Result<u64, CompactionError> {
        Ok(self.0.compactor.measure(agent, None).total)
    }

    fn budget(&self, agent: &Agent) -> Result<ContextBudget, CompactionError> {
        Ok(self.0.compactor.budget_of(agent))
    }
}
