//! `linn demo`: the whole stack in a temporary folder, with a recorded model. No key, no network.

mod guard;
mod workspace;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use linn::plugins::llm_replay::{Bundled, ReplayConfig, ReplayPlugin};
use linn::services::agent::{AgentHandle, AgentOptions, CreateAgent, ResumeAgent};
use linn::services::compaction::{CompactRequest, CompactTrigger, Compaction};
use linn::{Harness, HarnessBuilder};

use crate::cli::terminal::Terminal;
use crate::cli::turn::{Outcome, TurnWatch};
use guard::{NoDeletion, SaysYes};

/// The recordings that the demo replays.
const RECORDINGS: &[Bundled] = &[
    Bundled { name: "demo", text: include_str!("demo/first.jsonl") },
    Bundled { name: "demo-resumed", text: include_str!("demo/resumed.jsonl") },
];

const SESSION: &str = "demo-session";

/// How fast the recorded model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As it was recorded.
    Recorded,
    /// At once.
    Fast,
}

/// Runs the demo and says how it went.
pub(crate) async fn demo(terminal: &Arc<Terminal>, pace: Pace) -> anyhow::Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("linn-demo-").tempdir().context("no temporary folder")?;
    let (project, sessions) = (folder.path().join("project"), folder.path().join("sessions"));
    for it in [&project, &sessions] {
        std::fs::create_dir(it).with_context(|| format!("cannot make {}", it.display()))?;
    }
    workspace::fill(&project).with_context(|| format!("cannot fill {}", project.display()))?;

    terminal.say("Linn demo: a recorded model, real tools, a temporary folder. No key, no network.");
    terminal.explain(&format!("The folder is {}, and it is gone when the demo ends.", project.display()));
    terminal.explain("› is what a human says, ● a tool that the model calls, ⎿ what came of it, ✗ a failure, ? a question to the human.");
    let harness = stage(&project, &sessions, terminal, pace).build().await?;
    terminal.follow(harness.context())?;
    let agent = create(&harness, &project).await?;

    chapter(
        terminal,
        1,
        "a turn",
        "The model reads a file, edits it and runs a command. What may change something waits for a human's yes, \
         and an edit shows its diff first; here the demo says yes.",
    );
    let first = say(&agent, "The check in check.sh fails. Find out why, and mend it.").await?;
    chapter(
        terminal,
        2,
        "a plugin steps in",
        "Every call of a tool is an event that plugins hear before it runs, `tools/pre-execute`. The plugin \
         `no-deletion`, a few lines of this demo, refuses what deletes; nobody is even asked.",
    );
    let second = say(&agent, "Now delete notes.md, nobody reads it.").await?;
    chapter(
        terminal,
        3,
        "a compaction",
        "A model has room for so much and no more. An older part of the conversation gives way to a summary in what the \
         model is shown; the log on disk keeps it all.",
    );
    compact(&harness, &agent).await?;

    agent.dispose().await;
    harness.shutdown().await.context("the harness did not end quietly")?;
    chapter(
        terminal,
        4,
        "the session, resumed",
        "Everything up to here was shut down. A new harness reads the session from disk and goes on.",
    );
    let harness = stage(&project, &sessions, terminal, pace).build().await?;
    terminal.follow(harness.context())?;
    let agent = resume(&harness).await?;
    let third = say(&agent, "What did we do so far?").await?;
    agent.dispose().await;
    harness.shutdown().await.context("the harness did not end quietly")?;

    terminal.gap();
    terminal.say("That is Linn: each part you saw is a plugin, and you can replace every one of them.");
    terminal.explain("Next, with a model of yours: `linn run \"<prompt>\" --base-url <address> --model <name>`.");
    terminal.explain(
        "docs/endpoints.md tells of models, docs/using.md of the program, docs/bus.md how to write a plugin, and \
         docs/embedding.md how to put Linn into a program of yours.",
    );
    Ok([first, second, third].into_iter().find(|it| *it != Outcome::Completed).unwrap_or(Outcome::Completed))
}

fn chapter(terminal: &Terminal, number: u32, title: &str, about: &str) {
    terminal.gap();
    terminal.say(&format!("── {number}. {title} ──"));
    terminal.explain(about);
}

/// The harness of the demo.
fn stage(project: &Path, sessions: &Path, terminal: &Arc<Terminal>, pace: Pace) -> HarnessBuilder {
    let delay_percent = if pace == Pace::Recorded { 100 } else { 0 };
    let replay = ReplayConfig { bundled: RECORDINGS.to_vec(), delay_percent, ..ReplayConfig::default() };
    Harness::builder()
        .workspace(project)
        .sessions(sessions)
        .plugin::<ReplayPlugin>(replay)
        .plugin::<NoDeletion>(())
        .plugin::<SaysYes>(terminal.clone())
}

fn options(model: &str) -> AgentOptions {
    AgentOptions { model: Some(model.to_owned()), ..AgentOptions::default() }
}

async fn create(harness: &Harness, project: &Path) -> anyhow::Result<AgentHandle> {
    let mut create = CreateAgent::new("main", SESSION);
    create.cwd = Some(project.to_str().context("the temporary folder has no name in Unicode")?.to_owned());
    create.options = options("replay:demo");
    Ok(harness.agents()?.create(harness.context(), create).await?)
}

async fn resume(harness: &Harness) -> anyhow::Result<AgentHandle> {
    let resume = ResumeAgent {
        agent_id: "main".into(),
        session_id: SESSION.into(),
        options: options("replay:demo-resumed"),
        setup: None,
    };
    Ok(harness.agents()?.resume(harness.context(), resume).await?)
}

async fn say(agent: &AgentHandle, prompt: &str) -> anyhow::Result<Outcome> {
    let watch = TurnWatch::new(agent.agent())?;
    agent.agent().send(prompt)?;
    Ok(watch.outcome().await)
}

async fn compact(harness: &Harness, agent: &AgentHandle) -> anyhow::Result<()> {
    let compaction = harness.context().require::<dyn Compaction>()?;
    let request = CompactRequest {
        agent: agent.agent().clone(),
        trigger: CompactTrigger::Manual,
        instructions: None,
        signal: tokio_util::sync::CancellationToken::new(),
    };
    compaction.compact(request).await?;
    Ok(())
}
