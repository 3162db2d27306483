//! Why a file tool failed, in words for the model.

use linn_services::fs::FsError;
use linn_services::tools::ToolFailure;

use crate::edits::EditError;
use crate::patching::PatchError;
use crate::text::NotText;

/// Why a file tool failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{}", .0.reason())]
    Fs(#[from] FsError),
    #[error(transparent)]
    NotText(#[from] NotText),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("it exists, and was not read in this session; read it first")]
    ExistsUnseen,
    #[error("it is a folder; list_dir shows what is in it")]
    Folder,
    #[error("offset {offset} is past its end; it has {n_lines} line(s)")]
    PastEnd { offset: usize, n_lines: usize },
}

impl Problem {
    fn code(&self) -> &'static str {
        match self {
            Self::Fs(error) => error.code(),
            Self::NotText(_) => "FS_NOT_TEXT",
            Self::Edit(_) => "EDIT_FAILED",
            Self::Patch(_) => "PATCH_FAILED",
            Self::ExistsUnseen => "FS_EXISTS",
            Self::Folder => "FS_WRONG_KIND",
            Self::PastEnd { .. } => "READ_PAST_END",
        }
    }

    /// The failure of a tool that worked on `path`. What is wrong with the path itself says so alone.
    pub(crate) fn failure(self, tool: &str, path: &str) -> ToolFailure {
        let message = match &self {
            Self::Fs(error) if error.is_confinement() => error.to_string(),
            problem => format!("{tool} \"{path}\" failed: {problem}"),
        };
        ToolFailure::coded("FsError", self.code(), message)
    }
}
