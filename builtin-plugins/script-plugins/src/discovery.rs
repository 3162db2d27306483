//! Which plugins there are, and which of them may run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linn_services::plugin_admin::{PluginFailure, PluginScope, PluginTrust};

use crate::config::Setting;
use crate::manifest::{Manifest, Reading, name_of, read};
use crate::system::{Digest, Snapshot, children, digest, exists, is_staging, real_path};
use crate::trust::{Book, Decision};

/// A plugin that may run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loaded {
    pub(crate) manifest: Manifest,
    /// Its folder, free of links.
    pub(crate) folder: PathBuf,
    /// Where it was found; a link, if it is one.
    pub(crate) found_at: PathBuf,
    /// What it has to hold, if it was trusted as it is.
    pub(crate) sealed: Option<Digest>,
    /// What was decided about it, if it could be.
    pub(crate) decision: Option<Decision>,
    /// Where its folder lies.
    pub(crate) scope: PluginScope,
    pub(crate) snapshot: Option<Snapshot>,
}

/// A plugin of a repository that may not run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Skipped {
    pub(crate) trust: PluginTrust,
    pub(crate) folder: PathBuf,
    pub(crate) digest: Digest,
}

/// What a look at the folders found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scan {
    pub(crate) loaded: BTreeMap<String, Loaded>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) failures: Vec<PluginFailure>,
    /// For the log.
    pub(crate) warnings: Vec<String>,
}

/// Looks at all folders: those of the user, then those of the workspace, which take the place of others of their name.
pub(crate) fn scan(setting: &Setting, book: &Book) -> Scan {
    let mut scan = Scan::default();
    for (path, why) in &book.corrupt {
        scan.failures.push(PluginFailure {
            path: path.display().to_string(),
            reason: format!("it cannot be read, so nothing it said holds: {why}"),
        });
    }
    let roots = setting.global_root().map(|it| (it, Gate::Open)).into_iter();
    let of_workspace = setting.workspace_root().filter(|it| Some(it) != setting.global_root().as_ref());
    let roots = roots.chain(of_workspace.map(|it| {
        let is_inside = setting.workspace().is_some_and(|workspace| it.starts_with(workspace));
        (it, if is_inside { Gate::Closed } else { Gate::Open })
    }));
    let look = Look { setting, book, ground: Ground::of(setting) };
    for (root, gate) in roots {
        look_at_root(&mut scan, &look, &root, gate);
    }
    scan
}

/// Whether what lies in a root needs to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

/// What a look at the folders goes by.
struct Look<'a> {
    setting: &'a Setting,
    book: &'a Book,
    ground: Ground,
}

fn look_at_root(scan: &mut Scan, look: &Look<'_>, root: &Path, gate: Gate) {
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    for found_at in children(root) {
        // What is being installed is no plugin yet.
        if is_staging(&found_at) || !exists(&found_at.join("plugin.json")) {
            continue;
        }
        let failed = |reason: String| PluginFailure { path: found_at.display().to_string(), reason };
        let folder = match real_path(&found_at) {
            Ok(folder) => folder,
            Err(why) => {
                scan.failures.push(failed(why.to_string()));
                continue;
            }
        };
        let verdict = match gate {
            Gate::Open => Ok(Passed { sealed: None, decision: None }),
            Gate::Closed => pass(look, &folder),
        };
        let passed = match verdict {
            Ok(passed) => passed,
            Err(Stopped::Unreadable(why)) => {
                scan.failures.push(failed(why));
                continue;
            }
            Err(Stopped::Gated(digest, decision)) => {
                let skipped = skipped(&read(&folder), &folder, digest, decision);
                scan.warnings.push(format!(
                    "skipping project-scoped plugin '{0}' (in \"{1}\"); trust it with the plugin trust prompt \
                     (/plugin-trust) or `linn plugin trust {0}`, set --trust-project-plugins / \
                     CATALYST_CODE_TRUST_PROJECT_PLUGINS=1, or install it from elsewhere",
                    skipped.trust.name, skipped.trust.path
                ));
                scan.skipped.push(skipped);
                continue;
            }
        };
        let reading = read(&folder);
        scan.warnings.extend(reading.warnings.iter().cloned());
        match reading.verdict() {
            Err(why) => {
                let name = found_at.file_name().unwrap_or_default().to_string_lossy();
                scan.warnings.push(format!("failed to load plugin in \"{name}\": {why}"));
                scan.failures.push(failed(why.to_string()));
            }
            Ok(manifest) => {
                if let Some(other) = names.get(&manifest.name) {
                    let (name, other) = (&manifest.name, other.display());
                    scan.failures.push(failed(format!("plugin '{name}' is in {other} already")));
                    continue;
                }
                names.insert(manifest.name.clone(), found_at.clone());
                let scope = look.ground.scope_of(&folder);
                let snapshot = Snapshot::of(&folder).ok();
                let Passed { sealed, decision } = passed;
                let name = manifest.name.clone();
                scan.loaded.insert(name, Loaded { manifest, folder, found_at, sealed, decision, scope, snapshot });
            }
        }
    }
}

/// On what ground a plugin of a repository may run.
struct Passed {
    sealed: Option<Digest>,
    decision: Option<Decision>,
}

/// Why it may not.
enum Stopped {
    Gated(Digest, Option<Decision>),
    Unreadable(String),
}

fn pass(look: &Look<'_>, folder: &Path) -> Result<Passed, Stopped> {
    let digest = digest(folder).map_err(|why| Stopped::Unreadable(format!("its files cannot be read: {why}")))?;
    let decision = look.book.decision(folder, &digest);
    if look.setting.trusts_project() {
        return Ok(Passed { sealed: None, decision });
    }
    // A link out of the workspace has nothing of what was decided about its target.
    let is_inside = look.ground.scope_of(folder) == PluginScope::Workspace;
    let is_installed = is_inside && look.book.is_installed(folder, &digest);
    if is_installed || decision == Some(Decision::Trust) {
        return Ok(Passed { sealed: Some(digest), decision });
    }
    Err(Stopped::Gated(digest, decision))
}

/// What decides where a folder lies, free of links.
pub(crate) struct Ground {
    workspace: Option<PathBuf>,
    /// What the user keeps for all projects stays that, wherever the project begins.
    global: Option<PathBuf>,
}

impl Ground {
    pub(crate) fn of(setting: &Setting) -> Self {
        let workspace = setting.workspace().and_then(|it| real_path(it).ok());
        let global = setting.global_root().and_then(|it| real_path(&it).ok());
        Self { workspace, global }
    }

    /// Where a folder lies, which is free of links too.
    pub(crate) fn scope_of(&self, folder: &Path) -> PluginScope {
        let is_in = |it: &Option<PathBuf>| it.as_ref().is_some_and(|it| folder.starts_with(it));
        if is_in(&self.workspace) && !is_in(&self.global) { PluginScope::Workspace } else { PluginScope::Global }
    }
}

fn skipped(reading: &Reading, folder: &Path, digest: Digest, decision: Option<Decision>) -> Skipped {
    Skipped {
        trust: PluginTrust {
            name: name_of(folder, &reading.loose),
            version: reading.loose.version.clone(),
            description: reading.loose.description.clone(),
            path: folder.display().to_string(),
            decision: decision.map_or("", Decision::as_str).to_owned(),
        },
        folder: folder.to_owned(),
        digest,
    }
}
