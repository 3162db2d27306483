//! What tools changed, as front ends learn of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One change of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsChange {
    /// What changed, for people; of something that moved, where it is now.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub kind: FsChangeKind,
    /// The change of the text as a unified diff, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// What became of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FsChangeKind {
    /// A file is new.
    Created,
    /// A file holds something else.
    Modified,
    /// It is gone.
    Deleted,
    /// A folder is new.
    FolderCreated,
    /// It is in another place.
    Renamed {
        /// Where it was.
        from: String,
    },
}

/// What tools that change files put into the `meta` of their results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsToolMeta {
    /// All changes of text as one unified diff, if there are any. The model never sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// What changed, in the order in which it did.
    pub changes: Vec<FsChange>,
}
