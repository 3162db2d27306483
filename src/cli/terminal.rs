//! What a terminal shows of a session: text as it streams, calls, diffs and results.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anstyle::{AnsiColor, Style};
use linn::bus::{BusError, Context};
use linn::services::events::{
    AgentError, ApprovalRequest, HmrReload, PluginNotice, PluginNoticeLevel, PluginStatus, SessionEvent, SessionUnsaved,
};
use linn::services::ids::CallId;
use linn::services::interaction::{Question, QuestionKind};
use linn::services::model::{MessageSource, StreamChunk, text_of};
use linn::services::session::{Fact, RewindCause, TurnEndReason};
use serde_json::Value;
use tokio::sync::Notify;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const RED: Style = AnsiColor::Red.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();

/// How many lines of a result are shown.
const RESULT_LINES: usize = 8;

/// How many lines of a diff are shown.
const DIFF_LINES: usize = 40;

/// Shows what happens. A terminal that is gone is noted once and written to no more.
pub(crate) struct Terminal {
    out: Mutex<Out>,
    is_gone: AtomicBool,
    gone: Notify,
}

struct Out {
    writer: Box<dyn Write + Send>,
    /// Calls whose change was shown when they were asked about.
    previewed: HashSet<CallId>,
    /// Text was written that has no line end yet.
    is_mid_line: bool,
    /// The prompt that a person typed here, until it is logged.
    typed: Option<String>,
}

impl Terminal {
    /// Shows on `writer`, which takes styles out where they are not wanted.
    pub(crate) fn new(writer: Box<dyn Write + Send>) -> Arc<Self> {
        let out = Mutex::new(Out { writer, previewed: HashSet::new(), is_mid_line: false, typed: None });
        Arc::new(Self { out, is_gone: AtomicBool::new(false), gone: Notify::new() })
    }

    /// Ready when nobody reads any more.
    pub(crate) async fn gone(&self) {
        let gone = self.gone.notified();
        if !self.is_gone.load(Ordering::Acquire) {
            gone.await;
        }
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Shows every session of the harness from now on.
    pub(crate) fn follow(self: &Arc<Self>, ctx: &Context) -> Result<(), BusError> {
        ctx.on_with(self, Self::unsaved)?;
        ctx.on_with(self, Self::failed)?;
        ctx.on_with(self, Self::reloaded)?;
        ctx.on_with(self, Self::noticed)?;
        ctx.on_with(self, Self::status)?;
        ctx.on_with(self, Self::record).map(drop)
    }

    /// A line of the program's own.
    pub(crate) fn say(&self, line: &str) {
        self.write(|out| out.line(&[(BOLD, line)]));
    }

    /// A line that explains.
    pub(crate) fn explain(&self, line: &str) {
        self.write(|out| out.line(&[(DIM, line)]));
    }

    /// Text as it is, with what a terminal would obey taken out.
    pub(crate) fn plain(&self, text: &str) {
        self.write(|out| text.lines().try_for_each(|line| out.line(&[(Style::new(), line)])));
    }

    /// The sign that a prompt can be typed.
    pub(crate) fn prompt(&self) {
        self.write(|out| {
            out.break_line()?;
            write!(out.writer, "{CYAN}› {CYAN:#}")
        });
    }

    /// A person typed this prompt where it can be seen already, so it is not shown again.
    pub(crate) fn typed(&self, prompt: &str) {
        self.write(|out| {
            out.typed = Some(prompt.to_owned());
            Ok(())
        });
    }

    /// An empty line.
    pub(crate) fn gap(&self) {
        self.write(|out| out.line(&[]));
    }

    /// A line about something that went wrong.
    pub(crate) fn warn(&self, line: &str) {
        self.write(|out| out.line(&[(YELLOW, line)]));
    }

    /// Shows a call that is asked about: all of what it would run with, and all of what it would change.
    pub(crate) fn asked(&self, request: &ApprovalRequest) {
        self.write(|out| {
            out.line(&[(YELLOW, "? may "), (BOLD, request.tool_name.as_str()), (YELLOW, " run with")])?;
            let arguments = request.arguments.as_deref().map(whole).unwrap_or_default();
            arguments.lines().try_for_each(|line| out.line(&[(YELLOW, "  │ "), (BOLD, line)]))?;
            if let Some(reason) = &request.reason {
                out.line(&[(DIM, "  "), (DIM, reason)])?;
            }
            if let Some(diff) = request.preview.as_ref().and_then(|it| it.diff.as_ref()) {
                out.previewed.extend(request.call_id.clone());
                out.diff(diff, usize::MAX)?;
            }
            out.line(&[(BOLD, "  [y]es, [n]o, [a]lways this tool in this session:")])
        });
    }

    /// Shows a question of the model.
    pub(crate) fn questioned(&self, question: &Question) {
        self.write(|out| {
            out.line(&[(YELLOW, "? "), (BOLD, &question.prompt)])?;
            for (number, option) in (1..).zip(&question.options) {
                out.line(&[(YELLOW, &format!("  {number} ")), (Style::new(), option)])?;
            }
            let how = match (question.kind, question.allow_custom == Some(false)) {
                (QuestionKind::Select, true) => "the number of one of them",
                (QuestionKind::Select, false) => "the number of one of them, or another answer",
                (QuestionKind::Text, _) => "an answer",
            };
            let skip = if question.required == Some(true) { "" } else { "; an empty line skips it" };
            out.line(&[(DIM, &format!("  {how}{skip}:"))])
        });
    }

    /// Records that are in memory alone.
    fn unsaved(&self, event: &SessionUnsaved) {
        let text = format!("✗ the session is not saved ({} records): {}", event.n_records, event.why);
        self.write(|out| out.line(&[(RED, &text)]));
    }

    fn reloaded(&self, event: &HmrReload) {
        for plugin in event.plugins.keys() {
            self.explain(&format!("↻ plugin `{plugin}` was reloaded"));
        }
    }

    fn noticed(&self, event: &PluginNotice) {
        let style = if event.level == PluginNoticeLevel::Info { DIM } else { YELLOW };
        self.write(|out| event.message.lines().try_for_each(|line| out.line(&[(style, line)])));
    }

    fn status(&self, event: &PluginStatus) {
        if !event.text.is_empty() {
            self.explain(&format!("[{}] {}", event.plugin, event.text));
        }
    }

    fn failed(&self, event: &AgentError) {
        // What fails in a turn is told by its end.
        if event.step == 0 {
            self.write(|out| out.line(&[(RED, "✗ "), (RED, &event.message)]));
        }
    }

    fn write(&self, write: impl FnOnce(&mut Out) -> io::Result<()>) {
        if self.is_gone.load(Ordering::Acquire) {
            return;
        }
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if write(&mut out).and_then(|()| out.writer.flush()).is_err() {
            self.is_gone.store(true, Ordering::Release);
            self.gone.notify_waiters();
        }
    }

    fn record(&self, event: &SessionEvent) {
        self.write(|out| out.fact(&event.record.fact));
    }
}

impl Out {
    /// Ends the line that streams, if one does.
    fn break_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_mid_line) { writeln!(self.writer) } else { Ok(()) }
    }

    fn line(&mut self, parts: &[(Style, &str)]) -> io::Result<()> {
        self.break_line()?;
        for (style, text) in parts {
            write!(self.writer, "{style}{}{style:#}", plain(text))?;
        }
        writeln!(self.writer)
    }

    fn stream(&mut self, text: &str, style: Style) -> io::Result<()> {
        let text = plain(text);
        if text.is_empty() {
            return Ok(());
        }
        self.is_mid_line = !text.ends_with('\n');
        write!(self.writer, "{style}{text}{style:#}")
    }

    fn diff(&mut self, diff: &str, most: usize) -> io::Result<()> {
        self.break_line()?;
        for (n, line) in diff.lines().enumerate() {
            if n == most {
                return self.line(&[(DIM, &format!("    … {} more lines", diff.lines().count() - n))]);
            }
            let style = match line.as_bytes().first() {
                Some(b'+') => GREEN,
                Some(b'-') => RED,
                Some(b'@') => CYAN,
                _ => DIM,
            };
            self.line(&[(DIM, "    "), (style, line)])?;
        }
        Ok(())
    }

    fn fact(&mut self, fact: &Fact) -> io::Result<()> {
        match fact {
            Fact::AssistantChunk(it) => match &it.chunk {
                StreamChunk::TextDelta { text, .. } => self.stream(text, Style::new()),
                StreamChunk::ReasoningDelta { text, .. } => self.stream(text, DIM),
                StreamChunk::BlockEnd { .. } => self.break_line(),
                StreamChunk::Discard => self.line(&[(DIM, "  ↻ the answer is begun anew")]),
                _ => Ok(()),
            },
            // A summary was shown when it was logged.
            Fact::UserMessage(it) if it.source != MessageSource::User => Ok(()),
            Fact::UserMessage(it) => {
                let text = text_of(&it.content);
                if self.typed.take().is_some_and(|typed| typed == text) {
                    return Ok(());
                }
                let mut lines = text.lines();
                self.line(&[(CYAN, "› "), (BOLD, lines.next().unwrap_or_default())])?;
                lines.try_for_each(|line| self.line(&[(BOLD, "  "), (BOLD, line)]))
            }
            Fact::SteeringMessage(it) => self.line(&[(CYAN, "› "), (BOLD, &text_of(&it.content))]),
            Fact::ContextMessage(it) => {
                let who = it.source.kind();
                self.line(&[(DIM, &format!("  + context from {who}: {}", first_line(&text_of(&it.content))))])
            }
            Fact::PromptBlocked(it) => self.line(&[(RED, &format!("✗ the prompt was refused: {}", it.reason))]),
            Fact::ToolCall(it) => self.line(&[(CYAN, "● "), (BOLD, it.name.as_str()), (DIM, &brief(&it.arguments))]),
            Fact::ToolAmended(it) => self.line(&[(
                YELLOW,
                &format!("  ↳ {} changed the arguments to {}", it.by, brief(&it.arguments.to_string())),
            )]),
            Fact::ToolResult(it) => {
                let meta = it.meta.as_ref().filter(|_| !self.previewed.remove(&it.call_id));
                self.result(&text_of(&it.content), it.is_error, meta)
            }
            Fact::CompactSummary(it) => {
                let n = it.shadowed_seqs.len();
                self.line(&[(
                    YELLOW,
                    &format!("≡ {n} earlier records (about {} tokens) gave way to a summary:", it.shadowed_token_count),
                )])?;
                it.summary.lines().try_for_each(|line| self.line(&[(DIM, "    "), (DIM, line)]))
            }
            Fact::CompactEnd(it) => match &it.error {
                Some(error) => self.line(&[(RED, &format!("✗ nothing was compacted: {error}"))]),
                None => Ok(()),
            },
            Fact::SessionRewind(it) => {
                let what = match it.cause {
                    RewindCause::Reset => "starts anew",
                    RewindCause::Clear => "was cleared",
                    RewindCause::Undo => "goes back",
                };
                self.line(&[(YELLOW, &format!("≡ the conversation {what}"))])
            }
            Fact::TurnEnd(it) => match &it.reason {
                TurnEndReason::Completed | TurnEndReason::Rejected { .. } => self.break_line(),
                TurnEndReason::Aborted { reason } => {
                    self.line(&[(YELLOW, &format!("■ aborted: {}", reason.as_deref().unwrap_or("no reason given")))])
                }
                TurnEndReason::Error { message, .. } => self.line(&[(RED, &format!("✗ {message}"))]),
                TurnEndReason::MaxTokens => self.line(&[(YELLOW, "■ the limit of the answer was reached")]),
                TurnEndReason::Disposed => self.line(&[(YELLOW, "■ the agent was ended")]),
                _ => self.break_line(),
            },
            _ => Ok(()),
        }
    }

    fn result(&mut self, text: &str, is_error: bool, meta: Option<&Value>) -> io::Result<()> {
        let (mark, style) = if is_error { ("  ✗ ", RED) } else { ("  ⎿ ", DIM) };
        for (n, line) in text.lines().enumerate() {
            if n == RESULT_LINES {
                self.line(&[(DIM, &format!("    … {} more lines", text.lines().count() - n))])?;
                break;
            }
            self.line(&[(style, if n == 0 { mark } else { "    " }), (style, line)])?;
        }
        match meta.and_then(|it| it.get("diff")).and_then(Value::as_str) {
            Some(diff) => self.diff(diff, DIFF_LINES),
            None => Ok(()),
        }
    }
}

/// The text without what a terminal would obey, and without what turns the direction of writing around.
fn plain(text: &str) -> String {
    let clean = anstream::adapter::strip_str(text).to_string();
    let turns = |it: char| matches!(it, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    clean.chars().filter(|it| (!it.is_control() || matches!(it, '\n' | '\t')) && !turns(*it)).collect()
}

/// The arguments of a call in full: one a paragraph, texts as they are.
fn whole(arguments: &Value) -> String {
    let Value::Object(map) = arguments else { return format!("{arguments:#}") };
    let one = |(key, value): (&String, &Value)| {
        let key = first_line(key);
        match value {
            Value::String(text) if text.contains('\n') => format!("{key}:\n{text}"),
            Value::String(text) => format!("{key}: {text}"),
            other => format!("{key}: {other:#}"),
        }
    };
    map.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The arguments of a call in one line.
fn brief(arguments: &str) -> String {
    let shown = match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(map)) => {
            let one = |(key, value): (&String, &Value)| match value {
                Value::String(text) => format!("{}={}", first_line(key), short(first_line(text))),
                other => format!("{key}={}", short(&other.to_string())),
            };
            let mut parts: Vec<String> = map.iter().map(one).collect();
            // What says most in the least space comes first: a path, a command.
            parts.sort_by_key(String::len);
            parts.join(" ")
        }
        _ => short(arguments),
    };
    format!(" {shown}")
}

/// At most 60 characters.
fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use linn::services::model::{ContentBlock, MessageSource};
    use linn::services::session::{Fact, UserMessage};

    use super::{Terminal, brief, plain, whole};

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(text: &str) -> Fact {
        UserMessage { content: vec![ContentBlock::text(text)], source: MessageSource::User }.into()
    }

    #[test]
    fn a_prompt_that_was_typed_is_not_shown_again_unless_it_was_changed() {
        let screen = Screen::default();
        let writer: Box<dyn Write + Send> = Box::new(screen.clone());
        let terminal = Terminal::new(Box::new(anstream::StripStream::new(writer)));
        let log = |text: &str| terminal.write(|out| out.fact(&said(text)));
        terminal.typed("one");
        log("one");
        terminal.typed("two");
        log("two, amended");
        log("one");
        let shown = String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
        assert_eq!(shown, "› two, amended\n› one\n");
    }

    #[test]
    fn r121_what_a_terminal_would_obey_is_not_shown_to_it() {
        assert_eq!(plain("a\0b\u{1b}[2J\u{1b}]0;title\u{7}d\r\ne\u{9b}1mf"), "abd\ne1mf");
    }

    #[test]
    fn arguments_are_shown_in_one_short_line() {
        let long = "x".repeat(100);
        let shown = brief(&format!(r#"{{"path":"a.txt","n":3,"text":"one\ntwo","long":"{long}"}}"#));
        assert!(shown.starts_with(" ") && !shown.contains('\n') && shown.contains("path=a.txt"), "{shown}");
        assert!(shown.contains("text=one") && shown.contains(&format!("{}…", "x".repeat(60))), "{shown}");
        assert_eq!(brief("not json"), " not json");
    }

    #[test]
    fn what_is_asked_about_is_shown_whole() {
        let long = "x".repeat(1000);
        let arguments =
            serde_json::json!({ "command": "ls\necho hidden", "long": long, "n": 1, "forged\n  ? key": "v" });
        let shown = whole(&arguments);
        for part in ["command:\nls\necho hidden", &long, "n: 1", "forged: v"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn what_turns_the_direction_of_writing_is_not_shown() {
        assert_eq!(plain("a\u{202e}b\u{2066}c"), "abc");
    }
}
