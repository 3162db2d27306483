//! What it costs to load a log of 100 MiB, and to append to it: the figures of `docs/performance.md`.
//!
//! `cargo run --release -p linn-plugin-session-store --example load_cost`
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use linn_bus::{Root, Svc, TokioRuntime};
use linn_plugin_session_store::{SessionStoreConfig, SessionStorePlugin};
use linn_services::ids::CallId;
use linn_services::model::{ContentBlock, MessageSource, StreamChunk};
use linn_services::persistence::SessionPersistence;
use linn_services::session::{
    AssistantChunk, AssistantMessage, CreateSession, Session, Sessions, SessionsPlugin, StepEnd, StepStart, ToolCall,
    ToolResult, TurnEnd, TurnEndReason, TurnStart, TurnTrigger, UserMessage,
};

type Failure = Box<dyn std::error::Error>;

/// How long the logs are.
const BYTES: u64 = 100 << 20;

/// How often each is loaded; the best round counts, so that a busy machine shows less.
const ROUNDS: usize = 7;

#[expect(clippy::disallowed_methods, reason = "an example that measures needs the real time")]
fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let value = what();
    (value, begin.elapsed())
}

/// A turn of two steps: an answer that streams, two calls with results of `result_bytes`, and another answer.
fn turn(session: &Session, n_chunks: u32, result_bytes: usize) -> Result<(), Failure> {
    let turn = session.turns().last_turn + 1;
    session.append(TurnStart { turn, trigger: TurnTrigger::Message { source: MessageSource::User } })?;
    session.say(UserMessage { content: vec!["please look into it".into()], source: MessageSource::User })?;
    for step in 1..=2 {
        session.append(StepStart { turn, step })?;
        let first = session.len();
        for index in 0..n_chunks {
            let chunk = StreamChunk::TextDelta { index: 0, text: format!("a few words {index} ") };
            session.append(AssistantChunk { turn, step, chunk })?;
        }
        let sources = (first..session.len()).collect();
        let calls: Vec<CallId> = (0..2).map(|it| format!("call-{turn}-{step}-{it}").into()).collect();
        let mut content = vec![ContentBlock::text("a few words ".repeat(n_chunks as usize))];
        content.extend(calls.iter().map(|id| ContentBlock::ToolCall {
            id: id.clone(),
            name: "read".into(),
            arguments: "{\"path\":\"src/lib.rs\"}".into(),
        }));
        let message = AssistantMessage { turn, step, content, usage: None };
        session.append_to_surface(message, linn_services::session::SurfaceOp::Append, Some(sources))?;
        for call_id in calls {
            let arguments = "{\"path\":\"src/lib.rs\"}".to_owned();
            session.append(ToolCall { turn, step, call_id: call_id.clone(), name: "read".into(), arguments })?;
            let content = vec![ContentBlock::text("let x = \"text\";\n".repeat(result_bytes / 16))];
            let error = None;
            session.say(ToolResult { turn, step, call_id, content, is_error: false, error, meta: None })?;
        }
        session.append(StepEnd { turn, step })?;
    }
    session.append(TurnEnd { turn, reason: TurnEndReason::Completed })?;
    Ok(())
}

struct Harness {
    root: Root,
    sessions: Svc<dyn Sessions>,
    stored: Svc<dyn SessionPersistence>,
    folder: tempfile::TempDir,
}

impl Harness {
    async fn measure(&self, name: &str, n_chunks: u32, result_bytes: usize) -> Result<(), Failure> {
        let path = self.folder.path().join(format!("{name}.events"));
        let scope = self.root.scope()?;
        let options = CreateSession { id: Some(name.into()), ..CreateSession::default() };
        let session = self.sessions.create(scope.context(), options)?;
        let mut appends = Vec::new();
        loop {
            let before = session.len();
            let (done, took) = timed(|| turn(&session, n_chunks, result_bytes));
            done?;
            let n_records = u32::try_from(session.len() - before)?;
            appends.push(took.as_nanos() as f64 / f64::from(n_records));
            if std::fs::metadata(&path)?.len() >= BYTES {
                break;
            }
        }
        let (flushed, flush) = timed(|| ready(self.sessions.flush(&session)));
        flushed?;
        let median = |part: &[f64]| {
            let mut part = part.to_vec();
            part.sort_by(f64::total_cmp);
            part[part.len() / 2]
        };
        let tenth = (appends.len() / 10).max(1);
        let (early, late) = (median(&appends[..tenth]), median(&appends[appends.len() - tenth..]));
        let n_records = session.len();
        scope.dispose().await?;
        drop(session);

        let (mut load, mut enter) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            let (loaded, took) = timed(|| ready(async { self.stored.load(&name.into()).await }));
            let loaded = loaded?;
            load = load.min(took);
            let seed: Vec<Arc<_>> = loaded.records;
            let options = CreateSession { id: Some(name.into()), seed, ..CreateSession::default() };
            let scope = self.root.scope()?;
            let (entered, took) = timed(|| self.sessions.create(scope.context(), options));
            assert_eq!(entered?.len(), n_records, "all of it was loaded");
            enter = enter.min(took);
            scope.dispose().await?;
        }
        let size = std::fs::metadata(&path)?.len() as f64 / f64::from(1 << 20);
        println!(
            "| {name} | {size:.0} | {n_records} | {} | {} | {early:.0} | {late:.0} | {} |",
            load.as_millis(),
            enter.as_millis(),
            flush.as_micros(),
        );
        Ok(())
    }
}

/// Runs a future that never waits: the store uses the disk on the thread that asks.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => unreachable!("nothing here waits"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let root = Root::new(TokioRuntime::seams());
    let folder = tempfile::tempdir()?;
    root.mount::<SessionsPlugin>(())?.running().await?;
    let config = SessionStoreConfig::new(folder.path());
    root.mount::<SessionStorePlugin>(config)?.running().await?;
    let (sessions, stored) = (root.get().ok_or("no sessions")?, root.get().ok_or("no store")?);
    let harness = Harness { root, sessions, stored, folder };
    println!("| log | MiB | records | load, ms | make a session of it, ms | append early, ns | late, ns | flush, us |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    harness.measure("mixed", 60, 4096).await?;
    harness.measure("chunks", 400, 16).await?;
    harness.root.fiber().dispose().await?;
    Ok(())
}
