//! Files of a workspace, as tools reach them.

mod change;
mod find;

pub use change::{FsChange, FsChangeKind, FsToolMeta};
pub use find::{FsFileMatches, FsFind, FsFound, FsLine, FsSearch, FsSearchMode, FsSearchResult};

use linn_bus::{Cause, ListenerError, ListenerErrors, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{FsTargetKey, FsVersion};
use crate::tools::ToolFailure;

/// Files, below a folder that nothing leads out of.
///
/// Paths are relative to that folder, with `/` between names. A path that is absolute, that holds `..`, or that a link
/// leads out of it is refused, also when the link is put there between the check and the use. Links that stay inside are
/// followed, but `delete` and `rename` mean the link itself. A provider may be set up to reach the whole file system; then
/// paths may be absolute and go up.
///
/// Dropping the future of a call that changes something leaves either all of the change or nothing of it.
#[service("fs")]
pub trait Fs {
    /// Names the file that a path leads to; it need not exist.
    async fn resolve(&self, path: &str) -> Result<FsTarget, FsError>;

    /// Reads a file whole, with its version; a file of more than `limit_bytes` is an error.
    async fn read(&self, path: &str, limit_bytes: u64) -> Result<FsFile, FsError>;

    /// Writes a file whole and atomically, with the folders above it. It keeps the mode of a file that was there, and
    /// refuses one that nobody may write.
    async fn write(&self, path: &str, content: &[u8], intent: FsWriteIntent) -> Result<FsVersion, FsError>;

    /// What is in a folder, by name.
    async fn list(&self, path: &str) -> Result<Vec<FsEntry>, FsError>;

    /// What is at a path; `None` if nothing is.
    async fn metadata(&self, path: &str) -> Result<Option<FsMetadata>, FsError>;

    /// Makes a folder, with those above it.
    async fn create_folder(&self, path: &str) -> Result<(), FsError>;

    /// Deletes a file, or a folder that is empty.
    async fn delete(&self, path: &str) -> Result<FsKind, FsError>;

    /// Moves a file or folder to a place where nothing is, with the folders above that.
    async fn rename(&self, from: &str, to: &str) -> Result<(), FsError>;

    /// The files below a folder whose path fits a pattern, by path. What ignore files name is left out, and so is `.git`;
    /// links are not followed.
    async fn find(&self, query: FsFind) -> Result<FsFound, FsError>;

    /// Looks for a pattern in files, in the order of their paths. Of a folder it looks at the files that
    /// [`find`](Fs::find) finds; a file that is named is always looked at. Files that are no text are left out.
    async fn search(&self, query: FsSearch) -> Result<FsSearchResult, FsError>;
}

/// A file, whatever path led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsTarget {
    /// Equal for equal files.
    pub target_key: FsTargetKey,
    /// For people.
    pub display_path: String,
}

/// What to expect where a file is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum FsWriteIntent {
    /// Anything.
    #[default]
    Unconditional,
    /// Nothing.
    CreateIfAbsent,
    /// This, and nothing else.
    ReplaceIfVersion {
        /// What was there when it was last looked at.
        version: FsVersion,
    },
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsFile {
    /// The file.
    pub target: FsTarget,
    /// What it holds.
    pub content: Vec<u8>,
    /// The version of that.
    pub version: FsVersion,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FsEntry {
    /// The name; what of it is not Unicode is replaced.
    pub name: String,
    /// What it is.
    pub kind: FsKind,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsMetadata {
    /// What it is.
    pub kind: FsKind,
    /// Its size.
    pub size_bytes: u64,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FsKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A link.
    Link,
    /// Something else, such as a socket.
    Other,
}

/// Why a file could not be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// The path is absolute.
    #[error("path \"{0}\" is absolute; only workspace-relative paths allowed")]
    Absolute(String),
    /// The path goes up.
    #[error("path \"{0}\" contains '..'; workspace escape denied")]
    Upwards(String),
    /// A link leads out of the workspace.
    #[error("path \"{path}\" resolves outside the workspace{}", to.as_ref().map(|it| format!(" (to {it})")).unwrap_or_default())]
    Outside {
        /// The path.
        path: String,
        /// Where it leads, if that is known.
        to: Option<String>,
    },
    /// Nothing is there.
    #[error("\"{0}\" does not exist")]
    NotFound(String),
    /// Something is there.
    #[error("\"{0}\" exists already")]
    Exists(String),
    /// It changed since it was looked at.
    #[error("\"{0}\" changed since it was last read; read it again first")]
    Stale(String),
    /// It was not looked at before.
    #[error("\"{0}\" was not read in this session; read it first")]
    NotObserved(String),
    /// It is not what is needed.
    #[error("\"{path}\" is {found}, not {wanted}")]
    WrongKind {
        /// The path.
        path: String,
        /// What it is.
        found: &'static str,
        /// What is needed.
        wanted: &'static str,
    },
    /// It is larger than may be read.
    #[error("\"{path}\" has {size_bytes} bytes, more than the limit of {limit_bytes}")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// What to look for cannot be understood.
    #[error("{what} \"{pattern}\": {why}")]
    BadPattern {
        /// What it should be, such as a regular expression.
        what: &'static str,
        /// The pattern.
        pattern: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// The file system failed.
    #[error("\"{path}\": {why}")]
    Io {
        /// The path.
        path: String,
        /// What the system says.
        why: String,
    },
    /// Who decides about it failed.
    #[error("{0}")]
    Refused(String),
    /// The service did not answer.
    #[error("{0}")]
    Service(String),
}

impl FsError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Absolute(_) => "FS_ABSOLUTE",
            Self::Upwards(_) => "FS_UPWARDS",
            Self::Outside { .. } => "FS_OUTSIDE",
            Self::NotFound(_) => "FS_NOT_FOUND",
            Self::Exists(_) => "FS_EXISTS",
            Self::Stale(_) => "FS_STALE_VERSION",
            Self::NotObserved(_) => "FS_NOT_OBSERVED",
            Self::WrongKind { .. } => "FS_WRONG_KIND",
            Self::TooLarge { .. } => "FS_TOO_LARGE",
            Self::BadPattern { .. } => "FS_BAD_PATTERN",
            Self::Io { .. } => "FS_IO",
            Self::Refused(_) => "FS_REFUSED",
            Self::Service(_) => "FS_UNAVAILABLE",
        }
    }

    /// What is wrong, for words that name the path already.
    pub fn reason(&self) -> String {
        match self {
            Self::NotFound(_) => "no such file or folder".to_owned(),
            Self::Exists(_) => "something is there already".to_owned(),
            Self::Stale(_) => "it changed since it was last read; read it again first".to_owned(),
            Self::NotObserved(_) => "it was not read in this session; read it first".to_owned(),
            Self::WrongKind { found, wanted, .. } => format!("it is {found}, not {wanted}"),
            Self::TooLarge { size_bytes, limit_bytes, .. } => {
                format!("it has {size_bytes} bytes, more than the limit of {limit_bytes}")
            }
            Self::Io { why, .. } => why.clone(),
            Self::Absolute(_)
            | Self::Upwards(_)
            | Self::Outside { .. }
            | Self::BadPattern { .. }
            | Self::Refused(_)
            | Self::Service(_) => self.to_string(),
        }
    }

    /// Whether the path may not be used, whatever is there.
    pub fn is_confinement(&self) -> bool {
        matches!(self, Self::Absolute(_) | Self::Upwards(_) | Self::Outside { .. })
    }

    /// What became of a question about the file at `path` whose listener failed. Whoever decides says
    /// [`NotObserved`](FsError::NotObserved) by a fault with its code.
    pub fn refused(path: &str, error: &ListenerError) -> Self {
        match error.cause() {
            Cause::Failed(fault) if fault.code() == Some("FS_NOT_OBSERVED") => Self::NotObserved(path.to_owned()),
            _ => Self::Refused(format!("{error:#}")),
        }
    }
}

impl From<ServiceError> for FsError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error.to_string())
    }
}
impl From<ListenerErrors> for FsError {
    fn from(errors: ListenerErrors) -> Self {
        Self::Refused(format!("{errors:#}"))
    }
}
impl From<FsError> for ToolFailure {
    fn from(error: FsError) -> Self {
        Self::coded("FsError", error.code(), error.to_string())
    }
}
