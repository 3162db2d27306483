//! What the plugins of this crate are configured with.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Which files there are, and how they are reached.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FsConfig {
    /// The folder that paths start from, an absolute path.
    pub workspace: PathBuf,
    /// How far paths may lead.
    #[serde(default)]
    pub confinement: Confinement,
    /// How many threads do what may take long. With none it is done in place: in the same order each time, while nothing
    /// else goes on.
    #[serde(default = "default_threads")]
    pub n_threads: usize,
}

/// How far paths may lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confinement {
    /// Nowhere but to what is in the workspace.
    #[default]
    Workspace,
    /// Wherever the process may go; a path may be absolute and go up.
    None,
    /// As the mode of approval says at the moment of each call: where nothing is asked about, as `none`, and as `workspace`
    /// otherwise, also while nobody provides modes.
    ByApproval,
}

/// Which files there are, how they are reached, and what has to be done before they are changed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FilesConfig {
    /// As in [`FsConfig`].
    pub workspace: PathBuf,
    /// As in [`FsConfig`].
    #[serde(default)]
    pub confinement: Confinement,
    /// As in [`FsConfig`].
    #[serde(default = "default_threads")]
    pub n_threads: usize,
    /// Whether files have to be read before they are written or edited.
    #[serde(default = "yes")]
    pub read_before_write: bool,
}

impl FsConfig {
    /// The default for a workspace.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self { workspace: workspace.into(), confinement: Confinement::default(), n_threads: default_threads() }
    }
}

impl FilesConfig {
    /// The default for a workspace.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        let FsConfig { workspace, confinement, n_threads } = FsConfig::new(workspace);
        Self { workspace, confinement, n_threads, read_before_write: true }
    }

    pub(crate) fn fs(&self) -> FsConfig {
        let Self { workspace, confinement, n_threads, .. } = self.clone();
        FsConfig { workspace, confinement, n_threads }
    }
}

/// A few agents at work do not wait for each other, and a search does not hold up a write.
const fn default_threads() -> usize {
    4
}

const fn yes() -> bool {
    true
}
