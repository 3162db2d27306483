//! What the session came to, what runs, and what fills the context.

use std::sync::Arc;

use linn_services::agent::Agent;
use linn_services::compaction::Compaction;
use linn_services::providers::{ProviderUsage, Providers};
use linn_services::session::Fact;
use linn_services::usage::{SessionStats, Usage as UsageService};
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::events::percent;
use crate::run::estimate;
use crate::wire::commands::{Context, Run, RuntimeStatus, Stats, Usage};
use crate::wire::events::{ContextReport, RuntimeReport, StatsReport, UsageReport};

impl Run for Stats {
    async fn run(self, bridge: &Arc<Bridge>) {
        let stats = bridge.session_stats();
        let file = bridge.session_file().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        bridge.say(&StatsReport {
            tokens_in: stats.tokens_in,
            tokens_out: stats.tokens_out,
            total_in: stats.total_in,
            tokens_total: stats.tokens_total,
            cached_tokens: stats.cached_tokens,
            cache_hit_ratio: stats.cache_hit_ratio,
            turns: stats.turns,
            compactions: stats.compactions,
            messages: stats.messages,
            session_file: &file,
        });
    }
}

impl Run for RuntimeStatus {
    async fn run(self, bridge: &Arc<Bridge>) {
        let (n_approvals, n_asks, n_sudos) = bridge.desk.n_waiting();
        let compactions = bridge.session_stats().compactions;
        let state = bridge.state();
        let Some(current) = &state.current else { return };
        let mut resources = Vec::new();
        let mut add = |kind: &str, label: &str, session: &str, run: Option<&str>, cancelled: bool| {
            let mut resource = json!({
                "id": resources.len() + 1, "kind": kind, "label": label, "session_id": session, "cancelled": cancelled,
            });
            if let Some(run) = run {
                resource["run_id"] = run.into();
            }
            resources.push(resource);
        };
        if let Some(run) = &state.run {
            let of_run = Some(&*run.id);
            add("task", "foreground_agent_turn", &run.session_id, of_run, false);
            for (kind, n) in [("approval", n_approvals), ("ask", n_asks), ("sudo", n_sudos)] {
                (0..n).for_each(|_| add(kind, kind, &run.session_id, of_run, false));
            }
        }
        for job in &state.jobs {
            add(job.kind, job.label, &job.session_id, None, job.signal.is_cancelled());
        }
        bridge.say(&RuntimeReport {
            session_id: &current.wire_id,
            run_id: state.run.as_ref().map(|it| &*it.id),
            discarded_stale_results: bridge.sink.n_discarded(),
            compactions,
            last_cancellation: state.last_cancellation.as_ref(),
            resources: &resources,
            pending_approvals: n_approvals,
            pending_asks: n_asks,
            pending_sudos: n_sudos,
        });
    }
}

impl Run for Context {
    async fn run(self, bridge: &Arc<Bridge>) {
        let fields = bridge.agent().map_or_else(|| json!({}), |agent| bridge.context_fields(&agent));
        bridge.say(&ContextReport { fields: &fields });
    }
}

impl Run for Usage {
    async fn run(self, bridge: &Arc<Bridge>) {
        let last = bridge.state().last_model.as_ref().map(|it| it.model.id.clone());
        let model = self.model.or(last).or_else(|| bridge.models().first().map(|it| it.id.clone()));
        let Some(providers) = bridge.service::<dyn Providers>() else {
            let usage = ProviderUsage {
                provider: "default".to_owned(),
                model: model.unwrap_or_default(),
                message: Some("Nothing that is mounted knows of providers and their usage.".to_owned()),
                ..ProviderUsage::default()
            };
            return bridge.say(&UsageReport { usage: &usage });
        };
        bridge.spawn_job("task", "usage", move |bridge, signal| async move {
            let asked = signal.run_until_cancelled(providers.usage(model.as_deref())).await;
            let usage = asked
                .unwrap_or_else(|| Ok(ProviderUsage::default()))
                .unwrap_or_else(|error| ProviderUsage { message: Some(error.to_string()), ..ProviderUsage::default() });
            bridge.say(&UsageReport { usage: &usage });
        });
    }
}

impl Bridge {
    fn session_stats(&self) -> SessionStats {
        let Some(agent) = self.agent() else { return SessionStats::default() };
        let counted = self.service::<dyn UsageService>().and_then(|it| it.stats(agent.session()).ok());
        counted.unwrap_or_else(|| SessionStats {
            tokens_in: self.context_tokens(&agent),
            messages: agent.session().messages().len() as u64,
            compactions: compactions_of(&agent),
            ..SessionStats::default()
        })
    }

    /// Tokens of the context of an agent: as the endpoint counted them last, or by estimate.
    pub(crate) fn context_tokens(&self, agent: &Agent) -> u64 {
        if let Some(counted) = self.state().context_tokens {
            return counted;
        }
        let estimated = self.service::<dyn Compaction>().and_then(|it| it.estimate(agent).ok());
        estimated.unwrap_or_else(|| estimate(agent))
    }

    fn context_fields(&self, agent: &Agent) -> Value {
        let counted = self.service::<dyn UsageService>().and_then(|it| it.breakdown(agent).ok());
        let breakdown = counted.unwrap_or_else(|| linn_services::usage::ContextBreakdown {
            total_tokens: self.context_tokens(agent),
            messages: agent.session().messages().len() as u64,
            budget: self.service::<dyn Compaction>().and_then(|it| it.budget(agent).ok()).unwrap_or_default(),
            ..Default::default()
        });
        let budget = breakdown.budget;
        json!({
            "total_tokens": breakdown.total_tokens,
            "context_window": budget.context_window,
            "pct": percent(breakdown.total_tokens, budget.context_window),
            "digest_threshold_tokens": budget.digest_tokens,
            "compact_threshold_tokens": budget.threshold_tokens,
            "hard_limit_tokens": budget.hard_limit_tokens,
            "response_reserve_tokens": budget.reserve_tokens,
            "safety_margin_tokens": budget.safety_tokens,
            "messages": breakdown.messages,
            "system_tokens": breakdown.system_tokens,
            "by_role": breakdown.by_role,
            "top_consumers": breakdown.top_consumers,
        })
    }
}

/// Compactions since the last reset.
fn compactions_of(agent: &Agent) -> u64 {
    let records = agent.session().records_from(0);
    let since = records.iter().rev().take_while(|it| !matches!(&it.fact, Fact::SessionRewind(it) if it.to == 0));
    since.filter(|it| matches!(it.fact, Fact::CompactSummary(_))).count() as u64
}
