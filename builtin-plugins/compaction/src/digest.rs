//! Large tool results are cut to their beginning and their end.

use std::sync::Arc;

use linn_services::agent::Agent;
use linn_services::compaction::{CompactionError, TokenEstimator};
use linn_services::model::{ContentBlock, Message, MessageSource};
use linn_services::session::{SurfaceOp, UserMessage};

use crate::compactor::{SOURCE, logged};
use crate::estimate::Node;

/// Cuts results among `nodes`, the largest first, until `excess` tokens are saved or there are no more with over
/// `limit_tokens`. How many were cut. Each keeps about half of the limit.
pub(crate) fn digest(
    agent: &Agent,
    nodes: &[Node],
    limit_tokens: u64,
    excess: u64,
    estimator: TokenEstimator,
) -> Result<usize, CompactionError> {
    let limit_chars = usize::try_from(limit_tokens.saturating_mul(estimator.chars_per_token)).unwrap_or(usize::MAX);
    let mut cut: Vec<(u64, &Node, Message)> = nodes
        .iter()
        .filter_map(|node| {
            let message = shortened(node.message.as_ref()?, limit_chars)?;
            let saved = node.tokens.checked_sub(estimator.message(&message)).filter(|it| *it > 0)?;
            Some((saved, node, message))
        })
        .collect();
    // The largest first; of two alike the older one.
    cut.sort_by_key(|(saved, node, _)| (std::cmp::Reverse(*saved), node.seq));
    let (mut total, mut n_cut) = (0, 0);
    for (saved, node, message) in cut {
        if total >= excess {
            break;
        }
        let fact = UserMessage { content: message.content, source: MessageSource::plugin(SOURCE) };
        let op = SurfaceOp::Replace { start: node.seq, end: node.seq };
        logged(agent, agent.session().append_to_surface(fact, op, Some(vec![node.seq])))?;
        total += saved;
        n_cut += 1;
    }
    Ok(n_cut)
}

/// The message with its tool results cut; nothing if none is longer than the limit, in characters, or if there is more than
/// results in it.
fn shortened(message: &Arc<Message>, limit: usize) -> Option<Message> {
    let mut is_changed = false;
    let content = message
        .content
        .iter()
        .map(|block| {
            let ContentBlock::ToolResult { tool_call_id, content, is_error } = block else { return None };
            let cut = shortened_result(content, limit);
            is_changed |= cut.is_some();
            let content = cut.unwrap_or_else(|| content.clone());
            Some(ContentBlock::ToolResult { tool_call_id: tool_call_id.clone(), content, is_error: *is_error })
        })
        .collect::<Option<Vec<_>>>()?;
    is_changed.then(|| Message { role: message.role, content })
}

fn shortened_result(content: &[ContentBlock], limit: usize) -> Option<Vec<ContentBlock>> {
    let n_chars: usize = content.iter().filter_map(ContentBlock::as_text).map(|it| it.chars().count()).sum();
    if n_chars <= limit {
        return None;
    }
    let text: String = content.iter().filter_map(ContentBlock::as_text).collect();
    let others = content.iter().filter(|it| it.as_text().is_none()).cloned();
    let shortened = ContentBlock::text(middle_cut(&text, limit / 2, "call the tool again for what is missing"));
    Some(std::iter::once(shortened).chain(others).collect())
}

/// A text with its middle left out, so that about `keep` characters stay; `remedy` says what to do about the rest. The text
/// as it is if that saves nothing.
pub(crate) fn middle_cut(text: &str, keep: usize, remedy: &str) -> String {
    let n_chars = text.chars().count();
    if n_chars <= keep {
        return text.to_owned();
    }
    let n_head = keep * 2 / 3;
    let place = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..place(n_head)], &text[place(n_chars - (keep - n_head))..]);
    let n_cut = n_chars - keep;
    let gap = format!("\n[... {n_cut} of {n_chars} characters were left out here to save room; {remedy} ...]\n");
    if gap.chars().count() >= n_cut { text.to_owned() } else { format!("{head}{gap}{tail}") }
}
