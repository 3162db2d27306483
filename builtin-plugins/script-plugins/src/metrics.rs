//! What a session came to, as `session_stop` is told it.

use linn_services::session::{Fact, Record, RewindCause, Session};
use serde_json::{Value, json};

/// Tokens of some answers.
#[derive(Debug, Clone, Copy, Default)]
struct Tokens {
    read: u64,
    written: u64,
    cached: u64,
}

/// What a session came to. Walks the whole log.
pub(crate) fn metrics(session: &Session) -> Value {
    let records = session.records_from(0);
    let facts = || records.iter().map(|it| &it.fact);
    let model = session.request_header().map(|it| it.config.model.clone()).unwrap_or_default();
    let all = tokens(facts());
    let n_turns = facts().filter(|it| matches!(it, Fact::TurnEnd(_))).count();
    let n_undone = facts().filter(|it| matches!(it, Fact::SessionRewind(it) if it.cause == RewindCause::Undo)).count();
    let n_skill_reads = facts()
        .filter(|it| matches!(it, Fact::ToolCall(it) if it.name == *"read_file" && it.arguments.contains("SKILL.md")))
        .count();
    json!({
        "session": {
            "turns": n_turns, "tokens_in": all.read, "tokens_out": all.written, "cached_tokens": all.cached, "model": model,
        },
        "turn": last_turn(&records, &model),
        "memory_recall": {
            "turns": 0, "relevant_offers": 0, "relevant_gets": 0, "relevant_misses": 0, "relevant_hit_rate": 0.0,
            "synonym_miss_offers": 0, "synonym_miss_gets": 0, "synonym_recovery_rate": 0.0,
        },
        "human_corrections": { "undo_count": n_undone },
        "skill_utilization": { "skill_md_reads": n_skill_reads },
    })
}

fn tokens<'a>(facts: impl Iterator<Item = &'a Fact>) -> Tokens {
    let mut sum = Tokens::default();
    for fact in facts {
        if let Fact::AssistantMessage(it) = fact
            && let Some(usage) = &it.usage
        {
            let cached = usage.cache_read_tokens.unwrap_or(0);
            sum.read += usage.input_tokens + cached;
            sum.written += usage.output_tokens;
            sum.cached += cached;
        }
    }
    sum
}

/// The last turn; `null` if it came to no answer.
fn last_turn(records: &[std::sync::Arc<Record>], model: &str) -> Value {
    let Some(start) = records.iter().rposition(|it| matches!(it.fact, Fact::TurnStart(_))) else { return Value::Null };
    let turn = &records[start..];
    if !turn.iter().any(|it| matches!(it.fact, Fact::AssistantMessage(_))) {
        return Value::Null;
    }
    let at = |wanted: fn(&Fact) -> bool| turn.iter().find(|it| wanted(&it.fact)).map(|it| it.time_ms);
    let begin = turn[0].time_ms;
    let step = at(|it| matches!(it, Fact::StepStart(_))).unwrap_or(begin);
    let first = at(|it| matches!(it, Fact::AssistantChunk(_)));
    let end = at(|it| matches!(it, Fact::TurnEnd(_))).or_else(|| turn.last().map(|it| it.time_ms)).unwrap_or(begin);
    let elapsed_ms = (end - begin).max(0);
    let Tokens { read, written, cached } = tokens(turn.iter().map(|it| &it.fact));
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than the precision of a float")]
    let rate = (elapsed_ms > 0).then(|| written as f64 * 1000.0 / elapsed_ms as f64);
    json!({
        "tokens_in": read, "tokens_out": written, "cached_tokens": cached,
        "ttft_ms": first.map(|it| (it - step).max(0)), "elapsed_ms": elapsed_ms, "tps": rate, "model": model,
    })
}
