//! What the user decided about plugins: kept with the user, never in a repository, and bound to what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::system::{Digest, Kept, KeptFile};

/// What is decided about a plugin of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Trust,
    Deny,
}

impl Decision {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Deny => "deny",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "trust" => Some(Self::Trust),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// The file of decisions: by workspace, then by folder, both free of links.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct TrustFile {
    projects: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    installed: BTreeMap<String, BTreeSet<String>>,
    /// What the folders held when they were trusted or installed.
    #[serde(default)]
    digests: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

// By hand, so that what is missing in the file stays an error.
impl Default for TrustFile {
    fn default() -> Self {
        Self { projects: BTreeMap::new(), installed: BTreeMap::new(), digests: BTreeMap::new(), others: Map::new() }
    }
}

/// Which plugins run, where that was changed by hand.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct StateFile {
    #[serde(default)]
    enabled: BTreeMap<String, bool>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// What the user decided, as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    trust: TrustFile,
    enabled: BTreeMap<String, bool>,
    workspace: String,
    /// Files that could not be read, and why. What they would have said is taken as not said.
    pub(crate) corrupt: Vec<(PathBuf, String)>,
}

/// Where decisions are kept.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    trust: KeptFile,
    state: KeptFile,
    workspace: String,
}

/// A change was not kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep what was decided about plugins in {}: {source}", path.display())]
pub(crate) struct NotKept {
    path: PathBuf,
    source: std::io::Error,
}

fn key(path: &Path) -> String {
    path.display().to_string()
}

impl Store {
    /// In a folder of the user; `workspace` is free of links.
    pub(crate) fn new(folder: &Path, workspace: Option<&Path>) -> Self {
        Self {
            trust: KeptFile { path: folder.join("plugin-trust.json") },
            state: KeptFile { path: folder.join("plugin-state.json") },
            workspace: workspace.map(key).unwrap_or_default(),
        }
    }

    /// Reads everything.
    pub(crate) fn read(&self) -> Book {
        let mut book = Book { workspace: self.workspace.clone(), ..Book::default() };
        match self.trust.read() {
            Kept::Value(trust) => book.trust = trust,
            Kept::Nothing => {}
            Kept::Corrupt(why) => book.corrupt.push((self.trust.path.clone(), why)),
        }
        match self.state.read::<StateFile>() {
            Kept::Value(state) => book.enabled = state.enabled,
            Kept::Nothing => {}
            Kept::Corrupt(why) => book.corrupt.push((self.state.path.clone(), why)),
        }
        book
    }

    fn change_trust(&self, change: impl FnOnce(&mut TrustFile)) -> Result<Option<PathBuf>, NotKept> {
        self.trust.change(change).map_err(|source| NotKept { path: self.trust.path.clone(), source })
    }

    /// Decides about folders with what they hold. Gives where a file that could not be read was put.
    pub(crate) fn decide(&self, decisions: &[(PathBuf, Digest, Decision)]) -> Result<Option<PathBuf>, NotKept> {
        self.change_trust(|file| {
            for (folder, digest, decision) in decisions {
                let of_project = file.projects.entry(self.workspace.clone()).or_default();
                of_project.insert(key(folder), decision.as_str().to_owned());
                let digests = file.digests.entry(self.workspace.clone()).or_default();
                digests.insert(key(folder), digest.to_string());
                if *decision == Decision::Deny
                    && let Some(installed) = file.installed.get_mut(&self.workspace)
                {
                    // Whoever denies it does not want it because it was installed once.
                    installed.remove(&key(folder));
                }
            }
        })
    }

    /// Notes that the user installed a plugin in the workspace.
    pub(crate) fn install(&self, folder: &Path, digest: &Digest) -> Result<Option<PathBuf>, NotKept> {
        self.change_trust(|file| {
            file.installed.entry(self.workspace.clone()).or_default().insert(key(folder));
            file.digests.entry(self.workspace.clone()).or_default().insert(key(folder), digest.to_string());
            if let Some(of_project) = file.projects.get_mut(&self.workspace) {
                of_project.remove(&key(folder));
            }
        })
    }

    /// Forgets everything about a folder, and about the plugin of this name.
    pub(crate) fn forget(&self, folder: &Path, name: &str) -> Result<Option<PathBuf>, NotKept> {
        let (folder, workspace) = (key(folder), &self.workspace);
        let set_aside = self.change_trust(|file| {
            file.projects.get_mut(workspace).map(|it| it.remove(&folder));
            file.installed.get_mut(workspace).map(|it| it.remove(&folder));
            file.digests.get_mut(workspace).map(|it| it.remove(&folder));
        })?;
        let forget = |file: &mut StateFile| {
            file.enabled.remove(name);
        };
        let of_state = self.state.change(forget).map_err(|source| NotKept { path: self.state.path.clone(), source })?;
        Ok(set_aside.or(of_state))
    }

    /// Notes whether a plugin runs.
    pub(crate) fn enable(&self, name: &str, is_enabled: bool) -> Result<Option<PathBuf>, NotKept> {
        let change = |file: &mut StateFile| {
            file.enabled.insert(name.to_owned(), is_enabled);
        };
        self.state.change(change).map_err(|source| NotKept { path: self.state.path.clone(), source })
    }
}

impl Book {
    /// What was decided about a folder that holds this. Trust is gone with the first byte that changed; a refusal stays.
    pub(crate) fn decision(&self, folder: &Path, digest: &Digest) -> Option<Decision> {
        let said = self.trust.projects.get(&self.workspace)?.get(&key(folder))?;
        Decision::parse(said).filter(|it| *it == Decision::Deny || self.is_seen(folder, digest))
    }

    /// Whether the user installed it, as it is.
    pub(crate) fn is_installed(&self, folder: &Path, digest: &Digest) -> bool {
        let installed = self.trust.installed.get(&self.workspace);
        installed.is_some_and(|it| it.contains(&key(folder))) && self.is_seen(folder, digest)
    }

    fn is_seen(&self, folder: &Path, digest: &Digest) -> bool {
        let seen = self.trust.digests.get(&self.workspace).and_then(|it| it.get(&key(folder)));
        seen.is_some_and(|it| it == digest.as_str())
    }

    /// Whether a plugin runs, if that was changed by hand.
    pub(crate) fn enabled(&self, name: &str) -> Option<bool> {
        self.enabled.get(name).copied()
    }
}
