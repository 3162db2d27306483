//! Everything from outside that a configuration depends on, as one value.
//!
//! A test makes one by hand; a recording keeps it. [`Sources::system`](crate::Sources::system) takes the real ones.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What a configuration is read from.
#[derive(Clone)]
pub struct Sources {
    /// The environment variables.
    pub variables: Variables,
    /// The user's home folder; without it there are no user files.
    pub home: Option<PathBuf>,
    /// The folder the program was started in, absolute. Relative paths of files and flags begin here.
    pub folder: PathBuf,
    /// The command line after the name of the program and of the subcommand.
    pub arguments: Vec<String>,
    /// The files.
    pub files: Arc<dyn Files>,
}

impl Sources {
    /// Sources with files in memory and nothing else; the program runs in `folder`.
    pub fn in_memory(folder: impl Into<PathBuf>, files: MemoryFiles) -> Self {
        Self {
            variables: Variables::default(),
            home: None,
            folder: folder.into(),
            arguments: Vec::new(),
            files: Arc::new(files),
        }
    }

    /// `path` as an absolute one: `~/` is the home folder, and a relative path begins in the folder of the program.
    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        self.absolute_from(&self.folder, path)
    }

    /// As [`absolute`](Self::absolute), with relative paths beginning at `base`.
    pub(crate) fn absolute_from(&self, base: &Path, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may hold a key.
        f.debug_struct("Sources")
            .field("variables", &self.variables)
            .field("home", &self.home)
            .field("folder", &self.folder)
            .field("arguments", &self.arguments.len())
            .finish_non_exhaustive()
    }
}

/// Environment variables. `Debug` shows names only, since values may be secrets.
#[derive(Clone, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The value of `name`, if it is set; it may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Who may read a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The user alone, whatever the file allowed before: it may hold keys.
    Private,
    /// Whoever may now; a new file is as the system makes it.
    Kept,
}

/// Held while a file is read, changed and written; letting go of it unlocks.
pub trait FileLock: Send {}

/// The files that configuration is read from and written to.
///
/// All calls may block on a disk, and [`lock`](Self::lock) on another process: call from a thread that may wait.
pub trait Files: Send + Sync {
    /// The text of a file.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not there, `InvalidData` if it is no UTF-8, or what else the system says.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// What is in a folder, as full paths in no particular order.
    ///
    /// # Errors
    ///
    /// `NotFound` if the folder is not there, or what else the system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Puts `text` in the place of the file in one step, making the folders above it.
    /// A symbolic link stays one; what it points to is replaced.
    ///
    /// # Errors
    ///
    /// What the system says; then the file is as it was.
    fn write(&self, path: &Path, text: &str, access: Access) -> io::Result<()>;

    /// Waits until no other process holds `path` locked, and locks it. The file is made if it is not there.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
}

/// Files in memory, for tests and recordings. Clones share their content.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles(Arc<Mutex<BTreeMap<PathBuf, String>>>);

impl MemoryFiles {
    /// The files `pairs`: path and text.
    pub fn new<P: Into<PathBuf>, T: Into<String>>(pairs: impl IntoIterator<Item = (P, T)>) -> Self {
        let files = pairs.into_iter().map(|(path, text)| (path.into(), text.into()));
        Self(Arc::new(Mutex::new(files.collect())))
    }

    fn with<R>(&self, f: impl FnOnce(&mut BTreeMap<PathBuf, String>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct NoLock;

impl FileLock for NoLock {}

impl Files for MemoryFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.with(|files| files.get(path).cloned()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let found: Vec<PathBuf> =
            self.with(|files| files.keys().filter(|it| it.parent() == Some(folder)).cloned().collect());
        if found.is_empty() { Err(io::Error::from(io::ErrorKind::NotFound)) } else { Ok(found) }
    }

    fn write(&self, path: &Path, text: &str, _access: Access) -> io::Result<()> {
        self.with(|files| files.insert(path.to_owned(), text.to_owned()));
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn FileLock>> {
        Ok(Box::new(NoLock))
    }
}
