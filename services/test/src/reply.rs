//! One scripted answer of a model.

use linn_services::llm::LlmError;
use linn_services::model::{BlockType, ContentBlock, FinishReason, StreamChunk, TokenUsage};
use serde_json::Value;

use crate::Gate;

/// One scripted answer: the chunks of a stream, and where it waits or fails.
///
/// ```
/// use linn_services_test::Reply;
/// use serde_json::json;
///
/// let plain = Reply::text("hello");
/// let two_calls = Reply::call("c1", "read", json!({ "path": "a" })).and_call("c2", "read", json!({ "path": "b" }));
/// let cut_off = Reply::text("once upon a").max_tokens();
/// # let _ = (plain, two_calls, cut_off);
/// ```
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) steps: Vec<Step>,
    /// Index of the next block.
    next: u32,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) finish: Option<FinishReason>,
    /// What waits behind the blocks.
    last_gate: Option<Gate>,
}

/// What a scripted stream does next.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Chunk(StreamChunk),
    Wait(Gate),
    Fail(LlmError),
    Panic,
}

impl Reply {
    /// An answer without blocks, that finishes with `stop` after a usage of 10 tokens in and 5 out.
    pub fn empty() -> Self {
        let usage = TokenUsage { input_tokens: 10, output_tokens: 5, ..TokenUsage::default() };
        Self { steps: Vec::new(), next: 0, usage: Some(usage), finish: None, last_gate: None }
    }

    /// A text, in two pieces.
    pub fn text(text: &str) -> Self {
        Self::empty().and_text(text)
    }

    /// A call of a tool.
    pub fn call(id: &str, name: &str, arguments: Value) -> Self {
        Self::empty().and_call(id, name, arguments)
    }

    /// The same, and behind it a text, in two pieces.
    pub fn and_text(mut self, text: &str) -> Self {
        let index = self.begin(BlockType::Text);
        let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |it| it.0);
        for piece in [&text[..middle], &text[middle..]] {
            if !piece.is_empty() {
                self = self.and_chunk(StreamChunk::TextDelta { index, text: piece.to_owned() });
            }
        }
        self.and_chunk(StreamChunk::BlockEnd { index, block: ContentBlock::text(text) })
    }

    /// The same, and behind it a call of a tool.
    pub fn and_call(self, id: &str, name: &str, arguments: Value) -> Self {
        self.and_raw_call(id, name, &arguments.to_string())
    }

    /// The same, and behind it a call of a tool with arguments that may be anything.
    pub fn and_raw_call(mut self, id: &str, name: &str, arguments: &str) -> Self {
        let index = self.begin(BlockType::ToolCall);
        self.and_chunk(StreamChunk::ToolCallDelta {
            index,
            id: id.into(),
            name: Some(name.to_owned()),
            arguments_delta: arguments.to_owned(),
        })
    }

    fn begin(&mut self, block_type: BlockType) -> u32 {
        let index = self.next;
        self.next += 1;
        self.steps.push(Step::Chunk(StreamChunk::BlockStart { index, block_type }));
        index
    }

    /// The same, and behind it a chunk.
    pub fn and_chunk(mut self, chunk: StreamChunk) -> Self {
        self.steps.push(Step::Chunk(chunk));
        self
    }

    /// The same; the stream waits at `gate` with what came so far already sent.
    pub fn and_wait(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// The same; all blocks are sent, then the stream waits at `gate` before usage and finish.
    pub fn held_at(mut self, gate: &Gate) -> Self {
        self.last_gate = Some(gate.clone());
        self
    }

    /// The same, and behind it an error in place of a finish.
    pub fn and_fail(mut self, error: LlmError) -> Self {
        self.steps.push(Step::Fail(error));
        self
    }

    /// The same, and behind it a panic of the adapter.
    pub fn and_panic(mut self) -> Self {
        self.steps.push(Step::Panic);
        self
    }

    /// The same, cut off at the limit of the answer.
    pub fn max_tokens(self) -> Self {
        self.finish(FinishReason::MaxTokens)
    }

    /// The same with another finish; by default `tool-calls` if it holds calls, else `stop`.
    pub fn finish(mut self, reason: FinishReason) -> Self {
        self.finish = Some(reason);
        self
    }

    /// The same without usage.
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// Everything in order, the last first, so that the next is popped.
    pub(crate) fn into_reversed(self) -> Vec<Step> {
        let has_calls = self
            .steps
            .iter()
            .any(|it| matches!(it, Step::Chunk(StreamChunk::BlockStart { block_type: BlockType::ToolCall, .. })));
        let mut steps = self.steps;
        steps.extend(self.last_gate.map(Step::Wait));
        steps.extend(self.usage.map(|usage| Step::Chunk(StreamChunk::Usage { usage })));
        let usual = if has_calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        steps.push(Step::Chunk(StreamChunk::Finish { reason: self.finish.unwrap_or(usual) }));
        steps.reverse();
        steps
    }
}
