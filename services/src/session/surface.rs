//! The surface: the records that the model's history is derived from, in the order the model sees them.

use std::sync::Arc;

use crate::model::{ContentBlock, Message, MessageSource, Role};
use crate::session::{AppendError, Fact, Record, SurfaceOp};

/// The surface of a session at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surface {
    nodes: Vec<Node>,
}

/// A place on the surface.
#[derive(Debug, Clone)]
struct Node {
    seq: u64,
    /// What the model sees of it; nothing for an answer without content.
    message: Option<Arc<Message>>,
}

impl Surface {
    /// Whether `op` can be done, before anything is logged.
    pub(crate) fn check(&self, op: SurfaceOp) -> Result<(), AppendError> {
        self.places(op).map(drop)
    }

    /// The places that a replacement takes away.
    fn places(&self, op: SurfaceOp) -> Result<Option<std::ops::RangeInclusive<usize>>, AppendError> {
        let SurfaceOp::Replace { start, end } = op else { return Ok(None) };
        let place = |seq| self.place(seq).ok_or(AppendError::NotOnSurface { seq });
        let (from, to) = (place(start)?, place(end)?);
        if from > to {
            return Err(AppendError::RangeReversed { start, end });
        }
        Ok(Some(from..=to))
    }

    /// Puts a record in its place, which was checked before.
    pub(crate) fn put(&mut self, record: &Record) -> Result<(), AppendError> {
        let Some(surface) = &record.surface else { return Ok(()) };
        let node = Node { seq: record.seq, message: message_of(&record.fact).map(Arc::new) };
        match self.places(surface.op)? {
            None => self.nodes.push(node),
            Some(places) => drop(self.nodes.splice(places, [node])),
        }
        Ok(())
    }

    /// Where the record of this seq lies.
    pub(crate) fn place(&self, seq: u64) -> Option<usize> {
        // Nearly always the surface is in order of seq; after a replacement it is not.
        match self.nodes.binary_search_by_key(&seq, |it| it.seq) {
            Ok(place) => Some(place),
            Err(_) => self.nodes.iter().position(|it| it.seq == seq),
        }
    }

    /// Seqs of the records on the surface, in order.
    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.nodes.iter().map(|it| it.seq).collect()
    }

    /// The history as the model sees it.
    pub(crate) fn messages(&self) -> Vec<Arc<Message>> {
        self.nodes.iter().filter_map(|it| it.message.clone()).collect()
    }
}

/// What the model sees of a record on the surface.
fn message_of(fact: &Fact) -> Option<Message> {
    match fact {
        Fact::UserMessage(it) => Some(Message::user(it.content.clone())),
        Fact::AssistantMessage(it) if it.content.is_empty() => None,
        Fact::AssistantMessage(it) => Some(Message { role: Role::Assistant, content: it.content.clone() }),
        Fact::ToolResult(it) => Some(Message::user([ContentBlock::ToolResult {
            tool_call_id: it.call_id.clone(),
            content: it.content.clone(),
            is_error: it.is_error,
        }])),
        Fact::ContextMessage(it) => Some(tagged("context", &it.source, &it.content)),
        Fact::SteeringMessage(it) => Some(tagged("steering", &it.source, &it.content)),
        _ => None,
    }
}

/// Content between tags that say where it came from.
fn tagged(tag: &str, source: &MessageSource, content: &[ContentBlock]) -> Message {
    let mut blocks = Vec::with_capacity(content.len() + 2);
    blocks.push(ContentBlock::text(format!("<{tag} source=\"{}\">", source.kind())));
    blocks.extend_from_slice(content);
    blocks.push(ContentBlock::text(format!("</{tag}>")));
    Message::user(blocks)
}
