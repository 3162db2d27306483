//! What listeners may change, and who hears what.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use linn_bus::{Context, Fault, ListenerError, Next, listener};
use linn_bus_test::{Recorder, run};
use linn_services::agent::{ContinuationDecision, PromptDecision, rebuild_request};
use linn_services::events::{
    AgentError, AgentOverlay, AgentPreStep, AgentPromptSubmit, AgentQueued, AgentRequest, AgentSessionPrefix,
    AgentSessionStart, AgentStatusChanged, AgentStepResult, AgentTurnContinuation, AgentTurnStop, LlmStream,
};
use linn_services::model::{LlmCallConfig, Message};
use linn_services::prompt::Section;
use linn_services::session::{Fact, HeaderReason};
use linn_services_test::{Reply, request_of};

use crate::support::{Notes, World, boom, echo, facts, from_plugin, log, say, text};

fn block(text: &str) -> Vec<linn_services::model::ContentBlock> {
    vec![text.into()]
}

#[test]
fn ix_01_a_prompt_is_passed_on_rewritten_or_explained() {
    run(async |root| {
        let world = World::new(root, (0..3).map(|_| Reply::text("x"))).await;
        let answer = async |e: &AgentPromptSubmit, next: Next<'_, AgentPromptSubmit>| -> Result<_, ListenerError> {
            Ok(match linn_services::model::text_of(&e.content).as_str() {
                "rewrite" => PromptDecision::Allow { content: Some(block("rewritten")), additional_context: None },
                "explain" => PromptDecision::Allow { content: None, additional_context: Some(from_plugin("why")) },
                _ => next.run().await?,
            })
        };
        world.root.on(answer).unwrap();
        let agent = world.agent().await;
        for prompt in ["plain", "rewrite", "explain"] {
            say(&agent, prompt).await;
        }
        let last = world.requests().pop().unwrap();
        let users: Vec<_> = last.iter().filter(|it| it.starts_with("user")).collect();
        assert_eq!(
            users,
            ["user: plain", "user: rewritten", "user: explain", "user: <context source=\"plugin\"> | why | </context>"]
        );
        let admitted = facts(&agent, |it| if let Fact::UserMessage(it) = it { Some(it.content.clone()) } else { None });
        assert_eq!(admitted, [block("plain"), block("rewritten"), block("explain")]);
    });
}

fn refusing(e: &AgentPromptSubmit) -> PromptDecision {
    match linn_services::model::text_of(&e.content).as_str() {
        "bad" => PromptDecision::Block { reason: "not that".into() },
        _ => PromptDecision::allow(),
    }
}

#[test]
fn ix_02_a_turn_whose_only_prompt_is_refused() {
    run(async |root| {
        let world = World::new(root, []).await;
        world.root.on(refusing).unwrap();
        let agent = world.agent().await;
        say(&agent, "bad").await;
        assert_eq!(log(&agent), ["turn/start", "prompt/blocked", "turn/end{rejected \"not that\"}"]);
        assert_eq!(world.requests().len(), 0);
    });
}

#[test]
fn ix_03_one_of_two_prompts_is_refused() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        world.root.on(refusing).unwrap();
        let agent = world.agent().await;
        agent.send("bad").unwrap();
        agent.send("good").unwrap();
        agent.when_idle().await;
        assert_eq!(log(&agent)[..3], ["turn/start", "prompt/blocked", "user/message"]);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn ix_04_prompts_behind_one_that_fails_go_back_to_the_inbox() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let failing = |e: &AgentPromptSubmit| match linn_services::model::text_of(&e.content).as_str() {
            "bad" => Err(Fault::msg("boom").with_code("BOOM")),
            _ => Ok(PromptDecision::allow()),
        };
        world.root.on(failing).unwrap();
        let agent = world.agent().await;
        for prompt in ["first", "bad", "second", "third"] {
            agent.send(prompt).unwrap();
        }
        agent.when_idle().await;
        let expected = ["turn/start", "user/message", "turn/end{error in step 0: BOOM}", "turn/start", "user/message"];
        assert_eq!(log(&agent)[..5], expected);
        assert_eq!(world.requests(), [["user: first", "user: second", "user: third"]]);
    });
}

#[test]
fn ix_05_what_is_injected_at_the_start_is_seen_and_a_failure_is_contained() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let injecting = |e: &AgentSessionStart| {
            e.agent.inject(from_plugin("welcome")).unwrap();
            Err::<(), _>(boom())
        };
        world.root.on(injecting).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(world.requests()[0], ["user: <context source=\"plugin\"> | welcome | </context>", "user: hi"]);
    });
}

#[test]
fn ix_06_ix_09_the_prefix_is_composed_once_and_seen_by_all() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let n = Arc::new(AtomicU32::new(0));
        for name in ["A", "B"] {
            let n = n.clone();
            let contributing = listener!(async move |_: &AgentSessionPrefix, next: Next<'_, AgentSessionPrefix>| {
                n.fetch_add(1, Ordering::Relaxed);
                let mut prefix = vec![Message::user(block(name))];
                prefix.extend(next.run().await?);
                Ok::<_, ListenerError>(prefix)
            });
            world.root.on(contributing).unwrap();
        }
        let notes = Notes::default();
        let told = notes.clone();
        world.root.on(move |e: &AgentPreStep| told.add(format!("{}", e.session_prefix.len()))).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        say(&agent, "two").await;
        assert_eq!(world.requests()[0], ["user: A", "user: B", "user: one"]);
        assert_eq!(world.requests()[1], ["user: A", "user: B", "user: one", "assistant: x", "user: two"]);
        assert_eq!(n.load(Ordering::Relaxed), 2);
        assert_eq!(notes.lines(), ["2", "2"]);
        assert_eq!(agent.session().request_header().unwrap().message_prefix.as_ref().unwrap().len(), 2);
        assert_eq!(agent.session().messages().len(), 4);
    });
}

#[test]
fn ix_07_without_contributions_there_is_no_prefix() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(agent.session().request_header().unwrap().message_prefix, None);
    });
}

#[test]
fn ix_08_a_list_that_is_changed_later_changes_no_request() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let mine = Arc::new(std::sync::Mutex::new(vec![Message::user(block("A"))]));
        let kept = mine.clone();
        world.root.on(move |_: &AgentSessionPrefix| kept.lock().unwrap().clone()).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        mine.lock().unwrap().push(Message::user(block("B")));
        say(&agent, "two").await;
        assert_eq!(world.requests()[1][..2], ["user: A", "user: one"]);
    });
}

#[test]
fn ix_10_a_reason_to_go_on_is_steering_of_the_same_turn() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        world
            .root
            .once()
            .on(|_: &AgentTurnContinuation| ContinuationDecision::Continue { reason: Some(from_plugin("tests fail")) })
            .unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert_eq!(log(&agent)[6..8], ["steering/message", "step/start"]);
        assert_eq!(log(&agent).iter().filter(|it| it.starts_with("turn/start")).count(), 1);
    });
}

/// Has a recorder hear every event of agents, and pass it on.
fn listen_to_all(ctx: &Context, recorder: &Recorder) {
    macro_rules! note {
        ($($event:ty),* $(,)?) => {$(
            let name = <$event as linn_bus::Event>::NAME;
            recorder.note(ctx, move |e: &$event| format!("{} {name}", e.agent.id())).unwrap();
        )*};
    }
    note!(
        AgentQueued,
        AgentStatusChanged,
        AgentPreStep,
        AgentOverlay,
        AgentSessionStart,
        AgentError,
        AgentTurnStop,
        AgentPromptSubmit,
        AgentRequest,
        AgentSessionPrefix,
        AgentStepResult,
        AgentTurnContinuation,
    );
}

#[test]
fn ix_12_listeners_of_an_agent_hear_that_agent_alone() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let (own, all) = (Recorder::new(), Recorder::new());
        listen_to_all(&world.root, &all);
        let (a, b) = (world.make("a").await.agent().clone(), world.make("b").await.agent().clone());
        listen_to_all(a.context(), &own);
        say(&a, "hi").await;
        say(&b, "hi").await;
        let (own, all) = (own.heard::<String>(), all.heard::<String>());
        assert!(own.iter().all(|it| it.starts_with("a ")), "{own:?}");
        let of = |id: &str| all.iter().filter(|it| it.starts_with(id)).count();
        // The start of the session was before anybody listened there.
        assert_eq!((of("a "), of("b ")), (own.len() + 1, own.len() + 1));
        assert_eq!(own.len(), 11);
    });
}

#[test]
fn ix_13_context_added_while_the_request_is_made_joins_the_next_one() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let injecting = async |e: &AgentRequest, next: Next<'_, AgentRequest>| {
            e.agent.inject(from_plugin("late")).unwrap();
            next.run().await
        };
        world.root.once().on(injecting).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(log(&agent)[3], "context/message");
        assert_eq!(world.requests()[0], ["user: one"]);
        say(&agent, "two").await;
        assert_eq!(world.requests()[1][1], "user: <context source=\"plugin\"> | late | </context>");
    });
}

#[test]
fn ix_14_ix_15_what_listeners_are_lent_is_not_theirs_to_change() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let notes = Notes::default();
        let told = notes.clone();
        let trying = listener!(async move |e: &LlmStream, next: Next<'_, LlmStream>| {
            // The request is shared: there is no way to it but by a copy.
            let mut request = e.request.clone();
            told.add(format!("{}", Arc::get_mut(&mut request).is_none()));
            next.run().await
        });
        world.root.on(trying).unwrap();
        let changing = async |e: &AgentRequest, next: Next<'_, AgentRequest>| -> Result<LlmCallConfig, ListenerError> {
            let mut given = next.run().await?;
            given.model = "changed and thrown away".into();
            Ok(e.config.clone())
        };
        world.root.on(changing).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        assert_eq!(notes.lines(), ["true"]);
        assert_eq!(agent.session().request_header().unwrap().config.model, "m1");
    });
}

#[test]
fn ix_16_the_header_is_logged_when_it_changes_and_as_little_as_can_be() {
    run(async |root| {
        let world = World::new(root, (0..6).map(|_| Reply::text("x"))).await;
        let agent = world.agent().await;
        let headers = || {
            facts(&agent, |it| match it {
                Fact::RequestHeader(it) => Some(format!("{:?}", it.reason)),
                Fact::RequestHeaderDelta(_) => Some("delta".to_owned()),
                _ => None,
            })
        };
        say(&agent, "first").await;
        say(&agent, "unchanged").await;
        assert_eq!(headers(), ["Initial"]);
        let section = world.prompt.section(&world.root, Section::fixed("more", 5, "be kind")).unwrap();
        say(&agent, "changed prompt").await;
        assert_eq!(headers(), ["Initial", "delta"]);
        section.dispose().await;
        // Another loop on the same log.
        let mut options = crate::support::options("b");
        options.seed = agent.session().records_from(0);
        let other = world.agents.create(&world.root, options).await.unwrap().agent().clone();
        say(&other, "resumed").await;
        let reasons = facts(&other, |it| if let Fact::RequestHeader(it) = it { Some(it.reason) } else { None });
        assert_eq!(reasons, [HeaderReason::Initial, HeaderReason::Resume]);
    });
}

#[test]
fn ix_16_tools_in_another_order_are_logged_in_full() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        for name in ["a", "b"] {
            world.tools.register(&world.root, crate::support::tool(name, async |_, _| Ok("".into()))).unwrap();
        }
        let agent = world.agent().await;
        say(&agent, "one").await;
        let reversing = async |_: &linn_services::events::SystemPromptAssemble,
                               next: Next<'_, linn_services::events::SystemPromptAssemble>| {
            let mut assembly = next.run().await?;
            assembly.tools.reverse();
            Ok::<_, ListenerError>(assembly)
        };
        world.root.on(reversing).unwrap();
        say(&agent, "two").await;
        let reasons = facts(&agent, |it| if let Fact::RequestHeader(it) = it { Some(it.reason) } else { None });
        assert_eq!(reasons, [HeaderReason::Initial, HeaderReason::Fallback]);
    });
}

#[test]
fn ix_17_every_request_can_be_made_again_from_the_log() {
    run(async |root| {
        let script =
            [Reply::call("c1", "tell", text("")).and_call("c2", "echo", text("b")), Reply::text("x"), Reply::text("y")];
        let world = World::new(root, script).await;
        world.tools.register(&world.root, echo()).unwrap();
        let tell = crate::support::tool("tell", async |_, call| {
            call.agent().unwrap().inject(from_plugin("in between")).unwrap();
            call.agent().unwrap().steer("hurry").unwrap();
            Ok("ok".into())
        });
        world.tools.register(&world.root, tell).unwrap();
        world.root.on(|_: &AgentSessionPrefix| vec![Message::user(block("prefix"))]).unwrap();
        let overlaying = |e: &AgentOverlay| match (e.turn, e.step) {
            (1, 2) => e.add(vec![Message::user(block("only now"))], "test"),
            (2, _) => e.replace(vec![Message::user(block("something else"))], "test"),
            _ => {}
        };
        world.root.on(overlaying).unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        world.prompt.section(&world.root, Section::fixed("more", 5, "be kind")).unwrap();
        say(&agent, "two").await;
        let sent = world.model.requests();
        for ((turn, step), sent) in [(1, 1), (1, 2), (2, 1)].into_iter().zip(&sent) {
            let again = rebuild_request(agent.session(), turn, step).unwrap();
            let as_json = |it| serde_json::to_string(it).unwrap();
            assert_eq!(as_json(&again), as_json(&**sent), "turn {turn}, step {step}");
        }
        assert_eq!(sent.len(), 3);
        assert_eq!(request_of(&sent[1]).last().unwrap(), "user: only now");
        assert_eq!(request_of(&sent[2]), ["user: prefix", "user: something else"]);
        assert!(rebuild_request(agent.session(), 9, 1).is_none());
    });
}

#[test]
fn what_one_request_shows_is_logged_first_and_gone_with_it() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let notes = Notes::default();
        for name in ["memory", "work"] {
            let told = notes.clone();
            let adding = move |e: &AgentOverlay| {
                told.add(format!("{}", e.messages().len()));
                if e.turn == 1 {
                    e.add(vec![Message::user(block(name))], name);
                }
            };
            world.root.on(adding).unwrap();
        }
        let agent = world.agent().await;
        say(&agent, "one").await;
        say(&agent, "two").await;
        assert_eq!(world.requests()[0], ["user: one", "user: memory", "user: work"]);
        assert_eq!(world.requests()[1], ["user: one", "assistant: x", "user: two"]);
        assert_eq!(log(&agent)[3..7], ["request/header", "request/overlay", "request/overlay", "assistant/message"]);
        let by = facts(&agent, |it| if let Fact::RequestOverlay(it) = it { Some(it.by.clone()) } else { None });
        assert_eq!(by, ["memory", "work"]);
        // The second sees what the first added.
        assert_eq!(notes.lines(), ["1", "2", "3", "3"]);
        assert_eq!(agent.session().messages().len(), 4);
    });
}

#[test]
fn ix_18_a_plugin_that_is_gone_is_heard_no_more() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let recorder = Recorder::new();
        let heard = recorder.clone();
        let plugin = world.root.mount_fn("listening", move |ctx: Context, (): ()| {
            let heard = heard.clone();
            async move { listen_to_all(&ctx, &heard) }
        });
        let plugin = plugin.unwrap();
        plugin.running().await.unwrap();
        let agent = world.agent().await;
        say(&agent, "one").await;
        let n_heard = recorder.names().len();
        assert_eq!(n_heard, 12);
        plugin.dispose().await.unwrap();
        say(&agent, "two").await;
        assert_eq!(recorder.names().len(), n_heard);
    });
}
