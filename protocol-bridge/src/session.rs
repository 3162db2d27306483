//! The session that is current: the agent that drives it, and the file it is kept in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_bus::{Fault, ListenerError, Next};
use linn_services::agent::{AgentHandle, AgentOptions, AgentsError, CreateAgent, ResumeAgent};
use linn_services::events::AgentRequest;
use linn_services::ids::SessionId;
use linn_services::model::LlmCallConfig;
use linn_services::persistence::{PersistenceError, SessionFiles, StoredSession};
use linn_services::session::SessionHeader;
use serde_json::Value;

use crate::bridge::Bridge;
use crate::events::unanswered;
use crate::journal::{Note, interrupted};

/// The option of an agent that names the file its session is kept in, for whoever tells others of it.
const SESSION_FILE: &str = "sessionFile";

/// Id of the agent of a front end.
const AGENT: &str = "main";

/// The session that is current.
pub(crate) struct Current {
    /// Its id for the front end; another one than that in the store.
    pub(crate) wire_id: Arc<str>,
    pub(crate) handle: AgentHandle,
    /// The file that the front end named.
    pub(crate) file: Option<PathBuf>,
}

/// What was found when the session was opened.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// The session could not be opened.
    pub(crate) error: Option<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) activities: Vec<Value>,
}

/// Why a session was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("sessions are not kept here: no plugin provides `session-files`")]
    NoFiles,
    #[error(transparent)]
    Persistence(#[from] PersistenceError),
    #[error(transparent)]
    Agents(#[from] AgentsError),
}

/// A session that was read, and has no agent yet.
pub(crate) struct Opened {
    pub(crate) file: Option<PathBuf>,
    stored: Option<StoredSession>,
}

impl Opened {
    /// A session that is in memory alone.
    pub(crate) fn unkept() -> Self {
        Self { file: None, stored: None }
    }

    /// How many messages it has.
    pub(crate) fn is_empty(&self) -> bool {
        self.stored.as_ref().is_none_or(|it| it.records.is_empty())
    }

    /// What was noticed while it was read.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        self.stored.as_mut().map(|it| std::mem::take(&mut it.notices)).unwrap_or_default()
    }

    fn header(&self) -> Option<&SessionHeader> {
        self.stored.as_ref().map(|it| &it.header)
    }
}

impl Bridge {
    /// Opens the session that the program was started with, or one in memory if that is not possible.
    pub(crate) async fn open_first_session(&self) -> Result<(), Fault> {
        let mut recovery = Recovery::default();
        let mut opened = match &self.config.session {
            None => Opened::unkept(),
            Some(file) => self.open(file).await.unwrap_or_else(|error| {
                recovery.error = Some(error.to_string());
                Opened::unkept()
            }),
        };
        recovery.warnings = opened.take_notices();
        let session = opened.header().map(|it| it.id.clone());
        self.raise(opened).await?;
        if let Some(session) = session {
            recovery.activities = self.end_interrupted(&session).await;
        }
        self.state().recovery = recovery;
        Ok(())
    }

    /// Reads the session of a file. One that is damaged is read up to the damage.
    pub(crate) async fn open(&self, file: &Path) -> Result<Opened, OpenError> {
        let files = self.service::<dyn SessionFiles>().ok_or(OpenError::NoFiles)?;
        let stored = match files.open(file).await {
            Err(PersistenceError::Damaged { .. }) => {
                let id = files.find(file).await?;
                files.salvage(&id).await?
            }
            stored => stored?,
        };
        Ok(Opened { file: Some(file.to_owned()), stored: Some(stored) })
    }

    /// Makes the agent of a session and has it be the current one.
    pub(crate) async fn raise(&self, opened: Opened) -> Result<(), AgentsError> {
        let Opened { file, stored } = opened;
        let workspace = self.config.workspace.to_string_lossy().into_owned();
        let agents = &self.needs.agents;
        let mut options = AgentOptions { model: self.model_to_begin_with(), ..AgentOptions::default() };
        if let Some(file) = &file {
            options.extra.insert(SESSION_FILE.to_owned(), file.to_string_lossy().into());
        }
        let is_resumed = stored.as_ref().is_some_and(|it| !it.records.is_empty());
        let handle = match stored {
            Some(mut stored) if !stored.records.is_empty() => {
                stored.header.cwd.get_or_insert(workspace);
                let session_id = stored.header.id.clone();
                let resume = ResumeAgent { agent_id: AGENT.into(), session_id, options, setup: None };
                agents.restore(&self.ctx, resume, stored).await?
            }
            stored => {
                let fresh = || SessionId::from(format!("session-{:016x}", self.ctx.ids().next_u64()));
                let session_id = stored.map_or_else(fresh, |it| it.header.id);
                let create = CreateAgent { cwd: Some(workspace), options, ..CreateAgent::new(AGENT, session_id) };
                agents.create(&self.ctx, create).await?
            }
        };
        let me = self.me().ok_or(AgentsError::OwnerGone)?;
        handle.agent().context().on_with(&me, Self::configure)?;
        if is_resumed {
            self.restore_escalations(handle.agent().session()).await;
        }
        let questions = unanswered(handle.agent().session());
        let wire_id = self.new_id("session");
        self.sink.set_session(wire_id.clone());
        let mut state = self.state();
        state.current = Some(Current { wire_id, handle, file });
        state.context_tokens = None;
        state.unanswered = questions;
        state.unsettled = None;
        state.work.clear();
        Ok(())
    }

    /// Ends the agent of the current session; everything it logged is written then.
    pub(crate) async fn lower(&self) {
        let current = self.state().current.take();
        if let Some(current) = current {
            current.handle.dispose().await;
        }
    }

    fn model_to_begin_with(&self) -> Option<String> {
        let last = self.state().last_model.as_ref().map(|it| it.asked_as.clone());
        last.or_else(|| self.config.model.clone())
    }

    /// Has the requests of a run go to the model that its prompt is for.
    async fn configure(
        &self,
        request: &AgentRequest,
        next: Next<'_, AgentRequest>,
    ) -> Result<LlmCallConfig, ListenerError> {
        let mut config = next.run().await?;
        let state = self.state();
        let run = state.run.as_ref().filter(|it| it.turn == Some(request.turn));
        if let Some(choice) = run.and_then(|it| it.choice.as_ref()) {
            config.model.clone_from(&choice.asked_as);
            config.effort = Some(choice.effort.clone()).filter(|it| !it.is_empty());
        }
        drop(state);
        Ok(config)
    }

    /// Notes that what an earlier program left open was cut off, and gives what that was.
    async fn end_interrupted(&self, session: &SessionId) -> Vec<Value> {
        let Some(files) = self.service::<dyn SessionFiles>() else { return Vec::new() };
        let open = match interrupted(&files, session).await {
            Ok(open) => open,
            Err(error) => {
                self.ctx.logger().warn(format_args!("{error}"));
                return Vec::new();
            }
        };
        let mut told = Vec::with_capacity(open.len());
        for note in open {
            let text = |name: &str| note.get(name).and_then(Value::as_str).map(str::to_owned);
            let kind = text("kind").unwrap_or_else(|| "run".to_owned());
            told.push(serde_json::json!({
                "run_id": text("run_id"),
                "kind": kind,
                "parent_run_id": text("parent_run_id"),
                "tool_call_id": text("tool_call_id"),
            }));
            let ending = Note {
                session: session.clone(),
                session_id: text("session_id").unwrap_or_default(),
                run_id: text("run_id").unwrap_or_default(),
                kind: kind.into(),
                parent_run_id: text("parent_run_id"),
                tool_call_id: text("tool_call_id"),
                state: "interrupted",
                timestamp_ms: self.now_ms(),
                detail: Some("core restarted before the run reached a terminal state".to_owned()),
            };
            if let Err(error) = files.note_run(session, &ending.as_value()).await {
                self.ctx.logger().warn(format_args!("{error}"));
            }
        }
        told
    }

    /// The file that a front end names: absolute, or in the folder of the current session.
    pub(crate) fn session_path(&self, path: &str) -> PathBuf {
        let folder = self.session_folder().unwrap_or_else(|| self.config.workspace.clone());
        folder.join(path)
    }

    /// The folder of the current session.
    pub(crate) fn session_folder(&self) -> Option<PathBuf> {
        let state = self.state();
        let file = state.current.as_ref()?.file.as_ref()?;
        file.parent().map(Path::to_owned)
    }

    /// The file of the current session.
    pub(crate) fn session_file(&self) -> Option<PathBuf> {
        self.state().current.as_ref()?.file.clone()
    }
}
