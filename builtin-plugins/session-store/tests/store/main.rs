//! The store on a real folder, on disks that fail, and across processes that are killed. Names begin with the id of the case.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod cost;
mod damage;
mod disk;
mod durability;
mod files;
mod killed;
mod listing;
mod plugin;
mod processes;
mod script;

use std::path::Path;
use std::sync::Arc;

use linn_bus::{Context, Fiber, Root, Svc};
use linn_bus_test::TestRuntime;
use linn_plugin_session_store::SessionStoreConfig;
use linn_plugin_session_store::system::{Disk, SystemDisk};
use linn_services::persistence::{PersistenceError, SessionFiles, SessionPersistence, StoredSession};
use linn_services::session::{CreateSession, EnteredSession, Session, Sessions, SessionsPlugin};
use tempfile::TempDir;

/// Sessions and their store on a bus.
struct Store {
    fiber: Fiber,
    sessions: Svc<dyn Sessions>,
    stored: Svc<dyn SessionPersistence>,
    files: Svc<dyn SessionFiles>,
}

/// A store in a folder, on the disk of the machine.
async fn store(root: &Root, folder: &Path) -> Store {
    store_on(root, folder, Arc::new(SystemDisk)).await
}

async fn store_on(root: &Root, folder: &Path, disk: Arc<dyn Disk>) -> Store {
    if root.get::<dyn Sessions>().is_none() {
        root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
    }
    let config = SessionStoreConfig::new(folder);
    let start = move |ctx: Context, (): ()| {
        std::future::ready(linn_plugin_session_store::start_on(&ctx, config.clone(), disk.clone()))
    };
    let fiber = root.mount_fn("session-store", start).unwrap();
    fiber.running().await.unwrap();
    Store { fiber, sessions: root.get().unwrap(), stored: root.get().unwrap(), files: root.get().unwrap() }
}

impl Store {
    /// A new session, which leaves the store when its handle is disposed.
    fn new_session(&self, ctx: &Context, id: &str) -> EnteredSession {
        self.enter(ctx, CreateSession { id: Some(id.into()), ..CreateSession::default() })
    }

    fn enter(&self, ctx: &Context, options: CreateSession) -> EnteredSession {
        let prepared = self.sessions.prepare(ctx, options).unwrap();
        self.sessions.enter(ctx, prepared).unwrap()
    }

    /// Goes on with a session that was read.
    fn resume(&self, ctx: &Context, stored: &StoredSession) -> EnteredSession {
        self.enter(ctx, seed_of(stored))
    }

    async fn flush(&self, session: &Session) {
        self.sessions.flush(session).await.unwrap();
    }

    async fn load(&self, id: &str) -> Result<StoredSession, PersistenceError> {
        self.stored.load(&id.into()).await
    }
}

fn seed_of(stored: &StoredSession) -> CreateSession {
    CreateSession {
        id: Some(stored.header.id.clone()),
        created_at: Some(stored.header.created_at),
        cwd: stored.header.cwd.clone(),
        parent_session: stored.header.parent_session.clone(),
        seed_length: stored.header.seed_length,
        seed: stored.records.clone(),
    }
}

/// Runs a test that waits for other processes.
fn run_slow(test: impl AsyncFnOnce(Root)) {
    let runtime = TestRuntime::unwatched();
    let root = Root::new(runtime.seams());
    runtime.block_on(test(root));
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The lines of a file.
fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// Every line of a log is a record with the next number, behind a header.
fn assert_whole(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    for (at, line) in text.lines().enumerate() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("line {at}: {error}"));
        match at {
            0 => assert_eq!(value["version"], 0),
            at => assert_eq!(value["seq"], at as u64 - 1),
        }
    }
}
