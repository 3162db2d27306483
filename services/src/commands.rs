//! Commands that a human calls by name, such as `/review`.

mod registry;

pub use registry::CommandsPlugin;

use std::sync::Arc;

use linn_bus::{BoxFuture, BusError, Context, EffectHandle, Fault, ListenerErrors, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::kept::Kept;

/// Commands that a human calls by name.
#[service("commands")]
pub trait Commands {
    /// Registers a command.
    fn register(&self, ctx: &Context, command: Command) -> Result<EffectHandle, CommandError>;

    /// All commands, by name.
    fn list(&self) -> Result<Vec<CommandInfo>, CommandError>;

    /// Runs a command.
    ///
    /// Dropping the future drops the command where it waits.
    async fn run(&self, name: &str, call: CommandCall) -> Result<CommandOutput, CommandError>;
}

/// What is known of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandInfo {
    /// Name, without the slash.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
    /// The plugin that brings it.
    pub plugin: String,
}

/// A command.
#[derive(Clone)]
pub struct Command {
    /// Name, without the slash.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
    /// What it does, in code.
    pub(crate) body: Kept<dyn CommandBody>,
}

impl Command {
    /// A command; what it does stays where this is called.
    pub fn new(name: impl Into<String>, description: impl Into<String>, body: Arc<dyn CommandBody>) -> Self {
        Self { name: name.into(), description: description.into(), body: body.into() }
    }
}

/// What a command does.
pub trait CommandBody: Send + Sync + 'static {
    /// Runs it.
    fn run<'a>(&'a self, call: CommandCall) -> BoxFuture<'a, Result<CommandOutput, Fault>>;
}

/// One call of a command.
#[derive(Debug, Clone)]
pub struct CommandCall {
    /// Whose conversation it is called in.
    pub agent: Option<Agent>,
    /// What stands behind the name.
    pub arguments: String,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandOutput {
    /// Something to show.
    Text(String),
    /// A prompt to send to the agent.
    Prompt(String),
}

/// Why a command was not registered or did not run.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The name is taken.
    #[error("a command `/{0}` is registered already")]
    Duplicate(String),
    /// No such command.
    #[error("there is no command `/{name}`{}", similar.as_ref().map(|it| format!("; did you mean `/{it}`?")).unwrap_or_default())]
    Unknown {
        /// The name.
        name: String,
        /// The nearest there is.
        similar: Option<String>,
    },
    /// The command failed.
    #[error("command `/{name}` failed: {cause:#}")]
    Failed {
        /// The name.
        name: String,
        /// Why.
        cause: Fault,
    },
    /// A listener of `commands/change` failed; what was registered is taken back.
    #[error("who heard of the change failed: {0}")]
    Refused(#[source] ListenerErrors),
    /// The context cannot register anything any more.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl CommandError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Duplicate(_) => "DUPLICATE_COMMAND",
            Self::Unknown { .. } => "UNKNOWN_COMMAND",
            Self::Failed { .. } => "COMMAND_FAILED",
            Self::Refused(_) => "CHANGE_REFUSED",
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
