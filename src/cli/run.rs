//! `linn run`: one prompt; and what a conversation on a terminal is made of.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use linn::config::keys;
use linn::plugins::llm_replay::{ReplayConfig, ReplayPlugin};
use linn::services::agent::{AgentHandle, AgentOptions, CreateAgent, ResumeAgent};
use linn::services::events::{SessionSaved, SessionUnsaved};
use linn::services::session::{RewindCause, SessionRewind};
use linn::{Harness, HarnessBuilder};

use crate::cli::answer::{Ask, Desk};
use crate::cli::commands::Command;
use crate::cli::json::JsonStream;
use crate::cli::lines::Lines;
use crate::cli::loaded::{chosen_model, refuse_what_protects_less, warn_of_problems};
use crate::cli::signals::{Signals, interrupt, shut_down};
use crate::cli::terminal::Terminal;
use crate::cli::turn::{Outcome, TurnWatch};
use crate::cli::{ConversationArguments, RunArguments, commands, sessions};

/// Runs one prompt and says how it went.
pub(crate) async fn run(arguments: RunArguments) -> anyhow::Result<Outcome> {
    if arguments.prompt.trim().is_empty() {
        bail!("the prompt is empty");
    }
    let json = arguments.json.then(|| JsonStream::new(Box::new(std::io::stdout())));
    let mut conversation = Conversation::begin(arguments.conversation, json).await?;
    let outcome = conversation.turn(&arguments.prompt).await;
    let is_saved = conversation.end().await?;
    outcome.map(|it| if is_saved { it } else { Outcome::Failed })
}

/// A harness with one agent that a human talks to.
pub(crate) struct Conversation {
    /// Where the human sits.
    pub(crate) desk: Desk,
    pub(crate) signals: Signals,
    json: Option<Arc<JsonStream>>,
    harness: Harness,
    agent: AgentHandle,
    watch: TurnWatch,
    unsaved: Arc<AtomicBool>,
    /// The signal that ends the program, if one does.
    signal: Option<&'static str>,
}

impl Conversation {
    /// Builds the harness, and makes the agent or takes its session up again. With a stream of events on standard output,
    /// the human reads on standard error.
    pub(crate) async fn begin(
        mut arguments: ConversationArguments,
        json: Option<Arc<JsonStream>>,
    ) -> anyhow::Result<Self> {
        let desk = Desk { terminal: terminal(json.is_some()), lines: Lines::new() };
        let signals = Signals::new().context("signals cannot be listened to")?;
        if let Some(session) = &arguments.resume {
            let folder = sessions::workspace_of(session, arguments.sessions.clone()).await?;
            if let (Some(named), Some(own)) = (arguments.settings.workspace(), &folder)
                && named.canonicalize().ok() != own.canonicalize().ok()
            {
                bail!("session {session} works in {}; leave out --workspace to go on with it", own.display());
            }
            arguments.settings = arguments.settings.or_workspace(folder);
        }
        let (builder, options) = builder(&arguments, &desk)?;
        let harness = builder.build().await?;
        if let Err(error) = harness.watch_plugins().await {
            tracing::warn!("plugins are not reloaded by themselves: {error}");
        }
        if let Some(json) = &json {
            json.follow(harness.context())?;
        }
        desk.terminal.follow(harness.context())?;
        let unsaved = Arc::new(AtomicBool::new(false));
        let (is_unsaved, is_saved) = (unsaved.clone(), unsaved.clone());
        harness.context().on(move |_: &SessionUnsaved| is_unsaved.store(true, Ordering::Relaxed))?;
        harness.context().on(move |_: &SessionSaved| is_saved.store(false, Ordering::Relaxed))?;
        let agent = agent(&harness, &arguments, options).await?;
        let watch = TurnWatch::new(agent.agent())?;
        Ok(Self { desk, signals, json, harness, agent, watch, unsaved, signal: None })
    }

    /// Sends a prompt and waits until the agent is done with it. Ctrl-c ends it; a signal and a reader that is gone end it
    /// and the conversation.
    pub(crate) async fn turn(&mut self, prompt: &str) -> anyhow::Result<Outcome> {
        let agent = self.agent.agent();
        agent.send(prompt)?;
        let unread = async {
            match &self.json {
                Some(json) => json.gone().await,
                None => self.desk.terminal.gone().await,
            }
        };
        let reason = tokio::select! {
            outcome = self.watch.outcome() => {
                self.take_back_what_cannot_fit()?;
                return Ok(outcome);
            }
            () = interrupt() => "interrupted",
            signal = self.signals.end() => {
                self.signal = Some(signal);
                "the program was told to end"
            }
            () = unread => "nobody reads the output",
        };
        agent.cancel(Some(reason))?;
        Ok(self.watch.outcome().await)
    }

    /// Takes a prompt back that no request has room for, so that it does not stand in the way of those that come. The log
    /// still has it.
    fn take_back_what_cannot_fit(&self) -> anyhow::Result<()> {
        let Some(to) = self.watch.oversized() else { return Ok(()) };
        let session = self.agent.agent().session();
        match session.append(SessionRewind { to, cause: RewindCause::Undo }) {
            Err(error) if !error.is_logged() => return Err(error.into()),
            _ => {}
        }
        self.desk
            .terminal
            .warn("the prompt is too long for the model and was taken back; the log of the session has it");
        Ok(())
    }

    /// Whether there is nothing more to say: the program was told to end, or nobody reads any more.
    pub(crate) fn is_over(&self) -> bool {
        let is_unread = match &self.json {
            Some(json) => json.is_gone(),
            None => self.desk.terminal.is_gone(),
        };
        self.signal.is_some() || is_unread
    }

    /// Notes the signal that ends the program.
    pub(crate) fn ended_by(&mut self, signal: &'static str) {
        self.signal = Some(signal);
    }

    /// Does what was typed for the program.
    pub(crate) async fn command(&self, command: Command) {
        command.run(&self.harness, &self.desk.terminal).await;
    }

    /// Does what was typed for a plugin; what is then asked of the model, if anything.
    pub(crate) async fn command_of_plugin(&self, line: String) -> Option<String> {
        commands::of_plugin(line, self.agent.agent(), &self.harness, &self.desk.terminal).await
    }

    /// Ends everything, and says how to go on. Whether everything of the session is saved.
    pub(crate) async fn end(mut self) -> anyhow::Result<bool> {
        let session = self.agent.agent().session().id().clone();
        self.agent.dispose().await;
        shut_down(self.harness, self.signal, &mut self.signals).await?;
        let is_saved = !self.unsaved.load(Ordering::Relaxed);
        if is_saved {
            let how = format!("session {session}; go on with `linn run --resume {session} \"<prompt>\"`");
            self.desk.terminal.explain(&how);
        } else {
            self.desk.terminal.warn(&format!("session {session} is not saved as a whole"));
        }
        Ok(is_saved)
    }
}

/// Where a human reads along: standard output, or standard error beside the event stream.
fn terminal(is_json: bool) -> Arc<Terminal> {
    if is_json {
        Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stderr())))
    } else {
        Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())))
    }
}

/// The builder, and the model that is asked.
fn builder(arguments: &ConversationArguments, desk: &Desk) -> anyhow::Result<(HarnessBuilder, AgentOptions)> {
    let config = arguments.settings.load()?;
    warn_of_problems(&config, &desk.terminal);
    refuse_what_protects_less(&config)?;
    let absolute = |it: &Path| std::path::absolute(it).map(|it| it.to_string_lossy().into_owned());
    let record = arguments.record.as_deref().map(absolute).transpose().context("the recording has no name")?;
    let folder = absolute(Path::new(".")).context("the current folder cannot be told")?;
    let workspace = config.workspace();
    let workspace = workspace.canonicalize().with_context(|| format!("no workspace at {}", workspace.display()))?;
    let model = arguments.settings.of_named_provider(chosen_model(&config)?.context(NO_MODEL)?, &config)?;
    if !model.starts_with("replay:") && config.get(&keys::PROVIDERS).is_empty() && config.get(&keys::API_KEY).is_none()
    {
        desk.terminal.warn("no provider is configured: name an endpoint with `--base-url`, or see docs/endpoints.md");
    }
    let options = AgentOptions { model: Some(model), ..AgentOptions::default() };
    let builder = Harness::builder()
        .secrets(arguments.settings.secrets.clone())
        .workspace(workspace)
        .sessions(sessions::folder(arguments.sessions.clone())?)
        .config(config)
        .look_for_libraries()
        .plugin::<ReplayPlugin>(ReplayConfig { folder, record, ..ReplayConfig::default() })
        .plugin::<Ask>(desk.clone());
    Ok((builder, options))
}

const NO_MODEL: &str = "no model was chosen: name one with `--model`, or set `model` in ~/.config/linn/linn.toml";

async fn agent(
    harness: &Harness,
    arguments: &ConversationArguments,
    options: AgentOptions,
) -> anyhow::Result<AgentHandle> {
    let agents = harness.agents()?;
    if let Some(session) = &arguments.resume {
        let session_id = session.as_str().into();
        let resume = ResumeAgent { agent_id: "main".into(), session_id, options, setup: None };
        return Ok(agents.resume(harness.context(), resume).await?);
    }
    let id = format!("{:016x}", harness.context().ids().next_u64());
    let mut create = CreateAgent::new("main", id);
    let workspace = harness.workspace().and_then(Path::to_str).context("the workspace has no name in Unicode")?;
    create.cwd = Some(workspace.to_owned());
    create.options = options;
    Ok(agents.create(harness.context(), create).await?)
}
