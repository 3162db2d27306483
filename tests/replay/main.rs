//! A session whose time, chance and model were recorded is the same when it is played back.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod program;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn::bus::{Context, Fault, ListenerError, Next, Plugin, Seams, TokioRuntime};
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::plugins::files::{FilesConfig, FilesPlugin};
use linn::plugins::llm_replay::{Bundled, ReplayConfig, ReplayPlugin};
use linn::services::agent::{AgentHandle, AgentOptions, CreateAgent, ResumeAgent};
use linn::services::approval::ApprovalMode;
use linn::services::compaction::{CompactRequest, CompactTrigger, Compaction};
use linn::services::events::{ApprovalRequest, ToolsPreExecute};
use linn::services::session::ApprovalOutcome;
use linn::services::tools::PreToolDecision;
use linn::{Harness, HarnessBuilder};
use linn_bus_test::{Playback, Recording};

/// The models of the demo, with their pauses left out.
const RECORDINGS: [Bundled; 2] = [
    Bundled { name: "demo", text: include_str!("../../src/cli/demo/first.jsonl") },
    Bundled { name: "demo-resumed", text: include_str!("../../src/cli/demo/resumed.jsonl") },
];

/// A human who says yes, and a plugin that forbids to delete.
struct Policy;

impl Policy {
    async fn answer(&self, _: &ApprovalRequest, _: Next<'_, ApprovalRequest>) -> ApprovalOutcome {
        ApprovalOutcome::AllowedOnce
    }

    async fn decide(
        &self,
        event: &ToolsPreExecute,
        next: Next<'_, ToolsPreExecute>,
    ) -> Result<PreToolDecision, ListenerError> {
        let command = event.execution.arguments()["command"].as_str().unwrap_or_default();
        if command.starts_with("rm ") {
            return Ok(PreToolDecision::Deny { reason: "nothing is deleted".to_owned() });
        }
        next.run().await
    }
}

impl Plugin for Policy {
    const NAME: &'static str = "policy";
    type Config = ();
    type Needs = ();

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        let policy = Arc::new(Self);
        ctx.on_with(&policy, Self::answer)?;
        ctx.on_with(&policy, Self::decide)?;
        Ok(())
    }
}

/// Where a session is had: the same project each time, and a folder of sessions of its own.
struct Place {
    project: PathBuf,
    sessions: PathBuf,
    seams: Seams,
}

impl Place {
    fn new(folder: &Path, name: &str, seams: Seams) -> Self {
        let (project, sessions) = (folder.join("project"), folder.join(name));
        if project.exists() {
            std::fs::remove_dir_all(&project).unwrap();
        }
        for it in [&project, &sessions] {
            std::fs::create_dir(it).unwrap();
        }
        std::fs::write(project.join("greet.sh"), "name=\"wrold\"\necho \"Hello, $name!\"\n").unwrap();
        std::fs::write(project.join("check.sh"), "echo \"ok: $(sh greet.sh)\"\n").unwrap();
        std::fs::write(project.join("notes.md"), "# Notes\n").unwrap();
        Self { project, sessions, seams }
    }

    fn builder(&self) -> HarnessBuilder {
        let mut files = FilesConfig::new(&self.project);
        // Threads would draw from the seams in an order of their own.
        files.n_threads = 0;
        let gate = ApprovalGateConfig { mode: ApprovalMode::Destructive, ..ApprovalGateConfig::default() };
        let replay = ReplayConfig { bundled: RECORDINGS.to_vec(), delay_percent: 0, ..ReplayConfig::default() };
        Harness::builder()
            .workspace(&self.project)
            .sessions(&self.sessions)
            .seams(self.seams.clone())
            .plugin::<ReplayPlugin>(replay)
            .plugin::<ApprovalGatePlugin>(gate)
            .plugin::<FilesPlugin>(files)
            .plugin::<Policy>(())
    }

    /// The log of the only session, as it is on disk.
    fn log(&self) -> Vec<u8> {
        let files = std::fs::read_dir(&self.sessions).unwrap().map(|it| it.unwrap().path());
        let logs: Vec<_> = files.filter(|it| it.extension().is_some_and(|it| it == "events")).collect();
        assert_eq!(logs.len(), 1, "{logs:?}");
        std::fs::read(&logs[0]).unwrap()
    }
}

async fn say(agent: &AgentHandle, prompt: &str) {
    agent.agent().send(prompt).unwrap();
    agent.agent().when_idle().await;
}

/// A whole session: two prompts with calls that are approved and one that is vetoed, a compaction, the end of the harness,
/// and a third prompt in another harness that takes the session up again. Gives the log.
async fn session(folder: &Path, name: &str, seams: Seams) -> Vec<u8> {
    let place = Place::new(folder, name, seams);
    let harness = place.builder().build().await.unwrap();
    let mut create = CreateAgent::new("main", "recorded");
    create.cwd = Some(place.project.to_str().unwrap().to_owned());
    create.options.model = Some("replay:demo".to_owned());
    let agent = harness.agents().unwrap().create(harness.context(), create).await.unwrap();
    say(&agent, "The check in check.sh fails. Find out why, and mend it.").await;
    say(&agent, "Now delete notes.md, nobody reads it.").await;
    let request = CompactRequest {
        agent: agent.agent().clone(),
        trigger: CompactTrigger::Manual,
        instructions: None,
        signal: tokio_util::sync::CancellationToken::new(),
    };
    let compacted = harness.context().require::<dyn Compaction>().unwrap().compact(request).await.unwrap();
    assert!(compacted.is_some(), "there is something to compact");
    agent.dispose().await;
    harness.shutdown().await.unwrap();

    let harness = place.builder().build().await.unwrap();
    let options = AgentOptions { model: Some("replay:demo-resumed".to_owned()), ..AgentOptions::default() };
    let resume = ResumeAgent { agent_id: "main".into(), session_id: "recorded".into(), options, setup: None };
    let agent = harness.agents().unwrap().resume(harness.context(), resume).await.unwrap();
    say(&agent, "What did we do so far?").await;
    agent.dispose().await;
    harness.shutdown().await.unwrap();
    place.log()
}

#[test]
fn a_recorded_session_played_back_gives_the_same_log_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, draws) = runtime().block_on(async {
        let recording = Recording::of(TokioRuntime::seams());
        let log = session(folder.path(), "first", recording.seams()).await;
        (log, recording.draws())
    });
    let text = String::from_utf8(first.clone()).unwrap();
    let n = |what: &str| text.matches(what).count();
    assert_eq!(n("\"type\":\"turn/end\""), 4, "three prompts and a compaction");
    assert_eq!(n("\"reason\":{\"kind\":\"completed\"}"), 4, "{text}");
    assert!(text.contains("ok: Hello, world!"), "{text}");
    assert!(n("\"type\":\"approval/asked\"") >= 2 && n("allowed-once") >= 2, "{text}");
    assert!(text.contains("nothing is deleted"), "{text}");
    assert_eq!(n("\"type\":\"compact/summary\""), 1, "{text}");
    assert!(text.contains("\"reason\":\"resume\""), "{text}");

    let again = runtime().block_on(async {
        let playback = Playback::of(draws, TokioRuntime::seams());
        let log = session(folder.path(), "again", playback.seams()).await;
        playback.assert_finished();
        log
    });
    assert_eq!(text, String::from_utf8(again).unwrap());
}
