//! Answers of models without secrets.

use std::collections::{BTreeMap, VecDeque};

use futures_util::{StreamExt as _, stream};

use crate::ids::CallId;
use crate::llm::{ChunkStream, LlmError};
use crate::model::{FinishReason, StreamChunk};
use crate::secrets::{SecretKeeper, TextFlow};

/// The answer without secrets, also where one comes in several pieces. What may be the beginning of one waits for the next
/// piece of its block.
pub(crate) fn without_secrets(answer: ChunkStream, keeper: SecretKeeper) -> ChunkStream {
    if keeper.is_empty() {
        return answer;
    }
    let state = (answer.fuse(), Blocks { keeper, open: BTreeMap::new() }, VecDeque::new());
    ChunkStream::around(stream::unfold(state, async |(mut answer, mut blocks, mut ready)| {
        loop {
            if let Some(next) = ready.pop_front() {
                return Some((next, (answer, blocks, ready)));
            }
            match answer.next().await {
                Some(chunk) => blocks.take(chunk, &mut ready),
                None => {
                    blocks.flush(&mut ready);
                    if ready.is_empty() {
                        return None;
                    }
                }
            }
        }
    }))
}

/// The blocks of an answer that are open.
struct Blocks {
    keeper: SecretKeeper,
    open: BTreeMap<u32, Block>,
}

/// What of a block waits, and as what it goes on.
struct Block {
    flow: TextFlow,
    part: Part,
}

enum Part {
    Text,
    Reasoning,
    Arguments(CallId),
}

type Ready = VecDeque<Result<StreamChunk, LlmError>>;

impl Blocks {
    fn take(&mut self, chunk: Result<StreamChunk, LlmError>, ready: &mut Ready) {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(mut error) => {
                self.keeper.redact_in(&mut error.message);
                self.flush(ready);
                return ready.push_back(Err(error));
            }
        };
        let chunk = match chunk {
            StreamChunk::TextDelta { index, text } => match self.sure(index, Part::Text, &text) {
                text if text.is_empty() => return,
                text => StreamChunk::TextDelta { index, text },
            },
            StreamChunk::ReasoningDelta { index, text } => match self.sure(index, Part::Reasoning, &text) {
                text if text.is_empty() => return,
                text => StreamChunk::ReasoningDelta { index, text },
            },
            StreamChunk::ToolCallDelta { index, id, name, arguments_delta } => {
                let arguments_delta = self.sure(index, Part::Arguments(id.clone()), &arguments_delta);
                StreamChunk::ToolCallDelta { index, id, name, arguments_delta }
            }
            StreamChunk::BlockEnd { index, mut block } => {
                self.flush_block(index, ready);
                self.keeper.redact_block(&mut block);
                StreamChunk::BlockEnd { index, block }
            }
            StreamChunk::Discard => {
                self.open.clear();
                StreamChunk::Discard
            }
            StreamChunk::Finish { mut reason } => {
                self.flush(ready);
                if let FinishReason::Error { message, .. } = &mut reason {
                    self.keeper.redact_in(message);
                }
                StreamChunk::Finish { reason }
            }
            other @ (StreamChunk::BlockStart { .. } | StreamChunk::Usage { .. }) => other,
        };
        ready.push_back(Ok(chunk));
    }

    fn sure(&mut self, index: u32, part: Part, piece: &str) -> String {
        let keeper = &self.keeper;
        let new = || Block { flow: TextFlow::new(keeper.clone()), part };
        self.open.entry(index).or_insert_with(new).flow.push(piece)
    }

    fn flush_block(&mut self, index: u32, ready: &mut Ready) {
        let Some(Block { mut flow, part }) = self.open.remove(&index) else { return };
        let text = flow.finish();
        if text.is_empty() {
            return;
        }
        ready.push_back(Ok(match part {
            Part::Text => StreamChunk::TextDelta { index, text },
            Part::Reasoning => StreamChunk::ReasoningDelta { index, text },
            Part::Arguments(id) => StreamChunk::ToolCallDelta { index, id, name: None, arguments_delta: text },
        }));
    }

    fn flush(&mut self, ready: &mut Ready) {
        while let Some(index) = self.open.keys().next().copied() {
            self.flush_block(index, ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::model::ContentBlock;

    const KEY: &str = "sk-test-123";

    fn answer(chunks: Vec<StreamChunk>) -> Vec<StreamChunk> {
        let keeper = SecretKeeper::new();
        keeper.keep(KEY);
        let chunks = ChunkStream::new(stream::iter(chunks.into_iter().map(Ok::<_, LlmError>)));
        let all = without_secrets(chunks, keeper).map(|it| it.unwrap()).collect::<Vec<_>>();
        all.now_or_never().unwrap()
    }

    fn text(index: u32, text: &str) -> StreamChunk {
        StreamChunk::TextDelta { index, text: text.to_owned() }
    }

    #[test]
    fn r139_a_key_that_a_model_streams_in_pieces_reaches_nobody() {
        let end = StreamChunk::BlockEnd { index: 0, block: ContentBlock::text(format!("a {KEY} b")) };
        let call = |delta: &str| StreamChunk::ToolCallDelta {
            index: 1,
            id: "c1".into(),
            name: None,
            arguments_delta: delta.to_owned(),
        };
        let finish = StreamChunk::Finish { reason: FinishReason::Stop };
        let all = answer(vec![
            text(0, "a sk-t"),
            call("{\"a\":\"sk-test"),
            text(0, "est-123 b sk-"),
            call("-123\"}"),
            end,
            finish.clone(),
        ]);
        let expected = vec![
            text(0, "a "),
            call("{\"a\":\""),
            text(0, "[redacted] b "),
            call("[redacted]\"}"),
            text(0, "sk-"),
            StreamChunk::BlockEnd { index: 0, block: ContentBlock::text("a [redacted] b") },
            finish,
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_an_answer_without_an_end_held_back_comes_and_what_it_took_back_does_not() {
        assert_eq!(answer(vec![text(0, "x sk-te")]), [text(0, "x "), text(0, "sk-te")]);
        let all = answer(vec![text(0, "x sk-te"), StreamChunk::Discard, text(0, "st-123")]);
        assert_eq!(all, [text(0, "x "), StreamChunk::Discard, text(0, "st-123")]);
    }
}
