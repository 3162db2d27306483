//! Many agents in one harness, and several harnesses in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use linn::bus::Context;
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::services::agent::Agent;
use linn::services::approval::ApprovalMode;
use linn::services::events::{AgentStatusChanged, SessionEvent};

use crate::stage::{Stage, say};

/// One answer in words.
const RECORDING: &str = r#"{"linn_recording":1}
{"request":{}}
{"chunk":{"type":"text-delta","index":0,"text":"Fine."}}
{"chunk":{"type":"finish","reason":{"kind":"stop"}}}
"#;

const N_AGENTS: usize = 200;

/// What one listener heard, and how much of it was not meant for it.
#[derive(Default)]
struct Ear {
    id: String,
    n_records: AtomicUsize,
    n_statuses: AtomicUsize,
    n_of_others: AtomicUsize,
}

impl Ear {
    /// Hears what is told through this context; with an agent, only what is that agent's is right.
    fn on(ctx: &Context, agent: Option<&Agent>) -> Arc<Self> {
        let id = agent.map_or_else(String::new, |it| it.id().to_string());
        let ear = Arc::new(Self { id, ..Self::default() });
        ctx.on_with(&ear, Self::record).unwrap();
        ctx.on_with(&ear, Self::status).unwrap();
        ear
    }

    fn record(&self, event: &SessionEvent) {
        self.n_records.fetch_add(1, Ordering::Relaxed);
        self.check(event.session.id().as_str() == format!("session-of-{}", self.id));
    }

    fn status(&self, event: &AgentStatusChanged) {
        self.n_statuses.fetch_add(1, Ordering::Relaxed);
        self.check(event.agent.id().as_str() == self.id);
    }

    fn check(&self, is_own: bool) {
        if !is_own && !self.id.is_empty() {
            self.n_of_others.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn heard(&self) -> [usize; 3] {
        [&self.n_records, &self.n_statuses, &self.n_of_others].map(|it| it.load(Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_agents_live_side_by_side_and_each_hears_only_its_own() {
    let stage = Stage::new();
    let harness = stage.builder(RECORDING).build().await.unwrap();
    let all = Ear::on(harness.context(), None);
    let mut agents = Vec::new();
    for n in 0..N_AGENTS {
        let handle = stage.agent(&harness, &format!("a{n}")).await;
        let ear = Ear::on(handle.agent().context(), Some(handle.agent()));
        agents.push((handle, ear));
    }
    // One turn or two or three, so that no two neighbours hear the same number.
    let turns = agents.iter().enumerate().map(|(n, (handle, _))| async move {
        for _ in 0..=n % 3 {
            say(handle.agent(), "hi").await;
        }
    });
    join_all(turns).await;

    let mut sum = [0, 0];
    for (n, (handle, ear)) in agents.iter().enumerate() {
        let [n_records, n_statuses, n_of_others] = ear.heard();
        let logged = usize::try_from(handle.agent().session().len()).unwrap();
        assert_eq!((n_records, n_of_others), (logged, 0), "agent a{n}");
        assert!(n_records > 8 * (n % 3 + 1), "agent a{n}: {n_records}");
        assert!(n_statuses >= 2 && n_statuses <= 2 * (n % 3 + 1), "agent a{n}: {n_statuses}");
        sum = [sum[0] + n_records, sum[1] + n_statuses];
    }
    assert_eq!(all.heard()[..2], sum, "who is in no scope hears all of it");
    assert_eq!(harness.agents().unwrap().list().unwrap().len(), N_AGENTS);
    join_all(agents.iter().map(|(handle, _)| async { handle.dispose().await })).await;
    assert!(harness.agents().unwrap().list().unwrap().is_empty());
    harness.shutdown().await.unwrap();
}

#[tokio::test]
async fn two_harnesses_of_one_process_do_not_see_each_other() {
    let (one, two) = (Stage::new(), Stage::new());
    let ask_all = ApprovalGateConfig { mode: ApprovalMode::Always, ..ApprovalGateConfig::default() };
    let first = one.builder(RECORDING).build().await.unwrap();
    let second = two.builder(RECORDING).plugin::<ApprovalGatePlugin>(ask_all).build().await.unwrap();
    let ears = [&first, &second].map(|it| Ear::on(it.context(), None));
    // The same names in both.
    let agents = [one.agent(&first, "main").await, two.agent(&second, "main").await];
    say(agents[0].agent(), "hi").await;
    let n_first = ears[0].heard()[0];
    assert_eq!(n_first, usize::try_from(agents[0].agent().session().len()).unwrap());
    assert_eq!(ears[1].heard(), [0, 0, 0]);
    assert!(agents[1].agent().session().is_empty());

    say(agents[1].agent(), "hi").await;
    assert_eq!(ears[0].heard()[0], n_first);
    assert_ne!(agents[0].agent().session(), agents[1].agent().session());

    // The end of one is nothing to the other.
    first.shutdown().await.unwrap();
    assert_eq!(agents[0].agent().send("hi").unwrap_err().code(), "AGENT_DISPOSED");
    say(agents[1].agent(), "again").await;
    assert_eq!(ears[1].heard()[0], usize::try_from(agents[1].agent().session().len()).unwrap());
    assert_eq!(second.agents().unwrap().list().unwrap().len(), 1);
    second.shutdown().await.unwrap();
}
