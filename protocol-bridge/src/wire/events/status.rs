//! Looking at the harness.

use serde_json::Value;

use super::wire_events;

wire_events! {
    StatsReport<'a> = "stats", plain {
        tokens_in: u64,
        tokens_out: u64,
        total_in: u64,
        tokens_total: u64,
        cached_tokens: u64,
        cache_hit_ratio: f64,
        turns: u64,
        compactions: u64,
        messages: u64,
        session_file: &'a str,
    }
    RuntimeReport<'a> = "runtime_status", checked {
        session_id: &'a str,
        run_id: Option<&'a str>,
        discarded_stale_results: u64,
        compactions: u64,
        last_cancellation: Option<&'a Value>,
        resources: &'a [Value],
        pending_approvals: usize,
        pending_asks: usize,
        pending_sudos: usize,
    }
    ContextReport<'a> = "context_breakdown", checked {
        #[serde(flatten)]
        fields: &'a Value,
    }
}
