//! Events of a turn: text, its end, and what it cost.

use serde_json::Value;

use super::wire_events;

wire_events! {
    Delta<'a> = "delta", plain { text: &'a str, }
    Thinking<'a> = "thinking", plain { text: &'a str, }
    Done = "done", plain {}
    Aborted = "aborted", plain {}
    RunCancelled<'a> = "run_cancelled", checked {
        session_id: &'a str,
        run_id: &'a str,
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        forced_abort: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cleanup_failures: Option<u64>,
    }
    Steer<'a> = "steer", plain { prompt: &'a str, }
    Info<'a> = "info", plain { message: &'a str, }
    Error<'a> = "error", plain {
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'a str>,
    }
    WorkState<'a> = "work_state", checked {
        #[serde(flatten)]
        state: &'a Value,
    }
    Reflecting = "reflecting", plain { recurrence: u64, }
    SummaryRequired = "summary_required", plain { attempt: u32, max_attempts: u32, }
    StuckNudge<'a> = "stuck_nudge", plain { message: &'a str, }
    HttpRetry<'a> = "http_retry", plain {
        attempt: u32,
        backoff_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        discard_partial: Option<bool>,
    }
    /// While an answer comes, by estimate.
    LiveMetrics = "metrics", plain {
        tokens_in: u64,
        tokens_out: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        ttft_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tps_est: Option<f64>,
    }
    /// At the end of a run.
    FinalMetrics<'a> = "metrics", plain {
        ttft_ms: Option<u64>,
        elapsed_ms: u64,
        tokens_in: u64,
        prompt_tokens: u64,
        tokens_out: u64,
        cached_tokens: u64,
        tps: Option<f64>,
        model: &'a str,
    }
    CostUpdate<'a> = "cost_update", plain {
        tokens_in: u64,
        tokens_out: u64,
        cached_tokens: u64,
        cache_hit_pct: Option<f64>,
        estimated_usd: Option<f64>,
        model: &'a str,
    }
    Compacting<'a> = "compacting", plain {
        before_tokens: u64,
        trigger: &'a str,
        #[serde(flatten)]
        limits: Option<CompactingLimits>,
    }
    Compacted = "compacted", plain {
        before_tokens: u64,
        after_tokens: u64,
        summary_chars: usize,
        context_window: u64,
        threshold_tokens: u64,
        hard_limit_tokens: u64,
        within_limit: bool,
    }
    Digested<'a> = "digested", plain {
        results: usize,
        before_tokens: u64,
        after_tokens: u64,
        trigger: &'a str,
        context_window: u64,
        threshold_tokens: u64,
        hard_limit_tokens: u64,
        utilization_pct: u64,
    }
}

/// The window of a model and its limits, beside a compaction.
#[derive(serde::Serialize)]
pub(crate) struct CompactingLimits {
    pub(crate) context_window: u64,
    pub(crate) threshold_tokens: u64,
    pub(crate) hard_limit_tokens: u64,
    pub(crate) response_reserve_tokens: u64,
    pub(crate) safety_margin_tokens: u64,
    pub(crate) utilization_pct: u64,
}
