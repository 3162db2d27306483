//! The plugin: what it is configured with, and what it brings.

use std::sync::Arc;
use std::time::Duration;

use linn_bus::{Context, Fault, Inject, Plugin, Svc};
use linn_services::shell::Shell;
use linn_services::tools::Tools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::Git;
use crate::tools;

/// What [`GitPlugin`] is configured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GitConfig {
    /// After how many seconds a command is ended.
    pub timeout_s: u64,
}

impl Default for GitConfig {
    fn default() -> Self {
        Self { timeout_s: 60 }
    }
}

/// The tools `git_status`, `git_diff`, `git_log`, `git_add` and `git_commit`.
#[derive(Debug)]
pub struct GitPlugin;

/// What [`GitPlugin`] needs.
#[derive(Inject)]
pub struct GitNeeds {
    tools: Svc<dyn Tools>,
    shell: Svc<dyn Shell>,
}

impl std::fmt::Debug for GitNeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitNeeds").finish_non_exhaustive()
    }
}

linn_bus::plugin!(GitPlugin);

impl Plugin for GitPlugin {
    const NAME: &'static str = "git";
    type Config = GitConfig;
    type Needs = GitNeeds;

    fn validate(config: &GitConfig) -> Result<(), Fault> {
        match config.timeout_s {
            0 => Err(Fault::msg("`timeout_s` is at least 1").with_code("GIT_CONFIG")),
            _ => Ok(()),
        }
    }

    async fn start(ctx: &Context, config: GitConfig, needs: GitNeeds) -> Result<(), Fault> {
        let git = Arc::new(Git { shell: needs.shell, timeout: Duration::from_secs(config.timeout_s) });
        for tool in tools::all(&git) {
            needs.tools.register(ctx, tool)?;
        }
        Ok(())
    }
}
