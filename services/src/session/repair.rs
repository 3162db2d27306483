//! Closing what a process left open when it died.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ids::CallId;
use crate::model::ContentBlock;
use crate::session::{ErrorInfo, Fact, Record, RecordSurface, StepEnd, SurfaceOp, ToolResult, TurnEnd, TurnEndReason};

/// The records that close what the log leaves open: an error result for each call without one, `step/end`, and `turn/end`
/// with the reason `interrupted`. None if no turn is open.
///
/// Calls are those logged as `tool/call`, in their order, then those that an answer holds and nobody got to. All records
/// have the time of the last record. Costs the open turn, not the log.
pub fn repair(records: &[Arc<Record>]) -> Vec<Arc<Record>> {
    let boundary = records.iter().rposition(|it| matches!(it.fact, Fact::TurnStart(_) | Fact::TurnEnd(_)));
    let Some(open) = boundary.map(|at| &records[at..]) else { return Vec::new() };
    let (Fact::TurnStart(start), Some(last)) = (&open[0].fact, open.last()) else { return Vec::new() };
    let turn = start.turn;
    let open_step = open.iter().rev().find_map(|it| match &it.fact {
        Fact::StepStart(it) => Some(Some(it.step)),
        Fact::StepEnd(_) => Some(None),
        _ => None,
    });
    let mut facts: Vec<Fact> = unanswered(open).into_iter().map(|(call, step)| answer(turn, step, call)).collect();
    if let Some(step) = open_step.flatten() {
        facts.push(StepEnd { turn, step }.into());
    }
    facts.push(TurnEnd { turn, reason: TurnEndReason::Interrupted }.into());
    let record = |(seq, fact): (u64, Fact)| {
        let surface = fact.is_on_surface().then_some(RecordSurface { op: SurfaceOp::Append, source_seqs: None });
        Arc::new(Record { seq, time_ms: last.time_ms, fact, surface })
    };
    (last.seq + 1..).zip(facts).map(record).collect()
}

/// Calls without a result, each with its step.
fn unanswered(turn: &[Arc<Record>]) -> Vec<(CallId, u32)> {
    let mut known = HashSet::new();
    let answered = turn.iter().filter_map(|it| match &it.fact {
        Fact::ToolResult(it) => Some(&it.call_id),
        _ => None,
    });
    known.extend(answered);
    let logged = turn.iter().filter_map(|it| match &it.fact {
        Fact::ToolCall(it) => Some((&it.call_id, it.step)),
        _ => None,
    });
    let asked = turn.iter().filter_map(|it| match &it.fact {
        Fact::AssistantMessage(it) => Some(it),
        _ => None,
    });
    let asked = asked.flat_map(|message| {
        message.content.iter().filter_map(|it| match it {
            ContentBlock::ToolCall { id, .. } => Some((id, message.step)),
            _ => None,
        })
    });
    let open = logged.chain(asked).filter(|(id, _)| known.insert(*id));
    open.map(|(id, step)| (id.clone(), step)).collect()
}

fn answer(turn: u32, step: u32, call_id: CallId) -> Fact {
    let text = "Error: interrupted: the process ended before this call did; whether it had an effect is not known";
    ToolResult {
        turn,
        step,
        call_id,
        content: vec![ContentBlock::text(text)],
        is_error: true,
        error: Some(ErrorInfo { name: "InterruptedError".to_owned(), code: "interrupted".to_owned() }),
        meta: None,
    }
    .into()
}
