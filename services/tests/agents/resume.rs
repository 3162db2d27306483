//! Agents whose session was stored.

use std::path::Path;
use std::sync::{Arc, Mutex};

use linn_bus::{Fault, provider};
use linn_bus_test::run;
use linn_services::agent::{AgentOptions, CreateAgent, ResumeAgent};
use linn_services::ids::SessionId;
use linn_services::model::{ContentBlock, MessageSource};
use linn_services::persistence::{
    FiledSession, PersistenceError, SessionFiles, SessionPersistence, SessionSummary, StoredSession,
};
use linn_services::session::{
    Fact, Record, RecordSurface, SESSION_VERSION, SessionHeader, SurfaceOp, TurnEnd, TurnEndReason, TurnStart,
    TurnTrigger, UserMessage,
};
use linn_services_test::Gate;

use crate::support::{World, setup};

/// Keeps one session, and hands it out when its gate is open.
pub(crate) struct Shelf {
    stored: StoredSession,
    gate: Gate,
}

#[provider]
impl SessionPersistence for Shelf {
    async fn load(&self, id: &SessionId) -> Result<StoredSession, PersistenceError> {
        self.gate.pass().await;
        if *id != self.stored.header.id {
            return Err(PersistenceError::NotFound(id.clone()));
        }
        Ok(self.stored.clone())
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

fn stored() -> StoredSession {
    let source = MessageSource::User;
    let facts: Vec<Fact> = vec![
        TurnStart { turn: 1, trigger: TurnTrigger::Message { source: source.clone() } }.into(),
        UserMessage { content: vec![ContentBlock::text("hello")], source }.into(),
        TurnEnd { turn: 1, reason: TurnEndReason::Completed }.into(),
    ];
    let record = |(seq, fact): (usize, Fact)| {
        let surface = fact.is_on_surface().then_some(RecordSurface { op: SurfaceOp::Append, source_seqs: None });
        Arc::new(Record { seq: seq as u64, time_ms: 7, fact, surface })
    };
    let header = SessionHeader {
        version: SESSION_VERSION,
        id: "s".into(),
        created_at: 77,
        cwd: Some("/tmp".to_owned()),
        parent_session: Some("parent".into()),
        seed_length: Some(3),
    };
    StoredSession { header, records: facts.into_iter().enumerate().map(record).collect(), notices: Vec::new() }
}

fn options(session: &str) -> ResumeAgent {
    ResumeAgent { agent_id: "a".into(), session_id: session.into(), options: AgentOptions::default(), setup: None }
}

#[test]
fn ag_11_a_stored_session_goes_on_where_it_was() {
    run(async |root| {
        let world = World::new(root).await;
        world.story.listen(&world.root, "");
        let gate = Gate::new();
        gate.open();
        world.root.provide::<dyn SessionPersistence>(Arc::new(Shelf { stored: stored(), gate })).unwrap();
        let handle = world.agents.resume(&world.root, options("s")).await.unwrap();
        let session = handle.agent().session();
        assert_eq!(session.header(), &stored().header);
        assert_eq!((session.len(), session.turns().last_turn), (3, 1));
        assert_eq!(world.story.lines(), ["session/created", "agent/created", "session-start Resume", "start"]);
    });
}

#[test]
fn ag_11_a_session_that_was_read_already_goes_on_without_persistence() {
    run(async |root| {
        let world = World::new(root).await;
        world.story.listen(&world.root, "");
        let handle = world.agents.restore(&world.root, options("s"), stored()).await.unwrap();
        let session = handle.agent().session();
        assert_eq!(session.header(), &stored().header);
        assert_eq!(session.len(), 3);
        assert_eq!(world.story.lines(), ["session/created", "agent/created", "session-start Resume", "start"]);
    });
}

#[test]
fn ag_11_without_persistence_nothing_is_resumed() {
    run(async |root| {
        let world = World::new(root).await;
        let error = world.agents.resume(&world.root, options("s")).await.unwrap_err();
        assert_eq!(error.code(), "NO_PERSISTENCE");
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

#[test]
fn ag_11_a_session_that_is_not_stored_is_not_resumed() {
    run(async |root| {
        let world = World::new(root).await;
        let gate = Gate::new();
        gate.open();
        world.root.provide::<dyn SessionPersistence>(Arc::new(Shelf { stored: stored(), gate })).unwrap();
        let error = world.agents.resume(&world.root, options("other")).await.unwrap_err();
        assert_eq!(error.code(), "SESSION_NOT_FOUND");
        world.agents.create(&world.root, CreateAgent::new("a", "other")).await.unwrap();
    });
}

#[test]
fn ag_12_a_load_that_never_settles_is_given_up_with_the_owner() {
    run(async |root| {
        let world = World::new(root).await;
        let gate = Gate::new();
        let shelf = Shelf { stored: stored(), gate: gate.clone() };
        world.root.provide::<dyn SessionPersistence>(Arc::new(shelf)).unwrap();
        let (fiber, ctx) = world.owner().await;
        let agents = world.agents.clone();
        let resuming = world.root.spawn(async move { agents.resume(&ctx, options("s")).await.map(drop) }).unwrap();
        gate.reached().await;
        let taken = world.agents.create(&world.root, CreateAgent::new("b", "s")).await.unwrap_err();
        assert_eq!(taken.code(), "SESSION_ALREADY_EXISTS");
        fiber.dispose().await.unwrap();
        assert_eq!(resuming.join().await.unwrap().unwrap_err().code(), "AGENT_OWNER_GONE");
        world.agents.create(&world.root, CreateAgent::new("a", "s")).await.unwrap();
    });
}

/// Knows whose session was let go of.
#[derive(Default)]
struct Held(Mutex<Vec<SessionId>>);

#[provider]
impl SessionFiles for Held {
    async fn open(&self, _: &Path) -> Result<StoredSession, PersistenceError> {
        Ok(stored())
    }
    async fn find(&self, _: &Path) -> Result<SessionId, PersistenceError> {
        Ok("s".into())
    }
    async fn list_in(&self, _: &Path) -> Result<Vec<FiledSession>, PersistenceError> {
        Ok(Vec::new())
    }
    async fn salvage(&self, id: &SessionId) -> Result<StoredSession, PersistenceError> {
        Err(PersistenceError::NotFound(id.clone()))
    }
    async fn release(&self, id: &SessionId) -> Result<(), PersistenceError> {
        self.0.lock().unwrap().push(id.clone());
        Ok(())
    }
    fn n_unsaved(&self, _: &SessionId) -> Result<u64, PersistenceError> {
        Ok(0)
    }
    async fn rebuild_view(&self, _: &SessionId) -> Result<(), PersistenceError> {
        Ok(())
    }
    async fn note_run(&self, _: &SessionId, _: &serde_json::Value) -> Result<(), PersistenceError> {
        Ok(())
    }
    async fn run_notes(&self, _: &SessionId) -> Result<Vec<serde_json::Value>, PersistenceError> {
        Ok(Vec::new())
    }
    async fn escalations(&self, _: &SessionId) -> Result<Vec<String>, PersistenceError> {
        Ok(Vec::new())
    }
    async fn keep_escalations(&self, _: &SessionId, _: &[String]) -> Result<(), PersistenceError> {
        Ok(())
    }
}

#[test]
fn a_session_that_was_read_and_does_not_come_to_live_is_let_go_of() {
    run(async |root| {
        let world = World::new(root).await;
        let gate = Gate::new();
        gate.open();
        world.root.provide::<dyn SessionPersistence>(Arc::new(Shelf { stored: stored(), gate })).unwrap();
        let held = Arc::new(Held::default());
        world.root.provide::<dyn SessionFiles>(held.clone()).unwrap();
        let released = || std::mem::take(&mut *held.0.lock().unwrap());

        let fails = || setup(async |_| Err(Fault::msg("no")));
        let error = world.agents.resume(&world.root, ResumeAgent { setup: fails(), ..options("s") }).await.unwrap_err();
        assert_eq!(error.code(), "AGENT_SETUP_FAILED");
        assert_eq!(released(), [SessionId::from("s")]);
        let options_of_file = ResumeAgent { setup: fails(), ..options("s") };
        world.agents.restore(&world.root, options_of_file, stored()).await.unwrap_err();
        assert_eq!(released(), [SessionId::from("s")], "also one that a front end had opened");

        // One whose set-up hangs is let go of with its owner.
        let (fiber, ctx) = world.owner().await;
        let (agents, reached) = (world.agents.clone(), Gate::new());
        let hangs = reached.clone();
        let hanging = setup(async move |_| {
            hangs.pass().await;
            Ok(())
        });
        let resume = ResumeAgent { setup: hanging, ..options("s") };
        let resuming = world.root.spawn(async move { agents.resume(&ctx, resume).await.map(drop) }).unwrap();
        reached.reached().await;
        fiber.dispose().await.unwrap();
        assert_eq!(resuming.join().await.unwrap().unwrap_err().code(), "AGENT_OWNER_GONE");
        assert_eq!(released(), [SessionId::from("s")]);

        // One that lives is let go of when it leaves the store, by whoever keeps it.
        let handle = world.agents.resume(&world.root, options("s")).await.unwrap();
        handle.dispose().await;
        assert!(released().is_empty());
    });
}
