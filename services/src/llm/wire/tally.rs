//! The blocks of an answer while it is streamed.

use std::collections::VecDeque;

use crate::model::{BlockType, StreamChunk};

/// Numbers the blocks of an answer in the order in which they begin. Text behind reasoning is a new block, and the other
/// way round, so that the order in which they were said stays.
#[derive(Debug, Default)]
pub struct Blocks {
    next: u32,
    /// The block that more of its kind is added to.
    current: Option<(u32, BlockType)>,
}

impl Blocks {
    /// No block yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a block that others may be streamed beside; more is added by its index.
    pub fn begin(&mut self, block_type: BlockType, out: &mut VecDeque<StreamChunk>) -> u32 {
        let index = self.next;
        self.next += 1;
        self.current = None;
        out.push_back(StreamChunk::BlockStart { index, block_type });
        index
    }

    /// More text.
    pub fn text(&mut self, text: impl Into<String>, out: &mut VecDeque<StreamChunk>) {
        let index = self.index(BlockType::Text, out);
        out.push_back(StreamChunk::TextDelta { index, text: text.into() });
    }

    /// More reasoning.
    pub fn reasoning(&mut self, text: impl Into<String>, out: &mut VecDeque<StreamChunk>) {
        let index = self.index(BlockType::Reasoning, out);
        out.push_back(StreamChunk::ReasoningDelta { index, text: text.into() });
    }

    fn index(&mut self, block_type: BlockType, out: &mut VecDeque<StreamChunk>) -> u32 {
        match self.current {
            Some((index, kind)) if kind == block_type => index,
            _ => {
                let index = self.begin(block_type, out);
                self.current = Some((index, block_type));
                index
            }
        }
    }
}
