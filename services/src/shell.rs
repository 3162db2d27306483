//! Commands that run outside of the harness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linn_bus::{Contained, ServiceError, contain_now, service};
use tokio_util::sync::CancellationToken;

use crate::interaction::Password;
use crate::tools::ToolFailure;

/// Runs commands: each in a session of its own, gone with all its descendants when the call ends early.
#[service("shell")]
pub trait Shell {
    /// Runs a command to its end, its time limit or its signal, whichever comes first. With the last two the command and
    /// all it started are gone when this returns.
    ///
    /// What a command that exits by itself leaves running is left alone, and ended when the provider goes.
    ///
    /// Dropping the future ends the command and all it started as well, without anybody waiting for it.
    async fn run(&self, command: ShellCommand) -> Result<ShellOutput, ShellError>;

    /// Why a line for the shell shall not run, whoever asks for it; `None` if nothing speaks against it. Whoever runs lines
    /// of a model or a human asks first; [`run`](Shell::run) itself takes what a plugin made.
    fn refusal(&self, line: &str) -> Result<Option<String>, ShellError>;
}

/// What to run.
#[derive(Clone)]
pub struct ShellCommand {
    /// What to start.
    pub program: ShellProgram,
    /// Where, an absolute path; by default the workspace.
    pub cwd: Option<String>,
    /// Environment on top of what every command gets; `None` takes a variable away.
    pub env: BTreeMap<String, Option<String>>,
    /// Standard input; it is closed behind it.
    pub stdin: Vec<u8>,
    /// A password for `sudo`: it is asked for rights with it once, before anything else runs, and the command does not run
    /// when it refuses. The command itself never sees the password.
    pub password: Option<Password>,
    /// How long it may take in all.
    pub timeout: Option<Duration>,
    /// How much of each of its two outputs is kept: the beginning and the end. The rest is counted.
    pub limit_bytes: usize,
    /// Ends it.
    pub signal: CancellationToken,
    /// Hears of output as it comes.
    pub on_output: Option<OnOutput>,
}

/// Hears of output as it comes. The command waits while it runs.
#[derive(Clone)]
pub struct OnOutput(Arc<Hear>);

type Hear = dyn Fn(ShellStream, &[u8]) + Send + Sync;

impl OnOutput {
    /// Wraps a function. A panic of it is told by the panic hook, and the command runs on.
    pub fn new(hear: impl Fn(ShellStream, &[u8]) + Send + Sync + 'static) -> Self {
        let hear = Contained::new(hear);
        Self(Arc::new(move |stream, piece: &[u8]| drop(contain_now(|| hear(stream, piece)))))
    }

    /// Tells of a piece of output.
    pub fn hear(&self, stream: ShellStream, piece: &[u8]) {
        (self.0)(stream, piece);
    }
}

impl std::fmt::Debug for OnOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnOutput")
    }
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellProgram {
    /// A line for the shell of the system.
    Line(String),
    /// A program with its arguments, without a shell in between.
    Exec {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

impl ShellCommand {
    /// A line for the shell, with nothing else set: 32 KiB of each output are kept.
    pub fn line(line: impl Into<String>) -> Self {
        Self::new(ShellProgram::Line(line.into()))
    }

    /// A program with arguments, with nothing else set: 32 KiB of each output are kept.
    pub fn exec(program: impl Into<String>, arguments: Vec<String>) -> Self {
        Self::new(ShellProgram::Exec { program: program.into(), arguments })
    }

    fn new(program: ShellProgram) -> Self {
        Self {
            program,
            cwd: None,
            env: BTreeMap::new(),
            stdin: Vec::new(),
            password: None,
            timeout: None,
            limit_bytes: 32 * 1024,
            signal: CancellationToken::new(),
            on_output: None,
        }
    }
}

/// One of the two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShellStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What came of it. What can be true together stands side by side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellOutput {
    /// What was kept of standard output.
    pub stdout: Captured,
    /// What was kept of standard error.
    pub stderr: Captured,
    /// Exit code, if it exited and nobody ended it.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// It reached its time limit.
    pub timed_out: bool,
    /// Its signal ended it.
    pub cancelled: bool,
    /// It exited, and something it left behind held its output open.
    pub left_behind: bool,
}

/// What was kept of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The beginning; all of it if nothing was left out.
    pub head: Vec<u8>,
    /// The end, if something between was left out.
    pub tail: Vec<u8>,
    /// How much was left out between.
    pub omitted_bytes: u64,
}

/// Why a command did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The folder is not there.
    #[error("cannot run a command in {cwd}: {why}")]
    NoFolder {
        /// The folder.
        cwd: String,
        /// What the system says.
        why: String,
    },
    /// The command could not be started.
    #[error("cannot start `{program}`: {why}")]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        why: String,
    },
    /// The command holds a byte that no command can hold.
    #[error("the command holds a NUL byte")]
    Nul,
    /// The service did not answer.
    #[error("{0}")]
    Service(String),
}

impl ShellError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoFolder { .. } => "SHELL_NO_FOLDER",
            Self::Start { .. } => "SHELL_START",
            Self::Nul => "SHELL_NUL",
            Self::Service(_) => "SHELL_UNAVAILABLE",
        }
    }
}

impl From<ServiceError> for ShellError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error.to_string())
    }
}
impl From<ShellError> for ToolFailure {
    fn from(error: ShellError) -> Self {
        Self::coded("ShellError", error.code(), error.to_string())
    }
}
