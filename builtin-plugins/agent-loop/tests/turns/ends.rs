//! How answers and turns end: limits, errors, and what the content says against the label.

use std::sync::Arc;

use linn_bus::{BoxFuture, Fault};
use linn_bus_test::run;
use linn_services::agent::ContinuationDecision;
use linn_services::events::{AgentError, AgentStatusChanged, AgentStepResult, AgentTurnContinuation, SessionEvent};
use linn_services::llm::{Adapter, ChunkStream, Llm, LlmError};
use linn_services::model::{ContentBlock, FinishReason, GenerateRequest, Message};
use linn_services::session::{Fact, SurfaceOp};
use linn_services_test::Reply;

use crate::support::{Notes, World, boom, echo, facts, from_plugin, log, results, say, text};

fn errors(world: &World) -> Notes {
    let notes = Notes::default();
    let told = notes.clone();
    world
        .root
        .on(move |e: &AgentError| {
            let code = e.error.as_ref().map_or("none", |it| &it.code);
            told.add(format!("turn {} step {} {code}: {}", e.turn, e.step, e.message));
        })
        .unwrap();
    notes
}

#[test]
fn lp_18_the_limit_of_an_answer_ends_the_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::text("once upon").max_tokens()]).await;
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{max-tokens}");
    });
}

#[test]
fn lp_19_later_steps_do_not_take_the_limit_back() {
    run(async |root| {
        let script = [Reply::text("once upon").max_tokens(), Reply::text("a time"), Reply::text("fine")];
        let world = World::new(root, script).await;
        world.root.once().on(|_: &AgentTurnContinuation| ContinuationDecision::Continue { reason: None }).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!((world.requests().len(), &*log(&agent).pop().unwrap()), (2, "turn/end{max-tokens}"));
        say(&agent, "again").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_20_a_call_in_an_answer_that_was_cut_off_does_not_run() {
    run(async |root| {
        let cut = Reply::text("let me").and_call("c1", "echo", text("x")).max_tokens();
        let world = World::new(root, [cut]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let adding = |e: &AgentStepResult| {
            let mut message = Message::clone(&e.message);
            message.content.push(ContentBlock::ToolCall {
                id: "c2".into(),
                name: "echo".into(),
                arguments: "{}".into(),
            });
            message
        };
        world.root.on(adding).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let answers =
            facts(&agent, |it| if let Fact::AssistantMessage(it) = it { Some(it.content.clone()) } else { None });
        assert_eq!(answers, [vec![ContentBlock::text("let me")]]);
        assert_eq!(results(&agent), Vec::<String>::new());
        assert_eq!(log(&agent).last().unwrap(), "turn/end{max-tokens}");
    });
}

#[test]
fn lp_21_an_empty_answer_is_no_message() {
    run(async |root| {
        let empty = || Reply::empty().without_usage();
        let world = World::new(root, [empty(), empty().max_tokens(), Reply::empty()]).await;
        let agent = world.agent().await;
        say(&agent, "one").await;
        say(&agent, "two").await;
        assert!(!log(&agent).contains(&"assistant/message".to_owned()));
        let ends: Vec<_> = log(&agent).into_iter().filter(|it| it.starts_with("turn/end")).collect();
        assert_eq!(ends, ["turn/end{completed}", "turn/end{max-tokens}"]);
        // What it cost is a fact even without content.
        say(&agent, "three").await;
        assert!(log(&agent).contains(&"assistant/message".to_owned()));
    });
}

#[test]
fn lp_26_a_model_that_fails_fails_the_turn_once() {
    run(async |root| {
        let mut uncoded = LlmError::new("X", "no code");
        uncoded.code = None;
        let script = [
            Reply::text("so far").and_fail(LlmError::new("RATE_LIMIT", "slow down")),
            Reply::empty().and_fail(uncoded),
            Reply::empty().and_panic(),
        ];
        let world = World::new(root, script).await;
        let notes = errors(&world);
        let agent = world.agent().await;
        for text in ["one", "two", "three", "four"] {
            say(&agent, text).await;
        }
        let ends: Vec<_> = log(&agent).into_iter().filter(|it| it.starts_with("turn/end")).collect();
        assert_eq!(ends[..2], ["turn/end{error in step 1: RATE_LIMIT}", "turn/end{error in step 1}"]);
        let rest = ["turn/end{error in step 1: ADAPTER_PANICKED}", "turn/end{error in step 1: SCRIPT_EXHAUSTED}"];
        assert_eq!(ends[2..], rest);
        let lines = notes.lines();
        assert_eq!(lines[..2], ["turn 1 step 1 RATE_LIMIT: slow down", "turn 2 step 1 none: no code"]);
        assert!(lines[2].starts_with("turn 3 step 1 ADAPTER_PANICKED: "), "{lines:?}");
        assert!(lines[3].starts_with("turn 4 step 1 SCRIPT_EXHAUSTED: "), "{lines:?}");
        assert_eq!(lines.len(), 4, "once a turn");
    });
}

#[test]
fn lp_27_a_finish_that_is_an_error_fails_the_turn() {
    run(async |root| {
        let error = |code: Option<&str>| FinishReason::Error { message: "bad".into(), code: code.map(str::to_owned) };
        let script = [
            Reply::text("a").finish(error(Some("SERVER"))),
            Reply::text("b").finish(error(None)),
            Reply::text("c").finish(FinishReason::Aborted),
        ];
        let world = World::new(root, script).await;
        let agent = world.agent().await;
        for text in ["one", "two", "three"] {
            say(&agent, text).await;
        }
        let ends: Vec<_> = log(&agent).into_iter().filter(|it| it.starts_with("turn/end")).collect();
        let expected =
            ["turn/end{error in step 1: SERVER}", "turn/end{error in step 1}", "turn/end{error in step 1: ABORTED}"];
        assert_eq!(ends, expected);
    });
}

#[test]
fn lp_32_a_listener_rewrites_the_answer_with_its_calls() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "echo", text("bad")), Reply::text("done")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let rewriting = |e: &AgentStepResult| {
            let mut message = Message::clone(&e.message);
            for block in &mut message.content {
                if let ContentBlock::ToolCall { arguments, .. } = block {
                    *arguments = text("good").to_string();
                }
            }
            message
        };
        world.root.on(rewriting).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(results(&agent), ["c1 good"]);
        assert_eq!(world.requests()[1][1], "assistant: call c1 echo {\"text\":\"good\"}");
    });
}

#[test]
fn lp_33_a_listener_answers_for_an_empty_stream() {
    run(async |root| {
        let world = World::new(root, [Reply::empty().without_usage()]).await;
        world.root.on(|_: &AgentStepResult| Message::assistant([ContentBlock::text("from me")])).unwrap();
        // A finish chunk is a chunk; without any there is nothing the answer was made of.
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let records = agent.session().records_from(0);
        let answer = records.iter().find(|it| matches!(it.fact, Fact::AssistantMessage(_))).unwrap();
        let sources = answer.surface.as_ref().unwrap().source_seqs.clone();
        assert_eq!(sources.map(|it| it.len()), Some(1));
        assert_eq!(log(&agent)[4], "assistant/message");
    });
}

/// Answers with no chunk at all.
struct Silent;

impl Adapter for Silent {
    fn name(&self) -> &str {
        "silent"
    }
    fn stream(&self, _: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        Box::pin(std::future::ready(Ok(ChunkStream::new(futures_util::stream::empty()))))
    }
}

#[test]
fn lp_33_an_answer_made_of_no_chunk_names_no_source() {
    run(async |root| {
        let world = World::new(root, []).await;
        let llm = world.root.get::<dyn Llm>().unwrap();
        llm.register(&world.root, vec!["silent".into()], Arc::new(Silent)).unwrap();
        world.root.on(|_: &AgentStepResult| Message::assistant([ContentBlock::text("from me")])).unwrap();
        let mut options = crate::support::options("a");
        options.options.model = Some("silent".into());
        let agent = world.agents.create(&world.root, options).await.unwrap().agent().clone();
        say(&agent, "hi").await;
        let records = agent.session().records_from(0);
        let answer = records.iter().find(|it| matches!(it.fact, Fact::AssistantMessage(_))).unwrap();
        let surface = answer.surface.as_ref().unwrap();
        assert_eq!((surface.op, &surface.source_seqs), (SurfaceOp::Append, &None));
        assert!(!records.iter().any(|it| matches!(it.fact, Fact::AssistantChunk(_))));
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_35_the_log_is_balanced_wherever_a_listener_fails() {
    let expected = [
        ("turn/start", "error in step 0: BOOM"),
        ("step/start", "error in step 1: BOOM"),
        ("step/end", "error in step 1: BOOM"),
        ("turn/end", "completed"),
    ];
    for (kind, reason) in expected {
        run(async |root| {
            let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
            let failing = move |e: &SessionEvent| {
                if e.record.fact.kind() == kind { Err(Fault::msg("boom").with_code("BOOM")) } else { Ok(()) }
            };
            let failing = world.root.on(failing).unwrap();
            let agent = world.agent().await;
            say(&agent, "one").await;
            failing.dispose();
            say(&agent, "two").await;
            let log = log(&agent);
            let count = |what: &str| log.iter().filter(|it| it.starts_with(what)).count();
            assert_eq!((count("turn/start"), count("turn/end")), (2, 2), "{kind}: {log:?}");
            assert_eq!(count("step/start"), count("step/end"), "{kind}: {log:?}");
            let first = log.iter().find(|it| it.starts_with("turn/end")).unwrap();
            assert_eq!(*first, format!("turn/end{{{reason}}}"), "{kind}");
            assert_eq!(log.last().unwrap(), "turn/end{completed}");
        });
    }
}

#[test]
fn a_listener_that_fails_behind_an_answer_leaves_no_call_open() {
    for kind in ["assistant/message", "tool/call", "tool/result"] {
        run(async |root| {
            let two = Reply::call("c1", "echo", text("a")).and_call("c2", "echo", text("b"));
            let world = World::new(root, [two, Reply::text("y")]).await;
            world.tools.register(&world.root, echo()).unwrap();
            let failing = move |e: &SessionEvent| {
                if e.record.fact.kind() == kind { Err(Fault::msg("boom").with_code("BOOM")) } else { Ok(()) }
            };
            let failing = world.root.on(failing).unwrap();
            let agent = world.agent().await;
            say(&agent, "one").await;
            failing.dispose();
            assert_eq!(log(&agent).last().unwrap(), "turn/end{error in step 1: BOOM}", "{kind}");
            let calls = facts(&agent, |it| if let Fact::ToolCall(it) = it { Some(it.call_id.clone()) } else { None });
            let answered =
                facts(&agent, |it| if let Fact::ToolResult(it) = it { Some(it.call_id.clone()) } else { None });
            assert_eq!((calls.len(), &calls), (2, &answered), "{kind}");
        });
    }
}

#[test]
fn lp_36_a_failing_listener_of_errors_changes_nothing() {
    run(async |root| {
        let world = World::new(root, [Reply::empty().and_fail(LlmError::new("X", "x")), Reply::text("y")]).await;
        world.root.on(|_: &AgentError| Err::<(), _>(boom())).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{error in step 1: X}");
        say(&agent, "two").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_37_a_failing_listener_of_the_status_changes_nothing() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        world.root.on(|_: &AgentStatusChanged| Err::<(), _>(boom())).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        say(&agent, "two").await;
        assert_eq!(world.requests().len(), 2);
    });
}

#[test]
fn r018_a_call_runs_whatever_the_finish_says() {
    run(async |root| {
        let mislabelled = Reply::text("Let me look.").and_call("c1", "echo", text("x")).finish(FinishReason::Stop);
        let world = World::new(root, [mislabelled, Reply::text("done")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!((world.requests().len(), results(&agent)), (2, vec!["c1 x".to_owned()]));
    });
}

#[test]
fn r019_calls_that_are_announced_and_not_there() {
    run(async |root| {
        let announced = |it: Reply| it.finish(FinishReason::ToolCalls);
        let world =
            World::new(root, [announced(Reply::empty().without_usage()), announced(Reply::text("words"))]).await;
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{error in step 1: EMPTY_RESPONSE}");
        assert_eq!(world.requests().len(), 1);
        // With words it is an answer.
        say(&agent, "two").await;
        assert_eq!((world.requests().len(), &*log(&agent).pop().unwrap()), (2, "turn/end{completed}"));
    });
}

#[test]
fn r020_r021_calls_get_ids_of_their_own() {
    for (first, second) in [("call_0", "call_0"), ("", "")] {
        run(async |root| {
            let two = || Reply::call(first, "echo", text("a")).and_call(second, "echo", text("b"));
            let world = World::new(root, [two(), two(), Reply::text("done")]).await;
            world.tools.register(&world.root, echo()).unwrap();
            let agent = world.agent().await;
            say(&agent, "hi").await;
            let calls = facts(&agent, |it| if let Fact::ToolCall(it) = it { Some(it.call_id.clone()) } else { None });
            let mut distinct = calls.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!((calls.len(), distinct.len()), (4, 4), "{calls:?}");
            assert!(calls.iter().all(|it| !it.as_str().is_empty()));
            let expected: Vec<_> =
                calls.iter().zip(["a", "b", "a", "b"]).map(|(id, text)| format!("{id} {text}")).collect();
            assert_eq!(results(&agent), expected);
            assert_eq!(world.requests()[2].len(), 7);
        });
    }
}

#[test]
fn r046_a_turn_that_is_always_kept_going_ends() {
    run(async |root| {
        let world = World::new(root, (0..20).map(|_| Reply::text("done"))).await;
        let notes = errors(&world);
        let blocking =
            |_: &AgentTurnContinuation| ContinuationDecision::Continue { reason: Some(from_plugin("tests fail")) };
        world.root.on(blocking).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(world.requests().len(), 6);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{error in step 6: CONTINUATION_LIMIT}");
        assert!(notes.lines()[0].contains("kept going 5 times"), "{:?}", notes.lines());
        // Nothing of it is left for the next turn.
        world.root.first().on(|_: &AgentTurnContinuation| ContinuationDecision::Stop).unwrap();
        say(&agent, "again").await;
        assert_eq!(world.requests().len(), 7);
        assert_eq!(world.requests()[6].last().unwrap(), "user: again");
    });
}

#[test]
fn r046_a_user_ends_a_turn_that_is_kept_going() {
    run(async |root| {
        let gate = linn_services_test::Gate::new();
        let world = World::new(root, [Reply::text("a"), Reply::text("b").held_at(&gate), Reply::text("c")]).await;
        world.root.on(|_: &AgentTurnContinuation| ContinuationDecision::Continue { reason: None }).unwrap();
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        gate.reached().await;
        agent.cancel(Some("enough")).unwrap();
        agent.when_idle().await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{aborted \"enough\"}");
    });
}
