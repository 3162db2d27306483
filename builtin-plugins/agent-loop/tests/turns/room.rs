//! A request that is longer than its model takes.

use std::sync::{Arc, Mutex};

use linn_bus::{Context, Fault, Plugin, provider};
use linn_bus_test::run;
use linn_services::agent::Agent;
use linn_services::compaction::{
    CompactRequest, CompactTrigger, Compacted, Compaction, CompactionError, ContextBudget,
};
use linn_services::llm::LlmError;
use linn_services::session::{Fact, TurnEndReason};
use linn_services_test::Reply;

use crate::support::{World, say};

type Outcome = fn() -> Result<Option<Compacted>, CompactionError>;

/// Compacts nothing, and says what it is told.
struct Says {
    outcome: Outcome,
    asked: Arc<Mutex<Vec<CompactTrigger>>>,
}

#[provider]
impl Compaction for Says {
    async fn compact(&self, request: CompactRequest) -> Result<Option<Compacted>, CompactionError> {
        assert!(request.agent.session().turns().open_step.is_none(), "between two steps");
        self.asked.lock().unwrap().push(request.trigger);
        (self.outcome)()
    }
    fn estimate(&self, _: &Agent) -> Result<u64, CompactionError> {
        Ok(0)
    }
    fn budget(&self, _: &Agent) -> Result<ContextBudget, CompactionError> {
        Ok(ContextBudget::default())
    }
}

struct SaysPlugin;

impl Plugin for SaysPlugin {
    const NAME: &'static str = "says";
    type Config = (Outcome, Arc<Mutex<Vec<CompactTrigger>>>);
    type Needs = ();
    async fn start(ctx: &Context, (outcome, asked): Self::Config, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Compaction>(Arc::new(Says { outcome, asked }))?;
        Ok(())
    }
}

fn too_long() -> Reply {
    Reply::empty().and_fail(LlmError::context_length("the prompt is too long"))
}

fn some() -> Result<Option<Compacted>, CompactionError> {
    Ok(Some(Compacted { summary: "s".into(), facts: Vec::new(), tokens_before: 2, tokens_after: 1 }))
}

/// Runs a turn; what compaction was asked for, how often the model was, and how the turn ended.
fn turn(outcome: Option<Outcome>, script: Vec<Reply>, check: fn(Vec<CompactTrigger>, usize, TurnEndReason)) {
    run(async move |root| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let world = World::new(root, script).await;
        if let Some(outcome) = outcome {
            world.root.mount::<SaysPlugin>((outcome, asked.clone())).unwrap().running().await.unwrap();
        }
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let records = agent.session().records_from(0);
        let end = records.iter().rev().find_map(|it| match &it.fact {
            Fact::TurnEnd(end) => Some(end.reason.clone()),
            _ => None,
        });
        let asked = asked.lock().unwrap().clone();
        check(asked, world.model.requests().len(), end.unwrap());
    });
}

fn message(end: &TurnEndReason) -> &str {
    match end {
        TurnEndReason::Error { message, code, .. } => {
            assert_eq!(code.as_deref(), Some("CONTEXT_LENGTH"));
            message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn room_is_made_and_the_same_turn_goes_on() {
    turn(Some(some), vec![too_long(), Reply::text("done")], |asked, n_requests, end| {
        assert_eq!(asked, [CompactTrigger::ContextLength]);
        assert_eq!((n_requests, end), (2, TurnEndReason::Completed));
    });
}

#[test]
fn r106_room_is_made_once_and_then_the_turn_fails() {
    turn(Some(some), vec![too_long(), too_long(), Reply::text("never asked")], |asked, n_requests, end| {
        assert_eq!((asked.len(), n_requests), (1, 2));
        let told = "provider rejected the context and forced compaction could not reclaim enough space \
                    (the prompt is too long)";
        assert_eq!(message(&end), told);
    });
}

#[test]
fn where_there_is_no_room_to_make_the_turn_fails_at_once() {
    turn(Some(|| Ok(None)), vec![too_long(), Reply::text("never asked")], |asked, n_requests, end| {
        assert_eq!((asked.len(), n_requests), (1, 1));
        assert!(message(&end).contains("could not reclaim enough space (the prompt is too long)"));
    });
    let failing: Outcome = || Err(CompactionError::Summary("the model is gone".into()));
    turn(Some(failing), vec![too_long(), Reply::text("never asked")], |_, n_requests, end| {
        assert_eq!(n_requests, 1);
        assert!(message(&end).contains("(no summary was made: the model is gone)"), "{end:?}");
    });
}

#[test]
fn without_compaction_and_where_it_is_off_the_error_is_that_of_the_model() {
    turn(None, vec![too_long()], |_, _, end| assert_eq!(message(&end), "the prompt is too long"));
    let off: Outcome = || Err(CompactionError::Off);
    turn(Some(off), vec![too_long()], |_, _, end| assert_eq!(message(&end), "the prompt is too long"));
}
