//! Taking over a file of the older format, one message a line, as a log.

use std::sync::Arc;

use linn_services::ids::{CallId, SessionId, ToolName};
use linn_services::model::{ContentBlock, MessageSource};
use linn_services::session::{
    AssistantMessage, ErrorInfo, Fact, Record, RecordSurface, StepEnd, StepStart, SurfaceOp, ToolCall, ToolResult,
    TurnEnd, TurnEndReason, TurnStart, TurnTrigger, UserMessage,
};
use serde_json::Value;

use crate::place::digest;
use crate::view::VIEW_VERSION;

/// What a file of the older format holds.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) notices: Vec<String>,
}

/// The id of a session that is known by a file alone: the same each time.
pub(crate) fn id_of_file(file: &std::path::Path) -> SessionId {
    format!("file-{:016x}", digest(file.as_os_str().as_encoded_bytes())).into()
}

/// Why a file without a log is no session of the older format; `None` if it is one.
///
/// The first line decides: a session begins with its version, a message, or a note about a run. Lines behind it may be
/// damaged.
pub(crate) fn foreign(bytes: &[u8]) -> Option<String> {
    const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];
    let mut lines = bytes.split(|it| *it == b'\n').zip(1_u64..);
    let Some((line, at)) = lines.find(|(line, _)| !line.trim_ascii().is_empty()) else {
        return Some("it holds no lines".to_owned());
    };
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value,
        Err(error) => return Some(format!("line {at} is no JSON ({error})")),
    };
    let is_message = value.get("role").and_then(Value::as_str).is_some_and(|it| ROLES.contains(&it));
    let is_ours = is_message || value.get("_session_version").is_some_and(Value::is_u64) || value.get("_run").is_some();
    (!is_ours).then(|| format!("line {at} is neither the version of a session nor a message of one"))
}

/// Turns messages into records; `Err` is the version of a file that is too new.
///
/// A prompt begins a turn and each answer is a step, so that the log is one that Linn could have written. All records have
/// the time `time_ms`.
pub(crate) fn import(bytes: &[u8], time_ms: i64) -> Result<Imported, u64> {
    let mut messages = Vec::new();
    let mut notices = Vec::new();
    let mut bad_lines = Vec::new();
    let mut version = None;
    let mut lines = bytes.split(|it| *it == b'\n').enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let is_last = lines.peek().is_none();
        if line.trim_ascii().is_empty() {
            continue;
        }
        let value = serde_json::from_slice::<Value>(line);
        match value {
            Ok(value) => match (value.get("_session_version").and_then(Value::as_u64), value.get("role")) {
                (Some(found), _) if found > VIEW_VERSION => return Err(found),
                (Some(found), _) => version = version.or(Some(found)),
                (None, Some(_)) => messages.push(value),
                (None, None) if value.get("_run").is_some() => {}
                (None, None) => bad_lines.push(at + 1),
            },
            // Only the last piece has no line feed behind it.
            Err(_) if is_last => {
                notices.push(format!("recovered session after ignoring a truncated final record at line {}", at + 1));
            }
            Err(_) => bad_lines.push(at + 1),
        }
    }
    if version != Some(VIEW_VERSION) && !messages.is_empty() {
        notices.push("session file without the header of version 2: read in compatibility mode".to_owned());
    }
    if !bad_lines.is_empty() {
        let list: Vec<_> = bad_lines.iter().map(ToString::to_string).collect();
        let (n, list) = (bad_lines.len(), list.join(", "));
        notices.push(format!("ignored {n} malformed session record(s) at line(s) {list}"));
    }
    let mut log = Log { time_ms, ..Log::default() };
    for message in &messages {
        log.take(message);
    }
    log.end_turn();
    if log.n_orphans > 0 {
        notices.push(format!("left out {} result(s) of calls that nobody made", log.n_orphans));
    }
    Ok(Imported { records: log.records, notices })
}

#[derive(Default)]
struct Log {
    time_ms: i64,
    records: Vec<Arc<Record>>,
    turn: u32,
    is_open: bool,
    step: u32,
    /// Calls of the open step without a result.
    calls: Option<Vec<CallId>>,
    n_orphans: usize,
}

impl Log {
    fn push(&mut self, fact: impl Into<Fact>) {
        let fact = fact.into();
        let surface = fact.is_on_surface().then_some(RecordSurface { op: SurfaceOp::Append, source_seqs: None });
        let seq = self.records.len() as u64;
        self.records.push(Arc::new(Record { seq, time_ms: self.time_ms, fact, surface }));
    }

    fn take(&mut self, message: &Value) {
        let text = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("role") {
            "user" => {
                self.end_turn();
                self.begin_turn();
                let content = content_of(message.get("content"));
                self.push(UserMessage { content, source: MessageSource::User });
            }
            "assistant" => {
                self.begin_turn();
                self.end_step();
                self.step += 1;
                let (turn, step) = (self.turn, self.step);
                self.push(StepStart { turn, step });
                let calls = calls_of(message);
                let mut content = Vec::new();
                if !text("reasoning_content").is_empty() {
                    let text = text("reasoning_content").to_owned();
                    content.push(ContentBlock::Reasoning { text, signature: None });
                }
                content.extend(content_of(message.get("content")));
                content.extend(calls.iter().map(|(id, name, arguments)| ContentBlock::ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                }));
                self.push(AssistantMessage { turn, step, content, usage: None });
                let ids = calls.iter().map(|(id, _, _)| id.clone()).collect();
                for (call_id, name, arguments) in calls {
                    self.push(ToolCall { turn, step, call_id, name, arguments });
                }
                self.calls = Some(ids);
            }
            "tool" => {
                let call_id = CallId::from(text("tool_call_id"));
                let place = self.calls.as_ref().and_then(|it| it.iter().position(|it| *it == call_id));
                match (place, &mut self.calls) {
                    (Some(place), Some(calls)) => {
                        calls.remove(place);
                        let content = content_of(message.get("content"));
                        let (turn, step) = (self.turn, self.step);
                        self.push(ToolResult {
                            turn,
                            step,
                            call_id,
                            content,
                            is_error: false,
                            error: None,
                            meta: None,
                        });
                    }
                    _ => self.n_orphans += 1,
                }
            }
            // The frame is set anew by whoever continues the session.
            _ => {}
        }
    }

    fn begin_turn(&mut self) {
        if !self.is_open {
            (self.turn, self.step, self.is_open) = (self.turn + 1, 0, true);
            let trigger = TurnTrigger::Message { source: MessageSource::User };
            self.push(TurnStart { turn: self.turn, trigger });
        }
    }

    fn end_step(&mut self) {
        let Some(calls) = self.calls.take() else { return };
        let (turn, step) = (self.turn, self.step);
        for call_id in calls {
            let content = vec![ContentBlock::text("Error: interrupted: the session file holds no result of this call")];
            let error = Some(ErrorInfo { name: "InterruptedError".to_owned(), code: "interrupted".to_owned() });
            self.push(ToolResult { turn, step, call_id, content, is_error: true, error, meta: None });
        }
        self.push(StepEnd { turn, step });
    }

    fn end_turn(&mut self) {
        self.end_step();
        if self.is_open {
            self.is_open = false;
            self.push(TurnEnd { turn: self.turn, reason: TurnEndReason::Completed });
        }
    }
}

fn content_of(content: Option<&Value>) -> Vec<ContentBlock> {
    let part = |part: &Value| {
        let text = part.get("text").and_then(Value::as_str).map(ContentBlock::text);
        let url = part.pointer("/image_url/url").and_then(Value::as_str);
        text.or_else(|| url.map(|it| ContentBlock::Image { url: it.to_owned() }))
    };
    match content {
        Some(Value::String(text)) if !text.is_empty() => vec![ContentBlock::text(text.as_str())],
        Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn calls_of(message: &Value) -> Vec<(CallId, ToolName, String)> {
    let call = |call: &Value| {
        let id = call.get("id").and_then(Value::as_str)?;
        let name = call.pointer("/function/name").and_then(Value::as_str)?;
        let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
        Some((id.into(), name.into(), arguments.to_owned()))
    };
    message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().filter_map(call).collect()
}
