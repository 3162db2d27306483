//! `linn serve`: the protocol on standard input and output.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use linn::Harness;
use linn::bridge::{BridgeConfig, BridgePlugin, stdio};
use linn::config::{Config, Sources, keys};
use linn::plugins::finish::{FinishConfig, FinishPlugin};
use linn::plugins::llm_replay::{ReplayConfig, ReplayPlugin};
use linn::plugins::session_store::{SessionStoreConfig, SessionStorePlugin};
use linn::services::events::{SessionSaved, SessionUnsaved};
use linn::services::ids::SessionId;
use linn::services::secrets::SecretKeeper;

use crate::cli::loaded::chosen_model;
use crate::cli::sessions;
use crate::cli::signals::{Signals, interrupt, shut_down};

/// Serves one front end until its commands end, it reads no more, or a signal comes. `flags` are those of existing
/// clients, and `--set` and its like.
pub(crate) async fn serve(flags: Vec<String>, secrets: SecretKeeper) -> anyhow::Result<()> {
    let mut signals = Signals::new().context("signals cannot be listened to")?;
    let sources = Sources::system(flags).context("the current folder cannot be told")?;
    let config = Config::load(sources, &linn::built_in_entries());
    for problem in config.problems() {
        tracing::warn!("config: {problem}");
    }
    let workspace = config.workspace();
    let workspace = workspace.canonicalize().with_context(|| format!("no workspace at {}", workspace.display()))?;
    let (input, output) = stdio().context("standard input and output cannot be served")?;
    let mut bridge = BridgeConfig::new(input, output, &workspace);
    bridge.session = config.get(&keys::SESSION_FILE);
    bridge.model = chosen_model(&config).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        None
    });
    bridge.version = env!("CARGO_PKG_VERSION").to_owned();
    let handle = bridge.handle();
    let folder = sessions::default_folder()?;
    // Front ends name the files of their sessions; without one a session leaves nothing behind.
    let store = SessionStoreConfig { named_only: true, ..SessionStoreConfig::new(&folder) };
    // What models are asked and say, as a recording; keys are no part of it.
    let debug_log = config.debug_log().map(|it| it.to_string_lossy().into_owned());
    // A front end shows what a model does; it is to show a last word as well.
    let finish = FinishConfig {
        reflect: config.get(&keys::MEMORY_AUTO_REFLECT),
        min_tool_calls: config.get(&keys::MEMORY_AUTO_REFLECT_MIN_TOOL_CALLS),
    };
    let harness = Harness::builder()
        .secrets(secrets)
        .workspace(workspace)
        .sessions(folder)
        .config(config)
        .look_for_libraries()
        .plugin::<SessionStorePlugin>(store)
        .plugin::<FinishPlugin>(finish)
        .plugin::<ReplayPlugin>(ReplayConfig { record: debug_log, ..ReplayConfig::default() })
        .build()
        .await?;
    let unsaved = Arc::new(Mutex::new(BTreeSet::new()));
    let (failing, working) = (unsaved.clone(), unsaved.clone());
    harness.context().on(move |it: &SessionUnsaved| {
        set(&failing).insert(it.session.id().clone());
    })?;
    harness.context().on(move |it: &SessionSaved| {
        set(&working).remove(it.session.id());
    })?;
    // It makes its agent when it starts, so what drives agents has to be there.
    harness.context().mount::<BridgePlugin>(bridge)?.running().await.context("the front end cannot be served")?;
    if let Err(error) = harness.watch_plugins().await {
        tracing::warn!("plugins are not reloaded by themselves: {error}");
    }
    let signal = tokio::select! {
        () = handle.ended() => None,
        signal = signals.end() => Some(signal),
        () = interrupt() => Some("SIGINT"),
    };
    if signal.is_some() {
        handle.stop();
    }
    handle.ended().await;
    shut_down(harness, signal, &mut signals).await?;
    let lost = set(&unsaved).iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    ensure!(lost.is_empty(), "not everything was saved of session {lost}");
    Ok(())
}

fn set(sessions: &Mutex<BTreeSet<SessionId>>) -> MutexGuard<'_, BTreeSet<SessionId>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}
