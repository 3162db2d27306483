//! One compaction: a part of the history gives way to a summary.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Lookup, Svc};
use linn_services::agent::Agent;
use linn_services::compaction::{CompactTrigger, Compacted, CompactionError, ContextBudget, TokenEstimator};
use linn_services::events::{CompactionEnd, CompactionFailed, CompactionStart};
use linn_services::ids::SessionId;
use linn_services::llm::Llm;
use linn_services::model::MessageSource;
use linn_services::providers::Providers;
use linn_services::session::{
    AppendError, CompactEnd, CompactStart, CompactSummary, ErrorInfo, Fact, NodeRange, Record, Sessions, SurfaceOp,
    TurnEnd, TurnEndReason, TurnStart, TurnTrigger, UserMessage,
};
use tokio_util::sync::CancellationToken;

use crate::config::CompactionConfig;
use crate::estimate::{Front, Measure};
use crate::region::balanced;
use crate::repair::answer_open_calls;
use crate::summary::{Asking, Summary};

/// Who is named as the source of what a compaction logs.
pub(crate) const SOURCE: &str = "compact";

/// What compactions are made with.
pub(crate) struct Compactor {
    pub(crate) ctx: Context,
    pub(crate) llm: Svc<dyn Llm>,
    pub(crate) sessions: Lookup<dyn Sessions>,
    pub(crate) config: CompactionConfig,
    running: Mutex<HashSet<SessionId>>,
}

/// A compaction to be made.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) trigger: CompactTrigger,
    pub(crate) instructions: Option<&'a str>,
    pub(crate) signal: &'a CancellationToken,
    pub(crate) front: Option<Front<'a>>,
}

/// Where a compaction is logged.
#[derive(Clone, Copy)]
enum Place {
    /// In the turn that is open.
    InTurn(u32),
    /// In a turn of its own, at once when everything is known.
    OwnTurn,
}

/// The seq of what was appended. That listeners failed is logged; the record is there.
pub(crate) fn logged(agent: &Agent, appended: Result<Arc<Record>, AppendError>) -> Result<u64, AppendError> {
    match appended {
        Ok(record) => Ok(record.seq),
        Err(AppendError::Listeners { seq, errors }) => {
            agent.context().logger().error(format_args!("record {seq} of a compaction: {errors}"));
            Ok(seq)
        }
        Err(error) => Err(error),
    }
}

/// Holds the place of the one compaction of a session.
struct Running<'a> {
    compactor: &'a Compactor,
    session: SessionId,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.compactor.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}

/// Closes a compaction that began in a turn, also when its future is dropped.
struct Closing<'a> {
    agent: &'a Agent,
    turn: u32,
    error: Option<String>,
    is_closed: bool,
}

impl Closing<'_> {
    fn close(mut self) -> Result<(), AppendError> {
        self.is_closed = true;
        self.append(None)
    }

    /// Logs the end, unless the turn is over and everything in it with it.
    fn append(&mut self, default: Option<&str>) -> Result<(), AppendError> {
        let session = self.agent.session();
        if session.turns().open_turn() != Some(self.turn) {
            return Ok(());
        }
        let error = self.error.take().or_else(|| default.map(str::to_owned));
        logged(self.agent, session.append(CompactEnd { turn: self.turn, error })).map(drop)
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        if let Err(error) = self.append(Some("the compaction was dropped")) {
            self.agent.context().logger().error(format_args!("the end of a compaction: {error}"));
        }
    }
}

impl Compactor {
    pub(crate) fn new(
        ctx: Context,
        llm: Svc<dyn Llm>,
        sessions: Lookup<dyn Sessions>,
        config: CompactionConfig,
    ) -> Self {
        Self { ctx, llm, sessions, config, running: Mutex::default() }
    }

    pub(crate) fn estimator(&self) -> TokenEstimator {
        TokenEstimator { chars_per_token: self.config.chars_per_token }
    }

    /// The model that an agent asks.
    pub(crate) fn model_of(agent: &Agent) -> String {
        let header = agent.session().request_header();
        let asked = header.map(|it| it.config.model.clone()).filter(|it| !it.is_empty());
        asked.or_else(|| agent.options().model.clone()).unwrap_or_default()
    }

    pub(crate) fn budget_of(&self, agent: &Agent) -> ContextBudget {
        self.budget_for(&Self::model_of(agent))
    }

    /// How far the window of a model may be filled: the one that is set, else the one its provider tells of.
    fn budget_for(&self, model: &str) -> ContextBudget {
        let told = || {
            let providers = self.ctx.get::<dyn Providers>()?;
            Some(providers.route(model, None).ok()??.context_window).filter(|it| *it > 0)
        };
        let window = self.config.own_window(model).or_else(told);
        self.config.budget(window.unwrap_or(self.config.context_window))
    }

    pub(crate) fn measure(&self, agent: &Agent, front: Option<Front<'_>>) -> Measure {
        Measure::of(agent, front, self.estimator())
    }

    /// Has a summary take the place of these nodes of the surface, and tells of it.
    pub(crate) async fn compact(&self, job: Job<'_>, region: Range<usize>) -> Result<Compacted, CompactionError> {
        let before = self.measure(job.agent, job.front);
        let (place, _running) = self.check(job.agent, &before, &region)?;
        let (agent, trigger, budget) = (job.agent.clone(), job.trigger, self.budget_of(job.agent));
        self.ctx.emit(&CompactionStart { agent: agent.clone(), trigger, tokens: before.total, budget });
        let telling = Telling { compactor: self, agent: &agent, trigger, budget, is_told: false };
        let outcome = match place {
            Place::InTurn(turn) => self.compact_in_turn(job, &before, region, turn).await,
            Place::OwnTurn => self.compact_alone(job, &before, region).await,
        };
        let outcome = outcome.map(|summary| Compacted {
            summary: summary.text,
            facts: summary.facts,
            tokens_before: before.total,
            tokens_after: self.measure(job.agent, job.front).total,
        });
        telling.tell(&outcome);
        outcome
    }

    /// Whether these nodes can be replaced now, and where that is logged.
    fn check<'a>(
        &'a self,
        agent: &Agent,
        measure: &Measure,
        region: &Range<usize>,
    ) -> Result<(Place, Running<'a>), CompactionError> {
        let session = agent.session();
        let turns = session.turns();
        if turns.open_step.is_some() {
            return Err(CompactionError::Region("a step is open"));
        }
        let place = match turns.open_turn() {
            Some(turn) => Place::InTurn(turn),
            None => Place::OwnTurn,
        };
        let unmatched = session.find_last(|it| match &it.fact {
            Fact::CompactStart(_) => Some(true),
            Fact::CompactEnd(_) | Fact::TurnStart(_) => Some(false),
            _ => None,
        });
        let is_first = self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(session.id().clone());
        if !is_first {
            return Err(CompactionError::InProgress);
        }
        let running = Running { compactor: self, session: session.id().clone() };
        if matches!(place, Place::InTurn(_)) && unmatched == Some(true) {
            return Err(CompactionError::InProgress);
        }
        if region.is_empty() || region.end > measure.nodes.len() {
            return Err(CompactionError::Region("there is nothing there"));
        }
        let balanced = balanced(&measure.nodes)?;
        if !balanced[region.start] || !balanced[region.end] {
            return Err(CompactionError::Region("it would part a call from its result"));
        }
        Ok((place, running))
    }

    async fn compact_in_turn(
        &self,
        job: Job<'_>,
        before: &Measure,
        region: Range<usize>,
        turn: u32,
    ) -> Result<Summary, CompactionError> {
        let start = logged(job.agent, job.agent.session().append(CompactStart { turn }))?;
        let mut closing = Closing { agent: job.agent, turn, error: None, is_closed: false };
        let summary = self.summary(job, before, &region).await;
        let replaced = summary.and_then(|summary| {
            if job.agent.session().turns().open_turn() != Some(turn) || job.agent.session().turns().open_step.is_some()
            {
                return Err(CompactionError::Region("the turn went on meanwhile"));
            }
            self.replace(job.agent, before, &region, &summary, start)?;
            Ok(summary)
        });
        if let Err(error) = &replaced {
            closing.error = Some(error.to_string());
        }
        closing.close()?;
        replaced
    }

    /// The summary comes first, and everything is logged in one go: until then another turn may begin at any time.
    async fn compact_alone(
        &self,
        job: Job<'_>,
        before: &Measure,
        region: Range<usize>,
    ) -> Result<Summary, CompactionError> {
        let (agent, session) = (job.agent, job.agent.session());
        let summary = self.summary(job, before, &region).await?;
        let turns = session.turns();
        if turns.is_open {
            return Err(CompactionError::Region("a turn began meanwhile"));
        }
        let turn = turns.last_turn + 1;
        let trigger = TurnTrigger::Injection { source: MessageSource::plugin(SOURCE) };
        logged(agent, session.append(TurnStart { turn, trigger }))?;
        let start = logged(agent, session.append(CompactStart { turn }));
        let replaced = start
            .map_err(CompactionError::from)
            .and_then(|start| self.replace(agent, before, &region, &summary, start));
        let error = replaced.as_ref().err().map(ToString::to_string);
        logged(agent, session.append(CompactEnd { turn, error }))?;
        let answered = answer_open_calls(agent);
        logged(agent, session.append(TurnEnd { turn, reason: TurnEndReason::Completed }))?;
        replaced.and(answered)?;
        if let Ok(sessions) = self.sessions.get().await
            && let Some(sessions) = sessions
            && let Err(error) = sessions.flush(session).await
        {
            // The log has it; whoever keeps sessions tries again with the next flush.
            self.ctx.logger().error(format_args!("{error}"));
        }
        Ok(summary)
    }

    /// A summary of these nodes that is smaller than they are.
    async fn summary(&self, job: Job<'_>, before: &Measure, region: &Range<usize>) -> Result<Summary, CompactionError> {
        let model = self.config.model.clone().unwrap_or_else(|| Self::model_of(job.agent));
        let asking = Asking {
            llm: &self.llm,
            config: &self.config,
            agent: job.agent,
            model: &model,
            budget: self.budget_for(&model),
            instructions: job.instructions,
            signal: job.signal,
        };
        let nodes = &before.nodes[region.clone()];
        let summary = asking.summary(nodes).await?;
        let shadowed_tokens = nodes.iter().map(|it| it.tokens).sum();
        let summary_tokens = self.estimator().message(&linn_services::model::Message::user(summary.framed()));
        if summary_tokens >= shadowed_tokens {
            return Err(CompactionError::NotSmaller { summary_tokens, shadowed_tokens });
        }
        Ok(summary)
    }

    /// Puts the summary in the place of the nodes, if they are there still.
    fn replace(
        &self,
        agent: &Agent,
        before: &Measure,
        region: &Range<usize>,
        summary: &Summary,
        start: u64,
    ) -> Result<(), CompactionError> {
        let session = agent.session();
        let shadowed: Vec<u64> = before.nodes[region.clone()].iter().map(|it| it.seq).collect();
        if session.surface().get(region.clone()) != Some(&shadowed[..]) {
            return Err(CompactionError::Region("the history changed meanwhile"));
        }
        let (Some(first), Some(last)) = (shadowed.first().copied(), shadowed.last().copied()) else {
            return Err(CompactionError::Region("there is nothing there"));
        };
        let fact = CompactSummary {
            summary: summary.text.clone(),
            shadowed_range: NodeRange { start: first, end: last },
            shadowed_seqs: shadowed.clone(),
            shadowed_token_count: before.nodes[region.clone()].iter().map(|it| it.tokens).sum(),
            model: summary.model.clone(),
            max_tokens: Some(summary.max_tokens),
        };
        let written = logged(agent, session.append(fact))?;
        let message = UserMessage { content: summary.framed(), source: MessageSource::plugin(SOURCE) };
        let sources = [start, written].into_iter().chain(shadowed).collect();
        let op = SurfaceOp::Replace { start: first, end: last };
        logged(agent, session.append_to_surface(message, op, Some(sources)))?;
        Ok(())
    }
}

/// Tells of the end of a compaction, also when its future is dropped.
struct Telling<'a> {
    compactor: &'a Compactor,
    agent: &'a Agent,
    trigger: CompactTrigger,
    budget: ContextBudget,
    is_told: bool,
}

impl Telling<'_> {
    fn tell(mut self, outcome: &Result<Compacted, CompactionError>) {
        self.is_told = true;
        self.emit(outcome.clone().map_err(|error| failed(error.to_string(), error.code())));
    }

    fn emit(&self, outcome: Result<Compacted, CompactionFailed>) {
        let (agent, trigger, budget) = (self.agent.clone(), self.trigger, self.budget);
        self.compactor.ctx.emit(&CompactionEnd { agent, trigger, outcome, budget });
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.emit(Err(failed("the compaction was dropped".to_owned(), "ABORTED")));
        }
    }
}

fn failed(message: String, code: &str) -> CompactionFailed {
    CompactionFailed { message, error: ErrorInfo { name: "CompactionError".to_owned(), code: code.to_owned() } }
}
