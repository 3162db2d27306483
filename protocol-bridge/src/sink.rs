//! Where all events go through on their way to the front end.
//!
//! Emitting never waits: an event becomes a line in a queue, and a task writes the queue. What is not wanted any more, since
//! its run was cancelled or its session replaced, is dropped here and counted.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::body::{Body, Merge, WireEvent};
use crate::wire::PROTOCOL_VERSION;

/// From here on texts are merged with those that wait: the front end is slower than what is said.
const MERGE_FROM_BYTES: usize = 64 << 10;

/// Lines of this length grow no more.
const LONG_LINE_BYTES: usize = 64 << 10;

/// From here on whoever streams is held up until the front end has read on.
const FULL_BYTES: usize = 4 << 20;

/// From here on no command is answered until the front end has read on. It is more than what streams may fill, so that an
/// `abort` finds its way to one that nobody reads.
const OVERFULL_BYTES: usize = 2 * FULL_BYTES;

/// How much is written at once.
const BATCH_BYTES: usize = 64 << 10;

/// On whose behalf an event is emitted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// Nobody's: an answer to a command, or news of the harness. Never dropped.
    Loop,
    /// A run's, the one in the foreground.
    Run(&'a Arc<str>),
}

/// The queue of events, and what decides which are wanted.
pub(crate) struct Sink {
    state: Mutex<State>,
    /// Lines wait.
    news: Notify,
    /// Lines were written.
    drained: Notify,
    /// Nobody reads any more.
    gone: CancellationToken,
}

struct State {
    session_id: Arc<str>,
    foreground: Option<Foreground>,
    n_discarded: u64,
    lines: VecDeque<Line>,
    n_bytes: usize,
    is_closed: bool,
}

struct Foreground {
    run_id: Arc<str>,
    sequence: u64,
}

struct Line {
    bytes: Vec<u8>,
    open: Option<Open>,
    /// What is not to be read before this is over; a line of its own, without bytes.
    gate: Option<CancellationToken>,
}

/// Holds back what is emitted after it was made, until it is dropped: what a front end reads there has to be true already.
#[must_use = "nothing is held back any more when it is dropped"]
pub(crate) struct Hold {
    sink: Arc<Sink>,
    gate: CancellationToken,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.gate.cancel();
        self.sink.news.notify_one();
    }
}

/// Where more text may be put into a line.
struct Open {
    merge: Merge,
    at: usize,
    /// The run it belongs to.
    run_id: Option<Arc<str>>,
}

impl Sink {
    pub(crate) fn new(session_id: Arc<str>) -> Self {
        let state = State {
            session_id,
            foreground: None,
            n_discarded: 0,
            lines: VecDeque::new(),
            n_bytes: 0,
            is_closed: false,
        };
        Self { state: Mutex::new(state), news: Notify::new(), drained: Notify::new(), gone: CancellationToken::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Emits an event; whether it was wanted.
    pub(crate) fn emit<E: WireEvent>(&self, origin: Origin<'_>, event: &E) -> bool {
        let body = Body::of(event).expect("events of the wire are made of what JSON can hold");
        let mut state = self.state();
        let is_wanted = state.push(origin, body);
        drop(state);
        self.news.notify_one();
        is_wanted
    }

    /// Holds back what is emitted from now on.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        let gate = CancellationToken::new();
        let mut state = self.state();
        if !state.is_closed {
            state.lines.push_back(Line { bytes: Vec::new(), open: None, gate: Some(gate.clone()) });
        }
        drop(state);
        Hold { sink: self.clone(), gate }
    }

    /// Another run is in the foreground from now on.
    pub(crate) fn open_run(&self, run_id: Arc<str>) {
        self.state().foreground = Some(Foreground { run_id, sequence: 0 });
    }

    /// Nothing of the run in the foreground is wanted any more.
    pub(crate) fn stop_run(&self) {
        self.state().foreground = None;
    }

    /// Another session is the current one.
    pub(crate) fn set_session(&self, session_id: Arc<str>) {
        self.state().session_id = session_id;
    }

    /// Counts something that nobody wants any more.
    pub(crate) fn discard(&self) {
        self.state().n_discarded += 1;
    }

    /// How many events were dropped because nobody wanted them any more.
    pub(crate) fn n_discarded(&self) -> u64 {
        self.state().n_discarded
    }

    /// Ready when so little waits that more may be said. Cancel safe.
    pub(crate) async fn has_room(&self) {
        self.fewer_bytes_than(FULL_BYTES).await;
    }

    /// Ready when so little waits that a command may be answered. Cancel safe.
    pub(crate) async fn has_room_for_answers(&self) {
        self.fewer_bytes_than(OVERFULL_BYTES).await;
    }

    async fn fewer_bytes_than(&self, limit: usize) {
        while self.state().n_bytes >= limit {
            let drained = self.drained.notified();
            let mut drained = std::pin::pin!(drained);
            drained.as_mut().enable();
            if self.state().n_bytes < limit {
                return;
            }
            drained.await;
        }
    }

    /// Ready when nobody reads any more. Cancel safe.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Nobody reads any more: what waits is dropped, and what comes too.
    fn close(&self) {
        {
            let mut state = self.state();
            state.is_closed = true;
            state.n_bytes = 0;
            state.lines.clear();
        }
        self.drained.notify_waiters();
        self.gone.cancel();
    }

    /// Takes lines to be written together; nothing if none wait.
    fn take(&self, batch: &mut Vec<u8>) {
        let mut state = self.state();
        let is_free = |it: &mut Line| it.gate.as_ref().is_none_or(CancellationToken::is_cancelled);
        while batch.len() < BATCH_BYTES
            && let Some(line) = state.lines.pop_front_if(is_free)
        {
            state.n_bytes -= line.bytes.len();
            batch.extend_from_slice(&line.bytes);
        }
    }

    /// Writes what comes, until nobody reads any more.
    pub(crate) async fn write_to(&self, output: &tokio::sync::Mutex<Output>) {
        loop {
            let news = self.news.notified();
            if self.write_all(output).await.is_err() {
                return;
            }
            tokio::select! {
                () = news => {}
                () = self.gone.cancelled() => return,
            }
        }
    }

    /// Writes all that waits. Cancel safe: who goes on writes the rest of a line first.
    pub(crate) async fn write_all(&self, output: &tokio::sync::Mutex<Output>) -> io::Result<()> {
        let mut output = output.lock().await;
        let written = output.write_all(self).await;
        if written.is_err() {
            self.close();
        }
        written
    }
}

impl State {
    fn push(&mut self, origin: Origin<'_>, mut body: Body) -> bool {
        let run = match origin {
            Origin::Loop => None,
            Origin::Run(run_id) => match &mut self.foreground {
                Some(foreground) if foreground.run_id == *run_id => Some(foreground),
                _ => return self.discard(),
            },
        };
        if self.is_closed {
            return true;
        }
        if let Some(merge) = body.merge
            && self.n_bytes >= MERGE_FROM_BYTES
            && let Some(Line { bytes, open: Some(open), .. }) = self.lines.back_mut()
            && open.merge == merge
            && open.run_id.as_ref() == run.as_ref().map(|it| &it.run_id)
            && bytes.len() < LONG_LINE_BYTES
        {
            let text = body.text();
            bytes.splice(open.at..open.at, text.iter().copied());
            open.at += text.len();
            self.n_bytes += text.len();
            return true;
        }
        let run_id = || run.as_ref().map(|it| it.run_id.clone());
        let open = body.merge.map(|merge| Open { merge, at: body.text_end(), run_id: run_id() });
        let envelope = format!(",\"protocol_version\":{PROTOCOL_VERSION}");
        body.bytes.extend_from_slice(envelope.as_bytes());
        if !body.has_session_id {
            body.bytes.extend_from_slice(format!(",\"session_id\":\"{}\"", self.session_id).as_bytes());
        }
        if let Some(foreground) = run {
            foreground.sequence += 1;
            if !body.has_run_id {
                body.bytes.extend_from_slice(format!(",\"run_id\":\"{}\"", foreground.run_id).as_bytes());
            }
            body.bytes.extend_from_slice(format!(",\"sequence\":{}", foreground.sequence).as_bytes());
        }
        body.bytes.extend_from_slice(b"}\n");
        self.n_bytes += body.bytes.len();
        self.lines.push_back(Line { bytes: body.bytes, open, gate: None });
        true
    }

    fn discard(&mut self) -> bool {
        self.n_discarded += 1;
        false
    }
}

/// What the front end reads from, and what of it is on its way.
pub(crate) struct Output {
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    batch: Vec<u8>,
    /// How much of the batch is written.
    n_written: usize,
}

impl Output {
    pub(crate) fn new(stream: Box<dyn AsyncWrite + Send + Unpin>) -> Self {
        Self { stream, batch: Vec::new(), n_written: 0 }
    }

    async fn write_all(&mut self, sink: &Sink) -> io::Result<()> {
        loop {
            if self.n_written == self.batch.len() {
                self.n_written = 0;
                self.batch.clear();
                sink.take(&mut self.batch);
                if self.batch.is_empty() {
                    break;
                }
                sink.drained.notify_waiters();
            }
            while self.n_written < self.batch.len() {
                match self.stream.write(&self.batch[self.n_written..]).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    n => self.n_written += n,
                }
            }
            self.stream.flush().await?;
        }
        // What was large once need not stay so.
        self.batch.shrink_to(2 * BATCH_BYTES);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::wire::events::{Delta, Done, Info, RunCancelled, Thinking, ToolCallArgs};

    fn sink() -> Arc<Sink> {
        Arc::new(Sink::new("session-a".into()))
    }

    fn lines(sink: &Sink) -> Vec<Value> {
        let mut all = Vec::new();
        let mut batch = Vec::new();
        loop {
            sink.take(&mut batch);
            if batch.is_empty() {
                return all;
            }
            all.extend(batch.split_inclusive(|it| *it == b'\n').map(|it| serde_json::from_slice::<Value>(it).unwrap()));
            batch.clear();
        }
    }

    #[test]
    fn the_envelope_has_a_run_and_a_sequence_inside_of_a_run_alone() {
        let sink = sink();
        let run: Arc<str> = "run-1".into();
        sink.emit(Origin::Loop, &Info { message: "x" });
        sink.open_run(run.clone());
        assert!(sink.emit(Origin::Run(&run), &Delta { text: "a" }));
        sink.emit(Origin::Run(&run), &Done {});
        sink.stop_run();
        assert!(!sink.emit(Origin::Run(&run), &Delta { text: "late" }));
        let lines = lines(&sink);
        assert_eq!(lines[0]["protocol_version"], 2);
        assert_eq!(lines[0]["session_id"], "session-a");
        assert_eq!(lines[0].get("run_id"), None);
        assert_eq!(lines[0].get("sequence"), None);
        assert_eq!((&lines[1]["run_id"], &lines[1]["sequence"]), (&"run-1".into(), &1.into()));
        assert_eq!((&lines[2]["type"], &lines[2]["sequence"]), (&"done".into(), &2.into()));
        assert_eq!(lines.len(), 3);
        assert_eq!(sink.n_discarded(), 1);
    }

    #[test]
    fn fields_of_the_event_win_over_those_of_the_envelope() {
        let sink = sink();
        let cancelled = RunCancelled {
            session_id: "session-old",
            run_id: "run-old",
            reason: "abort",
            duration_ms: None,
            forced_abort: None,
            cleanup_failures: None,
        };
        sink.emit(Origin::Loop, &cancelled);
        let line = &lines(&sink)[0];
        assert_eq!((&line["session_id"], &line["run_id"]), (&"session-old".into(), &"run-old".into()));
    }

    #[test]
    fn what_belongs_to_another_run_is_dropped_and_counted() {
        let sink = sink();
        let (old, new): (Arc<str>, Arc<str>) = ("run-old".into(), "run-new".into());
        sink.open_run(old.clone());
        sink.stop_run();
        sink.open_run(new.clone());
        assert!(!sink.emit(Origin::Run(&old), &Delta { text: "x" }));
        assert!(sink.emit(Origin::Run(&new), &Delta { text: "y" }));
        assert_eq!(sink.n_discarded(), 1);
        let lines = lines(&sink);
        assert_eq!((lines.len(), &lines[0]["sequence"]), (1, &1.into()));
    }

    #[test]
    fn r131_texts_are_merged_when_much_waits_and_sequences_have_no_gaps() {
        let sink = sink();
        let run: Arc<str> = "run-1".into();
        sink.open_run(run.clone());
        let big = "x".repeat(MERGE_FROM_BYTES);
        sink.emit(Origin::Run(&run), &Info { message: &big });
        for n in 0..1_000 {
            sink.emit(Origin::Run(&run), &Delta { text: &format!("\"{n}\u{2028}") });
        }
        sink.emit(Origin::Run(&run), &Thinking { text: "hm" });
        sink.emit(Origin::Run(&run), &ToolCallArgs { index: 0, args: "{\"" });
        sink.emit(Origin::Run(&run), &ToolCallArgs { index: 0, args: "a\"}" });
        sink.emit(Origin::Run(&run), &ToolCallArgs { index: 1, args: "{}" });
        sink.emit(Origin::Run(&run), &Done {});
        sink.stop_run();
        let lines = lines(&sink);
        let sequences: Vec<_> = lines.iter().map(|it| it["sequence"].as_u64().unwrap()).collect();
        assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
        let expected: String = (0..1_000).map(|n| format!("\"{n}\u{2028}")).collect();
        assert_eq!(lines[1]["text"], expected);
        assert_eq!(lines[3]["args"], "{\"a\"}");
        assert_eq!(lines[4]["index"], 1);
    }

    #[test]
    fn a_run_is_merged_with_no_other() {
        let sink = sink();
        let (one, two): (Arc<str>, Arc<str>) = ("run-1".into(), "run-2".into());
        sink.open_run(one.clone());
        sink.emit(Origin::Run(&one), &Info { message: &"x".repeat(MERGE_FROM_BYTES) });
        sink.emit(Origin::Run(&one), &Delta { text: "one" });
        sink.stop_run();
        sink.open_run(two.clone());
        sink.emit(Origin::Run(&two), &Delta { text: "two" });
        let lines = lines(&sink);
        assert_eq!((&lines[1]["text"], &lines[2]["text"]), (&"one".into(), &"two".into()));
    }

    #[test]
    fn what_is_held_back_comes_in_its_order_when_all_before_it_is_free() {
        let sink = sink();
        sink.emit(Origin::Loop, &Info { message: "before" });
        let (first, second) = (sink.hold(), sink.hold());
        sink.emit(Origin::Loop, &Info { message: "behind" });
        let told = || lines(&sink).iter().map(|it| it["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(told(), ["before"]);
        drop(second);
        assert!(told().is_empty());
        drop(first);
        sink.emit(Origin::Loop, &Info { message: "last" });
        assert_eq!(told(), ["behind", "last"]);
    }

    #[test]
    fn r132_when_nobody_reads_nothing_is_kept() {
        let sink = sink();
        sink.emit(Origin::Loop, &Info { message: "x" });
        sink.close();
        sink.emit(Origin::Loop, &Info { message: "y" });
        assert!(lines(&sink).is_empty());
        assert!(sink.gone.is_cancelled());
    }
}
