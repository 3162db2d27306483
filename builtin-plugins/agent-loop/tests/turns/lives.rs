//! Agents with a real loop: their ends, their resumption, and the loop that is replaced under them.

use std::sync::Arc;

use linn_bus::{Context, provider};
use linn_bus_test::{leak_check, run};
use linn_plugin_agent_loop::{AgentLoopPlugin, LoopConfig};
use linn_services::agent::{AgentOptions, AgentStatus, ResumeAgent};
use linn_services::events::{AgentDisposed, AgentSessionStart, AgentStatusChanged};
use linn_services::ids::SessionId;
use linn_services::model::ContentBlock;
use linn_services::persistence::{PersistenceError, SessionPersistence, SessionSummary, StoredSession};
use linn_services::session::Fact;
use linn_services_test::{Gate, Reply};

use crate::support::{Notes, World, facts, log, options, say, text, tool};

#[test]
fn ag_08_an_owner_that_goes_ends_the_turn_first() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate)]).await;
        let owner = world.root.mount_fn("owner", async |_: Context, (): ()| {}).unwrap();
        owner.running().await.unwrap();
        let handle = world.agents.create(&owner.context().unwrap(), options("a")).await.unwrap();
        let notes = Notes::default();
        let (told, agents, sessions) = (notes.clone(), world.agents.clone(), world.sessions.clone());
        let telling = move |e: &AgentDisposed| {
            let last = e.agent.session().records_from(0).last().unwrap().fact.kind().to_owned();
            let listed = agents.get(e.agent.id()).unwrap().is_some();
            let stored = sessions.get(e.agent.session().id()).unwrap().is_some();
            told.add(format!("{last}, listed {listed}, stored {stored}"));
        };
        world.root.on(telling).unwrap();
        handle.agent().send("hi").unwrap();
        gate.reached().await;
        owner.dispose().await.unwrap();
        assert_eq!(notes.lines(), ["turn/end, listed false, stored true"]);
        assert_eq!(log(handle.agent()).last().unwrap(), "turn/end{disposed}");
        assert!(!handle.agent().session().is_live());
    });
}

#[test]
fn ag_13_the_end_is_told_before_the_turn_is_closed() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate)]).await;
        let handle = world.make("a").await;
        let notes = Notes::default();
        let told = notes.clone();
        world
            .root
            .on(move |e: &AgentStatusChanged| {
                told.add(format!("{:?} at {}", e.status, e.agent.session().turns().is_open))
            })
            .unwrap();
        handle.agent().send("hi").unwrap();
        gate.reached().await;
        handle.dispose().await;
        assert_eq!(notes.lines(), ["Running at false", "Disposed at true"]);
        for error in [handle.agent().send("x"), handle.agent().steer("x"), handle.agent().cancel(None)] {
            assert!(error.unwrap_err().to_string().ends_with("is disposed"));
        }
        handle.agent().when_idle().await;
    });
}

/// Keeps what it was given.
struct Shelf(StoredSession);

#[provider]
impl SessionPersistence for Shelf {
    async fn load(&self, _: &SessionId) -> Result<StoredSession, PersistenceError> {
        Ok(self.0.clone())
    }
    async fn list(&self) -> Result<Vec<SessionSummary>, PersistenceError> {
        Ok(Vec::new())
    }
    async fn set_title(&self, _: &SessionId, _: Option<&str>) -> Result<(), PersistenceError> {
        Ok(())
    }
    async fn set_pinned(&self, _: &SessionId, _: bool) -> Result<(), PersistenceError> {
        Ok(())
    }
    async fn delete(&self, _: &SessionId) -> Result<(), PersistenceError> {
        Ok(())
    }
    async fn import(&self, _: &str) -> Result<SessionId, PersistenceError> {
        Ok("imported".into())
    }
}

#[test]
fn ag_11_a_resumed_agent_counts_on() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let first = world.make("a").await;
        say(first.agent(), "one").await;
        let records = first.agent().session().records_from(0);
        let header = first.agent().session().header().clone();
        first.dispose().await;
        let n_before = records.len() as u64;
        let shelf = Shelf(StoredSession { header: header.clone(), records, notices: Vec::new() });
        world.root.provide::<dyn SessionPersistence>(Arc::new(shelf)).unwrap();
        let notes = Notes::default();
        let told = notes.clone();
        world.root.on(move |e: &AgentSessionStart| told.add(format!("{:?}", e.source))).unwrap();
        let (agent_id, session_id) = ("a".into(), header.id.clone());
        let options = AgentOptions { model: Some("m1".into()), ..AgentOptions::default() };
        let resumed =
            world.agents.resume(&world.root, ResumeAgent { agent_id, session_id, options, setup: None }).await;
        let agent = resumed.unwrap().agent().clone();
        say(&agent, "two").await;
        assert_eq!(notes.lines(), ["Resume"]);
        let turns = facts(&agent, |it| if let Fact::TurnStart(it) = it { Some(it.turn) } else { None });
        assert_eq!(turns, [1, 2]);
        let seqs: Vec<u64> = agent.session().records_from(n_before).iter().map(|it| it.seq).collect();
        assert_eq!(seqs, (n_before..agent.session().len()).collect::<Vec<_>>());
        assert_eq!(world.requests()[1], ["user: one", "assistant: x", "user: two"]);
    });
}

#[test]
fn two_hundred_agents_run_side_by_side() {
    run(async |root| {
        let world = World::new(root, (0..200).map(|_| Reply::text("x"))).await;
        let mut handles = Vec::new();
        for n in 0..200 {
            let handle = world.make(&format!("a{n}")).await;
            handle.agent().send("hi").unwrap();
            handles.push(handle);
        }
        for handle in &handles {
            handle.agent().when_idle().await;
            assert_eq!(log(handle.agent()).last().unwrap(), "turn/end{completed}");
        }
        assert_eq!(world.requests().len(), 200);
        for handle in handles {
            handle.dispose().await;
        }
    });
}

#[test]
fn nothing_is_left_of_the_loop_and_its_agents() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x"), Reply::text("y").held_at(&gate)]).await;
        world.the_loop.dispose().await.unwrap();
        leak_check(&world.root, async |ctx| {
            let the_loop = ctx.mount::<AgentLoopPlugin>(LoopConfig::default()).unwrap();
            the_loop.running().await.unwrap();
            let handle = world.agents.create(ctx, options("a")).await.unwrap();
            say(handle.agent(), "one").await;
            handle.agent().send("two").unwrap();
            gate.reached().await;
            handle.dispose().await;
            the_loop.dispose().await.unwrap();
        })
        .await;
    });
}

#[test]
fn an_agent_that_is_gone_is_gone_from_memory() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let handle = world.make("a").await;
        say(handle.agent(), "one").await;
        let weak = handle.agent().downgrade();
        handle.dispose().await;
        drop(handle);
        // What the model was asked, and who waited, is over as well.
        world.root.sleep(std::time::Duration::from_secs(1)).await.unwrap();
        assert!(weak.upgrade().is_none());
    });
}

#[test]
fn a_loop_that_is_replaced_drives_the_same_agents_on() {
    run(async |root| {
        let gate = Gate::new();
        let world = World::new(root, [Reply::text("x").held_at(&gate), Reply::text("y"), Reply::text("z")]).await;
        let agent = world.agent().await;
        agent.send("one").unwrap();
        gate.reached().await;
        agent.send("waits").unwrap();
        let prepared = world.root.prepare_for::<AgentLoopPlugin>(&world.the_loop, LoopConfig::default()).unwrap();
        let switched = prepared.switch().await.unwrap();
        switched.old_gone().await.unwrap();
        agent.when_idle().await;
        assert_eq!(log(&agent)[4..6], ["step/end", "turn/end{disposed}"]);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
        assert_eq!(world.requests()[1], ["user: one", "user: waits"]);
        assert_eq!(agent.status(), AgentStatus::Idle);
        say(&agent, "three").await;
        assert_eq!(world.requests().len(), 3);
    });
}

#[test]
fn a_loop_with_another_config_drives_the_same_agents_on() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x"), Reply::text("y")]).await;
        let agent = world.agent().await;
        say(&agent, "one").await;
        world.the_loop.update(LoopConfig { max_forced_continues: 1, ..LoopConfig::default() }).await.unwrap();
        assert_eq!(agent.status(), AgentStatus::Idle);
        say(&agent, "two").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn a_service_that_is_missing_fails_the_step_and_says_so() {
    run(async |root| {
        let world = World::new(root, [Reply::text("x")]).await;
        let agent = world.agent().await;
        world.root.unmount::<linn_services::llm::LlmPlugin>().await.unwrap();
        say(&agent, "one").await;
        assert_eq!(log(&agent).last().unwrap(), "turn/end{error in step 1: NO_SERVICE}");
        assert_eq!(agent.status(), AgentStatus::Idle);
    });
}

#[test]
fn r096_a_log_that_was_cut_anywhere_gives_a_valid_request() {
    run(async |root| {
        let script = || {
            let reads = (0..4).fold(Reply::empty(), |it, n| it.and_call(&format!("r{n}"), "read", text("x")));
            let writes = (0..4).fold(Reply::empty(), |it, n| it.and_call(&format!("w{n}"), "write", text("x")));
            [reads, writes, Reply::text("done")]
        };
        let world = World::new(root, script()).await;
        world.tools.register(&world.root, tool("read", async |_, _| Ok("r".into())).read_only()).unwrap();
        world.tools.register(&world.root, tool("write", async |_, _| Ok("w".into()))).unwrap();
        let whole = world.agent().await;
        say(&whole, "hi").await;
        let records = whole.session().records_from(0);
        assert!(records.len() > 40, "{}", records.len());
        for cut in 0..=records.len() {
            world.model.push(Reply::text("went on"));
            let mut options = options(&format!("cut-{cut}"));
            options.seed = records[..cut].to_vec();
            let handle = world.agents.create(&world.root, options).await.unwrap();
            say(handle.agent(), "go on").await;
            assert_eq!(log(handle.agent()).last().unwrap(), "turn/end{completed}", "cut at {cut}");
            let request = world.model.requests().pop().unwrap();
            let shown = linn_services_test::request_of(&request);
            assert_eq!(shown.last().unwrap(), "user: go on", "cut at {cut}");
            // Each call is followed by its result, and no result stands anywhere else.
            let mut open = Vec::new();
            for block in request.messages.iter().flat_map(|it| &it.content) {
                match block {
                    ContentBlock::ToolCall { id, .. } => open.push(id),
                    ContentBlock::ToolResult { tool_call_id, .. } => {
                        assert_eq!(open.remove(0), tool_call_id, "{shown:?}")
                    }
                    _ => assert!(open.is_empty(), "cut at {cut}: {shown:?}"),
                }
            }
            assert!(open.is_empty(), "cut at {cut}: {shown:?}");
            handle.dispose().await;
        }
    });
}
