//! What happens before a step whose request comes near the window of the model.

use linn_services::agent::Agent;
use linn_services::compaction::{CompactTrigger, CompactionError};
use linn_services::events::{AgentPreStep, CompactionDigest};
use linn_services::model::{ContentBlock, Role};
use linn_services::session::Fact;

use crate::compactor::{Compactor, Job};
use crate::digest::digest;
use crate::estimate::{Front, Measure, Node};
use crate::region::{Retain, cut};
use crate::repair::answer_open_calls;
use crate::summary::is_summary;

/// A history of so few messages is compacted only where it does not fit.
const FEW_MESSAGES: usize = 4;

/// Fewest tokens that a result is cut to, where nothing else helps.
const LEAST_RESULT_TOKENS: u64 = 64;

impl Compactor {
    /// Makes the next request of an agent fit, if it can be made so; `is_forced` if the endpoint refused the last one.
    pub(crate) async fn relieve(&self, step: &AgentPreStep, is_forced: bool) -> Result<(), CompactionError> {
        let agent = &step.agent;
        let front = Front { system: &step.full_system_prompt, prefix: &step.session_prefix };
        let budget = self.budget_of(agent);
        let measure = self.measure(agent, Some(front));
        if measure.total < budget.digest_tokens && !is_forced {
            return Ok(());
        }
        if let Some(error) = self.never_fits(&measure, budget.hard_limit_tokens) {
            return Err(error);
        }
        answer_open_calls(agent)?;
        let mut measure = self.measure(agent, Some(front));
        if measure.total >= budget.digest_tokens {
            let target = budget.context_window.saturating_mul(self.config.digest_target_percent) / 100;
            let old = self.cut(&measure, budget.context_window, 0)?;
            let limit = self.config.digest_result_tokens;
            let excess = measure.total.saturating_sub(target);
            measure = self.digest(agent, front, measure, old, limit, excess)?;
        }
        let trigger = match (is_forced, step.step) {
            (true, _) => CompactTrigger::ContextLength,
            (false, 1) if self.was_idle(agent) => CompactTrigger::IdleThreshold,
            (false, _) => CompactTrigger::Threshold,
        };
        let job = Job { agent, trigger, instructions: None, signal: &step.signal, front: Some(front) };
        for pass in 0..=self.config.extra_passes {
            let is_pressing = measure.total > budget.hard_limit_tokens || (is_forced && pass == 0);
            let n_messages = measure.nodes.iter().filter(|it| it.message.is_some()).count();
            if !is_pressing && (measure.total < budget.threshold_tokens || n_messages <= FEW_MESSAGES) {
                break;
            }
            let end = self.cut(&measure, budget.context_window, pass)?;
            if end == 0 {
                break;
            }
            match self.compact(job, 0..end).await {
                Ok(_) => measure = self.measure(agent, Some(front)),
                Err(error) => {
                    self.ctx.logger().warn(format_args!("agent `{}`: {error}", agent.id()));
                    break;
                }
            }
        }
        if step.signal.is_cancelled() {
            return Ok(());
        }
        let mut limit = (budget.hard_limit_tokens / 4).max(LEAST_RESULT_TOKENS);
        while measure.total > budget.hard_limit_tokens && limit >= LEAST_RESULT_TOKENS {
            let all = measure.nodes.len();
            let excess = measure.total - budget.hard_limit_tokens;
            measure = self.digest(agent, front, measure, all, limit, excess)?;
            limit /= 2;
        }
        if measure.total > budget.hard_limit_tokens {
            return Err(cannot_shrink(&measure, budget.hard_limit_tokens));
        }
        Ok(())
    }

    /// How many nodes from the first on may go in this pass.
    pub(crate) fn cut(&self, measure: &Measure, window: u64, pass: u32) -> Result<usize, CompactionError> {
        let tokens = self.config.retain_tokens(window).checked_shr(pass).unwrap_or(0);
        let messages = self.config.retain_messages.checked_shr(pass).unwrap_or(0).max(1);
        let end = cut(&measure.nodes, Retain { messages, tokens })?;
        // A summary of nothing but a summary saves nothing.
        Ok(if end == 1 && measure.nodes[0].message.as_deref().is_some_and(is_summary) { 0 } else { end })
    }

    fn digest(
        &self,
        agent: &Agent,
        front: Front<'_>,
        before: Measure,
        n_nodes: usize,
        limit_tokens: u64,
        excess: u64,
    ) -> Result<Measure, CompactionError> {
        let n_results = digest(agent, &before.nodes[..n_nodes], limit_tokens, excess, self.estimator())?;
        if n_results == 0 {
            return Ok(before);
        }
        let after = self.measure(agent, Some(front));
        self.ctx.emit(&CompactionDigest {
            agent: agent.clone(),
            n_results,
            tokens_before: before.total,
            tokens_after: after.total,
            budget: self.budget_of(agent),
        });
        Ok(after)
    }

    /// Why no compaction could help: what stands in front of the history does not fit by itself, or the prompt with it.
    fn never_fits(&self, measure: &Measure, limit: u64) -> Option<CompactionError> {
        let is_prompt = |it: &&Node| {
            let message = it.message.as_deref();
            message.is_some_and(|it| {
                it.role == Role::User && !it.content.iter().any(|it| matches!(it, ContentBlock::ToolResult { .. }))
            })
        };
        let prompt = measure.nodes.last().filter(is_prompt).map_or(0, |it| it.tokens);
        let least = measure.fixed.total() + prompt;
        (least > limit).then(|| cannot_shrink(measure, limit))
    }

    /// Whether nothing was logged for long before this turn.
    fn was_idle(&self, agent: &Agent) -> bool {
        let session = agent.session();
        let start = session.find_last(|it| matches!(it.fact, Fact::TurnStart(_)).then_some((it.seq, it.time_ms)));
        let Some((seq, began)) = start else { return false };
        let before = seq.checked_sub(1).and_then(|it| session.record(it));
        let idle_ms = self.config.idle_minutes.saturating_mul(60_000);
        before.is_some_and(|it| u64::try_from(began.saturating_sub(it.time_ms)).is_ok_and(|it| it >= idle_ms))
    }
}

/// The error that names the largest part of a request.
fn cannot_shrink(measure: &Measure, limit: u64) -> CompactionError {
    let fixed = [
        ("the system prompt".to_owned(), measure.fixed.system),
        ("the list of tools".to_owned(), measure.fixed.tools),
        ("the prefix of the session".to_owned(), measure.fixed.prefix),
    ];
    let messages = measure.nodes.iter().enumerate().filter_map(|(at, node)| {
        let message = node.message.as_deref()?;
        let is_last = at + 1 == measure.nodes.len();
        let of_tool = message.content.iter().find_map(|it| match it {
            ContentBlock::ToolResult { tool_call_id, .. } => Some(tool_call_id),
            _ => None,
        });
        let what = match (message.role, of_tool) {
            (_, Some(id)) => format!("the result of call `{id}`"),
            (Role::User, None) if is_last => "the last message".to_owned(),
            (Role::User, None) => format!("message {} of the user's side", at + 1),
            _ => format!("answer {} of the model", at + 1),
        };
        Some((what, node.tokens))
    });
    let largest = fixed.into_iter().chain(messages).max_by_key(|(_, tokens)| *tokens);
    let (largest, largest_tokens) = largest.unwrap_or_default();
    CompactionError::CannotShrink { tokens: measure.total, limit, largest, largest_tokens }
}
