//! Plugins of the user: installed, removed, enabled and disabled, and looked at again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use linn::Harness;
use linn::bus::Svc;
use linn::config::{Config, Entry, EntryChange, Layer, UserFile};
use linn::loader::{LibraryFile, TrustStore};
use linn::services::plugin_admin::{PluginAdmin, PluginTrust};

use crate::cli::loaded::SettingsArguments;
use crate::cli::plugins::workshop;
use crate::cli::sessions;
use crate::cli::terminal::Terminal;

/// Installs what is named, by what it is. Whether it runs.
pub(crate) async fn install(
    what: &str,
    scope: Option<&str>,
    settings: &SettingsArguments,
    terminal: &Terminal,
) -> anyhow::Result<bool> {
    let path = Path::new(what);
    if path.is_file() && path.extension().is_some_and(|it| it == std::env::consts::DLL_EXTENSION) {
        return install_library(path, settings, terminal);
    }
    if path.join("Cargo.toml").is_file() && !path.join("plugin.json").is_file() {
        let built = workshop::build(path, terminal)?;
        return install_library(&built.library, settings, terminal);
    }
    // A folder is named from where the user is, whatever the workspace is.
    let source = path.canonicalize().ok().and_then(|it| it.to_str().map(str::to_owned));
    let source = source.unwrap_or_else(|| what.to_owned());
    let done = with_scripts(settings, async |admin| Ok(admin.install(&source, scope).await?)).await?;
    terminal.say(&format!("installed {}", done.name));
    Ok(true)
}

fn install_library(library: &Path, settings: &SettingsArguments, terminal: &Terminal) -> anyhow::Result<bool> {
    let file = LibraryFile::read(library)?;
    file.check()?;
    let config = settings.load()?;
    let folder = folder(&config)?;
    let name = library.file_name().context("the library has no name")?;
    let place = folder.join(name);
    for plugin in &file.plugins {
        if config.tree().entries().iter().any(|it| it.plugin.as_ref() == Some(plugin) && is_built_in(it)) {
            bail!("the program has a plugin `{plugin}` of its own; give this one another name");
        }
        let other = libraries_in(&folder).find(|it| it.path != place && it.plugins.contains(plugin));
        if let Some(other) = other {
            bail!("{} has a plugin `{plugin}` too; remove that one first", other.path.display());
        }
    }
    let is_new = !place.exists();
    put(&fs::read(library).with_context(|| format!("cannot read {}", library.display()))?, &place)?;
    terminal.say(&format!("{} {}", if is_new { "installed" } else { "replaced" }, place.display()));
    let user_file = UserFile::new(config.sources())?;
    for plugin in &file.plugins {
        let mut entries = config.tree().entries().iter().filter(|it| it.plugin.as_ref() == Some(plugin)).peekable();
        if entries.peek().is_none() {
            if config.tree().get(plugin).is_some() {
                bail!("there is an entry `{plugin}` of another plugin; add one with another id to your linn.toml");
            }
            user_file.change_entry(plugin, &EntryChange { plugin: Some(plugin.clone()), ..EntryChange::default() })?;
            terminal.explain(&format!("entry `{plugin}` is in {} now", user_file.path().display()));
        }
    }
    let config = settings.load()?;
    let mut runs = true;
    for entry in config.tree().entries() {
        if entry.plugin.as_ref().is_some_and(|it| file.plugins.contains(it)) {
            runs &= tell_state(entry, true, terminal);
        }
    }
    Ok(runs)
}

/// Takes away a library with the entries of its plugins, or scripts.
pub(crate) async fn remove(name: &str, settings: &SettingsArguments, terminal: &Terminal) -> anyhow::Result<()> {
    let config = settings.load()?;
    let library = libraries_in(&folder(&config)?).find(|it| it.plugins.iter().any(|it| it == name));
    let plugins = library.as_ref().map_or_else(|| vec![name.to_owned()], |it| it.plugins.clone());
    let entries: Vec<_> =
        config.tree().entries().iter().filter(|it| it.id == name || of_any(it, &plugins)).cloned().collect();
    if entries.iter().any(is_built_in) {
        bail!("`{name}` is part of the program; `linn plugin disable {name}` has it not run");
    }
    if library.is_none() && entries.is_empty() {
        with_scripts(settings, async |admin| {
            known(&admin, name)?;
            Ok(admin.remove(name).await?)
        })
        .await?;
        terminal.say(&format!("removed {name}"));
        return Ok(());
    }
    let user_file = UserFile::new(config.sources())?;
    for entry in entries {
        if !user_file.remove_entry(&entry.id)? {
            terminal.warn(&format!("entry `{}` stays: it is from {}", entry.id, entry.inserted_by));
        } else {
            terminal.say(&format!("removed entry `{}` from {}", entry.id, user_file.path().display()));
        }
    }
    if let Some(library) = library {
        fs::remove_file(&library.path).with_context(|| format!("cannot remove {}", library.path.display()))?;
        terminal.say(&format!("removed {}", library.path.display()));
    }
    Ok(())
}

/// Trusts what a workspace brings as it is now: a library, or scripts by their name or folder.
pub(crate) async fn trust(what: &Path, settings: &SettingsArguments, terminal: &Terminal) -> anyhow::Result<()> {
    if what.is_file() {
        let digest = TrustStore::new(linn::trust_file(&sessions::home()?)).trust(what)?;
        terminal.say(&format!("{} is trusted with exactly this content: {digest}", what.display()));
        return Ok(());
    }
    let folder = what.canonicalize().ok();
    with_scripts(settings, async |admin| {
        let is_it = |it: &PluginTrust| Path::new(&it.name) == what || folder.as_deref() == Some(Path::new(&it.path));
        let Some(found) = admin.trust_entries()?.into_iter().find(is_it) else {
            bail!(
                "nothing of the workspace is called `{}`, and no library is there; `linn plugin list` shows what there is",
                what.display()
            );
        };
        admin.decide([(found.path.clone(), "trust".to_owned())].into()).await?;
        terminal.say(&format!("{} is trusted with exactly what it holds now", found.path));
        let failures = admin.failures()?;
        match failures.iter().find(|it| it.path == found.path) {
            Some(failure) => bail!("but it cannot be loaded: {}", failure.reason),
            None => Ok(()),
        }
    })
    .await
}

/// Has a plugin run or not. Whether it is so.
pub(crate) async fn enable(
    name: &str,
    is_enabled: bool,
    settings: &SettingsArguments,
    terminal: &Terminal,
) -> anyhow::Result<bool> {
    let config = settings.load()?;
    let ids = ids_of(&config, name);
    let user_file = UserFile::new(config.sources())?;
    if ids.is_empty() && libraries_in(&folder(&config)?).any(|it| it.plugins.iter().any(|it| it == name)) {
        if !is_enabled {
            terminal.explain(&format!("no entry runs `{name}`"));
            return Ok(true);
        }
        user_file.change_entry(name, &EntryChange { plugin: Some(name.to_owned()), ..EntryChange::default() })?;
        terminal.explain(&format!("entry `{name}` is in {} now", user_file.path().display()));
    } else if ids.is_empty() {
        with_scripts(settings, async |admin| {
            known(&admin, name)?;
            let done = if is_enabled { admin.enable(name).await } else { admin.disable(name).await };
            Ok(done?)
        })
        .await?;
        terminal.say(&format!("{name} is {}", if is_enabled { "enabled" } else { "disabled" }));
        return Ok(true);
    }
    for id in &ids {
        if let Some(entry) = config.tree().get(id)
            && entry.inserted_by.layer == Layer::Workspace
        {
            bail!("entry `{id}` is from {}; change it there", entry.inserted_by);
        }
        user_file.change_entry(id, &EntryChange { disabled: Some(!is_enabled), ..EntryChange::default() })?;
    }
    let config = settings.load()?;
    let entries = ids_of(&config, name);
    let mut is_so = true;
    for entry in entries.iter().filter_map(|id| config.tree().get(id)) {
        is_so &= tell_state(entry, is_enabled, terminal);
    }
    Ok(is_so)
}

/// Touches the library of a plugin, which sessions that run see.
pub(crate) fn reload(name: &str, settings: &SettingsArguments, terminal: &Terminal) -> anyhow::Result<()> {
    let config = settings.load()?;
    if config.tree().entries().iter().any(|it| it.id == name && is_built_in(it)) {
        bail!("`{name}` is part of the program, which is loaded as a whole; start the program again");
    }
    let plugins: Vec<_> = match config.tree().get(name) {
        Some(Entry { plugin: Some(plugin), .. }) => vec![plugin.clone()],
        _ => vec![name.to_owned()],
    };
    let of_workspace = config.workspace().join(".linn/plugins");
    let mut libraries = libraries_in(&folder(&config)?).chain(libraries_in(&of_workspace));
    let Some(file) = libraries.find(|it| it.plugins.iter().any(|it| plugins.contains(it))) else {
        bail!(
            "no library has a plugin `{name}`; `linn plugin list` shows what there is. Scripts are read again by \
             `/plugins reload` in a session, and by every new one"
        );
    };
    file.check()?;
    touch(&file.path).with_context(|| format!("cannot touch {}", file.path.display()))?;
    terminal.say(&format!("{} is as it should be", file.path.display()));
    terminal.explain(
        "sessions that run look at it now: those that run another version of it switch with the next call, and those \
         that could not load it try again",
    );
    Ok(())
}

/// Says how an entry stands, and why if not as was asked for. Whether it stands so.
fn tell_state(entry: &Entry, is_wanted: bool, terminal: &Terminal) -> bool {
    let word = |it| if it { "enabled" } else { "disabled" };
    let id = &entry.id;
    terminal.say(&format!("entry `{id}` is {}", word(entry.is_enabled)));
    if entry.is_enabled != is_wanted {
        match (&entry.disabled_by, entry.is_disabled != is_wanted) {
            (_, true) => terminal.warn(&format!("a group around `{id}` is {}", word(entry.is_enabled))),
            (Some(by), _) => terminal.warn(&format!("{by} says so")),
            (None, _) => terminal.warn(&format!("{} says so", entry.inserted_by)),
        }
    }
    entry.is_enabled == is_wanted
}

fn is_built_in(entry: &Entry) -> bool {
    entry.inserted_by.layer == Layer::BuiltIn
}

fn of_any(entry: &Entry, plugins: &[String]) -> bool {
    entry.plugin.as_ref().is_some_and(|it| plugins.contains(it))
}

/// The entry of an id, or else all that run the plugin of that name.
fn ids_of(config: &Config, name: &str) -> Vec<String> {
    let tree = config.tree();
    match tree.get(name) {
        Some(entry) => vec![entry.id.clone()],
        None => tree.entries().iter().filter(|it| it.plugin.as_deref() == Some(name)).map(|it| it.id.clone()).collect(),
    }
}

/// Where the user's libraries are.
fn folder(config: &Config) -> anyhow::Result<PathBuf> {
    let home = config.sources().home.as_deref().context("there is no home folder")?;
    Ok(home.join(".config/linn/plugins"))
}

/// The libraries in a folder that can be read, by name; none if it is not there.
fn libraries_in(folder: &Path) -> impl Iterator<Item = LibraryFile> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|it| it.path()).collect();
    files.retain(|it| it.extension().is_some_and(|it| it == std::env::consts::DLL_EXTENSION));
    files.sort();
    files.into_iter().filter_map(|it| LibraryFile::read(&it).ok())
}

/// Replaces a file as a whole; whoever looks sees the old content or the new.
fn put(bytes: &[u8], place: &Path) -> anyhow::Result<()> {
    let folder = place.parent().context("a library has a folder")?;
    let written = || {
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(place)?;
        Ok::<(), std::io::Error>(())
    };
    written().with_context(|| format!("cannot write {}", place.display()))
}

#[expect(clippy::disallowed_methods, reason = "the time of a file is that of the machine")]
fn touch(path: &Path) -> std::io::Result<()> {
    fs::File::options().append(true).open(path)?.set_modified(std::time::SystemTime::now())
}

/// Does something with the scripts of the user and the workspace.
async fn with_scripts<T>(
    settings: &SettingsArguments,
    work: impl AsyncFnOnce(Svc<dyn PluginAdmin>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let harness = Harness::builder().config(settings.load()?).build().await?;
    let admin = harness.context().require::<dyn PluginAdmin>();
    let done = match admin {
        Ok(admin) => work(admin).await,
        Err(error) => Err(error.into()),
    };
    harness.shutdown().await.context("the harness did not end quietly")?;
    done
}

/// That there are scripts of this name.
fn known(admin: &Svc<dyn PluginAdmin>, name: &str) -> anyhow::Result<()> {
    match admin.list()?.iter().any(|it| it.name == name) {
        true => Ok(()),
        false => bail!("there is no plugin `{name}`; `linn plugin list` shows what there is"),
    }
}
