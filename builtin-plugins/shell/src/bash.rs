//! The tool `bash`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linn_bus::{Context, Fault, Inject, Lookup, Plugin, Svc};
use linn_services::events::{SettingsChanged, ShellOutputChunk};
use linn_services::interaction::{Interaction, InteractionError, Password, SudoAnswer, SudoQuestion};
use linn_services::secrets::{SecretKeeper, secrets_of};
use linn_services::shell::{OnOutput, Shell, ShellCommand, ShellOutput, ShellStream};
use linn_services::tools::{RESULT_LIMIT_BYTES, Tool, ToolExecution, ToolFailure, ToolOutput, Tools};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::config::{BashConfig, ShellConfig, SudoPrompt};
use crate::environment::Environment;
use crate::flow::Flow;
use crate::plugin::check_bash;
use crate::sudo::calls_sudo;
use crate::system::{KeptOutput, Outputs, own_environment};
use crate::text::{KeptFile, show};

const DESCRIPTION: &str = "Runs a command line in the shell, in the folder of the session, and gives what it printed. \
    It has no input and no terminal. Long output is cut in the middle; the marker says where all of it is. \
    What is started with `&` runs on until the harness ends.";

/// What is told of a command that a human did not want to run with more rights.
const DECLINED: &str = "The user declined the sudo request — the command was NOT run. \
    Go on without it, or ask the user how to proceed.";

/// How much output is shown at most: what is longer is cut here, where the way to the rest can be told, so that it is not
/// cut again as a result. The notes around it have room.
const SHOWN_BYTES: usize = RESULT_LIMIT_BYTES - 512;

/// The tool `bash`, for whichever commands [`Shell`] runs.
#[derive(Debug)]
pub struct BashPlugin;

/// What the tool needs; [`Interaction`] is looked up when a command asks for more rights.
#[derive(Inject)]
pub struct BashNeeds {
    shell: Svc<dyn Shell>,
    tools: Svc<dyn Tools>,
    interaction: Lookup<dyn Interaction>,
}

impl Plugin for BashPlugin {
    const NAME: &'static str = "bash";
    type Config = ShellConfig;
    type Needs = BashNeeds;

    fn validate(config: &ShellConfig) -> Result<(), Fault> {
        check_bash(config)
    }

    async fn start(ctx: &Context, config: ShellConfig, needs: BashNeeds) -> Result<(), Fault> {
        let BashNeeds { shell, tools, interaction } = needs;
        let outputs = Arc::new(Outputs::new(&config.bash));
        let to_close = outputs.clone();
        ctx.effect("kept outputs", |fx| fx.defer(move || to_close.close()))?;
        let secrets = secrets_of(ctx);
        Environment::new(&config.environment).secret_values(own_environment()).iter().for_each(|it| secrets.keep(it));
        let bash = Arc::new(Bash {
            ctx: ctx.clone(),
            shell,
            interaction,
            secrets,
            outputs,
            timeout_s: AtomicU64::new(config.bash.timeout_s),
            config: config.bash,
        });
        ctx.on_with(&bash, Bash::setting_changed)?;
        let tool = Tool::new("bash", DESCRIPTION, move |arguments: Arguments, call| {
            let bash = bash.clone();
            async move { bash.run(arguments, &call).await }
        });
        tools.register(ctx, tool)?;
        Ok(())
    }
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The command line.
    command: String,
    /// After how many seconds the command is ended, with everything it started.
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
}

struct Bash {
    ctx: Context,
    shell: Svc<dyn Shell>,
    interaction: Lookup<dyn Interaction>,
    secrets: SecretKeeper,
    outputs: Arc<Outputs>,
    /// How long a command may take if the model names no limit: as configured, until somebody sets it anew.
    timeout_s: AtomicU64,
    config: BashConfig,
}

/// What becomes of a command that calls `sudo`.
enum Rights {
    /// It runs, with a password if it needs one.
    Granted(Option<Password>),
    /// It does not run, and this is told instead.
    Refused(ToolOutput),
}

impl Bash {
    fn setting_changed(&self, change: &SettingsChanged) {
        if change.name == "shell.timeout_secs"
            && let Some(timeout_s) = change.value.as_u64()
        {
            self.timeout_s.store(timeout_s.clamp(1, self.config.max_timeout_s), Ordering::Relaxed);
        }
    }

    async fn run(&self, arguments: Arguments, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let Arguments { command: line, timeout } = arguments;
        if line.trim().is_empty() {
            return Err(ToolFailure::coded("BashError", "BASH_EMPTY", "bash: the command is empty"));
        }
        if let Some(refusal) = self.shell.refusal(&line)? {
            return Ok(ToolOutput::from(refusal).with_meta(json!({ "blocked": true })).failed());
        }
        let password = match self.rights(&line, call).await? {
            Rights::Granted(password) => password,
            Rights::Refused(output) => return Ok(output),
        };

        let timeout_s = timeout.unwrap_or(self.timeout_s.load(Ordering::Relaxed)).clamp(1, self.config.max_timeout_s);
        let listening = Arc::new(Listening::new(self, call));
        let mut command = self.command(ShellCommand::line(line), call);
        command.password = password;
        command.timeout = Some(Duration::from_secs(timeout_s));
        command.limit_bytes = self.config.limit_bytes;
        let hears = listening.clone();
        command.on_output = Some(OnOutput::new(move |stream, piece| hears.hear(stream, piece)));
        let output = self.shell.run(command).await.map_err(|error| {
            let failure = ToolFailure::from(error);
            ToolFailure { message: format!("bash: {}", failure.message), ..failure }
        })?;
        let files = listening.finish();
        Ok(self.tell(&output, files, timeout_s))
    }

    /// A command in the folder of the session, that ends with the call.
    fn command(&self, command: ShellCommand, call: &ToolExecution) -> ShellCommand {
        let cwd = call.agent().and_then(|it| it.session().header().cwd.clone());
        ShellCommand { cwd, signal: call.signal(), ..command }
    }

    /// Asks a human, if the command calls `sudo`.
    async fn rights(&self, line: &str, call: &ToolExecution) -> Result<Rights, ToolFailure> {
        if !calls_sudo(line) {
            return Ok(Rights::Granted(None));
        }
        if self.config.sudo == SudoPrompt::WhenNeeded && !self.needs_password(call).await? {
            return Ok(Rights::Granted(None));
        }
        let question = SudoQuestion {
            agent: call.agent().cloned(),
            call_id: Some(call.call_id().clone()),
            command: line.to_owned(),
            signal: call.signal(),
        };
        let interaction = self.interaction.get().await.map_err(|error| failure(error.code(), &error))?;
        let answer = match interaction {
            Some(interaction) => interaction.sudo(question).await,
            None => Ok(SudoAnswer::Unavailable),
        };
        match answer {
            Ok(SudoAnswer::Approved(password)) => Ok(Rights::Granted(Some(password))),
            Ok(SudoAnswer::Declined) => Ok(Rights::Refused(DECLINED.into())),
            Ok(SudoAnswer::Unavailable) => {
                let text = "bash: the command calls sudo, and there is nobody who could be asked for the password; \
                    the command was NOT run";
                Ok(Rights::Refused(ToolOutput::from(text).failed()))
            }
            Err(InteractionError::Cancelled) => Ok(Rights::Refused(aborted())),
            Err(error) => Err(failure(error.code(), &error)),
        }
    }

    /// Whether `sudo` would ask.
    async fn needs_password(&self, call: &ToolExecution) -> Result<bool, ToolFailure> {
        let probe = ShellCommand::exec("sudo", ["-n", "true"].map(str::to_owned).to_vec());
        let limit = Some(Duration::from_secs(self.timeout_s.load(Ordering::Relaxed)));
        let probe = self.shell.run(ShellCommand { timeout: limit, ..self.command(probe, call) }).await?;
        Ok(probe.exit_code != Some(0))
    }

    fn tell(&self, output: &ShellOutput, files: [KeptFile; 2], timeout_s: u64) -> ToolOutput {
        if output.cancelled {
            return aborted();
        }
        let meta = json!({
            "exitCode": output.exit_code,
            "signal": output.signal,
            "timedOut": output.timed_out,
            "leftBehind": output.left_behind,
            "outputFiles": files.iter().flatten().map(|(path, _)| path).collect::<Vec<_>>(),
        });
        let mut text = show(output, files, self.config.limit_bytes.min(SHOWN_BYTES), &self.secrets);
        if output.timed_out {
            text.insert_str(0, &format!("bash timed out after {timeout_s}s (killed)\n"));
        } else {
            match (output.exit_code, output.signal) {
                (Some(0), _) => {}
                (Some(code), _) => note(&mut text, &format!("exit code {code}")),
                (None, Some(signal)) => note(&mut text, &format!("ended by signal {signal}")),
                (None, None) => note(&mut text, "exit code unknown"),
            }
            if output.left_behind {
                note(&mut text, "a background process still holds the output open; it goes on without it");
            }
        }
        let told = ToolOutput::from(text).with_meta(meta);
        if output.exit_code == Some(0) { told } else { told.failed() }
    }
}

fn note(text: &mut String, note: &str) {
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    text.push_str(&format!("{line_end}[{note}]"));
}

fn aborted() -> ToolOutput {
    ToolOutput::from("bash aborted").failed()
}

fn failure(code: &str, error: &impl std::fmt::Display) -> ToolFailure {
    ToolFailure::coded("BashError", code, format!("bash: {error:#}"))
}

/// Tells front ends of output as it comes, and keeps it where it is long.
struct Listening {
    ctx: Context,
    call: ToolExecution,
    streams: Mutex<[(Flow, KeptOutput); 2]>,
}

impl Listening {
    fn new(bash: &Bash, call: &ToolExecution) -> Self {
        let stream = || (Flow::new(bash.secrets.clone()), KeptOutput::new(&bash.outputs, bash.config.limit_bytes));
        Self { ctx: bash.ctx.clone(), call: call.clone(), streams: Mutex::new([stream(), stream()]) }
    }

    fn streams(&self) -> MutexGuard<'_, [(Flow, KeptOutput); 2]> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, stream: ShellStream, piece: &[u8]) {
        let text = {
            let (flow, kept) = &mut self.streams()[place(stream)];
            kept.push(piece);
            flow.push(piece)
        };
        self.say(stream, text);
    }

    fn say(&self, stream: ShellStream, text: String) {
        if !text.is_empty() {
            let (agent, call_id) = (self.call.agent().cloned(), self.call.call_id().clone());
            self.ctx.emit(&ShellOutputChunk { agent, call_id, stream, text });
        }
    }

    /// Says what is left to say, and gives the files.
    fn finish(&self) -> [KeptFile; 2] {
        [ShellStream::Stdout, ShellStream::Stderr].map(|stream| {
            let (text, file) = {
                let (flow, kept) = &mut self.streams()[place(stream)];
                (flow.finish(), kept.file())
            };
            self.say(stream, text);
            file.map(|(path, n_bytes)| (path.display().to_string(), n_bytes))
        })
    }
}

const fn place(stream: ShellStream) -> usize {
    match stream {
        ShellStream::Stdout => 0,
        ShellStream::Stderr => 1,
    }
}
