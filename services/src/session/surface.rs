//! The surface: the records that the model's history is derived from, in the order the model sees them.

use std::sync::Arc;

use crate::model::{ContentBlock, Message, MessageSource, Role};
use crate::session::{AppendError, Fact, Record, SurfaceOp};

/// The surface of a session at one moment, and what was replaced on the way to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surface {
    nodes: Vec<Node>,
    /// What each replacement took away, the last one last.
    replaced: Vec<Replaced>,
    /// The rewinds that decide what lies in a shadow. Their `to` grows: one that goes further back covers those before it.
    rewinds: Vec<Rewind>,
}

/// A place on the surface.
#[derive(Debug, Clone)]
struct Node {
    seq: u64,
    /// What the model sees of it; nothing for an answer without content.
    message: Option<Arc<Message>>,
}

#[derive(Debug, Clone)]
struct Replaced {
    /// The record that took the place.
    by: u64,
    place: usize,
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Rewind {
    seq: u64,
    to: u64,
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
            Some(places) => {
                let place = *places.start();
                let nodes = self.nodes.splice(places, [node]).collect();
                self.replaced.push(Replaced { by: record.seq, place, nodes });
            }
        }
        Ok(())
    }

    /// Goes back to what it was when the log had `to` records; `log` is all records, and the last one says to go back.
    ///
    /// Costs what is undone, unless `to` lies in the shadow of an earlier rewind: then the log is read again up to it.
    pub(crate) fn go_back(&mut self, log: &[Arc<Record>], seq: u64, to: u64) -> Result<(), AppendError> {
        if self.lies_in_shadow(to) {
            let rewinds = std::mem::take(&mut self.rewinds);
            *self = Self::replay(log, to)?;
            self.rewinds = rewinds;
        } else {
            while let Some(last) = self.replaced.pop_if(|it| it.by >= to) {
                self.drop_from(last.by + 1);
                self.nodes.splice(last.place..=last.place, last.nodes);
            }
            self.drop_from(to);
        }
        while self.rewinds.pop_if(|it| it.to >= to).is_some() {}
        self.rewinds.push(Rewind { seq, to });
        Ok(())
    }

    /// Takes away what was put at the end by the record `seq` and those after it.
    fn drop_from(&mut self, seq: u64) {
        while self.nodes.pop_if(|it| it.seq >= seq).is_some() {}
    }

    /// Whether what the log had at `to` is not all on the way to what is here now.
    fn lies_in_shadow(&self, to: u64) -> bool {
        self.rewinds.iter().rev().take_while(|it| it.seq >= to).any(|it| it.to < to)
    }

    /// The surface after the first `to` records of a log.
    pub(crate) fn replay(log: &[Arc<Record>], to: u64) -> Result<Self, AppendError> {
        // A rewind throws away what was collected, so collect from the end: what is visible lies in stretches.
        let up_to = |end: u64| &log[..usize::try_from(end).unwrap_or(usize::MAX).min(log.len())];
        let mut end = to;
        let mut stretches = Vec::new();
        loop {
            let rewind = up_to(end).iter().enumerate().rev().find_map(|(at, it)| match &it.fact {
                Fact::SessionRewind(rewind) => Some((at, rewind.to)),
                _ => None,
            });
            let Some((at, to)) = rewind else { break };
            stretches.push(&up_to(end)[at..]);
            end = to;
        }
        stretches.push(up_to(end));
        let mut surface = Self::default();
        for record in stretches.into_iter().rev().flatten() {
            surface.put(record)?;
        }
        Ok(surface)
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

    /// The places with what the model sees of each.
    pub(crate) fn nodes(&self) -> Vec<(u64, Option<Arc<Message>>)> {
        self.nodes.iter().map(|it| (it.seq, it.message.clone())).collect()
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
