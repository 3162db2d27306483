//! Where the files are.

use std::path::{Path, PathBuf};

/// The user file, as people write it.
pub(crate) const USER_FILE_SHOWN: &str = "~/.config/linn/linn.toml";

/// Linn's file of the user with this home folder.
pub fn user_file(home: &Path) -> PathBuf {
    home.join(".config/linn/linn.toml")
}

/// Linn's file of a workspace.
pub fn workspace_file(workspace: &Path) -> PathBuf {
    workspace.join(".linn/linn.toml")
}

/// The folder in which existing clients keep the files of the user with this home folder.
pub fn client_folder(home: &Path) -> PathBuf {
    home.join(".config/catalyst-code")
}

/// The file of the vision settings of a workspace.
pub fn vision_file(workspace: &Path) -> PathBuf {
    workspace.join(".catalyst-code/vision.json")
}
