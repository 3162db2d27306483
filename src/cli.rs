//! The command line: what it says, and what each command runs.

mod answer;
mod chat;
mod commands;
mod config;
mod demo;
mod doctor;
mod events;
mod inspect;
mod json;
mod lines;
mod loaded;
mod logs;
mod plugins;
mod run;
mod serve;
mod sessions;
mod signals;
mod terminal;
mod turn;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use linn::bus::Root;
use linn::services::secrets::SecretKeeper;

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
    /// Serve a front end on standard input and output; what `linn` does by itself when its input is piped.
    Serve(ServeArguments),
    /// What is set, and by whom.
    Config(ConfigArguments),
    /// What is wrong on this machine.
    Doctor(DoctorArguments),
    /// Plugins: what there is, and what you write.
    Plugin(PluginArguments),
    /// Every event there is, with its mode and scope.
    Events {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What is on the bus: fibers and what they wait for, services, listeners, scopes.
    Inspect(InspectArguments),
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

/// A front end.
#[derive(Debug, Parser)]
struct ServeArguments {
    /// The flags of front ends, such as `--workspace DIR`, `--session FILE` and `--approval MODE`, and `--set KEY=VALUE`;
    /// docs/config.md lists them. Unknown ones are passed over.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Plugins.
#[derive(Debug, Parser)]
struct PluginArguments {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// List those of the program, of libraries and of scripts; also those that cannot be loaded, with the reason.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Say whether a library or a folder of scripts can be loaded, and why not.
    Check {
        /// The library, or the folder.
        path: PathBuf,
    },
    /// Trust a library or scripts that a workspace brings, with exactly their content of now.
    Trust {
        /// The library; or scripts, by their name or folder.
        what: PathBuf,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Make the crate of a new plugin, with a test and a README.
    New {
        /// Its name, such as `word-count`.
        name: String,
        /// Where its folder is made.
        #[arg(long, default_value = ".")]
        folder: PathBuf,
        /// The folder `loader/sdk` of sources of Linn; by default those that this program was built from, which it has with
        /// it.
        #[arg(long)]
        sdk: Option<PathBuf>,
    },
    /// Build the crate of a plugin as a library.
    Build {
        /// Its folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Install a library, or the crate of one, which is built; or scripts from a folder, an archive or a release on GitHub.
    Install {
        /// The library, the folder of its crate, or where the scripts are.
        what: String,
        /// For scripts: `global`, or `workspace`.
        #[arg(long)]
        scope: Option<String>,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Remove a plugin that was installed, and its entries.
    Remove {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Have a plugin run: one that was added at once, also in sessions that run; one of the program from the next start on.
    Enable {
        /// Its name, or the id of an entry.
        name: String,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Have a plugin not run: one that was added at once, also in sessions that run; one of the program from the next start on.
    Disable {
        /// Its name, or the id of an entry.
        name: String,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Have sessions that run look at the library of a plugin again.
    Reload {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: SettingsArguments,
    },
}

/// What is on the bus.
#[derive(Debug, Parser)]
struct InspectArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// What is wrong.
#[derive(Debug, Parser)]
struct DoctorArguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Ask no endpoint.
    #[arg(long)]
    offline: bool,
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

/// Runs the program with this command line; `log` is how much it tells on standard error, such as `debug`.
pub(crate) fn main(arguments: Vec<OsString>, log: Option<&str>) -> ExitCode {
    let secrets = SecretKeeper::new();
    logs::log_to_stderr(log, &secrets);
    let cli = Cli::parse_from(with_command(arguments, std::io::stdin().is_terminal()));
    // Before there are threads, when it costs nothing.
    Root::prepare_process();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::Error::new(error).context("no runtime")),
    };
    let outcome = runtime.block_on(run(cli.command, secrets));
    // A read of the terminal that nobody waits for does not keep the program.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

/// The command line with `serve` put in where a front end left it out: it pipes its commands, and begins with flags.
fn with_command(mut arguments: Vec<OsString>, is_terminal: bool) -> Vec<OsString> {
    const OWN: [&str; 4] = ["-h", "--help", "-V", "--version"];
    let asks_for_own = |it: &OsString| OWN.iter().any(|own| it == own);
    let begins_with_flag = arguments.get(1).is_none_or(|it| it.as_encoded_bytes().starts_with(b"-"));
    if begins_with_flag && !is_terminal && !arguments.iter().skip(1).any(asks_for_own) {
        arguments.insert(arguments.len().min(1), "serve".into());
    }
    arguments
}

/// Runs the work on a thread of the runtime, so that what it starts and waits for need not come from another thread.
#[expect(clippy::disallowed_methods, reason = "the work of the program itself, which makes the first context")]
async fn on_worker<T: Send + 'static>(
    work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::spawn(work).await?
}

async fn run(command: Command, secrets: SecretKeeper) -> anyhow::Result<u8> {
    match command {
        Command::Demo { fast } => {
            let terminal = terminal::Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
            let pace = if fast { demo::Pace::Fast } else { demo::Pace::Recorded };
            demo::demo(&terminal, pace).await.map(turn::Outcome::exit_code)
        }
        Command::Run(mut arguments) => {
            arguments.conversation.settings.secrets = secrets;
            run::run(arguments).await.map(turn::Outcome::exit_code)
        }
        Command::Chat(mut arguments) => {
            arguments.conversation.settings.secrets = secrets;
            chat::chat(arguments).await.map(turn::Outcome::exit_code)
        }
        Command::Serve(arguments) => on_worker(serve::serve(arguments.flags, secrets)).await.map(|()| 0),
        Command::Plugin(arguments) => {
            let terminal = terminal::Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
            plugins::plugin(arguments, &terminal).await.map(|is_well| u8::from(!is_well))
        }
        Command::Events { json } => {
            let terminal = terminal::Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
            events::events(json, &terminal);
            Ok(0)
        }
        Command::Inspect(arguments) => {
            let terminal = terminal::Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
            inspect::inspect(&arguments, &terminal).await.map(|()| 0)
        }
        Command::Doctor(arguments) => {
            let terminal = terminal::Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
            doctor::doctor(&arguments, &terminal).await.map(|is_well| u8::from(!is_well))
        }
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

#[cfg(test)]
mod tests {
    use super::with_command;

    fn command(arguments: &[&str], is_terminal: bool) -> Vec<String> {
        let all = ["linn"].iter().chain(arguments).map(|it| (*it).into()).collect();
        with_command(all, is_terminal).into_iter().skip(1).filter_map(|it| it.into_string().ok()).collect()
    }

    #[test]
    fn a_front_end_that_pipes_its_commands_is_served() {
        assert_eq!(command(&[], false), ["serve"]);
        assert_eq!(command(&["--workspace", ".", "--no-such"], false), ["serve", "--workspace", ".", "--no-such"]);
    }

    #[test]
    fn a_terminal_and_a_command_and_help_are_left_alone() {
        assert_eq!(command(&[], true), [""; 0]);
        assert_eq!(command(&["run", "hi"], false), ["run", "hi"]);
        assert_eq!(command(&["--workspace", ".", "--help"], false), ["--workspace", ".", "--help"]);
        assert_eq!(command(&["-V"], false), ["-V"]);
    }
}
