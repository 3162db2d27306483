//! `linn plugin`: what can be mounted, and plugins of one's own.

mod manage;
mod workshop;

use std::path::Path;

use anyhow::{Context as _, bail};
use linn::Harness;
use linn::loader::{LibraryFile, Listing, ListingSource};
use linn::services::plugin_admin::PluginAdmin;

use crate::cli::terminal::Terminal;
use crate::cli::{PluginArguments, PluginCommand};

/// Does what a command says. Whether all is well.
pub(crate) async fn plugin(arguments: PluginArguments, terminal: &Terminal) -> anyhow::Result<bool> {
    match arguments.command {
        PluginCommand::List { json, settings } => {
            let harness = Harness::builder().config(settings.load()?).look_for_libraries().build().await?;
            let listed = list(&harness, json, terminal).await;
            harness.shutdown().await.context("the harness did not end quietly")?;
            listed.map(|()| true)
        }
        PluginCommand::Check { path } => check(&path, terminal).await,
        PluginCommand::Trust { what, settings } => manage::trust(&what, &settings, terminal).await.map(|()| true),
        PluginCommand::New { name, folder, sdk } => workshop::new(&name, &folder, sdk, terminal).map(|()| true),
        PluginCommand::Build { folder } => workshop::build(&folder, terminal).map(|_| true),
        PluginCommand::Install { what, scope, settings } => {
            manage::install(&what, scope.as_deref(), &settings, terminal).await
        }
        PluginCommand::Remove { name, settings } => manage::remove(&name, &settings, terminal).await.map(|()| true),
        PluginCommand::Enable { name, settings } => manage::enable(&name, true, &settings, terminal).await,
        PluginCommand::Disable { name, settings } => manage::enable(&name, false, &settings, terminal).await,
        PluginCommand::Reload { name, settings } => manage::reload(&name, &settings, terminal).map(|()| true),
    }
}

/// Lists everything that can be mounted.
pub(crate) async fn list(harness: &Harness, json: bool, terminal: &Terminal) -> anyhow::Result<()> {
    let native = match harness.loader() {
        Some(loader) => loader.list().await,
        None => Vec::new(),
    };
    let admin = harness.context().get::<dyn PluginAdmin>();
    let (scripts, waiting, failures) = match &admin {
        Some(admin) => (admin.list()?, admin.trust_entries()?, admin.failures()?),
        None => Default::default(),
    };
    let is_loaded = |path: &str| scripts.iter().any(|it| it.path == path);
    let waiting: Vec<_> = waiting.into_iter().filter(|it| !is_loaded(&it.path)).collect();
    if json {
        let all = serde_json::json!({
            "native": native, "scripts": scripts, "waiting": waiting, "failures": failures,
        });
        terminal.plain(&format!("{all:#}"));
        return Ok(());
    }
    for Listing { name, version, source, error, entries, .. } in &native {
        let from = match source {
            ListingSource::BuiltIn(krate) => krate.clone(),
            ListingSource::Library(file) => file.display().to_string(),
            _ => String::new(),
        };
        terminal.plain(&format!("{name} {version}  {from}"));
        for (entry, state) in entries {
            terminal.explain(&format!("    runs as `{entry}`: {state}"));
        }
        if let Some(error) = error {
            terminal.warn(&format!("    {error}"));
        }
    }
    for it in &scripts {
        let state = if it.enabled { "enabled" } else { "disabled" };
        terminal.plain(&format!("{} {}  script plugin at {}, {state}", it.name, it.version, it.path));
    }
    for it in &waiting {
        let state = if it.decision == "deny" { "denied by you" } else { "waits for your trust" };
        terminal.plain(&format!("{} {}  script plugin at {}, {state}", it.name, it.version, it.path));
    }
    for it in &failures {
        terminal.warn(&format!("{}: {}", it.path, it.reason));
    }
    Ok(())
}

/// Says everything that is wrong with a library, or with a folder of scripts. Nothing of it is run.
async fn check(path: &Path, terminal: &Terminal) -> anyhow::Result<bool> {
    if !path.is_dir() {
        let file = LibraryFile::read(path)?;
        file.check()?;
        terminal.say(&format!("{} can be loaded; its plugins: {}", path.display(), file.plugins.join(", ")));
        return Ok(true);
    }
    if !path.join("plugin.json").is_file() {
        bail!("{} has no `plugin.json`; name a folder of scripts, or a library", path.display());
    }
    let folder = path.canonicalize().with_context(|| format!("no folder at {}", path.display()))?;
    let settings = crate::cli::loaded::SettingsArguments::default();
    let harness = Harness::builder().config(settings.load()?).build().await?;
    let admin = harness.context().require::<dyn PluginAdmin>()?;
    let found = admin.check(&folder.to_string_lossy()).await;
    harness.shutdown().await.context("the harness did not end quietly")?;
    let found = found?;
    found.errors.iter().for_each(|it| terminal.warn(&format!("✗ {it}")));
    found.warnings.iter().for_each(|it| terminal.plain(&format!("· {it}")));
    if found.errors.is_empty() {
        let name = found.name.unwrap_or_default();
        terminal.say(&format!("✓ `{name}` can be loaded; it asks for: {}", found.capabilities.join(", ")));
    }
    Ok(found.errors.is_empty())
}
