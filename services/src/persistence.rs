//! Where sessions are kept when they do not live.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_bus::{ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::session::{Record, SessionHeader};

/// Keeps sessions. What lives is written down as it happens, by whoever provides this, through the events of the session;
/// this is for what does not live.
#[service("session-persistence")]
pub trait SessionPersistence {
    /// Reads a session: repaired, if its process died, and ready to be continued.
    async fn load(&self, id: &SessionId) -> Result<StoredSession, PersistenceError>;

    /// The sessions kept, the pinned ones first, then the latest first.
    async fn list(&self) -> Result<Vec<SessionSummary>, PersistenceError>;

    /// Gives a session a title; `None` goes back to one made from its first prompt.
    async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), PersistenceError>;

    /// Pins a session, or lets it go.
    async fn set_pinned(&self, id: &SessionId, is_pinned: bool) -> Result<(), PersistenceError>;

    /// Deletes a session that does not live.
    async fn delete(&self, id: &SessionId) -> Result<(), PersistenceError>;

    /// Takes over a session file of the older format, one message a line, and gives the id it is kept under. The file stays.
    async fn import(&self, file: &str) -> Result<SessionId, PersistenceError>;
}

/// Sessions as files that a front end names, and what can be asked of the files.
///
/// The file that a front end names holds one message a line, and is a view: the truth is the log beside it, `<file>.events`.
/// A view can be made again from its log at any time. Provided together with [`SessionPersistence`], whose methods take
/// the ids that these give.
#[service("session-files")]
pub trait SessionFiles {
    /// The session of this file, ready to be continued: from its log; or taken over from a file of the older format, once;
    /// or a new one without records, whose log and view come to be with its first record.
    ///
    /// What is logged under the id that this gives goes to that file from now on.
    async fn open(&self, file: &Path) -> Result<StoredSession, PersistenceError>;

    /// The id that the session of this file has or will have. Nothing is opened and nothing is taken over.
    async fn find(&self, file: &Path) -> Result<SessionId, PersistenceError>;

    /// The sessions whose files lie in this folder, also those of the older format: the pinned ones first, then the latest
    /// first.
    async fn list_in(&self, folder: &Path) -> Result<Vec<FiledSession>, PersistenceError>;

    /// Reads a session whose log is damaged: up to the damage. All from there on is put aside, and a notice says where.
    async fn salvage(&self, id: &SessionId) -> Result<StoredSession, PersistenceError>;

    /// Lets go of a session that was read and will not be continued, so that others may write it. A session that lives is
    /// let go when it leaves the store.
    async fn release(&self, id: &SessionId) -> Result<(), PersistenceError>;

    /// How many records of a session that lives are in memory alone because they could not be written.
    fn n_unsaved(&self, id: &SessionId) -> Result<u64, PersistenceError>;

    /// Makes the view of a session again from its log. What was noted about runs stays.
    async fn rebuild_view(&self, id: &SessionId) -> Result<(), PersistenceError>;

    /// Notes in the view of a session where a run stands. A session without a view has no such notes, and this is no error.
    async fn note_run(&self, id: &SessionId, note: &serde_json::Value) -> Result<(), PersistenceError>;

    /// What was noted about runs in the view of a session, in the order in which it was.
    async fn run_notes(&self, id: &SessionId) -> Result<Vec<serde_json::Value>, PersistenceError>;

    /// The classes of tools, `destructive` or `readonly`, whose calls a human permitted for the rest of a session. A session
    /// without a view has none, and what cannot be read permits nothing.
    async fn escalations(&self, id: &SessionId) -> Result<Vec<String>, PersistenceError>;

    /// Keeps them beside the view of a session, `<file>.escalations`; none takes the file away. A session without a view
    /// keeps none, and this is no error.
    async fn keep_escalations(&self, id: &SessionId, classes: &[String]) -> Result<(), PersistenceError>;
}

/// A session and the file it is kept in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiledSession {
    /// The file that front ends name.
    pub file: PathBuf,
    /// The session in short.
    pub summary: SessionSummary,
}

/// A session as it was kept.
#[derive(Debug, Clone)]
pub struct StoredSession {
    /// What is fixed about it.
    pub header: SessionHeader,
    /// Its records.
    pub records: Vec<Arc<Record>>,
    /// What was repaired or left out on the way, in words for the user.
    pub notices: Vec<String>,
}

/// A session kept, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// The session.
    pub id: SessionId,
    /// Its title.
    pub title: String,
    /// Whether it is pinned.
    pub is_pinned: bool,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_at: i64,
    /// When it was last written, in milliseconds since 1970 UTC.
    pub updated_at: i64,
    /// The folder it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How many prompts and answers it holds.
    pub n_messages: u64,
    /// The session it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<SessionId>,
}

/// Why a session could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PersistenceError {
    /// There is none of this id.
    #[error("no session \"{0}\" is stored")]
    NotFound(SessionId),
    /// The file is of a later version.
    #[error("session file {} is version {found}, newer than supported ({supported}); update Linn to open it", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u64,
        /// The latest this code reads.
        supported: u64,
    },
    /// The file is damaged where nothing may be left out.
    #[error("session file {} is damaged at line {line}: {why}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// The file holds nothing at all, not even what is fixed about a session.
    #[error("session file {} is empty; delete it, or put it back from a copy", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file holds something, and that is no session: it is neither read nor changed nor deleted as one.
    #[error("{} is no session file: {why}; name a file of a session, or one that is not there yet", file.display())]
    NotASession {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A session lives under this id, and what is stored under it is another one.
    #[error("session \"{0}\" is stored already with other records; take another id, or load it")]
    Collision(SessionId),
    /// The folder that the session works in is not there any more.
    #[error("the folder {} of session \"{id}\" is gone; put it back to go on with the session", folder.display())]
    FolderGone {
        /// The session.
        id: SessionId,
        /// The folder.
        folder: PathBuf,
    },
    /// Another process writes it.
    #[error("session \"{id}\" is open in another process ({owner}); close it there first")]
    Locked {
        /// The session.
        id: SessionId,
        /// Who has it open.
        owner: String,
    },
    /// It lives in this harness, which rules this out.
    #[error("session \"{0}\" is open; close it first")]
    Live(SessionId),
    /// The file system failed.
    #[error("{what} {}: {why}", file.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl PersistenceError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "SESSION_NOT_FOUND",
            Self::Newer { .. } => "SESSION_NEWER",
            Self::Damaged { .. } => "SESSION_DAMAGED",
            Self::FolderGone { .. } => "SESSION_FOLDER_GONE",
            Self::Empty { .. } => "SESSION_EMPTY",
            Self::NotASession { .. } => "NOT_A_SESSION",
            Self::Collision(_) => "SESSION_COLLISION",
            Self::Locked { .. } => "SESSION_LOCKED",
            Self::Live(_) => "SESSION_LIVE",
            Self::Io { .. } => "SESSION_IO",
            Self::Service(error) => error.code(),
        }
    }
}
