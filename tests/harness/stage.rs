//! A harness on a temporary workspace whose model plays a recording, and what is heard on its bus.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use linn::bus::{Context, InternalDispatch};
use linn::plugins::llm_replay::{Bundled, ReplayConfig, ReplayMode, ReplayPlugin};
use linn::services::agent::{Agent, AgentHandle, CreateAgent};
use linn::{Harness, HarnessBuilder};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace, a folder of sessions, and nothing of the user's.
pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["work", "sessions"] {
            std::fs::create_dir(stage.path(name)).unwrap();
        }
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A harness whose model `replay:test` plays `recording`, again and again.
    pub(crate) fn builder(&self, recording: &'static str) -> HarnessBuilder {
        let bundled = vec![Bundled { name: "test", text: recording }];
        let mode = ReplayMode::Lenient;
        let replay = ReplayConfig { bundled, mode, repeat: true, delay_percent: 0, ..ReplayConfig::default() };
        Harness::builder().workspace(self.path("work")).sessions(self.path("sessions")).plugin::<ReplayPlugin>(replay)
    }

    pub(crate) fn options(&self, id: &str) -> CreateAgent {
        let mut create = CreateAgent::new(id, format!("session-of-{id}"));
        create.cwd = Some(self.path("work").to_str().unwrap().to_owned());
        create.options.model = Some("replay:test".to_owned());
        create
    }

    pub(crate) async fn agent(&self, harness: &Harness, id: &str) -> AgentHandle {
        harness.agents().unwrap().create(harness.context(), self.options(id)).await.unwrap()
    }
}

/// Sends a prompt and waits until the agent rests.
pub(crate) async fn say(agent: &Agent, text: &str) {
    agent.send(text).unwrap();
    agent.when_idle().await;
}

/// Every file below a folder, as text.
pub(crate) fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &all_text(&path);
        } else {
            text += &String::from_utf8_lossy(&std::fs::read(&path).unwrap());
        }
    }
    text
}

/// What is dispatched on a bus, in order: the name of each event, and as JSON what can be shown so.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<(&'static str, Value)>>);

impl Heard {
    pub(crate) fn on(ctx: &Context) -> Arc<Self> {
        let heard = Arc::new(Self::default());
        ctx.on_with(&heard, Self::note).unwrap();
        heard
    }

    fn note(&self, dispatch: &InternalDispatch) {
        let event = dispatch.event_ref();
        let view = event.view().ok().flatten().unwrap_or_default();
        self.0.lock().unwrap().push((event.descriptor().name, view));
    }

    pub(crate) fn events(&self) -> Vec<(&'static str, Value)> {
        self.0.lock().unwrap().clone()
    }
}
