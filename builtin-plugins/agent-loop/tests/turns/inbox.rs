//! What waits, and in which order it is taken.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use linn_bus::{Fault, listener};
use linn_bus_test::run;
use linn_services::agent::{AgentStatus, ContinuationDecision, ContinuationStop};
use linn_services::events::{
    AgentError, AgentQueued, AgentStatusChanged, AgentTurnContinuation, AgentTurnStop, SessionEvent, SessionFlush,
};
use linn_services::model::MessageSource;
use linn_services::session::{CompactStart, Fact, TurnEnd, TurnEndReason, TurnStart, TurnTrigger};
use linn_services_test::{Gate, Reply, log_of};
use proptest::prelude::*;

use crate::support::{Notes, World, facts, from_plugin, log, say, text, waiting};

fn turns(agent: &linn_services::agent::Agent) -> Vec<u32> {
    facts(agent, |it| if let Fact::TurnStart(it) = it { Some(it.turn) } else { None })
}

#[test]
fn lp_22_what_is_sent_together_is_one_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        agent.send("one").unwrap();
        agent.send("two").unwrap();
        agent.when_idle().await;
        assert_eq!(log(&agent)[..3], ["turn/start", "user/message", "user/message"]);
        assert_eq!(world.requests(), [["user: one", "user: two"]]);
    });
}

#[test]
fn lp_23_what_is_sent_meanwhile_is_the_next_turn_without_rest_between() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate), Reply::text("y")]).await;
        let notes = Notes::default();
        let told = notes.clone();
        world.root.on(move |e: &AgentStatusChanged| told.add(format!("{:?}", e.status))).unwrap();
        let agent = world.agent().await;
        agent.send("one").unwrap();
        gate.reached().await;
        agent.send("two").unwrap();
        gate.open();
        agent.when_idle().await;
        assert_eq!(turns(&agent), [1, 2]);
        assert_eq!(notes.lines(), ["Running", "Idle"]);
    });
}

#[test]
fn who_waits_for_rest_goes_on_when_all_have_heard_of_it() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let told = Notes::default();
        let heard = told.clone();
        world
            .root
            .on(move |e: &AgentStatusChanged| {
                let is_over = e.agent.when_idle().now_or_never().is_some();
                heard.add(format!("{:?}, {is_over}", e.status));
            })
            .unwrap();
        let agent = world.agent().await;
        agent.send("one").unwrap();
        agent.when_idle().await;
        assert_eq!(told.lines(), ["Running, false", "Idle, false"]);
        assert!(agent.when_idle().now_or_never().is_some());
    });
}

#[test]
fn lp_24_rest_comes_after_the_flush() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let (gate, agent) = (Gate::new(), world.agent().await);
        let at = gate.clone();
        world.root.on(listener!(async move |_: &SessionFlush| at.pass().await)).unwrap();
        agent.send("hi").unwrap();
        gate.reached().await;
        assert_eq!((agent.status(), &*log(&agent)[6]), (AgentStatus::Running, "turn/end{completed}"));
        gate.open();
        agent.when_idle().await;
        assert_eq!(agent.status(), AgentStatus::Idle);
    });
}

/// What a subscriber wrote.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn lp_25_a_flush_that_fails_is_logged_told_and_survived() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let notes = Notes::default();
        let told = notes.clone();
        let telling =
            move |e: &AgentError| told.add(format!("{} {} {}", e.turn, e.step, e.error.as_ref().unwrap().code));
        world.root.on(telling).unwrap();
        world.root.on(|_: &SessionFlush| Err::<(), _>(Fault::msg("disk full"))).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        say(&agent, "two").await;
        assert_eq!(log(&agent).iter().filter(|it| *it == "turn/end{completed}").count(), 2);
        assert_eq!(notes.lines(), ["1 0 SESSION_NOT_FLUSHED", "2 0 SESSION_NOT_FLUSHED"]);
    });
    let lines = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let warned: Vec<&str> = lines.lines().filter(|it| it.contains("disk full")).collect();
    assert_eq!(warned.len(), 2, "{lines}");
    for (turn, line) in (1..).zip(warned) {
        assert!(line.contains("WARN") && line.contains(&format!("turn {turn}: ")), "{line}");
        assert!(line.contains("plugin=\"agent-loop\""), "{line}");
    }
}

#[test]
fn lp_46_steering_at_the_end_of_a_step_keeps_the_turn_going() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y"), Reply::text("z")]).await;
        let agent = world.agent().await;
        let from_step_end = |e: &SessionEvent| matches!(&e.record.fact, Fact::StepEnd(it) if it.step == 1);
        let steered = agent.clone();
        world
            .root
            .on(move |e: &SessionEvent| {
                if from_step_end(e) {
                    steered.steer("one").unwrap();
                }
            })
            .unwrap();
        let n = Mutex::new(0);
        let from_continuation = move |e: &AgentTurnContinuation| {
            let mut n = n.lock().unwrap();
            *n += 1;
            if *n == 2 {
                e.agent.steer("two").unwrap();
            }
            ContinuationDecision::Stop
        };
        world.root.on(from_continuation).unwrap();
        say(&agent, "hi").await;
        assert_eq!((turns(&agent), world.requests().len()), (vec![1], 3));
        let last = world.requests().pop().unwrap();
        assert_eq!(last[4], "user: <steering source=\"user\"> | two | </steering>");
    });
}

#[test]
fn lp_47_steering_at_the_end_of_the_turn_is_the_next_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let agent = world.agent().await;
        let steered = agent.clone();
        let at_end = move |e: &SessionEvent| {
            if matches!(&e.record.fact, Fact::TurnEnd(it) if it.turn == 1) {
                steered.steer("more").unwrap();
            }
        };
        world.root.on(at_end).unwrap();
        say(&agent, "hi").await;
        assert_eq!((turns(&agent), world.requests()[1][2].as_str()), (vec![1, 2], "user: more"));
    });
}

#[test]
fn lp_49_a_stop_drops_the_steering_of_the_continuation() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        world
            .root
            .on(|_: &AgentTurnContinuation| ContinuationDecision::Continue { reason: Some(from_plugin("go on")) })
            .unwrap();
        world.root.on(|_: &AgentTurnStop| Some(ContinuationStop::Stop)).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let log = log(&agent);
        assert!(!log.contains(&"steering/message".to_owned()), "{log:?}");
        assert_eq!((world.requests().len(), log.last().unwrap().as_str()), (1, "turn/end{completed}"));
    });
}

#[test]
fn lp_50_behind_a_stop_steering_is_dropped_and_prompts_are_not() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        world.root.on(|_: &AgentTurnStop| Some(ContinuationStop::Stop)).unwrap();
        let agent = world.agent().await;
        let (once, speaking) = (Mutex::new(true), agent.clone());
        let at_flush = move |_: &SessionFlush| {
            if std::mem::take(&mut *once.lock().unwrap()) {
                speaking.steer("dropped").unwrap();
                speaking.send("kept").unwrap();
            }
        };
        world.root.on(at_flush).unwrap();
        say(&agent, "hi").await;
        assert_eq!(turns(&agent), [1, 2]);
        assert_eq!(world.requests()[1], ["user: hi", "assistant: x", "user: kept"]);
    });
}

#[test]
fn lp_51_a_failing_last_word_fails_the_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        // That a listener answers anything but stop, or nothing, does not compile.
        let failing = world
            .root
            .on(|_: &AgentTurnStop| Err::<Option<ContinuationStop>, _>(Fault::msg("boom").with_code("BOOM")))
            .unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{error in step 1: BOOM}");
        failing.dispose();
        say(&agent, "two").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_52_a_last_word_for_one_agent() {
    run(async |root| {
        let call = || Reply::call("c1", "none", text(""));
        let world = World::new(root, [call(), call(), Reply::text("b"), call(), Reply::text("a")]).await;
        let (a, b) = (world.make("a").await.agent().clone(), world.make("b").await.agent().clone());
        let stopping = a.context().on(|_: &AgentTurnStop| Some(ContinuationStop::Stop)).unwrap();
        say(&a, "hi").await;
        assert_eq!(world.requests().len(), 1);
        say(&b, "hi").await;
        assert_eq!(world.requests().len(), 3);
        stopping.dispose();
        say(&a, "hi").await;
        assert_eq!(world.requests().len(), 5);
    });
}

#[test]
fn lp_53_turns_are_counted_on_behind_a_seed() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y"), Reply::text("z")]).await;
        let agent = world.agent().await;
        say(&agent, "one").await;
        say(&agent, "two").await;
        let mut options = crate::support::options("b");
        options.seed = agent.session().records_from(0);
        let fork = world.agents.create(&world.root, options).await.unwrap().agent().clone();
        say(&fork, "three").await;
        assert_eq!(turns(&fork), [1, 2, 3]);
    });
}

#[test]
fn queued_is_told_with_where_the_message_went_and_by_whom() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate), Reply::text("y")]).await;
        let notes = Notes::default();
        let told = notes.clone();
        world
            .root
            .on(move |e: &AgentQueued| {
                told.add(format!("{} {}", e.source.kind(), e.is_steering));
                Err::<(), _>(Fault::msg("contained"))
            })
            .unwrap();
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.steer("psst").unwrap();
        gate.open();
        agent.when_idle().await;
        assert_eq!(notes.lines(), ["user false", "user true"]);
        assert_eq!(world.requests().len(), 2);
    });
}

#[test]
fn r114_steering_while_a_call_runs() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::call("c1", "work", text("")), Reply::text("done")]).await;
        world.tools.register(&world.root, waiting("work", &gate)).unwrap();
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.steer("use tabs").unwrap();
        gate.open();
        agent.when_idle().await;
        let last = world.requests().pop().unwrap();
        let expected = [
            "assistant: call c1 work {\"text\":\"\"}",
            "user: result c1 work",
            "user: <steering source=\"user\"> | use tabs | </steering>",
        ];
        assert_eq!(last[1..], expected);
    });
}

#[test]
fn r115_steering_while_the_last_answer_streams() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("final").held_at(&gate), Reply::text("more")]).await;
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.steer("s").unwrap();
        gate.open();
        agent.when_idle().await;
        let shown: Vec<_> = world.requests()[1].iter().filter(|it| it.contains("| s |")).cloned().collect();
        assert_eq!((world.requests().len(), shown.len()), (2, 1));
    });
}

#[test]
fn r116_a_prompt_while_a_turn_runs_waits_for_its_own() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("a").held_at(&gate), Reply::text("b")]).await;
        let agent = world.agent().await;
        agent.send("A").unwrap();
        gate.reached().await;
        agent.send("B").unwrap();
        gate.open();
        agent.when_idle().await;
        assert_eq!(log(&agent).iter().filter(|it| *it == "turn/end{completed}").count(), 2);
        assert_eq!(world.requests()[1], ["user: A", "assistant: a", "user: B"]);
    });
}

#[test]
fn a_prompt_waits_while_somebody_else_has_a_turn_open() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        let session = agent.session();
        session
            .append(TurnStart {
                turn: 1,
                trigger: TurnTrigger::Message { source: MessageSource::plugin("compaction") },
            })
            .unwrap();
        session.append(CompactStart { turn: 1 }).unwrap();
        agent.send("hi").unwrap();
        world.root.sleep(std::time::Duration::from_secs(60)).await.unwrap();
        assert_eq!(world.requests().len(), 0);
        session.append(TurnEnd { turn: 1, reason: TurnEndReason::Completed }).unwrap();
        agent.when_idle().await;
        assert_eq!(turns(&agent), [1, 2]);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn a_turn_that_a_seed_left_open_is_closed_first() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "none", text("")).and_text("x"), Reply::text("y")]).await;
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let mut options = crate::support::options("b");
        options.seed = agent.session().records_from(0);
        let place = options.seed.iter().position(|it| matches!(it.fact, Fact::ToolCall(_))).unwrap();
        options.seed.truncate(place + 1);
        let fork = world.agents.create(&world.root, options).await.unwrap().agent().clone();
        world.model.push(Reply::text("z"));
        say(&fork, "go on").await;
        let log = log(&fork);
        assert_eq!(log[5..9], ["tool/call", "step/end", "turn/end{interrupted}", "turn/start"], "{log:?}");
        // The call that was never answered has an answer where the model sees it.
        let last = world.requests().pop().unwrap();
        assert!(last[2].starts_with("user: result c1 failed"), "{last:?}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lp_54_no_message_is_lost(schedule in prop::collection::vec((any::<bool>(), any::<bool>()), 1..12)) {
        let sent: Vec<String> = (0..schedule.len()).map(|n| format!("message {n}")).collect();
        let (seen, turns) = run(async |root| {
            let world = World::new(root, schedule.iter().map(|_| Reply::text("x"))).await;
            for _ in &schedule {
                world.model.push(Reply::text("x"));
            }
            let agent = world.agent().await;
            for (message, (is_steering, waits)) in sent.iter().zip(&schedule) {
                if *is_steering { agent.steer(message.as_str()).unwrap() } else { agent.send(message.as_str()).unwrap() }
                if *waits {
                    agent.when_idle().await;
                }
            }
            agent.when_idle().await;
            let seen: Arc<Mutex<Vec<String>>> = Arc::default();
            for content in facts(&agent, |it| match it {
                Fact::UserMessage(it) => Some(it.content.clone()),
                Fact::SteeringMessage(it) => Some(it.content.clone()),
                _ => None,
            }) {
                seen.lock().unwrap().push(linn_services::model::text_of(&content));
            }
            let seen = seen.lock().unwrap().clone();
            (seen, turns(&agent))
        });
        prop_assert_eq!(seen, sent);
        prop_assert!(turns.is_sorted_by(|a, b| a < b));
    }
}

#[test]
fn context_while_idle_is_flushed_without_holding_up_a_prompt() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let handle = world.make("a").await;
        let notes = Notes::default();
        let told = notes.clone();
        let flushing = listener!(async move |e: &SessionFlush| told.add(log_of(&e.session).pop().unwrap()));
        world.root.on(flushing).unwrap();
        handle.agent().inject(from_plugin("it rains")).unwrap();
        assert_eq!(notes.lines(), Vec::<String>::new());
        world.root.sleep(std::time::Duration::from_secs(1)).await.unwrap();
        assert_eq!(notes.lines(), ["turn/end{completed}"]);
        // With a prompt behind it the flush of its turn is for both.
        handle.agent().inject(from_plugin("it pours")).unwrap();
        say(handle.agent(), "hi").await;
        assert_eq!(notes.lines().len(), 2);
        // And an agent that goes at once has it flushed all the same.
        handle.agent().inject(from_plugin("it stopped")).unwrap();
        handle.dispose().await;
        assert_eq!(notes.lines().len(), 3);
    });
}
