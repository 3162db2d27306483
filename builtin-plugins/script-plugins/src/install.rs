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

use crate::admin::Admin;
use crate::discovery::Ground;
use crate::manifest::{Manifest, Rejection, read};
use crate::system::{
    CopyProblem, Staging, absolute, blocking, children, copy_plugin, digest, exists, is_folder, make_executable,
    open_file, real_path, swap_into, take_back, unpack,
};
use crate::trust::{NotKept, Store};

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
    #[error("{} holds the plugin '{other}'; remove that first, or rename its folder", place.display())]
    Occupied { place: PathBuf, other: String },
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
    #[error(
        "{failed}; and what was in {} could not be put back there: {source}; everything of it is kept in {}",
        place.display(), kept.display()
    )]
    Stuck { failed: Box<InstallError>, place: PathBuf, source: std::io::Error, kept: PathBuf },
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
            Self::Occupied { .. } => "PLUGIN_PLACE_OCCUPIED",
            Self::Stuck { .. } => "PLUGIN_NOT_PUT_BACK",
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
    let mut unpacked: Option<Staging> = None;
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
        let view = admin.view();
        let installed = view.loaded.iter().map(|(it, _)| (it.manifest.name.clone(), it.found_at.clone()));
        let installed: Vec<Installed> = installed.collect();
        let is_unpacked = unpacked.is_some();
        let staged = blocking(move || stage(&folder, &root, &installed, is_unpacked, note)).await?;
        let store = admin.store().ok();
        let admin = admin.clone();
        // From here on it is done to its end, whoever waits.
        admin
            .to_the_end(move |admin| async move {
                let is_gated = Ground::of(&setting).scope_of(&staged.real_root) == PluginScope::Workspace;
                let store = store.filter(|_| is_gated);
                let put = blocking(move || staged.put(store.as_ref(), Staging::close)).await;
                let Put { place, manifest, set_aside, left } = put.map_err(PluginAdminError::from)?;
                admin.tell_set_aside(set_aside);
                if let Some(left) = left {
                    admin.tell_left(&manifest.name, &left);
                }
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
) -> Result<Staging, InstallError> {
    let root = root.to_owned();
    blocking(move || {
        let into = Staging::new(&root).map_err(io("cannot make a folder in", &root))?;
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
    beside: Staging,
    real_root: PathBuf,
    place: PathBuf,
    manifest: Manifest,
}

/// The name of the plugin in the folder beside its place.
const NEW: &str = "new";

/// The name of what was in its place, there.
const OLD: &str = "old";

/// A plugin that is there: its name and where it was found.
type Installed = (String, PathBuf);

/// Puts a plugin together beside its place, and looks at it there. Nothing else is touched.
fn stage(
    folder: &Path,
    root: &Path,
    installed: &[Installed],
    is_unpacked: bool,
    note: Option<String>,
) -> Result<Staged, InstallError> {
    let folder = real_path(folder).map_err(io("cannot look at", folder))?;
    let manifest = read(&folder).verdict()?;
    if installed.iter().any(|(name, _)| *name == manifest.name) {
        return Err(InstallError::Installed(manifest.name));
    }
    let beside = Staging::new(root).map_err(io("cannot make a folder in", root))?;
    let real_root = real_path(root).map_err(io("cannot look at", root))?;
    let place = real_root.join(&manifest.name);
    let is_there = |it: &&Installed| it.1 == place || real_path(&it.1).is_ok_and(|it| it == place);
    if let Some((other, _)) = installed.iter().find(is_there) {
        return Err(InstallError::Occupied { place, other: other.clone() });
    }
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

/// What came of putting a plugin in its place.
#[derive(Debug)]
struct Put {
    place: PathBuf,
    manifest: Manifest,
    /// A file of decisions that could not be read, where it is kept.
    set_aside: Option<PathBuf>,
    /// What could not be cleared away, in words.
    left: Option<String>,
}

impl Staged {
    /// Moves it into its place, and notes that the user wants it there, if that has to be noted. `tidy` removes what is
    /// left beside it.
    fn put(
        self,
        store: Option<&Store>,
        tidy: impl FnOnce(Staging) -> std::io::Result<()>,
    ) -> Result<Put, InstallError> {
        let Self { beside, place, manifest, .. } = self;
        let (new, aside) = (beside.path().join(NEW), beside.path().join(OLD));
        // What is there is no plugin that runs; it goes with the folder beside when all is well.
        let old = swap_into(&new, &place, &aside).map_err(io("cannot make", &place))?;
        let note = |store: &Store| {
            let digest = digest(&place).map_err(io("cannot read", &place))?;
            Ok::<_, InstallError>(store.install(&place, &digest)?)
        };
        let set_aside = match store.map(note).transpose() {
            Ok(set_aside) => set_aside.flatten(),
            Err(failed) => {
                return Err(match take_back(&new, &place, old.as_deref()) {
                    Ok(()) => failed,
                    Err(source) => InstallError::Stuck { failed: Box::new(failed), place, source, kept: beside.keep() },
                });
            }
        };
        let path = beside.path().to_owned();
        // It is installed, whatever becomes of what it took the place of.
        let left = tidy(beside).err().map(|why| {
            let path = path.display();
            format!("it is installed, but {path} could not be removed: {why}; the next install removes it")
        });
        Ok(Put { place, manifest, set_aside, left })
    }
}

#[cfg(test)]
mod tests;
