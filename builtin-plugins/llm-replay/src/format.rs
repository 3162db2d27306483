//! The text of a recording: read and written line by line.
//!
//! ```text
//! {"linn_recording":1,"about":"says hello"}
//! {"request":{"model":"some-model","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}}
//! {"after_ms":210,"chunk":{"type":"text-delta","index":0,"text":"Hello!"}}
//! {"chunk":{"type":"finish","reason":{"kind":"stop"}}}
//! ```

use std::sync::Arc;

use linn_services::llm::LlmError;
use linn_services::model::{ContentBlock, GenerateRequest, Message, StreamChunk, ToolSchema};
use serde::{Deserialize, Serialize};

use crate::compare::{Difference, difference, difference_of_lists, digest};
use crate::error::ReplayError;

/// The version of recordings that this code writes, and the latest that it reads.
pub const RECORDING_VERSION: u64 = 1;

/// What was asked of models and what they streamed, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// What it is about, in words.
    pub about: Option<String>,
    /// The requests with their answers.
    pub exchanges: Vec<Exchange>,
}

/// A request and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// What was asked.
    pub request: RecordedRequest,
    /// What was streamed.
    pub chunks: Vec<TimedChunk>,
    /// How the stream ended.
    pub outcome: Outcome,
}

/// A chunk, and when it came.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedChunk {
    /// Milliseconds since the chunk before, or since the request.
    pub after_ms: u64,
    /// The chunk.
    pub chunk: StreamChunk,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With its last chunk.
    Finished,
    /// With an error, this many milliseconds behind the last chunk.
    Failed {
        /// Milliseconds since the last chunk.
        after_ms: u64,
        /// The error.
        error: LlmError,
    },
    /// Nobody waited for more of it.
    Dropped,
}

/// What was asked; each part that is there has to be asked again in strict mode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedRequest {
    /// Digest of model, messages and tools.
    pub digest: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The system text; not compared, since it tells of the machine.
    pub system: Option<String>,
    /// The messages.
    pub messages: Option<Vec<Arc<Message>>>,
    /// The tools.
    pub tools: Option<Vec<ToolSchema>>,
    /// What the last message has to hold somewhere in its text.
    pub says: Option<String>,
}

impl RecordedRequest {
    /// What is recorded of a request.
    pub fn of(request: &GenerateRequest) -> Self {
        Self {
            digest: Some(digest(&request.config.model, request)),
            model: Some(request.config.model.clone()),
            system: request.system.clone(),
            messages: Some(request.messages.clone()),
            tools: Some(request.tools.clone()),
            says: None,
        }
    }

    /// Where `asked` is not what was recorded; the model is not compared if `is_replay` says that it names the recording.
    pub fn difference(&self, asked: &GenerateRequest, is_replay: bool) -> Option<Difference> {
        let model = self.model.as_deref().filter(|_| is_replay).unwrap_or(&asked.config.model);
        let of_model = || {
            let recorded = self.model.as_deref().filter(|it| *it != model)?;
            difference("model", &recorded.into(), &model.into())
        };
        let of_messages = || difference_of_lists("messages", self.messages.as_ref()?, &asked.messages);
        let of_tools = || difference_of_lists("tools", self.tools.as_ref()?, &asked.tools);
        let of_words = || {
            let words = self.says.as_ref()?;
            let last = asked.messages.last().map(|it| words_of(&it.content)).unwrap_or_default();
            let place = "the text of the last message".to_owned();
            (!last.contains(words)).then(|| Difference {
                place,
                recorded: format!("{words:?}"),
                asked: format!("{last:?}"),
            })
        };
        let of_digest = || {
            let recorded = self.digest.as_deref()?;
            difference("digest", &recorded.into(), &digest(model, asked).into())
        };
        of_model().or_else(of_messages).or_else(of_tools).or_else(of_words).or_else(of_digest)
    }
}

/// The text of a message, that of results included.
fn words_of(content: &[ContentBlock]) -> String {
    let words = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::ToolResult { content, .. } => words_of(content),
        _ => String::new(),
    };
    content.iter().map(words).collect()
}

/// Any line of a recording; exactly one kind of it is there.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    linn_recording: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<RequestLine>,
    #[serde(default, skip_serializing_if = "is_zero")]
    after_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk: Option<StreamChunk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<EndLine>,
}

/// The version alone, whatever else a later version may have put on the line.
#[derive(Deserialize)]
struct VersionLine {
    linn_recording: Option<u64>,
}

/// A request as the difference to the one before it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    says: Option<String>,
    /// How many messages of the request before stand at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_messages: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Arc<Message>>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keep_tools: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<ToolSchema>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keep_system: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorLine {
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_retryable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EndLine {
    Finished,
    Dropped,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Recording {
    /// Reads a recording; `name` is for errors. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Newer`], [`ReplayError::Damaged`], [`ReplayError::Torn`], [`ReplayError::Unfinished`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ReplayError> {
        let damaged = |line, why: &str| ReplayError::Damaged { name: name.to_owned(), line, why: why.to_owned() };
        let is_cut = !text.is_empty() && !text.ends_with('\n');
        let n_lines = text.lines().count();
        let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let head = "the first line of a recording says which version it is: {\"linn_recording\":1}";
        let (first, number) = lines.next().ok_or_else(|| damaged(1, head))?;
        match serde_json::from_str::<VersionLine>(first) {
            Ok(VersionLine { linn_recording: Some(found) }) if found > RECORDING_VERSION => {
                return Err(ReplayError::Newer { name: name.to_owned(), found, supported: RECORDING_VERSION });
            }
            Ok(VersionLine { linn_recording: Some(RECORDING_VERSION) }) => {}
            _ => return Err(damaged(number, head)),
        }
        let read = |line: &str, number: usize| {
            serde_json::from_str::<Line>(line).map_err(|error| {
                if is_cut && number == n_lines && error.is_eof() {
                    return ReplayError::Torn { name: name.to_owned(), line: number };
                }
                damaged(number, &error.to_string())
            })
        };
        let mut reader =
            Reader { name, recording: Self { about: read(first, number)?.about, ..Self::default() }, open: None };
        for (line, number) in lines {
            reader.take(read(line, number)?, number).map_err(|why| match why {
                Refused::Line(why) => damaged(number, why),
                Refused::Recording(error) => error,
            })?;
        }
        reader.end()
    }

    /// The text of the recording.
    pub fn to_text(&self) -> String {
        let mut text = head(self.about.as_deref());
        let mut writer = ExchangeWriter::default();
        for exchange in &self.exchanges {
            text.push_str(&writer.lines(exchange));
        }
        text
    }
}

/// Why a line cannot stand where it does.
enum Refused {
    Line(&'static str),
    Recording(ReplayError),
}

struct Reader<'a> {
    name: &'a str,
    recording: Recording,
    /// The request that is not answered yet, with its line.
    open: Option<(usize, RecordedRequest, Vec<TimedChunk>)>,
}

impl Reader<'_> {
    fn take(&mut self, line: Line, number: usize) -> Result<(), Refused> {
        if line.linn_recording.is_some() || line.about.is_some() {
            return Err(Refused::Line("only the first line holds `linn_recording` and `about`"));
        }
        let Line { request, after_ms, chunk, error, end, .. } = line;
        let n_kinds = [request.is_some(), chunk.is_some(), error.is_some(), end.is_some()];
        if n_kinds.iter().filter(|it| **it).count() != 1 {
            return Err(Refused::Line("a line holds one of `request`, `chunk`, `error` and `end`"));
        }
        if let Some(request) = request {
            if self.open.is_some() {
                return Err(Refused::Recording(self.unfinished()));
            }
            let request = self.whole(request)?;
            self.open = Some((number, request, Vec::new()));
            return Ok(());
        }
        let Some((_, _, chunks)) = &mut self.open else {
            return Err(Refused::Line("belongs to no request; a `request` comes before its answer"));
        };
        let outcome = match (chunk, error, end) {
            (Some(chunk), _, _) => {
                let is_last = matches!(chunk, StreamChunk::Finish { .. });
                chunks.push(TimedChunk { after_ms, chunk });
                is_last.then_some(Outcome::Finished)
            }
            (_, Some(it), _) => {
                let mut error = LlmError::new("", it.message);
                (error.code, error.status, error.is_retryable) = (it.code, it.status, it.is_retryable);
                Some(Outcome::Failed { after_ms, error })
            }
            (_, _, Some(EndLine::Dropped)) => Some(Outcome::Dropped),
            (_, _, Some(EndLine::Finished) | None) => Some(Outcome::Finished),
        };
        if let (Some(outcome), Some((_, request, chunks))) = (outcome.clone(), self.open.take_if(|_| outcome.is_some()))
        {
            self.recording.exchanges.push(Exchange { request, chunks, outcome });
        }
        Ok(())
    }

    /// A request with what it keeps of the one before.
    fn whole(&self, line: RequestLine) -> Result<RecordedRequest, Refused> {
        let before = self.recording.exchanges.last().map(|it| &it.request);
        let messages = match line.keep_messages {
            None => line.messages,
            Some(n) => {
                let known = before.and_then(|it| it.messages.as_ref()).filter(|it| it.len() >= n);
                let known = known.ok_or(Refused::Line("keeps more messages than the request before it has"))?;
                Some(known[..n].iter().cloned().chain(line.messages.into_iter().flatten()).collect())
            }
        };
        let kept_tools = || before.and_then(|it| it.tools.clone());
        let kept_system = || before.and_then(|it| it.system.clone());
        Ok(RecordedRequest {
            digest: line.digest,
            model: line.model,
            says: line.says,
            messages,
            tools: if line.keep_tools { kept_tools() } else { line.tools },
            system: if line.keep_system { kept_system() } else { line.system },
        })
    }

    fn unfinished(&self) -> ReplayError {
        let line = self.open.as_ref().map_or(0, |(line, ..)| *line);
        ReplayError::Unfinished { name: self.name.to_owned(), request: self.recording.exchanges.len() + 1, line }
    }

    fn end(self) -> Result<Recording, ReplayError> {
        if self.open.is_some() { Err(self.unfinished()) } else { Ok(self.recording) }
    }
}

fn line(line: &Line) -> String {
    let mut text = serde_json::to_string(line).expect("a line is JSON");
    text.push('\n');
    text
}

/// The first line of a recording.
pub(crate) fn head(about: Option<&str>) -> String {
    line(&Line { linn_recording: Some(RECORDING_VERSION), about: about.map(str::to_owned), ..Line::default() })
}

/// Writes exchanges one after the other, each request as the difference to the one before.
#[derive(Debug, Default)]
pub(crate) struct ExchangeWriter {
    before: Option<RecordedRequest>,
}

impl ExchangeWriter {
    /// The lines of the next exchange.
    pub(crate) fn lines(&mut self, exchange: &Exchange) -> String {
        let mut text = line(&Line { request: Some(self.request(&exchange.request)), ..Line::default() });
        for TimedChunk { after_ms, chunk } in &exchange.chunks {
            text.push_str(&line(&Line { after_ms: *after_ms, chunk: Some(chunk.clone()), ..Line::default() }));
        }
        let is_ended = matches!(exchange.chunks.last(), Some(it) if matches!(it.chunk, StreamChunk::Finish { .. }));
        match &exchange.outcome {
            Outcome::Finished if is_ended => {}
            Outcome::Finished => text.push_str(&line(&Line { end: Some(EndLine::Finished), ..Line::default() })),
            Outcome::Dropped => text.push_str(&line(&Line { end: Some(EndLine::Dropped), ..Line::default() })),
            Outcome::Failed { after_ms, error } => {
                let error = ErrorLine {
                    message: error.message.clone(),
                    code: error.code.clone(),
                    status: error.status,
                    is_retryable: error.is_retryable,
                };
                text.push_str(&line(&Line { after_ms: *after_ms, error: Some(error), ..Line::default() }));
            }
        }
        self.before = Some(exchange.request.clone());
        text
    }

    fn request(&self, request: &RecordedRequest) -> RequestLine {
        let before = self.before.as_ref();
        let known = before.and_then(|it| it.messages.as_deref()).unwrap_or_default();
        let asked = request.messages.as_deref().unwrap_or_default();
        let n_kept = known.iter().zip(asked).take_while(|(known, asked)| known == asked).count();
        let keep_tools = request.tools.is_some() && before.is_some_and(|it| it.tools == request.tools);
        let keep_system = request.system.is_some() && before.is_some_and(|it| it.system == request.system);
        RequestLine {
            digest: request.digest.clone(),
            model: request.model.clone(),
            says: request.says.clone(),
            keep_messages: (n_kept > 0).then_some(n_kept),
            messages: request
                .messages
                .as_ref()
                .map(|it| it[n_kept..].to_vec())
                .filter(|it| n_kept == 0 || !it.is_empty()),
            keep_tools,
            tools: request.tools.clone().filter(|_| !keep_tools),
            keep_system,
            system: request.system.clone().filter(|_| !keep_system),
        }
    }
}
