//! `linn run`: one prompt; and what a conversation on a terminal is made of.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use linn::config::keys;
use linn::plugins::llm_replay::{ReplayConfig, ReplayPlugin};
use linn::services::agent::{AgentHandle, AgentOptions, CreateAgent, ResumeAgent};
use linn::{Harness, HarnessBuilder};

use crate::cli::answer::Ask;
use crate::cli::json::JsonStream;
use crate::cli::loaded::warn_of_problems;
use crate::cli::terminal::Terminal;
use crate::cli::turn::{Outcome, TurnWatch};
use crate::cli::{ConversationArguments, RunArguments, sessions};

/// Runs one prompt and says how it went.
pub(crate) async fn run(arguments: RunArguments) -> anyhow::Result<Outcome> {
    let json = arguments.json.then(|| JsonStream::new(Box::new(std::io::stdout())));
    let conversation = Conversation::begin(&arguments.conversation, json).await?;
    let outcome = conversation.turn(&arguments.prompt).await;
    conversation.end().await?;
    outcome
}

/// A harness with one agent that a human talks to.
pub(crate) struct Conversation {
    /// Where the human reads.
    pub(crate) terminal: Arc<Terminal>,
    harness: Harness,
    agent: AgentHandle,
    watch: TurnWatch,
}

impl Conversation {
    /// Builds the harness, and makes the agent or takes its session up again. With a stream of events on standard output,
    /// the human reads on standard error.
    pub(crate) async fn begin(
        arguments: &ConversationArguments,
        json: Option<Arc<JsonStream>>,
    ) -> anyhow::Result<Self> {
        let terminal = terminal(json.is_some());
        let (builder, options) = builder(arguments, &terminal)?;
        let harness = builder.build().await?;
        if let Some(json) = json {
            json.follow(harness.context())?;
        }
        terminal.follow(harness.context())?;
        let agent = agent(&harness, arguments, options).await?;
        let watch = TurnWatch::new(agent.agent())?;
        Ok(Self { terminal, harness, agent, watch })
    }

    /// Sends a prompt and waits until the agent is done with it. Ctrl-c and a reader that is gone end it.
    pub(crate) async fn turn(&self, prompt: &str) -> anyhow::Result<Outcome> {
        let agent = self.agent.agent();
        agent.send(prompt)?;
        let outcome = tokio::select! {
            outcome = self.watch.outcome() => outcome,
            _ = tokio::signal::ctrl_c() => {
                agent.cancel(Some("interrupted"))?;
                self.watch.outcome().await
            }
            () = self.terminal.gone() => {
                agent.cancel(Some("nobody reads the output"))?;
                self.watch.outcome().await
            }
        };
        Ok(outcome)
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_unread(&self) -> bool {
        self.terminal.is_gone()
    }

    /// Ends everything, and says how to go on.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        let session = self.agent.agent().session().id().clone();
        self.agent.dispose().await;
        self.harness.shutdown().await.context("the harness did not end quietly")?;
        self.terminal.explain(&format!("session {session}; go on with `linn run --resume {session} \"<prompt>\"`"));
        Ok(())
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
fn builder(
    arguments: &ConversationArguments,
    terminal: &Arc<Terminal>,
) -> anyhow::Result<(HarnessBuilder, AgentOptions)> {
    let config = arguments.settings.load()?;
    warn_of_problems(&config, terminal);
    let absolute = |it: &Path| std::path::absolute(it).map(|it| it.to_string_lossy().into_owned());
    let record = arguments.record.as_deref().map(absolute).transpose().context("the recording has no name")?;
    let folder = absolute(Path::new(".")).context("the current folder cannot be told")?;
    let workspace = config.workspace();
    let workspace = workspace.canonicalize().with_context(|| format!("no workspace at {}", workspace.display()))?;
    let model = config.get(&keys::MODEL).context(NO_MODEL)?;
    let options = AgentOptions { model: Some(model), ..AgentOptions::default() };
    let builder = Harness::builder()
        .workspace(workspace)
        .sessions(sessions::folder(arguments.sessions.clone())?)
        .config(config)
        .plugin::<ReplayPlugin>(ReplayConfig { folder, record, ..ReplayConfig::default() })
        .plugin::<Ask>(terminal.clone());
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
