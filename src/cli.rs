//! The command line: what it says, and what each command runs.

mod answer;
mod chat;
mod config;
mod demo;
mod json;
mod loaded;
mod run;
mod sessions;
mod terminal;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::loaded::SettingsArguments;

/// An agent harness in which everything is a plugin on one typed event bus.
#[derive(Debug, Parser)]
#[command(name = "linn", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what Linn does: a recorded model, real tools, a temporary folder. No key, no network.
    Demo {
        /// Do not wait between the words of the recorded model.
        #[arg(long)]
        fast: bool,
    },
    /// Run one prompt. Exit code: 0 done, 1 error, 2 wrong use, 3 denied, 4 aborted.
    Run(RunArguments),
    /// Talk: one prompt after the other, from the terminal or from the lines of standard input.
    Chat(ChatArguments),
    /// What is set, and by whom.
    Config(ConfigArguments),
    /// The sessions that are kept.
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
        /// The folder of sessions; by default `~/.local/share/linn/sessions`.
        #[arg(long, global = true)]
        sessions: Option<PathBuf>,
    },
}

/// One prompt.
#[derive(Debug, Parser)]
struct RunArguments {
    /// What to say.
    prompt: String,
    #[command(flatten)]
    conversation: ConversationArguments,
    /// Print the event stream: one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// One prompt after the other.
#[derive(Debug, Parser)]
struct ChatArguments {
    #[command(flatten)]
    conversation: ConversationArguments,
}

/// A conversation.
#[derive(Debug, Args)]
struct ConversationArguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// The folder of sessions; by default `~/.local/share/linn/sessions`.
    #[arg(long)]
    sessions: Option<PathBuf>,
    /// Go on with a kept session.
    #[arg(long, value_name = "SESSION")]
    resume: Option<String>,
    /// Add what models stream to a recording, to be replayed with `--model replay:<file>`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// What is set.
#[derive(Debug, Parser)]
struct ConfigArguments {
    /// One key, or all below it.
    key: Option<String>,
    /// Also what nobody set.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// Which calls are asked about.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Approve {
    /// None.
    Never,
    /// Those that may change something.
    Destructive,
    /// All.
    Always,
}

impl Approve {
    fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Destructive => "destructive",
            Self::Always => "always",
        }
    }
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List them, the latest first.
    List,
    /// Delete one.
    Delete {
        /// Its id.
        id: String,
    },
    /// Give one a title.
    Rename {
        /// Its id.
        id: String,
        /// The title.
        title: String,
    },
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::Error::new(error).context("no runtime")),
    };
    let outcome = runtime.block_on(run(cli.command));
    // A read of the terminal that nobody waits for does not keep the program.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

async fn run(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Demo { fast } => {
            let terminal = terminal::Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
            let pace = if fast { demo::Pace::Fast } else { demo::Pace::Recorded };
            demo::demo(&terminal, pace).await.map(turn::Outcome::exit_code)
        }
        Command::Run(arguments) => run::run(arguments).await.map(turn::Outcome::exit_code),
        Command::Chat(arguments) => chat::chat(arguments).await.map(turn::Outcome::exit_code),
        Command::Config(arguments) => {
            let terminal = terminal::Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
            config::config(&arguments, &terminal).map(u8::from)
        }
        Command::Sessions { command, sessions } => {
            sessions::run(command.unwrap_or(SessionsCommand::List), sessions).await.map(|()| 0)
        }
    }
}

/// Says what went wrong, with its causes, on standard error.
#[expect(clippy::print_stderr, reason = "this is the edge where an error meets its reader")]
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("linn: {error:#}");
    ExitCode::from(turn::Outcome::Failed.exit_code())
}
