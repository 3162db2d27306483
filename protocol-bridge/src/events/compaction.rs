//! How the history is made smaller.

use linn_services::agent::Agent;
use linn_services::compaction::{CompactTrigger, Compaction, ContextBudget};
use linn_services::events::{CompactionDigest, CompactionEnd, CompactionStart};

use crate::bridge::{Bridge, State};
use crate::sink::Origin;
use crate::wire::events::{Compacted, Compacting, CompactingLimits, Digested, Info};

fn trigger_name(trigger: CompactTrigger) -> &'static str {
    match trigger {
        CompactTrigger::Manual => "manual",
        CompactTrigger::IdleThreshold => "idle_threshold",
        CompactTrigger::ContextLength => "provider_context_length",
        _ => "threshold",
    }
}

/// How full a window is, in percent.
pub(crate) fn percent(tokens: u64, window: u64) -> u64 {
    (tokens * 100).checked_div(window).unwrap_or(0)
}

/// Who is told: the run, but for what the human asked for.
fn origin_of<'a>(state: &'a State, agent: &Agent, trigger: CompactTrigger) -> Option<Origin<'a>> {
    if state.agent() != Some(agent) {
        return None;
    }
    match (&state.run, trigger) {
        (_, CompactTrigger::Manual) => Some(Origin::Loop),
        (run, _) => run.as_ref().map(|it| Origin::Run(&it.id)),
    }
}

impl Bridge {
    pub(crate) fn compaction_began(&self, event: &CompactionStart) {
        let state = self.state();
        let Some(origin) = origin_of(&state, &event.agent, event.trigger) else { return };
        let budget = event.budget;
        // Where the endpoint found the request too long the limits have proved wrong.
        let limits = (event.trigger != CompactTrigger::ContextLength).then(|| CompactingLimits {
            context_window: budget.context_window,
            threshold_tokens: budget.threshold_tokens,
            hard_limit_tokens: budget.hard_limit_tokens,
            response_reserve_tokens: budget.reserve_tokens,
            safety_margin_tokens: budget.safety_tokens,
            utilization_pct: percent(event.tokens, budget.context_window),
        });
        let trigger = trigger_name(event.trigger);
        self.sink.emit(origin, &Compacting { before_tokens: event.tokens, trigger, limits });
    }

    pub(crate) fn compaction_ended(&self, event: &CompactionEnd) {
        let mut state = self.state();
        let Some(origin) = origin_of(&state, &event.agent, event.trigger) else { return };
        match &event.outcome {
            Ok(done) => {
                let (before, after) = (done.tokens_before, done.tokens_after);
                self.sink.emit(origin, &compacted(before, after, done.summary.chars().count(), event.budget));
                state.context_tokens = Some(after);
            }
            // What the human asked for is answered by the command.
            Err(_) if event.trigger == CompactTrigger::Manual => {}
            Err(failed) => {
                let message = format!("the history was not compacted: {}", failed.message);
                self.sink.emit(origin, &Info { message: &message });
                drop(state);
                self.tell_uncompacted(&event.agent, event.budget, event.trigger);
            }
        }
    }

    /// Tells that a compaction is over and nothing changed: who waits for its end gets it.
    pub(crate) fn tell_uncompacted(&self, agent: &Agent, budget: ContextBudget, trigger: CompactTrigger) {
        let tokens = self.service::<dyn Compaction>().and_then(|it| it.estimate(agent).ok());
        let state = self.state();
        let tokens = tokens.or(state.context_tokens).unwrap_or(0);
        let Some(origin) = origin_of(&state, agent, trigger) else { return };
        self.sink.emit(origin, &compacted(tokens, tokens, 0, budget));
    }

    pub(crate) fn digested(&self, event: &CompactionDigest) {
        let state = self.state();
        let Some(origin) = origin_of(&state, &event.agent, CompactTrigger::Threshold) else { return };
        self.sink.emit(
            origin,
            &Digested {
                results: event.n_results,
                before_tokens: event.tokens_before,
                after_tokens: event.tokens_after,
                trigger: "pressure",
                context_window: event.budget.context_window,
                threshold_tokens: event.budget.digest_tokens,
                hard_limit_tokens: event.budget.hard_limit_tokens,
                utilization_pct: percent(event.tokens_before, event.budget.context_window),
            },
        );
    }
}

fn compacted(before_tokens: u64, after_tokens: u64, summary_chars: usize, budget: ContextBudget) -> Compacted {
    Compacted {
        before_tokens,
        after_tokens,
        summary_chars,
        context_window: budget.context_window,
        threshold_tokens: budget.threshold_tokens,
        hard_limit_tokens: budget.hard_limit_tokens,
        within_limit: after_tokens <= budget.hard_limit_tokens,
    }
}
