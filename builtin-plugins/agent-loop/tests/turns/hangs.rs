//! Listeners that never come back: a cancel reaches each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use linn_bus::{Context, Listener, Next, listener};
use linn_bus_test::{Recorder, run};
use linn_plugin_agent_loop::LoopConfig;
use linn_services::agent::ContinuationStop;
use linn_services::approval::{ApprovalConfig, ApprovalPlugin};
use linn_services::events::{
    AgentError, AgentOverlay, AgentPreStep, AgentPromptSubmit, AgentRequest, AgentSessionPrefix, AgentStepResult,
    AgentTurnContinuation, AgentTurnStop, ApprovalRequest, LlmStream, SessionFlush, SystemPromptAssemble, ToolsAmend,
    ToolsExecute, ToolsPostExecute, ToolsPreExecute, ToolsResult,
};
use linn_services::session::{Fact, TurnEndReason};
use linn_services::tools::PreToolDecision;
use linn_services_test::Reply;
use tokio::sync::Notify;

use crate::support::{World, echo, log, results, say, text};

/// Counts those who wait in it.
#[derive(Default)]
struct Hole {
    n_waiting: AtomicU32,
    reached: Notify,
}

struct Waiting<'a>(&'a Hole);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.n_waiting.fetch_sub(1, SeqCst);
    }
}

impl Hole {
    async fn reached(&self) {
        self.reached.notified().await;
    }

    async fn wait(&self) {
        self.n_waiting.fetch_add(1, SeqCst);
        self.reached.notify_one();
        let _waiting = Waiting(self);
        std::future::pending::<()>().await;
    }
}

/// Registers a listener that waits in the hole.
type Hang = fn(&Context, Arc<Hole>) -> Listener;

macro_rules! hangs {
    (waterfall $event:ty) => {
        |ctx, hole| {
            let waiting = listener!(async move |_: &$event, next: Next<'_, $event>| {
                hole.wait().await;
                next.run().await
            });
            ctx.on(waiting).unwrap()
        }
    };
    (told $event:ty) => {
        |ctx, hole| ctx.on(listener!(async move |_: &$event| hole.wait().await)).unwrap()
    };
}

const PLACES: [(&str, Hang); 10] = [
    ("prompt-submit", hangs!(waterfall AgentPromptSubmit)),
    ("assemble", hangs!(waterfall SystemPromptAssemble)),
    ("session-prefix", hangs!(waterfall AgentSessionPrefix)),
    ("pre-step", hangs!(told AgentPreStep)),
    ("request", hangs!(waterfall AgentRequest)),
    ("overlay", hangs!(told AgentOverlay)),
    ("llm-stream", hangs!(waterfall LlmStream)),
    ("step-result", hangs!(waterfall AgentStepResult)),
    ("continuation", hangs!(waterfall AgentTurnContinuation)),
    ("turn-stop", |ctx, hole| {
        let waiting = listener!(async move |_: &AgentTurnStop| -> Option<ContinuationStop> {
            hole.wait().await;
            None
        });
        ctx.on(waiting).unwrap()
    }),
];

#[test]
fn lp_39_a_cancel_reaches_a_listener_that_never_comes_back_wherever_it_waits() {
    for (place, hang) in PLACES {
        run(async move |root| {
            let world = World::new(root, [Reply::text("one"), Reply::text("two")]).await;
            let agent = world.agent().await;
            let hole = Arc::new(Hole::default());
            let listener = hang(&world.root, hole.clone());
            agent.send("hi").unwrap();
            hole.reached().await;
            let before = world.root.clock().monotonic();
            agent.cancel(Some("enough")).unwrap();
            agent.when_idle().await;
            assert_eq!(world.root.clock().monotonic(), before, "{place}: at once");
            assert_eq!(hole.n_waiting.load(SeqCst), 0, "{place}: dropped");
            let records = agent.session().records_from(0);
            let end = records.iter().rev().find_map(|it| match &it.fact {
                Fact::TurnEnd(end) => Some(end.reason.clone()),
                _ => None,
            });
            assert_eq!(end, Some(TurnEndReason::Aborted { reason: Some("enough".into()) }), "{place}");
            // The next turn is none the worse for it.
            listener.dispose();
            say(&agent, "again").await;
            let last = agent.session().records_from(0).last().unwrap().fact.clone();
            assert!(matches!(last, Fact::TurnEnd(end) if end.reason == TurnEndReason::Completed), "{place}");
        });
    }
}

/// Where a call may be held up.
const PLACES_OF_CALLS: [(&str, Hang); 5] = [
    ("amend", hangs!(waterfall ToolsAmend)),
    ("pre-execute", hangs!(waterfall ToolsPreExecute)),
    ("approval-request", hangs!(waterfall ApprovalRequest)),
    ("execute", hangs!(waterfall ToolsExecute)),
    ("post-execute", hangs!(waterfall ToolsPostExecute)),
];

#[test]
fn r110_r130_a_cancel_reaches_a_listener_of_a_call_that_never_comes_back_wherever_it_waits() {
    for (place, hang) in PLACES_OF_CALLS {
        run(async move |root| {
            let replies = [Reply::call("c1", "echo", text("x")), Reply::text("two")];
            let world = World::new(root, replies).await;
            world.root.mount::<ApprovalPlugin>(ApprovalConfig::default()).unwrap().running().await.unwrap();
            world.tools.register(&world.root, echo()).unwrap();
            let ask = if place == "approval-request" {
                let ask = |_: &ToolsPreExecute| PreToolDecision::Ask { reason: None };
                Some(world.root.on(ask).unwrap())
            } else {
                None
            };
            let agent = world.agent().await;
            let hole = Arc::new(Hole::default());
            let listener = hang(&world.root, hole.clone());
            agent.send("hi").unwrap();
            hole.reached().await;
            let before = world.root.clock().monotonic();
            agent.cancel(Some("enough")).unwrap();
            agent.when_idle().await;
            assert_eq!(world.root.clock().monotonic(), before, "{place}: at once");
            assert_eq!(hole.n_waiting.load(SeqCst), 0, "{place}: dropped");
            assert_eq!(log(&agent).last().unwrap(), "turn/end{aborted \"enough\"}", "{place}");
            assert_eq!(results(&agent).len(), 1, "{place}: the call is answered");
            listener.dispose();
            if let Some(ask) = ask {
                ask.dispose();
            }
            say(&agent, "again").await;
            assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}", "{place}");
        });
    }
}

/// A result is told once, whatever becomes of its call, so whoever hears of it has the time that an aborted call has.
#[test]
fn r110_who_never_finishes_hearing_of_a_result_holds_a_cancel_up_for_its_grace_alone() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "echo", text("x")), Reply::text("two")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let agent = world.agent().await;
        let hole = Arc::new(Hole::default());
        let hears = hole.clone();
        world.root.on(listener!(async move |_: &ToolsResult| hears.wait().await)).unwrap();
        agent.send("hi").unwrap();
        hole.reached().await;
        let before = world.root.clock().monotonic();
        agent.cancel(Some("enough")).unwrap();
        agent.when_idle().await;
        let waited = world.root.clock().monotonic() - before;
        assert_eq!(waited, Duration::from_millis(LoopConfig::default().abort_grace_ms));
        assert_eq!(log(&agent).last().unwrap(), "turn/end{aborted \"enough\"}");
        say(&agent, "again").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn a_flush_that_never_comes_back_is_told_and_the_agent_goes_on() {
    run(async |root| {
        let config = LoopConfig { flush_limit_ms: 700, ..LoopConfig::default() };
        let world = World::with(root, config, [Reply::text("one")]).await;
        let handle = world.make("a").await;
        let errors = Recorder::new();
        errors.note(&world.root, |it: &AgentError| it.error.as_ref().map(|it| it.code.clone())).unwrap();
        let hole = Arc::new(Hole::default());
        let waiting = hole.clone();
        world.root.on(listener!(async move |_: &SessionFlush| waiting.wait().await)).unwrap();
        let before = world.root.clock().monotonic();
        say(handle.agent(), "hi").await;
        assert_eq!(world.root.clock().monotonic() - before, Duration::from_millis(700));
        assert_eq!(errors.heard::<Option<String>>(), [Some("FLUSH_STUCK".to_owned())]);
        assert_eq!(hole.n_waiting.load(SeqCst), 0);
        handle.dispose().await;
    });
}
