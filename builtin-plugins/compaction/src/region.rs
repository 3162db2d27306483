//! Which part of a history may give way.

use std::collections::HashSet;

use linn_services::compaction::CompactionError;
use linn_services::ids::CallId;
use linn_services::model::ContentBlock;

use crate::estimate::Node;

/// For each place between two nodes, and before the first and behind the last, whether no call before it lacks its result
/// there. A cut is only made where that is so.
pub(crate) fn balanced(nodes: &[Node]) -> Result<Vec<bool>, CompactionError> {
    let mut open: HashSet<&CallId> = HashSet::new();
    let mut balanced = vec![true];
    for node in nodes {
        for block in node.message.iter().flat_map(|it| &it.content) {
            match block {
                ContentBlock::ToolCall { id, .. } => drop(open.insert(id)),
                ContentBlock::ToolResult { tool_call_id, .. } if !open.remove(tool_call_id) => {
                    return Err(CompactionError::Region("a result stands there without its call before it"));
                }
                _ => {}
            }
        }
        balanced.push(open.is_empty());
    }
    Ok(balanced)
}

/// How much of the end of a history stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retain {
    pub(crate) messages: usize,
    pub(crate) tokens: u64,
}

/// How many nodes from the first on may go: so many that at least what is to be retained stays, and that no call is parted
/// from its result.
pub(crate) fn cut(nodes: &[Node], retain: Retain) -> Result<usize, CompactionError> {
    let balanced = balanced(nodes)?;
    let (mut at, mut messages, mut tokens) = (nodes.len(), 0, 0);
    while at > 0 && (messages < retain.messages || tokens < retain.tokens) {
        at -= 1;
        messages += usize::from(nodes[at].message.is_some());
        tokens += nodes[at].tokens;
    }
    while !balanced[at] {
        at -= 1;
    }
    Ok(at)
}
