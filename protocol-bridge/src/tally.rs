//! What a run takes: time and tokens.

use std::time::Duration;

use linn_services::model::TokenUsage;

use crate::wire::events::{CostUpdate, FinalMetrics, LiveMetrics};

/// How often an answer that comes is measured.
const LIVE_EVERY: Duration = Duration::from_millis(400);

/// How many characters are taken for a token where nobody counts.
const CHARS_PER_TOKEN: u64 = 4;

/// What a run has taken so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    started: Duration,
    /// When the model was asked last.
    asked: Duration,
    /// When the first piece of its answer came.
    first_piece: Option<Duration>,
    /// From the first request of the run to its first piece.
    ttft: Option<Duration>,
    last_live: Duration,
    /// Length of what came since the model was asked.
    n_chars: u64,
    /// Time in which answers came, of the requests that are over.
    streaming: Duration,
    prompt_tokens: u64,
    cached_tokens: u64,
    last_output: u64,
    output_tokens: u64,
    /// Tokens of the context when the run began.
    before: u64,
}

impl Tally {
    pub(crate) fn new(now: Duration, context_tokens: u64) -> Self {
        Self { started: now, before: context_tokens, ..Self::default() }
    }

    /// The model is asked.
    pub(crate) fn ask(&mut self, now: Duration) {
        (self.asked, self.first_piece, self.n_chars, self.last_live) = (now, None, 0, now);
    }

    /// What came of the answer does not count.
    pub(crate) fn discard(&mut self) {
        self.n_chars = 0;
    }

    /// A piece of the answer came; gives measures if it is time for some.
    pub(crate) fn piece(&mut self, now: Duration, len: usize) -> Option<LiveMetrics> {
        let first = *self.first_piece.get_or_insert(now);
        self.ttft.get_or_insert(now.saturating_sub(self.asked));
        self.n_chars += len as u64;
        if now.saturating_sub(self.last_live) < LIVE_EVERY {
            return None;
        }
        self.last_live = now;
        let n_tokens = self.n_chars / CHARS_PER_TOKEN;
        let since = now.saturating_sub(first).as_secs_f64();
        Some(LiveMetrics {
            tokens_in: self.context().max(self.before) + n_tokens,
            tokens_out: self.output_tokens + n_tokens,
            ttft_ms: self.ttft.map(millis),
            tps_est: (since > 0.0).then(|| round(n_tokens as f64 / since)),
        })
    }

    /// The answer is complete.
    pub(crate) fn answered(&mut self, now: Duration, usage: Option<&TokenUsage>, n_chars: usize) {
        if let Some(first) = self.first_piece {
            self.streaming += now.saturating_sub(first);
        }
        match usage {
            Some(usage) => {
                let cached = usage.cache_read_tokens.unwrap_or(0);
                self.prompt_tokens = usage.input_tokens + cached + usage.cache_write_tokens.unwrap_or(0);
                self.cached_tokens = cached;
                self.last_output = usage.output_tokens;
            }
            None => {
                self.prompt_tokens = self.context().max(self.before);
                self.cached_tokens = 0;
                self.last_output = (n_chars as u64).div_ceil(CHARS_PER_TOKEN);
            }
        }
        self.output_tokens += self.last_output;
    }

    /// Tokens of the context as it is now.
    pub(crate) fn context(&self) -> u64 {
        self.prompt_tokens + self.last_output
    }

    pub(crate) fn metrics<'a>(&self, now: Duration, model: &'a str) -> FinalMetrics<'a> {
        let streaming = self.streaming.as_secs_f64();
        FinalMetrics {
            ttft_ms: self.ttft.map(millis),
            elapsed_ms: millis(now.saturating_sub(self.started)),
            tokens_in: self.context(),
            prompt_tokens: self.prompt_tokens,
            tokens_out: self.output_tokens,
            cached_tokens: self.cached_tokens,
            tps: (streaming > 0.0).then(|| round(self.output_tokens as f64 / streaming)),
            model,
        }
    }

    pub(crate) fn cost<'a>(&self, model: &'a str) -> CostUpdate<'a> {
        let prompt = self.prompt_tokens;
        CostUpdate {
            tokens_in: prompt,
            tokens_out: self.output_tokens,
            cached_tokens: self.cached_tokens,
            cache_hit_pct: (prompt > 0).then(|| round(self.cached_tokens as f64 * 100.0 / prompt as f64)),
            estimated_usd: None,
            model,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// With one digit behind the point.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn tokens_come_from_the_endpoint_and_times_from_the_clock() {
        let mut tally = Tally::new(at(0), 7);
        tally.ask(at(100));
        assert!(tally.piece(at(250), 40).is_none());
        let live = tally.piece(at(650), 40).unwrap();
        assert_eq!((live.tokens_in, live.tokens_out, live.ttft_ms), (27, 20, Some(150)));
        assert_eq!(live.tps_est, Some(50.0));
        assert!(tally.piece(at(700), 4).is_none());
        let usage =
            TokenUsage { input_tokens: 60, output_tokens: 50, cache_read_tokens: Some(40), ..Default::default() };
        tally.answered(at(1_250), Some(&usage), 84);
        tally.ask(at(2_000));
        tally.answered(at(2_500), None, 10);
        let metrics = tally.metrics(at(3_000), "m");
        assert_eq!((metrics.ttft_ms, metrics.elapsed_ms), (Some(150), 3_000));
        assert_eq!((metrics.prompt_tokens, metrics.tokens_out, metrics.cached_tokens), (150, 53, 0));
        assert_eq!(metrics.tokens_in, 153);
        assert_eq!(metrics.tps, Some(53.0));
    }

    #[test]
    fn the_cost_tells_what_came_from_a_cache() {
        let mut tally = Tally::new(at(0), 0);
        let usage =
            TokenUsage { input_tokens: 60, output_tokens: 5, cache_read_tokens: Some(40), ..Default::default() };
        tally.answered(at(1), Some(&usage), 0);
        let cost = tally.cost("m");
        assert_eq!((cost.tokens_in, cost.tokens_out, cost.cached_tokens, cost.cache_hit_pct), (100, 5, 40, Some(40.0)));
        assert_eq!(Tally::new(at(0), 0).cost("m").cache_hit_pct, None);
    }
}
