//! Script plugins as a human manages them: what is installed, what may run, and what they let a human call.

use std::collections::BTreeMap;

use linn_bus::{BusError, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;

/// Manages script plugins.
///
/// What changes is told as `plugins/change`, what plugins have to say as `plugins/notice` and `plugins/status`.
#[service("plugin-admin")]
pub trait PluginAdmin {
    /// The plugins that are loaded, by name.
    fn list(&self) -> Result<Vec<PluginInfo>, PluginAdminError>;

    /// What a repository brings and nobody has decided about, as long as no plugin of that name is loaded, by name.
    fn undecided(&self) -> Result<Vec<PluginTrust>, PluginAdminError>;

    /// Everything that can be decided about: what a repository brings, decided or not, and the loaded plugins of the
    /// workspace; by name, then path.
    fn trust_entries(&self) -> Result<Vec<PluginTrust>, PluginAdminError>;

    /// What kept folders from being loaded in the last scan, by folder.
    fn failures(&self) -> Result<Vec<PluginFailure>, PluginAdminError>;

    /// Decides about plugins of the repository: name, or path, to `trust` or `deny`. Names that are unknown are left out.
    /// What is trusted is loaded at once, what is denied is gone when this returns. One value that is neither changes
    /// nothing at all.
    ///
    /// Dropping the future may leave the decisions stored and not yet in force; [`reload`](Self::reload) has them in force.
    async fn decide(&self, decisions: BTreeMap<String, String>) -> Result<PluginTrustApplied, PluginAdminError>;

    /// Installs a plugin from a folder, an archive, or a release on GitHub; `scope` in the words of the user, `None` for
    /// all projects. It runs when this returns. After an error nothing of it is left.
    ///
    /// Dropping the future ends the installation; nothing of it is left.
    async fn install(&self, source: &str, scope: Option<&str>) -> Result<PluginInstalled, PluginAdminError>;

    /// Removes a plugin from the disk, and what was decided about it. Where it is a link, the link alone goes.
    async fn remove(&self, name: &str) -> Result<(), PluginAdminError>;

    /// Enables a plugin, also for the next start.
    async fn enable(&self, name: &str) -> Result<(), PluginAdminError>;

    /// Disables a plugin, also for the next start. No script of it runs when this returns.
    async fn disable(&self, name: &str) -> Result<(), PluginAdminError>;

    /// Looks again at the folders: what changed is loaded anew, what went is unloaded, what stayed runs on.
    async fn reload(&self) -> Result<PluginsReloaded, PluginAdminError>;

    /// The commands of the plugins that are enabled, by plugin.
    fn commands(&self) -> Result<Vec<PluginCommand>, PluginAdminError>;

    /// Runs a command; the name with or without a slash.
    ///
    /// Dropping the future ends the script and all it started.
    async fn run_command(
        &self,
        name: &str,
        arguments: &str,
        agent: Option<&Agent>,
    ) -> Result<PluginCommandOutcome, PluginAdminError>;

    /// What is wrong with the plugin in a folder, all of it; nothing is run and nothing is loaded.
    async fn check(&self, folder: &str) -> Result<PluginCheck, PluginAdminError>;

    /// Tells all plugins that the harness ends: `session_stop` for what lives, then `session_shutdown`. Returns when their
    /// scripts are over. The second call does nothing.
    ///
    /// Whoever ends the harness calls it before anything is disposed.
    async fn shut_down(&self) -> Result<(), PluginAdminError>;
}

/// A loaded plugin, with the names that front ends read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginInfo {
    /// Name.
    pub name: String,
    /// Version, in its own words.
    pub version: String,
    /// Whether it runs.
    pub enabled: bool,
    /// What it does.
    pub description: String,
    /// Its hook points, by name.
    pub hooks: Vec<String>,
    /// The tools it declares.
    pub tools: Vec<String>,
    /// The commands it declares.
    pub commands: Vec<String>,
    /// The tools it takes away.
    pub disable_tools: Vec<String>,
    /// Whether it logs in to a provider.
    pub has_oauth: bool,
    /// Whether it keeps memories.
    pub has_memory_provider: bool,
    /// Whether it adds to the system prompt.
    pub has_system_prompt: bool,
    /// Its folder.
    pub path: String,
    /// Where that lies.
    pub scope: PluginScope,
}

/// Where a plugin is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginScope {
    /// With the user, for all projects.
    Global,
    /// In the workspace.
    Workspace,
}

impl PluginScope {
    /// The word that front ends know it by.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Workspace => "workspace",
        }
    }

    /// What a user means by a word.
    pub fn parse(word: &str) -> Result<Self, PluginAdminError> {
        match word.trim() {
            "" | "global" | "user" | "g" | "-g" | "--global" => Ok(Self::Global),
            "workspace" | "project" | "local" | "w" | "-w" | "--workspace" => Ok(Self::Workspace),
            _ => Err(PluginAdminError::Scope(word.to_owned())),
        }
    }
}

/// A plugin that can be trusted or denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginTrust {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// What it does, in its own words.
    pub description: String,
    /// Its folder.
    pub path: String,
    /// What was decided about exactly this content: `trust`, `deny`, or nothing.
    pub decision: String,
}

/// A folder that was not loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginFailure {
    /// The folder.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What decisions came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginTrustApplied {
    /// What was named as trusted.
    pub trusted: Vec<String>,
    /// What was named as denied.
    pub denied: Vec<String>,
    /// How many plugins are loaded now.
    pub loaded: usize,
}

/// An installed plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginInstalled {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// What it does.
    pub description: String,
    /// Its hook points.
    pub hooks: Vec<String>,
    /// Where it was to go.
    pub scope: PluginScope,
    /// Its folder.
    pub path: String,
}

/// What a look at the folders came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginsReloaded {
    /// How many are loaded.
    pub loaded: usize,
    /// How many wait for a decision or are denied.
    pub skipped: usize,
    /// How many could not be loaded.
    pub errors: usize,
}

/// A command of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginCommand {
    /// Name, without a slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The plugin.
    pub plugin: String,
    /// What it comes to.
    pub mode: PluginCommandMode,
}

/// What a command comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PluginCommandMode {
    /// A script runs, and its output is shown.
    Script,
    /// A prompt is sent to the agent.
    AgentTurn,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginCommandOutcome {
    /// Something to show.
    Output {
        /// What.
        text: String,
        /// Whether it went well.
        is_ok: bool,
    },
    /// A turn to begin.
    Turn {
        /// The prompt.
        prompt: String,
        /// What to tell the user meanwhile.
        notice: String,
    },
}

/// What is right and wrong about the plugin in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginCheck {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Why it would be rejected, the reason that counts first.
    pub errors: Vec<String>,
    /// What is no reason to reject it, but hardly meant so.
    pub warnings: Vec<String>,
    /// What it declares or is taken to ask for, sorted.
    pub capabilities: Vec<String>,
}

/// Why something was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PluginAdminError {
    /// No such plugin is loaded.
    #[error("plugin '{0}' not found")]
    NotFound(String),
    /// No enabled plugin has such a command.
    #[error("unknown plugin command '{0}'")]
    UnknownCommand(String),
    /// A command cannot run; the message is for the user.
    #[error("{0}")]
    Command(String),
    /// Decisions that are none.
    #[error("plugin_trust_decisions: invalid value for {0} (expected \"trust\" or \"deny\")")]
    Decision(String),
    /// A scope that is none.
    #[error("unknown plugin scope '{0}' (use 'global' or 'workspace')")]
    Scope(String),
    /// A plugin was not installed or not removed; the message is for the user.
    #[error("{message}")]
    Install {
        /// Stable code.
        code: &'static str,
        /// Why.
        message: String,
    },
    /// What is kept about plugins could not be read or written.
    #[error("{0}")]
    Store(String),
    /// A plugin did not start or did not end.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl PluginAdminError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "PLUGIN_NOT_FOUND",
            Self::UnknownCommand(_) => "UNKNOWN_PLUGIN_COMMAND",
            Self::Command(_) => "PLUGIN_COMMAND_FAILED",
            Self::Decision(_) => "BAD_TRUST_DECISION",
            Self::Scope(_) => "UNKNOWN_PLUGIN_SCOPE",
            Self::Install { code, .. } => code,
            Self::Store(_) => "PLUGIN_STORE",
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
