//! Going through the files below a folder, without those that ignore files name.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::Override;
use linn_services::fs::FsError;

use crate::system::error::about;
use crate::system::tree::{Place, Tree, open_below, open_file};
use crate::system::workers::Stop;

/// How deep folders are gone through; each level holds a handle.
const MAX_DEPTH: usize = 128;

/// How many bytes of an ignore file are read.
const IGNORE_FILE_BYTES: u64 = 1024 * 1024;

/// What names files to leave out, within one folder; later ones win.
const IGNORE_FILES: &[&str] = &[".gitignore", ".ignore"];

/// A file on the way.
pub(super) struct Walked<'a> {
    pub(super) folder: &'a Dir,
    pub(super) name: &'a OsStr,
    /// From the root of the file system.
    pub(super) absolute: &'a Path,
}

/// One way through a tree.
pub(super) struct Walk<'a> {
    pub(super) stop: &'a Stop,
    /// What is wanted or not, whatever ignore files say.
    pub(super) overrides: &'a Override,
}

impl Walk<'_> {
    /// Visits the files below `place`, in the order of their paths. Folders that cannot be opened are left out.
    pub(super) fn run(
        &self,
        tree: &Tree,
        place: &Place,
        path: &str,
        visit: &mut dyn FnMut(&Walked<'_>) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let folder = tree.folder(place.relative()).map_err(|it| about(path, &it))?;
        let mut rules = rules_above(tree, place);
        // Whoever visits knows how it ended.
        let _ended = self.folder(&folder, place.absolute(), &mut rules, 0, visit);
        Ok(())
    }

    fn folder(
        &self,
        folder: &Dir,
        absolute: &Path,
        rules: &mut Vec<Gitignore>,
        depth: usize,
        visit: &mut dyn FnMut(&Walked<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let n_rules = rules.len();
        rules.extend(rules_in(folder, absolute, IGNORE_FILES));
        for (key, is_folder) in entries(folder) {
            if self.stop.is_set() {
                return ControlFlow::Break(());
            }
            let name = name_of(&key, is_folder);
            let absolute = absolute.join(name);
            if self.is_left_out(&absolute, name, is_folder, rules) {
                continue;
            }
            if !is_folder {
                visit(&Walked { folder, name, absolute: &absolute })?;
            } else if depth < MAX_DEPTH
                && let Ok(inner) = folder.open_dir_nofollow(name)
            {
                self.folder(&inner, &absolute, rules, depth + 1, visit)?;
            }
        }
        rules.truncate(n_rules);
        ControlFlow::Continue(())
    }

    fn is_left_out(&self, absolute: &Path, name: &OsStr, is_folder: bool, rules: &[Gitignore]) -> bool {
        if name == ".git" {
            return true;
        }
        match self.overrides.matched(absolute, is_folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
        let mut answers = rules.iter().rev().map(|it| it.matched(absolute, is_folder));
        answers.find(|it| !it.is_none()).is_some_and(|it| it.is_ignore())
    }
}

/// What is in a folder and can be visited, in the order of paths: a folder counts with the `/` behind it.
fn entries(folder: &Dir) -> Vec<(OsString, bool)> {
    let Ok(all) = folder.entries() else { return Vec::new() };
    let mut entries: Vec<(OsString, bool)> = all
        .filter_map(Result::ok)
        .filter_map(|it| {
            let kind = it.file_type().ok()?;
            let mut name = it.file_name();
            if kind.is_dir() {
                name.push("/");
            }
            (kind.is_dir() || kind.is_file()).then_some((name, kind.is_dir()))
        })
        .collect();
    entries.sort();
    entries
}

fn name_of(key: &OsStr, is_folder: bool) -> &OsStr {
    // As a path it is the same name without the `/`.
    if is_folder { Path::new(key).file_name().unwrap_or(key) } else { key }
}

/// What the folders from the workspace down to `place` say.
fn rules_above(tree: &Tree, place: &Place) -> Vec<Gitignore> {
    let mut rules = Vec::new();
    let Ok(inside) = place.absolute().strip_prefix(tree.workspace()) else { return rules };
    let Ok(top) = tree.workspace_folder() else { return rules };
    if let Ok(git) = open_below(&top, Path::new(".git/info")) {
        rules.extend(rules_in(&git, tree.workspace(), &["exclude"]));
    }
    let mut folder = top;
    let mut absolute: PathBuf = tree.workspace().to_owned();
    for name in inside {
        rules.extend(rules_in(&folder, &absolute, IGNORE_FILES));
        let Ok(inner) = folder.open_dir_nofollow(name) else { break };
        folder = inner;
        absolute.push(name);
    }
    rules
}

/// What the ignore files in `folder` say of what is below `absolute`, if there are any. A line that cannot be understood is
/// left out.
fn rules_in(folder: &Dir, absolute: &Path, names: &[&str]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(absolute);
    let mut is_any = false;
    for name in names {
        is_any |= add_lines(&mut builder, folder, name);
    }
    is_any.then(|| builder.build().ok()).flatten()
}

fn add_lines(builder: &mut GitignoreBuilder, folder: &Dir, name: &str) -> bool {
    let Ok(file) = open_file(folder, OsStr::new(name)) else { return false };
    if !file.metadata().is_ok_and(|it| it.is_file()) {
        return false;
    }
    let mut bytes = Vec::new();
    if file.take(IGNORE_FILE_BYTES).read_to_end(&mut bytes).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&bytes);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // As git does with a line that it cannot read.
        drop(builder.add_line(None, line));
    }
    true
}
