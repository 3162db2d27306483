//! The sessions there are, and which of them is the current one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_services::approval::ApprovalModes;
use linn_services::ids::SessionId;
use linn_services::persistence::{SessionFiles, SessionPersistence};
use linn_services::session::RewindCause;
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::run::Reason;
use crate::session::{OpenError, Opened};
use crate::wire::commands::{DeleteSession, ListSessions, LoadSession, NewSession, PinSession, RenameSession, Run};
use crate::wire::events::{
    Reset, SessionChangeFailed, SessionChanged, SessionDeleted, SessionList, SessionPinned, SessionRenamed,
};

/// Longest title, in characters.
const TITLE_CHARS: usize = 120;

impl Run for ListSessions {
    async fn run(self, bridge: &Arc<Bridge>) {
        let found = match (bridge.session_folder(), bridge.service::<dyn SessionFiles>()) {
            (Some(folder), Some(files)) => files.list_in(&folder).await,
            _ => Ok(Vec::new()),
        };
        let found = found.unwrap_or_else(|error| {
            bridge.ctx.logger().warn(format_args!("{error}"));
            Vec::new()
        });
        let current = bridge.session_file();
        let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let shown = |it: &linn_services::persistence::FiledSession| {
            let title = it.summary.title.trim();
            json!({
                "name": name(&it.file),
                "path": it.file.to_string_lossy(),
                "title": if title.is_empty() { "(no messages yet)" } else { title },
                "messages": it.summary.n_messages,
                "mtime": u64::try_from(it.summary.updated_at / 1_000).unwrap_or(0),
                "current": Some(&it.file) == current.as_ref(),
                "pinned": it.summary.is_pinned,
            })
        };
        let sessions: Vec<Value> = found.iter().map(shown).collect();
        let files: Vec<String> = found.iter().map(|it| name(&it.file)).collect();
        bridge.say(&SessionList { sessions: &sessions, files: &files });
    }
}

impl Run for LoadSession {
    async fn run(self, bridge: &Arc<Bridge>) {
        let file = bridge.session_path(&self.path);
        let failed = |error: &dyn std::fmt::Display| {
            bridge.say(&SessionChangeFailed { path: &self.path, message: &error.to_string() });
        };
        // The current one cannot be read while it lives.
        let opened = if bridge.session_file().as_ref() == Some(&file) {
            bridge.cancel(Reason::LoadSession).await;
            bridge.lower().await;
            bridge.open(&file).await
        } else {
            bridge.open(&file).await
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                failed(&error);
                return bridge.keep_a_session().await;
            }
        };
        if let Err(error) = bridge.switch(opened, Reason::LoadSession).await {
            failed(&error);
            return;
        }
        bridge.say(&SessionChanged { path: &file.to_string_lossy(), new: false });
        bridge.say(&Reset {});
        bridge.tell_work();
        bridge.tell_history();
        let n_messages = bridge.agent().map_or(0, |it| it.session().messages().len());
        bridge.info(format!("loaded {n_messages} messages from {}", self.path));
    }
}

impl Run for NewSession {
    async fn run(self, bridge: &Arc<Bridge>) {
        let file = match &self.path {
            Some(path) => Some(bridge.session_path(path)),
            None => bridge.session_folder().map(|it| it.join(bridge.new_file_name())),
        };
        let opened = match &file {
            Some(file) if Some(file) == bridge.session_file().as_ref() => {
                return bridge.error(format!("session {} is the current one already", file.display()));
            }
            Some(file) => bridge.open(file).await,
            None => Ok(Opened::unkept()),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return bridge.error(format!("new session failed: {error}")),
        };
        let was_there = !opened.is_empty();
        if let Err(error) = bridge.switch(opened, Reason::NewSession).await {
            return bridge.error(format!("new session failed: {error}"));
        }
        // What a file held before stays in it, and the conversation begins without it.
        if was_there && let Some(agent) = bridge.agent() {
            bridge.state().unanswered = None;
            if let Err(error) = bridge.rewind(&agent, 0, RewindCause::Clear) {
                bridge.ctx.logger().warn(format_args!("{error}"));
            }
            if let Some(modes) = bridge.service::<dyn ApprovalModes>()
                && let Err(error) = modes.clear(agent.session())
            {
                bridge.ctx.logger().warn(format_args!("{error}"));
            }
        }
        let path = file.as_deref().map(Path::to_string_lossy).unwrap_or_default();
        bridge.tell_work();
        bridge.say(&SessionChanged { path: &path, new: true });
        bridge.say(&Reset {});
        let named = if path.is_empty() { "in memory alone" } else { &*path };
        bridge.info(format!("started new session: {named}"));
    }
}

impl Run for RenameSession {
    async fn run(self, bridge: &Arc<Bridge>) {
        let title: String = self.title.trim().chars().take(TITLE_CHARS).collect();
        if title.is_empty() {
            return bridge.error("session title cannot be empty");
        }
        let renamed = async {
            let (kept, id, _) = bridge.kept(&self.path).await?;
            Ok::<_, OpenError>(kept.set_title(&id, Some(&title)).await?)
        };
        match renamed.await {
            Ok(()) => bridge.say(&SessionRenamed { path: &self.path, title: &title }),
            Err(error) => bridge.error(format!("rename session failed: {error}")),
        }
    }
}

impl Run for DeleteSession {
    async fn run(self, bridge: &Arc<Bridge>) {
        if bridge.session_file() == Some(bridge.session_path(&self.path)) {
            return bridge.error("cannot delete the active session; start or load another first");
        }
        let deleted = async {
            let (kept, id, _) = bridge.kept(&self.path).await?;
            Ok::<_, OpenError>(kept.delete(&id).await?)
        };
        match deleted.await {
            Ok(()) => bridge.say(&SessionDeleted { path: &self.path }),
            Err(error) => bridge.error(format!("delete session failed: {error}")),
        }
    }
}

impl Run for PinSession {
    async fn run(self, bridge: &Arc<Bridge>) {
        let pinned = async {
            let (kept, id, _) = bridge.kept(&self.path).await?;
            Ok::<_, OpenError>(kept.set_pinned(&id, self.pinned).await?)
        };
        match pinned.await {
            Ok(()) => bridge.say(&SessionPinned { path: &self.path, pinned: self.pinned }),
            Err(error) => bridge.error(format!("pin session failed: {error}")),
        }
    }
}

impl Bridge {
    /// Ends what runs, and has another session be the current one. If that fails an empty one in memory is.
    async fn switch(self: &Arc<Self>, opened: Opened, reason: Reason) -> Result<(), OpenError> {
        self.cancel(reason).await;
        self.end_jobs();
        self.lower().await;
        self.state().deferred.clear();
        let raised = self.raise(opened).await;
        if raised.is_err() {
            self.keep_a_session().await;
        }
        Ok(raised?)
    }

    /// Makes a session in memory where there is none.
    async fn keep_a_session(&self) {
        if self.state().current.is_some() {
            return;
        }
        if let Err(error) = self.raise(Opened::unkept()).await {
            self.error(format!("there is no session any more: {error}"));
        }
    }

    /// A session by its file.
    async fn kept(&self, path: &str) -> Result<(linn_bus::Svc<dyn SessionPersistence>, SessionId, PathBuf), OpenError> {
        let file = self.session_path(path);
        let files = self.service::<dyn SessionFiles>().ok_or(OpenError::NoFiles)?;
        let kept = self.service::<dyn SessionPersistence>().ok_or(OpenError::NoFiles)?;
        let id = files.find(&file).await?;
        Ok((kept, id, file))
    }

    fn new_file_name(&self) -> String {
        let now = self.ctx.clock().now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        format!("{}.jsonl", now.as_nanos())
    }
}
