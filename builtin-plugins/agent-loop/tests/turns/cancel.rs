//! Cancelling, disposing, and what is left running: nothing.

use futures_util::FutureExt;
use linn_bus_test::{run, run_with};
use linn_services::agent::{AgentStatus, ContinuationDecision};
use linn_services::approval::{ApprovalConfig, ApprovalPlugin};
use linn_services::events::{
    AgentPreStep, AgentSessionPrefix, AgentStatusChanged, AgentTurnContinuation, ApprovalRequest, SessionEvent,
    SystemPromptAssemble, ToolsExecute, ToolsPreExecute,
};
use linn_services::model::Message;
use linn_services::session::{ApprovalOutcome, Fact};
use linn_services::tools::{PreToolDecision, ToolExecutionResult};
use linn_services_test::{Gate, Reply};

use crate::support::{Notes, World, boom, echo, log, results, say, text, tool, waiting};

const CANCELLED: &str = "turn/end{aborted \"cancelled\"}";

#[test]
fn lp_16_cancel_while_the_model_streams() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("never ends").held_at(&gate)]).await;
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.cancel(Some("stop!")).unwrap();
        agent.when_idle().await;
        let expected =
            ["turn/start", "user/message", "step/start", "request/header", "step/end", "turn/end{aborted \"stop!\"}"];
        assert_eq!(log(&agent), expected);
        let chunks =
            agent.session().records_from(0).iter().filter(|it| matches!(it.fact, Fact::AssistantChunk(_))).count();
        assert_eq!(chunks, 4);
    });
}

#[test]
fn lp_17_cancel_without_a_reason() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate), Reply::text("y")]).await;
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.cancel(None).unwrap();
        agent.when_idle().await;
        assert_eq!(log(&agent).last().unwrap(), CANCELLED);
        say(&agent, "again").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_28_a_loop_that_goes_ends_its_turns_as_disposed() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate)]).await;
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        world.the_loop.dispose().await.unwrap();
        assert_eq!(log(&agent)[4..], ["step/end", "turn/end{disposed}"]);
        assert_eq!(agent.status(), AgentStatus::Disposed);
        assert_eq!(agent.send("x").unwrap_err().code(), "AGENT_DISPOSED");
    });
}

#[test]
fn lp_34_cancel_in_the_first_of_three_calls() {
    run(async |root| {
        let three =
            Reply::call("c1", "stop", text("")).and_call("c2", "echo", text("b")).and_call("c3", "echo", text("c"));
        let world = World::new(root, [three, Reply::text("next turn")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let stop = tool("stop", async |_, call| {
            call.agent().unwrap().cancel(None).unwrap();
            Ok("stopped".into())
        });
        world.tools.register(&world.root, stop).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!((world.requests().len(), &*log(&agent)[log(&agent).len() - 1]), (1, CANCELLED));
        let results = results(&agent);
        assert_eq!(results.len(), 3);
        assert!(results[0].starts_with("c1 "), "{results:?}");
        for skipped in &results[1..] {
            assert!(skipped.ends_with("failed Error: the call was aborted before dispatch"), "{results:?}");
        }
        assert_eq!(log(&agent).iter().filter(|it| *it == "tool/call").count(), 3);
        say(&agent, "go on").await;
        let last = world.requests().pop().unwrap();
        assert_eq!(last.len(), 6);
        assert_eq!(last[5], "user: go on");
    });
}

#[test]
fn lp_38_disposed_inside_a_listener_that_then_fails() {
    run(async |root| {
        let world = World::new(root, []).await;
        let handle = world.make("a").await;
        let disposing = handle.clone();
        let listener = move |_: &AgentPreStep| {
            drop(disposing.dispose());
            Err::<(), _>(boom())
        };
        world.root.on(listener).unwrap();
        say(handle.agent(), "hi").await;
        handle.dispose().await;
        assert_eq!(log(handle.agent()), ["turn/start", "user/message", "turn/end{disposed}"]);
    });
}

/// Ends the agent from inside a listener at one place of the step, and gives its log.
async fn ended_at(world: &World, place: &str, dispose: bool) -> Vec<String> {
    let handle = world.make(&format!("{place}-{dispose}")).await;
    let ending = handle.clone();
    let end = move || {
        if dispose {
            drop(ending.dispose());
        } else {
            ending.agent().cancel(None).unwrap();
        }
    };
    let ctx = handle.agent().context().clone();
    match place {
        "assembly" => ctx.on(move |e: &SystemPromptAssemble| {
            end();
            e.assembly.clone()
        }),
        "prefix" => ctx.on(move |_: &AgentSessionPrefix| {
            end();
            Vec::<Message>::new()
        }),
        "pre-step" => ctx.on(move |_: &AgentPreStep| end()),
        _ => ctx.on(move |e: &SessionEvent| {
            if matches!(e.record.fact, Fact::StepStart(_)) {
                end();
            }
        }),
    }
    .unwrap();
    say(handle.agent(), "hi").await;
    handle.dispose().await;
    log(handle.agent())
}

#[test]
fn lp_39_no_model_call_behind_an_end_before_the_step() {
    run(async |root| {
        let world = World::new(root, []).await;
        for (dispose, reason) in [(false, CANCELLED), (true, "turn/end{disposed}")] {
            for place in ["assembly", "prefix", "pre-step"] {
                let log = ended_at(&world, place, dispose).await;
                assert_eq!(log, ["turn/start", "user/message", reason], "{place}");
            }
            let log = ended_at(&world, "step-start", dispose).await;
            assert_eq!(log, ["turn/start", "user/message", "step/start", "step/end", reason]);
        }
        assert_eq!(world.requests().len(), 0);
    });
}

#[test]
fn lp_40_a_prefix_composed_while_cancelled_is_thrown_away() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        let n = std::sync::atomic::AtomicU32::new(0);
        let composing = move |e: &AgentSessionPrefix| {
            let n = n.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if n == 0 {
                e.agent.cancel(None).unwrap();
            }
            vec![Message::user([format!("prefix {n}").into()])]
        };
        world.root.on(composing).unwrap();
        say(&agent, "one").await;
        assert_eq!(log(&agent).last().unwrap(), CANCELLED);
        say(&agent, "two").await;
        assert_eq!(world.requests(), [["user: prefix 1", "user: one", "user: two"]]);
    });
}

#[test]
fn lp_41_cancel_while_idle_does_nothing() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        agent.cancel(None).unwrap();
        say(&agent, "hi").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_42_cancelled_before_it_began_there_is_no_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        let resting = agent.when_idle();
        let mut resting = std::pin::pin!(resting);
        assert!(resting.as_mut().now_or_never().is_none());
        agent.cancel(None).unwrap();
        resting.await;
        agent.when_idle().await;
        assert_eq!(log(&agent), Vec::<String>::new());
        say(&agent, "again").await;
        assert_eq!(world.requests(), [["user: again"]]);
    });
}

#[test]
fn lp_43_a_listener_replaces_what_was_about_to_run() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        let replacing = |e: &AgentStatusChanged| {
            if e.status == AgentStatus::Running {
                e.agent.cancel(None).unwrap();
                e.agent.send("instead").unwrap();
            }
        };
        world.root.once().on(replacing).unwrap();
        say(&agent, "hi").await;
        assert_eq!(world.requests(), [["user: instead"]]);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_44_cancel_while_the_turn_might_go_on() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        let cancelling = |e: &AgentTurnContinuation| {
            e.agent.cancel(None).unwrap();
            ContinuationDecision::Continue { reason: None }
        };
        world.root.on(cancelling).unwrap();
        say(&agent, "hi").await;
        assert_eq!(log(&agent)[5..], ["step/end", CANCELLED]);
        assert_eq!(world.requests().len(), 1);
    });
}

#[test]
fn lp_45_steering_that_was_cancelled_does_not_come_back() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate), Reply::text("y")]).await;
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.steer("forget me").unwrap();
        agent.cancel(None).unwrap();
        agent.when_idle().await;
        say(&agent, "again").await;
        assert_eq!(world.requests()[1], ["user: hi", "user: again"]);
    });
}

#[test]
fn lp_48_steering_behind_a_cancel_becomes_a_turn() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate), Reply::text("y")]).await;
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.cancel(None).unwrap();
        agent.steer("now this").unwrap();
        agent.when_idle().await;
        assert_eq!(world.requests()[1], ["user: hi", "user: now this"]);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn r110_abort_while_a_tool_runs() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::call("c1", "sleep", text("")), Reply::text("hello")]).await;
        world.tools.register(&world.root, waiting("sleep", &gate)).unwrap();
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        let before = world.root.clock().monotonic();
        agent.cancel(None).unwrap();
        agent.when_idle().await;
        assert!((world.root.clock().monotonic() - before).as_secs() < 2);
        say(&agent, "hello").await;
        let last = world.requests().pop().unwrap();
        assert_eq!(last[1], "assistant: call c1 sleep {\"text\":\"\"}");
        assert!(last[2].starts_with("user: result c1 failed Error:") && last[2].contains("aborted"), "{last:?}");
        assert_eq!(last[3..], ["user: hello"]);
    });
}

#[test]
fn r111_abort_with_one_of_two_parallel_calls_done() {
    run_with(async |root, runtime| {
        let gate = Gate::new();
        let two = Reply::call("c1", "echo", text("real")).and_call("c2", "sleep", text(""));
        let world = World::new(root, [two]).await;
        world.tools.register(&world.root, echo().read_only()).unwrap();
        world.tools.register(&world.root, waiting("sleep", &gate).read_only()).unwrap();
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        runtime.idle().await;
        agent.cancel(None).unwrap();
        agent.when_idle().await;
        let results = results(&agent);
        assert_eq!(results[0], "c1 real");
        assert!(results[1].starts_with("c2 failed Error:") && results[1].contains("aborted"), "{results:?}");
        assert_eq!(log(&agent).last().unwrap(), CANCELLED);
    });
}

#[test]
fn r111_one_of_two_calls_is_rejected_by_the_human_and_the_other_keeps_its_result() {
    run(async |root| {
        let two = Reply::call("c1", "echo", text("real")).and_call("c2", "asks", text("not run"));
        let world = World::new(root, [two, Reply::text("done")]).await;
        world.root.mount::<ApprovalPlugin>(ApprovalConfig::default()).unwrap().running().await.unwrap();
        world.tools.register(&world.root, echo().read_only()).unwrap();
        let never = tool("asks", async |_, _| panic!("it was rejected")).read_only();
        world.tools.register(&world.root, never).unwrap();
        let ask = |it: &ToolsPreExecute| match it.execution.name().as_str() {
            "asks" => PreToolDecision::Ask { reason: None },
            _ => PreToolDecision::Allow,
        };
        world.root.on(ask).unwrap();
        world.root.on(|_: &ApprovalRequest| ApprovalOutcome::Rejected).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(results(&agent), ["c1 real", "c2 failed Error: the user rejected tool \"asks\""]);
        let last = world.requests().pop().unwrap();
        assert_eq!(
            last[2..4],
            ["user: result c1 real", "user: result c2 failed Error: the user rejected tool \"asks\""]
        );
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}", "a rejection is an answer, no abort");
    });
}

#[test]
fn r112_a_call_that_ignores_its_signal_is_left_behind() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "deaf", text("")), Reply::text("later")]).await;
        let (gate, notes) = (Gate::new(), Notes::default());
        let deaf = {
            let (gate, notes) = (gate.clone(), notes.clone());
            tool("deaf", move |_, _| {
                let (gate, notes) = (gate.clone(), notes.clone());
                async move {
                    gate.pass().await;
                    notes.add("ran to its end");
                    Ok("late".into())
                }
            })
        };
        world.tools.register(&world.root, deaf).unwrap();
        // A listener around the call that hears no signal either.
        let stubborn = async |_: &ToolsExecute,
                              next: linn_bus::Next<'_, ToolsExecute>|
               -> Result<ToolExecutionResult, linn_bus::ListenerError> { next.run().await };
        world.root.on(stubborn).unwrap();
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        let before = world.root.clock().monotonic();
        agent.cancel(None).unwrap();
        agent.when_idle().await;
        assert!((world.root.clock().monotonic() - before).as_millis() <= 3000);
        gate.open();
        say(&agent, "next").await;
        assert_eq!(notes.lines(), Vec::<String>::new());
        assert_eq!(results(&agent).len(), 1);
    });
}

#[test]
fn r116_a_queued_prompt_is_cancelled_with_the_one_that_runs() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate), Reply::text("c")]).await;
        let agent = world.agent().await;
        agent.send("A").unwrap();
        gate.reached().await;
        agent.send("B").unwrap();
        agent.cancel(None).unwrap();
        agent.when_idle().await;
        say(&agent, "C").await;
        // B was forgotten with A: `cancel` ends what runs and empties the inbox.
        let ends: Vec<_> = log(&agent).into_iter().filter(|it| it.starts_with("turn/end")).collect();
        assert_eq!(ends, [CANCELLED, "turn/end{completed}"]);
        assert_eq!(world.requests()[1], ["user: A", "user: C"]);
    });
}
