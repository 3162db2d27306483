//! Installing a plugin: from a folder, an archive, or a release.
//!
//! It is put together beside its place, looked at there, and moved into its place in one step; what the user decided by
//! installing it is noted last. Whatever fails on the way leaves everything as it was.

mod github;
mod source;

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_services::plugin_admin::{PluginAdminError, PluginInstalled, PluginScope};
use tempfile::TempDir;

use crate::admin::Admin;
use crate::discovery::Ground;
use crate::manifest::{Manifest, Rejection, read};
use crate::system::{
    CopyProblem, absolute, blocking, children, copy_plugin, digest, exists, is_folder, make_executable, open_file,
    real_path, remove_folder, rename_into, staging, unpack,
};
use crate::trust::NotKept;

pub(crate) use github::network;
use source::{Source, parse_github};

/// Why a plugin was not installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("plugin source is empty")]
    Empty,
    #[error("\"{}\" is not a directory", .0.display())]
    NoFolder(PathBuf),
    #[error("no plugin.json found in \"{}\"", .0.display())]
    NoManifest(PathBuf),
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("plugin '{0}' is already installed; remove it first or use a different name")]
    Installed(String),
    #[error(
        "\"{}\" is in its place already, and cannot be installed over itself; trust it with the plugin trust prompt \
         (/plugin-trust)",
        .0.display()
    )]
    InPlace(PathBuf),
    #[error("{what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Copy(#[from] CopyProblem),
    #[error("the copy of plugin '{name}' is not what was copied: {source}")]
    CopyRejected { name: String, source: Rejection },
    #[error("{0}")]
    Release(String),
    #[error(transparent)]
    NotKept(#[from] NotKept),
}

impl InstallError {
    fn code(&self) -> &'static str {
        match self {
            Self::Empty => "PLUGIN_SOURCE_EMPTY",
            Self::NoFolder(_) => "PLUGIN_SOURCE_NO_FOLDER",
            Self::NoManifest(_) => "PLUGIN_SOURCE_NO_MANIFEST",
            Self::Rejected(_) => "PLUGIN_REJECTED",
            Self::Installed(_) => "PLUGIN_INSTALLED",
            Self::InPlace(_) => "PLUGIN_IN_PLACE",
            Self::Io { .. } => "PLUGIN_INSTALL_IO",
            Self::Copy(_) => "PLUGIN_COPY",
            Self::CopyRejected { .. } => "PLUGIN_COPY_REJECTED",
            Self::Release(_) => "PLUGIN_RELEASE",
            Self::NotKept(_) => "PLUGIN_STORE",
        }
    }
}

impl From<InstallError> for PluginAdminError {
    fn from(error: InstallError) -> Self {
        Self::Install { code: error.code(), message: error.to_string() }
    }
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError::Io { what, path, source }
}

/// Installs a plugin and has it run.
pub(crate) async fn install(
    admin: &Arc<Admin>,
    source: &str,
    scope: PluginScope,
) -> Result<PluginInstalled, PluginAdminError> {
    let source = source.trim();
    if source.is_empty() {
        return Err(InstallError::Empty.into());
    }
    let root = admin.root(scope)?;
    let path = absolute(Path::new(source));
    let is_plugin = is_folder(&path) && exists(&path.join("plugin.json"));
    let is_archive = !is_folder(&path) && exists(&path);
    let release = if is_plugin || is_archive { None } else { parse_github(source) };
    // What is unpacked goes with this, however this ends.
    let mut unpacked: Option<TempDir> = None;
    let mut note = None;
    let folder = if let Some(release) = release {
        let (archive, fetched) =
            github::release(admin.network(), &admin.setting().config.github_api, admin, &release).await?;
        let into = unpack_beside(&root, move |into| unpack(Cursor::new(archive), into)).await?;
        let folder = plugin_in(into.path(), release.subdir.as_deref())?;
        make_executable(&folder).map_err(InstallError::from)?;
        note = Some(fetched);
        unpacked = Some(into);
        folder
    } else if is_archive {
        let archive = open_file(&path).map_err(io("cannot open", &path))?;
        let into = unpack_beside(&root, move |into| unpack(archive, into)).await?;
        let folder = plugin_in(into.path(), None)?;
        unpacked = Some(into);
        folder
    } else if is_plugin {
        path
    } else if is_folder(&path) {
        return Err(InstallError::NoManifest(path).into());
    } else {
        return Err(InstallError::NoFolder(path).into());
    };
    let (place, manifest) = {
        let (setting, root) = (admin.setting().clone(), root.clone());
        let names: Vec<String> = admin.view().plugins.iter().map(|it| it.name.clone()).collect();
        let is_unpacked = unpacked.is_some();
        let staged = blocking(move || stage(&folder, &root, &names, is_unpacked, note)).await?;
        let store = admin.store().ok();
        let admin = admin.clone();
        // From here on it is done to its end, whoever waits.
        admin
            .to_the_end(move |admin| async move {
                let is_gated = Ground::of(&setting).scope_of(&staged.real_root) == PluginScope::Workspace;
                let store = store.filter(|_| is_gated);
                let moved = blocking(move || staged.put(store.as_ref())).await;
                let (place, manifest, aside) = moved.map_err(PluginAdminError::from)?;
                admin.tell_set_aside(aside);
                admin.look_again().await?;
                Ok((place, manifest))
            })
            .await?
    };
    drop(unpacked);
    let mut hooks: Vec<String> = manifest.hooks.keys().map(|it| it.as_str().to_owned()).collect();
    hooks.sort();
    Ok(PluginInstalled {
        name: manifest.name,
        version: manifest.version,
        description: manifest.description,
        hooks,
        scope,
        path: real_path(&place).unwrap_or(place).display().to_string(),
    })
}

async fn unpack_beside(
    root: &Path,
    unpack: impl FnOnce(&Path) -> Result<(), CopyProblem> + Send + 'static,
) -> Result<TempDir, InstallError> {
    let root = root.to_owned();
    blocking(move || {
        let into = staging(&root).map_err(io("cannot make a folder in", &root))?;
        unpack(into.path())?;
        Ok(into)
    })
    .await
}

/// The folder of the plugin in what was unpacked.
fn plugin_in(unpacked: &Path, subdir: Option<&str>) -> Result<PathBuf, InstallError> {
    let release = |what: String| Err(InstallError::Release(what));
    let is_plugin = |it: &Path| exists(&it.join("plugin.json"));
    let tops = children(unpacked);
    let root = match &tops[..] {
        [] if !is_plugin(unpacked) => return release("release zip is empty".to_owned()),
        [one] if !is_plugin(unpacked) => one.clone(),
        _ => unpacked.to_owned(),
    };
    if let Some(subdir) = subdir {
        if subdir.split(['/', '\\']).any(|it| it == "..") {
            return release(format!("plugin subdir '{subdir}' must not contain '..'"));
        }
        let folder = root.join(subdir.trim_start_matches('/'));
        if !is_plugin(&folder) {
            let looked = folder.display();
            return release(format!("no plugin.json at subdir '{subdir}' inside the release (looked in {looked})"));
        }
        return Ok(folder);
    }
    if is_plugin(&root) {
        return Ok(root);
    }
    let plugins: Vec<PathBuf> = children(&root).into_iter().filter(|it| is_plugin(it)).collect();
    match &plugins[..] {
        [one] => Ok(one.clone()),
        [] => {
            let root = root.display();
            release(format!(
                "no plugin.json found in the release root {root}; pass owner/repo@tag:subdir for monorepos"
            ))
        }
        several => {
            let n = several.len();
            release(format!("found {n} plugin.json directories in the release; pass owner/repo@tag:subdir to pick one"))
        }
    }
}

/// A plugin that is put together beside its place.
struct Staged {
    beside: TempDir,
    real_root: PathBuf,
    place: PathBuf,
    manifest: Manifest,
}

/// The name of the plugin in the folder beside its place.
const NEW: &str = "new";

/// The name of what was in its place, there.
const OLD: &str = "old";

/// Puts a plugin together beside its place, and looks at it there. Nothing else is touched.
fn stage(
    folder: &Path,
    root: &Path,
    installed: &[String],
    is_unpacked: bool,
    note: Option<String>,
) -> Result<Staged, InstallError> {
    let folder = real_path(folder).map_err(io("cannot look at", folder))?;
    let manifest = read(&folder).verdict()?;
    if installed.contains(&manifest.name) {
        return Err(InstallError::Installed(manifest.name));
    }
    let beside = staging(root).map_err(io("cannot make a folder in", root))?;
    let real_root = real_path(root).map_err(io("cannot look at", root))?;
    let place = real_root.join(&manifest.name);
    let real_place = real_path(&place).unwrap_or_else(|_| place.clone());
    let overlaps = folder.starts_with(&real_place) || real_place.starts_with(&folder) || folder.starts_with(&place);
    if overlaps && !is_unpacked {
        return Err(InstallError::InPlace(folder));
    }
    let new = beside.path().join(NEW);
    copy_plugin(&folder, &new, &manifest.named_files)?;
    if let Some(note) = note {
        source::write_note(&new, &note).map_err(io("cannot write into", &new))?;
    }
    let copied = real_path(&new).map_err(io("cannot look at", &new))?;
    let name = manifest.name.clone();
    let manifest = read(&copied).verdict().map_err(|source| InstallError::CopyRejected { name, source })?;
    Ok(Staged { beside, real_root, place, manifest })
}

impl Staged {
    /// Moves it into its place, and notes that the user wants it there, if that has to be noted. Gives its place.
    fn put(self, store: Option<&crate::trust::Store>) -> Result<(PathBuf, Manifest, Option<PathBuf>), InstallError> {
        let Self { beside, place, manifest, .. } = self;
        let (new, old) = (beside.path().join(NEW), beside.path().join(OLD));
        // What is there is no plugin that runs; it goes with the folder beside when all is well.
        let had_other = match rename_into(&place, &old) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(io("cannot move", &place)(error)),
        };
        let restore = |failed: InstallError| {
            if had_other && let Err(why) = rename_into(&old, &place) {
                return InstallError::Io { what: "cannot put back", path: place.clone(), source: why };
            }
            failed
        };
        if let Err(error) = rename_into(&new, &place) {
            return Err(restore(io("cannot make", &place)(error)));
        }
        let noted = match store {
            None => Ok(None),
            Some(store) => {
                digest(&place).map_err(io("cannot read", &place)).and_then(|digest| Ok(store.install(&place, &digest)?))
            }
        };
        match noted {
            Ok(aside) => {
                if had_other {
                    // A link is removed here: the folder beside would go through it.
                    remove_folder(&old).map_err(io("cannot remove", &old))?;
                }
                Ok((place, manifest, aside))
            }
            Err(failed) => {
                if let Err(why) = remove_folder(&place) {
                    return Err(io("cannot take back", &place)(why));
                }
                Err(restore(failed))
            }
        }
    }
}
