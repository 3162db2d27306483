//! What a turn writes down, and what the model is shown.

use linn_bus::Fault;
use linn_bus_test::run;
use linn_services::agent::ContinuationDecision;
use linn_services::events::{AgentPreStep, AgentRequest, AgentTurnContinuation, SystemPromptAssemble};
use linn_services::model::{LlmCallConfig, Role, StreamChunk, TokenUsage};
use linn_services::prompt::{PromptAssembly, Section};
use linn_services::session::{Fact, TurnEndReason};
use linn_services::tools::ToolOutput;
use linn_services_test::Reply;
use serde_json::json;

use crate::support::{World, echo, facts, from_plugin, log, results, say, text, tool};

#[test]
fn lp_01_a_turn_with_one_answer() {
    run(async |root| {
        let world = World::new(root, [Reply::text("hello")]).await;
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let expected = [
            "turn/start",
            "user/message",
            "step/start",
            "request/header",
            "assistant/message",
            "step/end",
            "turn/end{completed}",
        ];
        assert_eq!(log(&agent), expected);
        let usage = facts(&agent, |it| if let Fact::AssistantMessage(it) = it { it.usage } else { None });
        assert_eq!(usage, [TokenUsage { input_tokens: 10, output_tokens: 5, ..TokenUsage::default() }]);
        let roles: Vec<Role> = agent.session().messages().iter().map(|it| it.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant]);
        assert_eq!(world.requests(), [["user: hi"]]);
    });
}

#[test]
fn lp_02_the_model_sees_the_results_of_its_calls() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "echo", text("pong")), Reply::text("done")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let expected = [
            "turn/start",
            "user/message",
            "step/start",
            "request/header",
            "assistant/message",
            "tool/call",
            "tool/result",
            "step/end",
            "step/start",
            "assistant/message",
            "step/end",
            "turn/end{completed}",
        ];
        assert_eq!(log(&agent), expected);
        assert_eq!(
            world.requests()[1],
            ["user: hi", "assistant: call c1 echo {\"text\":\"pong\"}", "user: result c1 pong"]
        );
        let offered: Vec<_> = world.model.requests()[0].tools.iter().map(|it| it.name.to_string()).collect();
        assert_eq!(offered, ["echo"]);
    });
}

#[test]
fn lp_03_what_a_tool_has_for_front_ends_is_logged_and_not_shown() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "look", text("")), Reply::text("done")]).await;
        let look = tool("look", async |_, _| Ok(ToolOutput::from("seen").with_meta(json!({ "lines": 3 }))));
        world.tools.register(&world.root, look).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let meta = facts(&agent, |it| if let Fact::ToolResult(it) = it { it.meta.clone() } else { None });
        assert_eq!(meta, [json!({ "lines": 3 })]);
        assert_eq!(world.requests()[1][2], "user: result c1 seen");
    });
}

#[test]
fn lp_04_a_prompt_that_cannot_be_rendered_ends_the_turn_and_no_more() {
    run(async |root| {
        let world = World::new(root, [Reply::text("fine")]).await;
        let broken = world.prompt.section(&world.root, Section::fixed("extra", 5, "hello {{nobody}}")).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(log(&agent), ["turn/start", "user/message", "turn/end{error in step 1: PROMPT_VARIABLE}"]);
        broken.dispose().await;
        say(&agent, "two").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
        assert_eq!(world.requests(), [["user: one", "user: two"]]);
    });
}

#[test]
fn lp_05_a_prompt_without_text_is_no_system_field() {
    run(async |root| {
        let world = World::new(root, [Reply::text("a"), Reply::text("b")]).await;
        world.prompt.section(&world.root, Section::fixed("extra", 5, "be kind")).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        let emptied = |_: &SystemPromptAssemble| PromptAssembly::default();
        world.root.on(emptied).unwrap();
        say(&agent, "two").await;
        let systems: Vec<_> = world.model.requests().iter().map(|it| it.system.clone()).collect();
        assert_eq!(systems, [Some("be kind".to_owned()), None]);
    });
}

#[test]
fn lp_06_every_chunk_is_logged() {
    run(async |root| {
        let world = World::new(root, [Reply::text("hello world")]).await;
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let chunks = facts(&agent, |it| if let Fact::AssistantChunk(it) = it { Some(it.chunk.clone()) } else { None });
        let deltas: String = chunks
            .iter()
            .filter_map(|it| if let StreamChunk::TextDelta { text, .. } = it { Some(&**text) } else { None })
            .collect();
        assert_eq!((chunks.len(), &*deltas), (6, "hello world"));
        let records = agent.session().records_from(0);
        let answer = records.iter().find(|it| matches!(it.fact, Fact::AssistantMessage(_))).unwrap();
        let sources: Vec<u64> =
            records.iter().filter(|it| matches!(it.fact, Fact::AssistantChunk(_))).map(|it| it.seq).collect();
        assert_eq!(answer.surface.as_ref().unwrap().source_seqs.as_ref(), Some(&sources));
    });
}

#[test]
fn lp_06_what_stands_before_a_discard_is_logged_and_no_part_of_the_answer() {
    run(async |root| {
        let broken = Reply::empty().and_text("broken").and_call("c1", "echo", json!({}));
        let reply = broken.and_chunk(StreamChunk::Discard).and_chunk(StreamChunk::TextDelta {
            // Indices begin anew.
            index: 0,
            text: "whole".into(),
        });
        let world = World::new(root, [reply, Reply::text("and on")]).await;
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let records = agent.session().records_from(0);
        let chunks = records.iter().filter(|it| matches!(it.fact, Fact::AssistantChunk(_)));
        let (before, behind): (Vec<_>, Vec<_>) = {
            let is_discard = |it: &&std::sync::Arc<linn_services::session::Record>| matches!(&it.fact, Fact::AssistantChunk(it) if it.chunk == StreamChunk::Discard);
            let at = chunks.clone().find(is_discard).unwrap().seq;
            chunks.map(|it| it.seq).partition(|seq| *seq <= at)
        };
        // Start, two deltas and end of the text, start and delta of the call, and the discard itself.
        assert_eq!(before.len(), 7);
        let answer = records.iter().find(|it| matches!(it.fact, Fact::AssistantMessage(_))).unwrap();
        let Fact::AssistantMessage(message) = &answer.fact else { unreachable!() };
        assert_eq!(message.content, ["whole".into()]);
        assert_eq!(answer.surface.as_ref().unwrap().source_seqs.as_ref(), Some(&behind));
        assert!(!records.iter().any(|it| matches!(it.fact, Fact::ToolCall(_))));

        say(&agent, "more").await;
        let shown = world.model.requests().pop().unwrap();
        let said: Vec<_> = shown.messages.iter().map(|it| linn_services::model::text_of(&it.content)).collect();
        assert_eq!(said, ["hi", "whole", "more"]);
    });
}

#[test]
fn lp_07_steering_from_a_tool_joins_the_next_step() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "nudge", text("")), Reply::text("done")]).await;
        let nudge = tool("nudge", async |_, call| {
            call.agent().unwrap().steer("use tabs").unwrap();
            Ok("ok".into())
        });
        world.tools.register(&world.root, nudge).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let log = log(&agent);
        let place = |kind: &str| log.iter().rposition(|it| it == kind).unwrap();
        assert!(place("steering/message") < place("step/start"), "{log:?}");
        let last = world.requests().pop().unwrap();
        assert_eq!(last[2..], ["user: result c1 ok", "user: <steering source=\"user\"> | use tabs | </steering>"]);
    });
}

#[test]
fn lp_08_steering_while_idle_is_a_prompt() {
    run(async |root| {
        let world = World::new(root, [Reply::text("hello")]).await;
        let agent = world.agent().await;
        agent.steer("hi").unwrap();
        agent.when_idle().await;
        assert_eq!(log(&agent)[..2], ["turn/start", "user/message"]);
        assert_eq!(world.requests(), [["user: hi"]]);
    });
}

#[test]
fn lp_09_context_while_idle_is_a_turn_of_its_own() {
    run(async |root| {
        let world = World::new(root, [Reply::text("hello")]).await;
        let agent = world.agent().await;
        agent.inject(from_plugin("it rains")).unwrap();
        assert_eq!(log(&agent), ["turn/start{injection}", "context/message", "turn/end{completed}"]);
        say(&agent, "hi").await;
        let turns = facts(&agent, |it| if let Fact::TurnStart(it) = it { Some(it.turn) } else { None });
        assert_eq!(turns, [1, 2]);
        assert_eq!(world.requests(), [["user: <context source=\"plugin\"> | it rains | </context>", "user: hi"]]);
    });
}

#[test]
fn lp_10_context_while_running_joins_the_open_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "tell", text("")), Reply::text("done")]).await;
        let tell = tool("tell", async |_, call| {
            call.agent().unwrap().inject(from_plugin("it rains")).unwrap();
            Ok("ok".into())
        });
        world.tools.register(&world.root, tell).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let log = log(&agent);
        assert_eq!(log.iter().filter(|it| it.starts_with("turn/start")).count(), 1, "{log:?}");
        assert!(log.contains(&"context/message".to_owned()), "{log:?}");
        // The log has the context between the call and its result; the model sees the result right after the call.
        let last = world.requests().pop().unwrap();
        assert_eq!(last[1..3], ["assistant: call c1 tell {\"text\":\"\"}", "user: result c1 ok"]);
        assert_eq!(last[3], "user: <context source=\"plugin\"> | it rains | </context>");
    });
}

#[test]
fn lp_13_a_listener_chooses_the_model() {
    run(async |root| {
        let world = World::new(root, [Reply::text("a"), Reply::text("b")]).await;
        let choosing = world.root.on(|_: &AgentRequest| LlmCallConfig::of_model("m2")).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(world.model.requests()[0].config.model, "m2");
        assert_eq!(agent.session().request_header().unwrap().config.model, "m2");
        // From then on the logged one is what a listener starts from.
        choosing.dispose();
        say(&agent, "two").await;
        assert_eq!(world.model.requests()[1].config.model, "m2");
    });
}

#[test]
fn lp_14_a_listener_before_the_step_adds_to_the_history() {
    run(async |root| {
        let world = World::new(root, [Reply::text("a")]).await;
        let adding = |e: &AgentPreStep| e.agent.inject(from_plugin("it rains"));
        world.root.on(adding).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(log(&agent)[..4], ["turn/start", "user/message", "context/message", "step/start"]);
        assert_eq!(world.requests()[0].len(), 2);
    });
}

#[test]
fn lp_15_a_failing_listener_before_the_step_ends_the_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::text("a")]).await;
        let failing = world.root.on(|_: &AgentPreStep| Err::<(), _>(Fault::msg("boom").with_code("BOOM"))).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(log(&agent), ["turn/start", "user/message", "turn/end{error in step 1: BOOM}"]);
        failing.dispose();
        say(&agent, "two").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_29_a_seed_gives_the_same_history() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "echo", text("x")), Reply::text("done")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let mut options = crate::support::options("b");
        options.seed = agent.session().records_from(0);
        let copy = world.agents.create(&world.root, options).await.unwrap();
        assert_eq!(copy.agent().session().messages(), agent.session().messages());
    });
}

#[test]
fn lp_30_an_agent_without_a_model_fails_its_step_unless_a_listener_chooses() {
    run(async |root| {
        let world = World::new(root, [Reply::text("a")]).await;
        let mut options = crate::support::options("b");
        options.options.model = None;
        let agent = world.agents.create(&world.root, options).await.unwrap().agent().clone();
        say(&agent, "one").await;
        let reasons = facts(&agent, |it| if let Fact::TurnEnd(it) = it { Some(it.reason.clone()) } else { None });
        let TurnEndReason::Error { step, message, code } = &reasons[0] else { panic!("{reasons:?}") };
        assert_eq!((*step, code.as_deref()), (1, Some("NO_MODEL")));
        assert!(message.contains("agent \"b\""), "{message}");
        assert_eq!(log(&agent)[2..], ["step/start", "step/end", "turn/end{error in step 1: NO_MODEL}"]);
        world.root.on(|_: &AgentRequest| LlmCallConfig::of_model("m1")).unwrap();
        say(&agent, "two").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_31_arguments_reach_the_tools_as_they_were_written() {
    run(async |root| {
        let calls = Reply::empty()
            .and_raw_call("c1", "echo", "not json")
            .and_raw_call("c2", "echo", "")
            .and_raw_call("c3", "echo", "[1]");
        let world = World::new(root, [calls, Reply::text("done")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let raw = facts(&agent, |it| if let Fact::ToolCall(it) = it { Some(it.arguments.clone()) } else { None });
        assert_eq!(raw, ["not json", "", "[1]"]);
        // What is no object is refused by the tools in words, not by the loop; nothing at all is an empty object.
        let results = results(&agent);
        assert!(results[0].starts_with("c1 failed") && results[0].contains("JSON"), "{results:?}");
        assert_eq!(results[1], "c2 ");
        assert!(results[2].starts_with("c3 failed"), "{results:?}");
    });
}

#[test]
fn lp_11_a_listener_keeps_the_turn_going() {
    run(async |root| {
        let world = World::new(root, [Reply::text("a"), Reply::text("b")]).await;
        world.root.once().on(|_: &AgentTurnContinuation| ContinuationDecision::Continue { reason: None }).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(log(&agent).iter().filter(|it| *it == "step/start").count(), 2);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn lp_12_a_listener_ends_the_turn_behind_tool_calls() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "echo", text("x")), Reply::text("never")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        world.root.on(|_: &AgentTurnContinuation| ContinuationDecision::Stop).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!((world.requests().len(), results(&agent)), (1, vec!["c1 x".to_owned()]));
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}
