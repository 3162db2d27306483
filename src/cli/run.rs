//! `linn run`: one prompt.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use linn::Harness;
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::plugins::llm_replay::{ReplayConfig, ReplayPlugin};
use linn::services::agent::{AgentHandle, AgentOptions, CreateAgent, ResumeAgent};

use crate::cli::answer::Ask;
use crate::cli::json::JsonStream;
use crate::cli::terminal::Terminal;
use crate::cli::turn::{Outcome, TurnWatch};
use crate::cli::{RunArguments, sessions};

/// Runs one prompt and says how it went.
pub(crate) async fn run(arguments: RunArguments) -> anyhow::Result<Outcome> {
    let workspace = match &arguments.workspace {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().context("the current folder cannot be told")?,
    };
    let workspace = workspace.canonicalize().with_context(|| format!("no workspace at {}", workspace.display()))?;
    let sessions = sessions::folder(arguments.sessions.clone())?;
    let terminal = terminal(arguments.json);
    let harness = harness(&arguments, &workspace, sessions, &terminal)?.build().await?;
    if arguments.json {
        JsonStream::new(Box::new(std::io::stdout())).follow(harness.context())?;
    }
    terminal.follow(harness.context())?;

    let agent = agent(&harness, &arguments, &workspace).await?;
    let watch = TurnWatch::new(agent.agent())?;
    agent.agent().send(arguments.prompt.as_str())?;
    let outcome = tokio::select! {
        outcome = watch.outcome() => outcome,
        _ = tokio::signal::ctrl_c() => {
            agent.agent().cancel(Some("interrupted"))?;
            watch.outcome().await
        }
        () = terminal.gone() => {
            agent.agent().cancel(Some("nobody reads the output"))?;
            watch.outcome().await
        }
    };
    let session = agent.agent().session().id().clone();
    agent.dispose().await;
    harness.shutdown().await.context("the harness did not end quietly")?;
    terminal
        .explain(&format!("session {session}; go on with `linn run --resume {session} --model <model> \"<prompt>\"`"));
    Ok(outcome)
}

/// Where a human reads along: standard output, or standard error beside the event stream.
fn terminal(is_json: bool) -> Arc<Terminal> {
    if is_json {
        Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stderr())))
    } else {
        Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())))
    }
}

fn harness(
    arguments: &RunArguments,
    workspace: &Path,
    sessions: PathBuf,
    terminal: &Arc<Terminal>,
) -> anyhow::Result<linn::HarnessBuilder> {
    let absolute = |it: &Path| std::path::absolute(it).map(|it| it.to_string_lossy().into_owned());
    let record = arguments.record.as_deref().map(absolute).transpose().context("the recording has no name")?;
    let folder = absolute(Path::new(".")).context("the current folder cannot be told")?;
    let gate = ApprovalGateConfig { mode: arguments.approve.into(), ..ApprovalGateConfig::default() };
    Ok(Harness::builder()
        .workspace(workspace)
        .sessions(sessions)
        .plugin::<ReplayPlugin>(ReplayConfig { folder, record, ..ReplayConfig::default() })
        .plugin::<ApprovalGatePlugin>(gate)
        .plugin::<Ask>(terminal.clone()))
}

async fn agent(harness: &Harness, arguments: &RunArguments, workspace: &Path) -> anyhow::Result<AgentHandle> {
    let options = AgentOptions { model: Some(arguments.model.clone()), ..AgentOptions::default() };
    let agents = harness.agents()?;
    let agent = match &arguments.resume {
        Some(session) => {
            let session_id = session.as_str().into();
            let resume = ResumeAgent { agent_id: "main".into(), session_id, options, setup: None };
            agents.resume(harness.context(), resume).await?
        }
        None => {
            let id = format!("{:016x}", harness.context().ids().next_u64());
            let mut create = CreateAgent::new("main", id);
            create.cwd = Some(workspace.to_str().context("the workspace has no name in Unicode")?.to_owned());
            create.options = options;
            agents.create(harness.context(), create).await?
        }
    };
    Ok(agent)
}
