//! `linn sessions`: what is kept.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use linn::Harness;
use linn::services::persistence::SessionPersistence;

use crate::cli::SessionsCommand;
use crate::cli::terminal::Terminal;

/// The folder that sessions are kept in, made if need be.
pub(crate) fn folder(chosen: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let folder = match chosen {
        Some(folder) => std::path::absolute(folder).context("the folder of sessions cannot be told")?,
        None => default_folder()?,
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The home folder of the user.
pub(crate) fn home() -> anyhow::Result<PathBuf> {
    std::env::home_dir().context("there is no home folder")
}

/// The folder for what can be made again. It may not be there.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    let chosen = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = match chosen {
        Some(cache) => cache,
        None => home().context("set XDG_CACHE_HOME")?.join(".cache"),
    };
    Ok(cache.join("linn"))
}

/// The folder that sessions are kept in if no other is named. It may not be there.
pub(crate) fn default_folder() -> anyhow::Result<PathBuf> {
    Ok(home().context("name one for sessions with --sessions")?.join(".local/share/linn/sessions"))
}

/// The folder that a kept session works in, if it has one.
///
/// # Errors
///
/// There is no such session, or the sessions cannot be listed.
pub(crate) async fn workspace_of(session: &str, chosen: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    let harness = Harness::builder().sessions(folder(chosen)?).build().await?;
    let kept = harness.context().require::<dyn SessionPersistence>()?.list().await;
    harness.shutdown().await.context("the harness did not end quietly")?;
    let found = kept?.into_iter().find(|it| it.id.as_str() == session);
    Ok(found.and_then(|it| it.cwd).map(PathBuf::from))
}

/// Whether files can be made in a folder.
pub(crate) fn can_write(folder: &Path) -> anyhow::Result<()> {
    tempfile::tempfile_in(folder).map(drop).with_context(|| format!("cannot write in {}", folder.display()))
}

/// Lists sessions, or changes one.
pub(crate) async fn run(command: SessionsCommand, chosen: Option<PathBuf>) -> anyhow::Result<()> {
    let terminal = Terminal::new(Box::new(anstream::AutoStream::auto(std::io::stdout())));
    let harness = Harness::builder().sessions(folder(chosen)?).build().await?;
    let kept = harness.context().require::<dyn SessionPersistence>()?;
    match command {
        SessionsCommand::List => {
            for session in kept.list().await? {
                let updated =
                    Timestamp::from_millisecond(session.updated_at).map(|it| it.strftime("%F %T").to_string());
                let pin = if session.is_pinned { "*" } else { " " };
                let updated = updated.unwrap_or_default();
                terminal.explain(&format!("{pin} {updated}  {}  {}", session.id, session.title));
            }
        }
        SessionsCommand::Delete { id } => kept.delete(&id.as_str().into()).await?,
        SessionsCommand::Rename { id, title } => kept.set_title(&id.as_str().into(), Some(&title)).await?,
    }
    harness.shutdown().await.context("the harness did not end quietly")?;
    Ok(())
}
