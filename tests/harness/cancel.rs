//! A cancel while a command of the model runs, with all that it started.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linn::bus::{ListenerError, Next};
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::services::approval::ApprovalMode;
use linn::services::events::LlmStream;
use linn::services::llm::ChunkStream;
use linn::services::session::{Fact, TurnEndReason};
use serde_json::json;

use crate::stage::Stage;

/// Counts what models are asked.
#[derive(Default)]
struct Asked(AtomicUsize);

impl Asked {
    async fn count(&self, _: &LlmStream, next: Next<'_, LlmStream>) -> Result<ChunkStream, ListenerError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn r110_r118_a_cancel_ends_the_command_with_all_it_started_before_the_agent_rests() {
    let stage = Stage::new();
    // Everything that the command starts holds a connection, which ends with the last of them.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let line = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; (setsid sh -c 'echo ready >&3; sleep 40; echo survived >&3' &)
        sh -c 'echo ready >&3; sleep 40; echo survived >&3' & echo ready >&3; sleep 40; echo survived >&3"
    );
    let call = json!({ "chunk": {
        "type": "tool-call-delta", "index": 0, "id": "c1", "name": "bash", "argumentsDelta": json!({ "command": line }).to_string(),
    } });
    let recording = [
        json!({ "linn_recording": 1 }),
        json!({ "request": {} }),
        call,
        json!({ "chunk": { "type": "finish", "reason": { "kind": "tool-calls" } } }),
        json!({ "request": {} }),
        json!({ "chunk": { "type": "finish", "reason": { "kind": "stop" } } }),
    ];
    let recording = recording.map(|it| it.to_string() + "\n").concat().leak();
    let gate = ApprovalGateConfig { mode: ApprovalMode::Never, ..ApprovalGateConfig::default() };
    let harness = stage.builder(recording).plugin::<ApprovalGatePlugin>(gate).build().await.unwrap();
    let asked = Arc::<Asked>::default();
    harness.context().on_with(&asked, Asked::count).unwrap();
    let handle = stage.agent(&harness, "main").await;
    let agent = handle.agent().clone();
    agent.send("go").unwrap();

    // This thread waits for the command; the harness runs on another one.
    let mut told = BufReader::new(held.accept().unwrap().0);
    for _ in 0..3 {
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    agent.cancel(Some("enough")).unwrap();
    agent.when_idle().await;

    // Nobody holds the connection any more, so what is read of it does not wait.
    told.get_ref().set_nonblocking(true).unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert_eq!(asked.0.load(Ordering::SeqCst), 1, "no model is asked once more");
    let records = agent.session().records_from(0);
    let n_results = records.iter().filter(|it| matches!(it.fact, Fact::ToolResult(_))).count();
    assert_eq!(n_results, 1, "the call is answered, once");
    let Fact::TurnEnd(end) = &records.last().unwrap().fact else { panic!("{:?}", records.last()) };
    assert_eq!(end.reason, TurnEndReason::Aborted { reason: Some("enough".into()) });
    handle.dispose().await;
    harness.shutdown().await.unwrap();
}
