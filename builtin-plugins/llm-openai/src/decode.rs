//! What the chunks of a stream mean.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use linn_services::ids::CallId;
use linn_services::json::whole_characters;
use linn_services::llm::LlmError;
use linn_services::llm::wire::{
    Blocks, Calls, Decoder, Frame, Lenient, Piece, Progress, ThinkSplitter, clean_text, stream_error,
};
use linn_services::model::{BlockType, FinishReason, StreamChunk, TokenUsage};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::usage::Usage;

/// Most calls that one answer may have; indices are smaller than this.
pub const MAX_CALLS: usize = 64;

/// Most bytes of arguments that one call may have on the wire: 8 MiB.
pub const MAX_WIRE_ARGUMENTS_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Lenient<'a>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Lenient<'a>,
    #[serde(borrow, default)]
    reasoning_content: Lenient<'a>,
    #[serde(borrow, default)]
    reasoning: Lenient<'a>,
    #[serde(borrow, default)]
    reasoning_details: Lenient<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(borrow, default)]
    index: Lenient<'a>,
    #[serde(borrow, default)]
    id: Lenient<'a>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Lenient<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// A call as far as it has come.
struct Call {
    block: u32,
    index: Option<u64>,
    id: CallId,
    has_name: bool,
    n_bytes: usize,
    is_blank: bool,
}

/// Makes chunks of one stream.
pub struct ChatDecoder {
    blocks: Blocks,
    think: ThinkSplitter,
    calls: Vec<Call>,
    usage: Option<TokenUsage>,
    finish: Option<FinishReason>,
    is_closed: bool,
    secrets: Arc<[SecretString]>,
}

impl ChatDecoder {
    /// A decoder at the start of a stream. `secrets` are shown in no error.
    pub fn new(secrets: Arc<[SecretString]>) -> Self {
        Self {
            blocks: Blocks::new(),
            think: ThinkSplitter::new(),
            calls: Vec::new(),
            usage: None,
            finish: None,
            is_closed: false,
            secrets,
        }
    }

    fn take(&mut self, chunk: Chunk<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        if let Some(error) = chunk.error.and_then(|it| self.error(it)) {
            return Err(error);
        }
        // Other choices are other answers to the same request, and none was asked for.
        let choice = chunk.choices.and_then(|it| it.into_iter().next());
        let mut usage = chunk.usage;
        if let Some(choice) = choice {
            if let Some(delta) = choice.delta {
                self.delta(delta, out)?;
            }
            if let Some(reason) = choice.finish_reason.get() {
                self.finish.get_or_insert_with(|| finish(reason));
            }
            usage = usage.or(choice.usage);
        }
        if let Some(usage) = usage.and_then(|it| it.counts()) {
            self.usage = Some(usage);
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        let thought = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_details];
        if let Some(thought) = thought.into_iter().find_map(Lenient::get) {
            self.blocks.reasoning(thought, out);
        }
        if let Some(text) = delta.content.get() {
            let blocks = &mut self.blocks;
            self.think.feed(text, |piece| match piece {
                Piece::Text(text) => blocks.text(text, out),
                Piece::Thinking(text) => blocks.reasoning(text, out),
            });
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        let index = delta.index.get().and_then(|it| it.parse::<u64>().ok());
        if let Some(index) = index.filter(|it| *it >= MAX_CALLS as u64) {
            let why = format!("the model calls tool number {index}; an answer may have {MAX_CALLS} calls");
            return Err(LlmError::new("STREAM_LIMIT", why));
        }
        let id = delta.id.get().unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let name = function.name.get();
        let arguments = arguments(function.arguments).map_err(|raw| Calls::malformed(raw, &self.secrets))?;
        let at = match self.place(index, id, name) {
            Some(at) => at,
            None => self.begin(index, out)?,
        };
        let call = &mut self.calls[at];
        if call.id.as_str().is_empty() && !id.is_empty() {
            call.id = id.into();
        }
        let name = name.filter(|_| !std::mem::replace(&mut call.has_name, true));
        call.n_bytes += arguments.len();
        call.is_blank &= arguments.trim().is_empty();
        if call.n_bytes > MAX_WIRE_ARGUMENTS_BYTES {
            let why = format!("the arguments of a call went past the limit of {MAX_WIRE_ARGUMENTS_BYTES} bytes");
            return Err(LlmError::new("STREAM_LIMIT", why));
        }
        if name.is_some() || !arguments.is_empty() {
            out.push_back(StreamChunk::ToolCallDelta {
                index: call.block,
                id: call.id.clone(),
                name: name.map(str::to_owned),
                arguments_delta: arguments.into_owned(),
            });
        }
        Ok(())
    }

    /// The call that a delta adds to: the one of its index, else of its id, else the last one. A new id with a name begins
    /// another call even where the index is an old one, as some endpoints give every call the same.
    fn place(&self, index: Option<u64>, id: &str, name: Option<&str>) -> Option<usize> {
        let is_new = |call: &Call| name.is_some() && !id.is_empty() && !call.id.as_str().is_empty() && call.id != *id;
        match index {
            Some(_) => {
                let at = self.calls.iter().rposition(|it| it.index == index)?;
                (!is_new(&self.calls[at])).then_some(at)
            }
            None if !id.is_empty() => self.calls.iter().rposition(|it| it.id == *id),
            None => {
                let last = self.calls.last()?;
                (name.is_none() || !last.has_name).then(|| self.calls.len() - 1)
            }
        }
    }

    fn begin(&mut self, index: Option<u64>, out: &mut VecDeque<StreamChunk>) -> Result<usize, LlmError> {
        if self.calls.len() == MAX_CALLS {
            let why = format!("the model makes more than {MAX_CALLS} calls in one answer");
            return Err(LlmError::new("STREAM_LIMIT", why));
        }
        let block = self.blocks.begin(BlockType::ToolCall, out);
        self.calls.push(Call { block, index, id: "".into(), has_name: false, n_bytes: 0, is_blank: true });
        Ok(self.calls.len() - 1)
    }

    /// The error that an `error` field tells; none if it tells none.
    fn error(&self, raw: &RawValue) -> Option<LlmError> {
        let error: Value = serde_json::from_str(raw.get()).ok()?;
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        match &error {
            Value::Null | Value::Bool(false) => None,
            Value::String(message) if message.is_empty() => None,
            Value::Object(fields) if fields.is_empty() => None,
            Value::Object(fields) => {
                let kinds: Vec<_> = ["code", "type"].into_iter().filter_map(|it| text(fields.get(it)?)).collect();
                let message = ["message", "detail"].into_iter().find_map(|it| text(fields.get(it)?));
                let message = clean_text(&message.unwrap_or_else(|| error.to_string()), &self.secrets);
                let kinds: Vec<_> = kinds.iter().map(String::as_str).collect();
                Some(stream_error(&kinds, &message))
            }
            other => {
                let message = text(other).unwrap_or_else(|| other.to_string());
                Some(stream_error(&[], &clean_text(&message, &self.secrets)))
            }
        }
    }
}

impl Decoder for ChatDecoder {
    fn frame(&mut self, frame: Frame<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        let data = frame.data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.is_closed = true;
            return Ok(());
        }
        let data = &*whole_characters(data);
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|_| Calls::malformed(data, &self.secrets))?;
        self.take(chunk, out)
    }

    fn progress(&self) -> Progress {
        match (self.is_closed, &self.finish, &self.usage) {
            (true, ..) | (_, Some(_), Some(_)) => Progress::Closed,
            (_, Some(_), None) => Progress::Finished,
            (_, None, _) => Progress::Answering,
        }
    }

    fn end(&mut self, out: &mut VecDeque<StreamChunk>) {
        let blocks = &mut self.blocks;
        self.think.finish(|piece| match piece {
            Piece::Text(text) => blocks.text(text, out),
            Piece::Thinking(text) => blocks.reasoning(text, out),
        });
        // A call without arguments has the object without fields.
        for call in self.calls.iter().filter(|it| it.is_blank) {
            out.push_back(StreamChunk::ToolCallDelta {
                index: call.block,
                id: call.id.clone(),
                name: None,
                arguments_delta: "{}".to_owned(),
            });
        }
        if let Some(usage) = self.usage {
            out.push_back(StreamChunk::Usage { usage });
        }
        let reason = self.finish.take().unwrap_or(match self.calls.is_empty() {
            true => FinishReason::Stop,
            false => FinishReason::ToolCalls,
        });
        out.push_back(StreamChunk::Finish { reason });
    }
}

/// The arguments in a delta: a text, or an object in place of its text. An empty object is what some endpoints put where
/// nothing has come yet.
fn arguments(raw: Option<&RawValue>) -> Result<Cow<'_, str>, &[u8]> {
    let Some(raw) = raw.map(RawValue::get) else { return Ok("".into()) };
    match raw.as_bytes().first() {
        Some(b'"') => {
            let text: Lenient<'_> = serde_json::from_str(raw).map_err(|_| raw.as_bytes())?;
            Ok(text.0.unwrap_or_default())
        }
        Some(b'{') if raw[1..raw.len() - 1].trim().is_empty() => Ok("".into()),
        _ if raw == "null" => Ok("".into()),
        _ => Ok(raw.into()),
    }
}

fn finish(reason: &str) -> FinishReason {
    match reason {
        "stop" | "end_turn" | "eos" => FinishReason::Stop,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "length" | "max_tokens" => FinishReason::MaxTokens,
        "error" => {
            FinishReason::Error { message: "the provider ended the answer with an error".to_owned(), code: None }
        }
        other => FinishReason::Other(json!({ "kind": other.replace('_', "-") })),
    }
}
