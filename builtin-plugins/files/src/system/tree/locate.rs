//! Where a path leads.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use linn_services::fs::{FsError, FsTarget};
use linn_services::ids::FsTargetKey;

use crate::config::Confinement;
use crate::system::tree::Tree;

/// How many links one path may lead through, as on most systems.
const MAX_LINKS: usize = 40;

/// Where a path leads, with every link read.
#[derive(Debug)]
pub(crate) struct Place {
    /// From the root of the file system.
    absolute: PathBuf,
    /// From the base of the tree; empty for the base.
    relative: PathBuf,
    /// For people: from the workspace, if it is in there.
    display: String,
}

/// What a path means that ends at a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// What the link leads to.
    Follow,
    /// The link.
    Keep,
}

impl Place {
    pub(crate) fn relative(&self) -> &Path {
        &self.relative
    }

    pub(crate) fn absolute(&self) -> &Path {
        &self.absolute
    }

    pub(crate) fn is_base(&self) -> bool {
        self.relative.as_os_str().is_empty()
    }

    pub(crate) fn target(&self) -> FsTarget {
        // The text of a path that is not Unicode would stand for several.
        let key = match self.absolute.to_str() {
            Some(text) => FsTargetKey::from(text),
            None => FsTargetKey::from(format!("{:?}", self.absolute)),
        };
        FsTarget { target_key: key, display_path: self.display.clone() }
    }

    /// The folder above and the name in it.
    pub(super) fn split(&self, path: &str) -> Result<(&Path, OsString), FsError> {
        match (self.relative.parent(), self.relative.file_name()) {
            (Some(above), Some(name)) => Ok((above, name.to_owned())),
            _ => Err(FsError::WrongKind {
                path: path.to_owned(),
                found: "the whole workspace",
                wanted: "something in it",
            }),
        }
    }
}

impl Tree {
    /// Reads a path. What it finds may be another thing a moment later; see [`crate::system`] for why that does no harm.
    pub(crate) fn locate(&self, path: &str, last: LastLink) -> Result<Place, FsError> {
        self.check_words(path)?;
        let mut real = self.workspace.clone();
        let mut steps: Vec<OsString> = Vec::new();
        push_steps(&mut steps, Path::new(path));
        let mut n_links = 0;
        while let Some(step) = steps.pop() {
            match Path::new(&step).components().next() {
                None | Some(Component::CurDir) => {}
                Some(Component::RootDir | Component::Prefix(_)) => real = PathBuf::from("/"),
                Some(Component::ParentDir) => {
                    real.pop();
                }
                Some(Component::Normal(name)) => {
                    real.push(name);
                    let is_kept = last == LastLink::Keep && steps.is_empty();
                    if is_kept {
                        continue;
                    }
                    let Ok(leads_to) = real.read_link() else { continue };
                    n_links += 1;
                    if n_links > MAX_LINKS {
                        let why = format!("it leads through more than {MAX_LINKS} links");
                        return Err(FsError::Io { path: path.to_owned(), why });
                    }
                    real.pop();
                    push_steps(&mut steps, &leads_to);
                }
            }
        }
        let Ok(relative) = real.strip_prefix(&self.base_path) else {
            return Err(FsError::Outside { path: path.to_owned(), to: Some(real.display().to_string()) });
        };
        let shown = real.strip_prefix(&self.workspace).unwrap_or(&real);
        let display = if shown.as_os_str().is_empty() { ".".to_owned() } else { shown.display().to_string() };
        Ok(Place { relative: relative.to_owned(), absolute: real, display })
    }

    /// Refuses what is wrong with a path whatever is there.
    pub(crate) fn check_words(&self, path: &str) -> Result<(), FsError> {
        if path.contains('\0') {
            return Err(FsError::Io { path: path.replace('\0', "\\0"), why: "it holds a NUL byte".to_owned() });
        }
        if self.confinement == Confinement::None {
            return Ok(());
        }
        if Path::new(path).is_absolute() {
            return Err(FsError::Absolute(path.to_owned()));
        }
        if Path::new(path).components().any(|it| it == Component::ParentDir) {
            return Err(FsError::Upwards(path.to_owned()));
        }
        Ok(())
    }
}

/// Puts the steps of a path ahead of those that are there, which are taken from the end.
fn push_steps(steps: &mut Vec<OsString>, path: &Path) {
    let at = steps.len();
    steps.extend(path.components().map(|it| it.as_os_str().to_owned()));
    steps[at..].reverse();
}
