//! A session whose time, chance and model were recorded is the same when it is played back.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::path::Path;

use linn::Harness;
use linn::bus::{Seams, TokioRuntime};
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::plugins::files::{FilesConfig, FilesPlugin};
use linn::plugins::llm_replay::{Bundled, ReplayConfig, ReplayPlugin};
use linn::services::agent::CreateAgent;
use linn::services::approval::ApprovalMode;
use linn_bus_test::{Playback, Recording};

/// The model of the demo, with its pauses left out.
const DEMO: Bundled = Bundled { name: "demo", text: include_str!("../../src/cli/demo/first.jsonl") };

/// Runs the first two turns of the demo in `folder` and gives the log of the session.
async fn session(folder: &Path, name: &str, seams: Seams) -> Vec<u8> {
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

    let mut files = FilesConfig::new(&project);
    files.n_threads = 0;
    let gate = ApprovalGateConfig { mode: ApprovalMode::Never, ..ApprovalGateConfig::default() };
    let harness = Harness::builder()
        .workspace(&project)
        .sessions(&sessions)
        .seams(seams)
        .plugin::<ReplayPlugin>(ReplayConfig { bundled: vec![DEMO], delay_percent: 0, ..ReplayConfig::default() })
        .plugin::<ApprovalGatePlugin>(gate)
        .plugin::<FilesPlugin>(files)
        .build()
        .await
        .unwrap();
    let mut create = CreateAgent::new("main", "recorded");
    create.cwd = Some(project.to_str().unwrap().to_owned());
    create.options.model = Some("replay:demo".to_owned());
    let agent = harness.agents().unwrap().create(harness.context(), create).await.unwrap();
    agent.agent().send("The check in check.sh fails. Find out why, and mend it.").unwrap();
    agent.agent().when_idle().await;
    agent.dispose().await;
    harness.shutdown().await.unwrap();

    let log = std::fs::read_dir(&sessions).unwrap().map(|it| it.unwrap().path());
    let log = log.filter(|it| it.extension().is_some_and(|it| it == "events")).collect::<Vec<_>>();
    assert_eq!(log.len(), 1, "{log:?}");
    std::fs::read(&log[0]).unwrap()
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
    assert!(text.contains("ok: Hello, world!") && text.contains("\"completed\""), "{text}");
    let again = runtime().block_on(async {
        let playback = Playback::of(draws, TokioRuntime::seams());
        session(folder.path(), "again", playback.seams()).await
    });
    assert_eq!(text, String::from_utf8(again).unwrap());
}
