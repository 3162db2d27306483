//! What the events of a stream mean.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use linn_services::ids::CallId;
use linn_services::json::whole_characters;
use linn_services::llm::LlmError;
use linn_services::llm::wire::{Blocks, Calls, Count, Decoder, Frame, Lenient, Progress, clean_text, stream_error};
use linn_services::model::{BlockType, ContentBlock, FinishReason, StreamChunk, TokenUsage};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// Most blocks that one answer may have.
pub const MAX_CALLS: usize = 64;

/// Most bytes of arguments that one call may have on the wire: 8 MiB.
pub const MAX_WIRE_ARGUMENTS_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Lenient<'a>,
    #[serde(default)]
    index: Count,
    #[serde(default)]
    message: Option<Message>,
    #[serde(borrow, default)]
    content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(borrow, default)]
    error: Option<Failure<'a>>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Lenient<'a>,
    #[serde(borrow, default)]
    id: Lenient<'a>,
    #[serde(borrow, default)]
    name: Lenient<'a>,
    #[serde(borrow, default)]
    text: Lenient<'a>,
    #[serde(borrow, default)]
    thinking: Lenient<'a>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Lenient<'a>,
    #[serde(borrow, default)]
    text: Lenient<'a>,
    #[serde(borrow, default)]
    thinking: Lenient<'a>,
    #[serde(borrow, default)]
    signature: Lenient<'a>,
    #[serde(borrow, default)]
    partial_json: Lenient<'a>,
    #[serde(borrow, default)]
    stop_reason: Lenient<'a>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Lenient<'a>,
    #[serde(borrow, default)]
    message: Lenient<'a>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
}

/// A block of the endpoint, by what it became.
enum Open {
    Call { block: u32, id: CallId, input: String, n_bytes: usize, is_blank: bool },
    Thought { block: u32, text: String, signature: String },
}

/// Makes chunks of one stream.
pub struct MessagesDecoder {
    blocks: Blocks,
    open: HashMap<u64, Open>,
    has_calls: bool,
    usage: Option<TokenUsage>,
    finish: Option<FinishReason>,
    is_closed: bool,
    secrets: Arc<[SecretString]>,
}

impl MessagesDecoder {
    /// A decoder at the start of a stream. `secrets` are shown in no error.
    pub fn new(secrets: Arc<[SecretString]>) -> Self {
        Self {
            blocks: Blocks::new(),
            open: HashMap::new(),
            has_calls: false,
            usage: None,
            finish: None,
            is_closed: false,
            secrets,
        }
    }

    fn take(&mut self, kind: &str, event: &Event<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        let index = event.index.0.unwrap_or_default();
        match kind {
            "error" => return Err(self.error(event.error.as_ref())),
            "message_start" => self.count(event.message.as_ref().and_then(|it| it.usage)),
            "content_block_start" => {
                if let Some(block) = &event.content_block {
                    self.begin(index, block, out)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = &event.delta {
                    self.delta(index, delta, out)?;
                }
            }
            "content_block_stop" => self.stop(index, out),
            "message_delta" => {
                self.count(event.usage);
                if let Some(reason) = event.delta.as_ref().and_then(|it| it.stop_reason.get()) {
                    self.finish = Some(finish(reason));
                }
            }
            "message_stop" => self.is_closed = true,
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, index: u64, block: &Block<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        match block.kind.get().unwrap_or_default() {
            "text" => {
                if let Some(text) = block.text.get() {
                    self.blocks.text(text, out);
                }
            }
            "thinking" => {
                let number = self.blocks.begin(BlockType::Reasoning, out);
                self.put(index, Open::Thought { block: number, text: String::new(), signature: String::new() })?;
                if let Some(text) = block.thinking.get() {
                    self.thought(index, text, out);
                }
            }
            "tool_use" => {
                self.has_calls = true;
                let number = self.blocks.begin(BlockType::ToolCall, out);
                let id = CallId::from(block.id.get().unwrap_or_default());
                out.push_back(StreamChunk::ToolCallDelta {
                    index: number,
                    id: id.clone(),
                    name: block.name.get().map(str::to_owned),
                    arguments_delta: String::new(),
                });
                // Some endpoints give the whole input here; deltas take its place.
                let input = block.input.map(RawValue::get).filter(|it| it.starts_with('{')).unwrap_or("{}");
                let input = input.to_owned();
                self.put(index, Open::Call { block: number, id, input, n_bytes: 0, is_blank: true })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, index: u64, open: Open) -> Result<(), LlmError> {
        if self.open.len() == MAX_CALLS {
            let why = format!("the model streams more than {MAX_CALLS} blocks at once");
            return Err(LlmError::new("STREAM_LIMIT", why));
        }
        self.open.insert(index, open);
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &Delta<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        match delta.kind.get().unwrap_or_default() {
            "text_delta" => {
                if let Some(text) = delta.text.get() {
                    self.blocks.text(text, out);
                }
            }
            "thinking_delta" => {
                if let Some(text) = delta.thinking.get() {
                    self.thought(index, text, out);
                }
            }
            "signature_delta" => {
                if let (Some(Open::Thought { signature, .. }), Some(more)) =
                    (self.open.get_mut(&index), delta.signature.get())
                {
                    signature.push_str(more);
                }
            }
            "input_json_delta" => {
                if let (Some(Open::Call { block, id, n_bytes, is_blank, .. }), Some(more)) =
                    (self.open.get_mut(&index), delta.partial_json.get())
                {
                    *n_bytes += more.len();
                    if *n_bytes > MAX_WIRE_ARGUMENTS_BYTES {
                        let limit = MAX_WIRE_ARGUMENTS_BYTES;
                        let why = format!("the arguments of a call went past the limit of {limit} bytes");
                        return Err(LlmError::new("STREAM_LIMIT", why));
                    }
                    *is_blank &= more.trim().is_empty();
                    out.push_back(StreamChunk::ToolCallDelta {
                        index: *block,
                        id: id.clone(),
                        name: None,
                        arguments_delta: more.to_owned(),
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn thought(&mut self, index: u64, more: &str, out: &mut VecDeque<StreamChunk>) {
        match self.open.get_mut(&index) {
            Some(Open::Thought { block, text, .. }) => {
                text.push_str(more);
                out.push_back(StreamChunk::ReasoningDelta { index: *block, text: more.to_owned() });
            }
            _ => self.blocks.reasoning(more, out),
        }
    }

    fn stop(&mut self, index: u64, out: &mut VecDeque<StreamChunk>) {
        match self.open.remove(&index) {
            Some(Open::Call { block, id, input, is_blank: true, .. }) => {
                out.push_back(StreamChunk::ToolCallDelta { index: block, id, name: None, arguments_delta: input });
            }
            Some(Open::Thought { block, text, signature }) if !signature.is_empty() => {
                let block_of = ContentBlock::Reasoning { text, signature: Some(signature) };
                out.push_back(StreamChunk::BlockEnd { index: block, block: block_of });
            }
            Some(Open::Call { .. } | Open::Thought { .. }) | None => {}
        }
    }

    /// Counts are totals: what is told later takes the place of what was told before.
    fn count(&mut self, told: Option<Usage>) {
        let Some(told) = told else { return };
        let usage = self.usage.get_or_insert_default();
        usage.input_tokens = told.input_tokens.0.unwrap_or(usage.input_tokens);
        usage.output_tokens = told.output_tokens.0.unwrap_or(usage.output_tokens);
        usage.cache_read_tokens = told.cache_read_input_tokens.0.or(usage.cache_read_tokens);
        usage.cache_write_tokens = told.cache_creation_input_tokens.0.or(usage.cache_write_tokens);
    }

    fn error(&self, failure: Option<&Failure<'_>>) -> LlmError {
        let kind = failure.and_then(|it| it.kind.get());
        let message = failure.and_then(|it| it.message.get()).unwrap_or_default();
        stream_error(kind.as_slice(), &clean_text(message, &self.secrets))
    }
}

impl Decoder for MessagesDecoder {
    fn frame(&mut self, frame: Frame<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        let data = frame.data.trim_ascii();
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let data = &*whole_characters(data);
        let event: Event<'_> = serde_json::from_slice(data).map_err(|_| Calls::malformed(data, &self.secrets))?;
        let named = std::str::from_utf8(frame.event).unwrap_or_default();
        let kind = event.kind.get().unwrap_or(if event.error.is_some() { "error" } else { named });
        self.take(kind, &event, out)
    }

    fn progress(&self) -> Progress {
        match (self.is_closed, &self.finish) {
            (true, _) => Progress::Closed,
            (false, Some(_)) => Progress::Finished,
            (false, None) => Progress::Answering,
        }
    }

    fn end(&mut self, out: &mut VecDeque<StreamChunk>) {
        let mut left: Vec<_> = self.open.keys().copied().collect();
        left.sort_unstable();
        for index in left {
            self.stop(index, out);
        }
        if let Some(usage) = self.usage {
            out.push_back(StreamChunk::Usage { usage });
        }
        let usual = if self.has_calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        out.push_back(StreamChunk::Finish { reason: self.finish.take().unwrap_or(usual) });
    }
}

fn finish(reason: &str) -> FinishReason {
    match reason {
        "end_turn" | "stop_sequence" | "stop" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" => FinishReason::MaxTokens,
        other => FinishReason::Other(json!({ "kind": other.replace('_', "-") })),
    }
}
