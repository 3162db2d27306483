//! Calls that were never answered get an answer, so that no request holds a call without a result.

use std::collections::HashMap;

use linn_services::agent::Agent;
use linn_services::compaction::CompactionError;
use linn_services::ids::CallId;
use linn_services::model::{ContentBlock, MessageSource, Role};
use linn_services::session::{Fact, SurfaceOp, UserMessage};

use crate::compactor::{SOURCE, logged};

/// Answers the calls of the history that lack a result, outside of a step: behind each stands at once that it was
/// interrupted.
pub(crate) fn answer_open_calls(agent: &Agent) -> Result<(), CompactionError> {
    let session = agent.session();
    let nodes = session.surface_messages();
    let mut open: HashMap<CallId, usize> = HashMap::new();
    for (at, (_, message)) in nodes.iter().enumerate() {
        for block in message.iter().flat_map(|it| &it.content) {
            match block {
                ContentBlock::ToolCall { id, .. } => drop(open.insert(id.clone(), at)),
                ContentBlock::ToolResult { tool_call_id, .. } => drop(open.remove(tool_call_id)),
                _ => {}
            }
        }
    }
    let mut places: Vec<usize> = open.values().copied().collect();
    places.sort_unstable();
    places.dedup();
    for place in places {
        let Some((seq, Some(message))) = nodes.get(place) else { continue };
        let ids = message.content.iter().filter_map(|it| match it {
            ContentBlock::ToolCall { id, .. } if open.get(id) == Some(&place) => Some(id.clone()),
            _ => None,
        });
        let mut content: Vec<_> = ids
            .map(|id| ContentBlock::ToolResult {
                tool_call_id: id,
                content: vec![ContentBlock::text("Error: the call was interrupted and has no result")],
                is_error: true,
            })
            .collect();
        // Behind the results that are there already; what the human says next goes into the same message.
        let mut behind = nodes[place + 1..].iter().filter(|(_, message)| message.is_some()).peekable();
        let next = behind.find(|(_, message)| message.as_ref().is_some_and(|it| !is_results(&it.content)));
        let (op, source) = match next {
            Some((next, Some(message))) if message.role == Role::User => {
                content.extend(message.content.iter().cloned());
                let source = session.record(*next).and_then(|it| match &it.fact {
                    Fact::UserMessage(it) => Some(it.source.clone()),
                    _ => None,
                });
                (SurfaceOp::Replace { start: *next, end: *next }, source)
            }
            Some(_) => return Err(CompactionError::Region("a call there has no result, and the model spoke on")),
            None => (SurfaceOp::Append, None),
        };
        let sources = match op {
            SurfaceOp::Replace { start, .. } => vec![*seq, start],
            SurfaceOp::Append => vec![*seq],
        };
        let source = source.unwrap_or_else(|| MessageSource::plugin(SOURCE));
        logged(agent, session.append_to_surface(UserMessage { content, source }, op, Some(sources)))?;
    }
    Ok(())
}

fn is_results(content: &[ContentBlock]) -> bool {
    !content.is_empty() && content.iter().all(|it| matches!(it, ContentBlock::ToolResult { .. }))
}
