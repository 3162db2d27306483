//! What compaction is configured with.

use std::collections::BTreeMap;

use linn_bus::Fault;
use linn_services::compaction::ContextBudget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the plugin is configured with. Tokens are estimates, at `chars_per_token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "snake_case", deny_unknown_fields)]
pub struct CompactionConfig {
    /// Whether histories are made smaller by themselves; without it only when a human asks.
    pub auto: bool,
    /// Window of a model, in tokens, where neither `windows` nor its provider says otherwise.
    pub context_window: u64,
    /// Windows of models, in tokens. A name that ends with `*` stands for all that begin so; the longest that fits counts.
    pub windows: BTreeMap<String, u64>,
    /// From this part of the window on the history is compacted.
    pub threshold_percent: u64,
    /// From this part of the window on old tool results are cut.
    pub digest_percent: u64,
    /// To this part of the window they are cut, if there are enough of them.
    pub digest_target_percent: u64,
    /// Tool results with more tokens than this may be cut, and keep about half of it.
    pub digest_result_tokens: u64,
    /// This many messages at the end of the history stay as they are.
    pub retain_messages: usize,
    /// This many tokens at the end of the history stay as they are. Without it a quarter of the window does, but at least
    /// 6000 tokens or half of the window, whichever is less.
    pub retain_tokens: Option<u64>,
    /// How often a history that is still too long after a compaction is compacted again, keeping half as much each time.
    pub extra_passes: u32,
    /// The model that writes summaries; without it the one of the agent.
    pub model: Option<String>,
    /// What every summary shall heed, in words.
    pub instructions: Option<String>,
    /// How long a summary may be, in tokens.
    pub summary_max_tokens: u32,
    /// How often a summary is asked for, with half as much to read each time, when that is too long for its model.
    pub summary_attempts: u32,
    /// After this many minutes of silence a compaction counts as one of an idle session.
    pub idle_minutes: u64,
    /// How many characters make a token.
    pub chars_per_token: u64,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            auto: true,
            context_window: 128_000,
            windows: BTreeMap::new(),
            threshold_percent: 90,
            digest_percent: 70,
            digest_target_percent: 60,
            digest_result_tokens: 500,
            retain_messages: 6,
            retain_tokens: None,
            extra_passes: 1,
            model: None,
            instructions: None,
            summary_max_tokens: 4096,
            summary_attempts: 3,
            idle_minutes: 60,
            chars_per_token: 4,
        }
    }
}

/// Part of the window that is kept free for the answer, in percent, and at least this many tokens.
const RESERVE: (u64, u64) = (5, 512);

/// Part of the window that is kept free because the estimate may be wrong, in percent, and at least this many tokens; never
/// more than the part kept for the answer.
const SAFETY: (u64, u64) = (2, 256);

/// Fewest tokens at the end of the history that stay, by default.
const RETAIN_TOKENS: u64 = 6000;

impl CompactionConfig {
    /// Says what is wrong with values that cannot be meant.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let percents = [
            ("threshold_percent", self.threshold_percent),
            ("digest_percent", self.digest_percent),
            ("digest_target_percent", self.digest_target_percent),
        ];
        for (name, percent) in percents {
            if !(1..=100).contains(&percent) {
                return Err(bad(format!("`{name}` is a part of the window in percent, 1 to 100, and not {percent}")));
            }
        }
        if self.digest_target_percent > self.digest_percent {
            return Err(bad("`digest_target_percent` is not above `digest_percent`, from which on results are cut"));
        }
        let counts = [
            ("chars_per_token", self.chars_per_token),
            ("context_window", self.context_window),
            ("digest_result_tokens", self.digest_result_tokens),
            ("summary_attempts", u64::from(self.summary_attempts)),
            ("summary_max_tokens", u64::from(self.summary_max_tokens)),
        ];
        match counts.iter().find(|(_, count)| *count == 0) {
            Some((name, _)) => Err(bad(format!("`{name}` is at least 1"))),
            None => Ok(()),
        }
    }

    /// The window of a model, if it is set here.
    pub(crate) fn own_window(&self, model: &str) -> Option<u64> {
        let fits = |name: &str| match name.strip_suffix('*') {
            Some(start) => model.starts_with(start).then_some(start.len()),
            None => (name == model).then_some(usize::MAX),
        };
        let best = self.windows.iter().filter_map(|(name, window)| Some((fits(name)?, *window))).max();
        best.map(|(_, window)| window)
    }

    /// How far a window may be filled.
    pub(crate) fn budget(&self, context_window: u64) -> ContextBudget {
        let part = |percent: u64| context_window.saturating_mul(percent) / 100;
        // A tiny window keeps at least half of itself.
        let reserve_tokens = part(RESERVE.0).max(RESERVE.1).min(part(25));
        let safety_tokens = part(SAFETY.0).max(SAFETY.1).min(part(RESERVE.0));
        let hard_limit_tokens = context_window.saturating_sub(reserve_tokens + safety_tokens);
        ContextBudget {
            context_window,
            digest_tokens: part(self.digest_percent).min(hard_limit_tokens),
            threshold_tokens: part(self.threshold_percent).min(hard_limit_tokens),
            hard_limit_tokens,
            reserve_tokens,
            safety_tokens,
        }
    }

    /// Tokens at the end of the history that stay as they are.
    pub(crate) fn retain_tokens(&self, window: u64) -> u64 {
        self.retain_tokens.unwrap_or_else(|| (window / 4).max(RETAIN_TOKENS.min(window / 2)))
    }
}

fn bad(why: impl Into<String>) -> Fault {
    Fault::msg(why.into()).with_code("COMPACTION_CONFIG")
}
