//! What a session has come to, counted record by record.

use linn_services::compaction::TokenEstimator;
use linn_services::model::{ContentBlock, Message, TokenUsage};
use linn_services::session::{AssistantMessage, Fact, Record, RewindCause, Session, SurfaceOp};
use linn_services::usage::SessionStats;

/// Counts of a session up to a place in its log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// The first record that was not counted.
    next: u64,
    counts: Counts,
}

/// What was counted since the last reset.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    read: u64,
    written: u64,
    cached: u64,
    turns: u64,
    compactions: u64,
    context: Context,
}

/// Tokens of the context at the place that was read.
#[derive(Debug, Clone, Copy)]
enum Context {
    /// What an endpoint counted last, and what came since by estimate.
    Known(u64),
    /// The history was changed behind its end; it has to be estimated as a whole.
    Changed,
}

impl Default for Context {
    fn default() -> Self {
        Self::Known(0)
    }
}

fn prompt_of(usage: &TokenUsage) -> u64 {
    usage.input_tokens + usage.cache_read_tokens.unwrap_or(0) + usage.cache_write_tokens.unwrap_or(0)
}

impl Tally {
    /// Counts what was logged since the last time.
    pub(crate) fn read_on(&mut self, session: &Session) {
        let records = session.records_from(self.next);
        for record in &records {
            self.counts.add(record, session);
        }
        self.next += records.len() as u64;
    }

    pub(crate) fn stats(&self, session: &Session) -> SessionStats {
        let counts = &self.counts;
        let messages = session.messages();
        let ratio = if counts.read == 0 { 0.0 } else { counts.cached as f64 / counts.read as f64 };
        SessionStats {
            tokens_in: counts.context_at(session, self.next),
            tokens_out: counts.written,
            total_in: counts.read,
            tokens_total: counts.read + counts.written,
            cached_tokens: counts.cached,
            cache_hit_ratio: ratio.clamp(0.0, 1.0),
            turns: counts.turns,
            compactions: counts.compactions,
            messages: messages.len() as u64,
        }
    }
}

impl Counts {
    fn add(&mut self, record: &Record, session: &Session) {
        match &record.fact {
            // A turn that asks no model is none: what a compaction of an idle session is logged in, or a refused prompt.
            Fact::StepStart(it) if it.step == 1 => self.turns += 1,
            Fact::CompactEnd(it) if it.error.is_none() => self.compactions += 1,
            Fact::AssistantMessage(answer) => return self.answered(record.seq, answer, session),
            Fact::SessionRewind(it) => match it.cause {
                RewindCause::Reset | RewindCause::Clear => {
                    *self = Self { context: Context::Changed, ..Self::default() };
                }
                // What was taken back was paid for all the same.
                RewindCause::Undo => self.context = Context::Changed,
            },
            _ => {}
        }
        match (&record.surface, self.context) {
            (Some(surface), Context::Known(tokens)) if surface.op == SurfaceOp::Append => {
                self.context = Context::Known(tokens + estimate_of(&record.fact));
            }
            (Some(_), _) => self.context = Context::Changed,
            (None, _) => {}
        }
    }

    fn answered(&mut self, seq: u64, answer: &AssistantMessage, session: &Session) {
        let usage = answer.usage.filter(|it| prompt_of(it) > 0 || it.output_tokens > 0);
        let (read, written, cached) = match &usage {
            Some(usage) => (prompt_of(usage), usage.output_tokens, usage.cache_read_tokens.unwrap_or(0)),
            None => (self.context_at(session, seq), estimate(&answer.content), 0),
        };
        self.read += read;
        self.written += written;
        self.cached += cached;
        self.context = Context::Known(read + written);
    }

    /// Tokens of the context when the log had `len` records, which is the place that was read to.
    fn context_at(&self, session: &Session, len: u64) -> u64 {
        match self.context {
            Context::Known(tokens) => tokens,
            Context::Changed => {
                session.messages_before(len).iter().map(|it| TokenEstimator::default().message(it)).sum()
            }
        }
    }
}

fn estimate(content: &[ContentBlock]) -> u64 {
    if content.is_empty() { 0 } else { TokenEstimator::default().message(&Message::assistant(content)) }
}

/// Tokens of what the model sees of a fact.
fn estimate_of(fact: &Fact) -> u64 {
    match fact {
        Fact::UserMessage(it) => estimate(&it.content),
        Fact::ContextMessage(it) => estimate(&it.content),
        Fact::SteeringMessage(it) => estimate(&it.content),
        Fact::ToolResult(it) => estimate(&it.content),
        _ => 0,
    }
}
