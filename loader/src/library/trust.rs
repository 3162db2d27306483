//! What of a repository may run, by its content.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::library::{Digest, LibraryError, LibraryFile};
use crate::system;

/// Contents that the user trusts, kept in a file of the user's: one line each, digest and where it was.
///
/// A file that changed has another digest, so it is asked about again.
#[derive(Debug, Clone)]
pub struct TrustStore {
    path: PathBuf,
}

impl TrustStore {
    /// The store in this file, which need not be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// What is trusted, and where it was when it came to be. Blocks.
    ///
    /// # Errors
    ///
    /// The file is there and cannot be read. Lines that are none are passed over: they trust nothing.
    pub fn list(&self) -> io::Result<BTreeMap<Digest, PathBuf>> {
        let text = match system::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let line = |line: &str| {
            let (digest, path) = line.split_once(' ')?;
            Some((Digest::parse(digest)?, PathBuf::from(path)))
        };
        Ok(text.lines().filter_map(line).collect())
    }

    /// Trusts the content that a file has now. Blocks.
    ///
    /// # Errors
    ///
    /// The file is no library, or the store cannot be read or written.
    pub fn trust(&self, library: &Path) -> Result<Digest, LibraryError> {
        let digest = LibraryFile::read(library)?.digest;
        self.add(digest, library).map_err(|error| crate::library::file_error("write", &self.path, error))?;
        Ok(digest)
    }

    /// Trusts a content that was looked at already; `what` says what it is. Blocks.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub fn add(&self, digest: Digest, what: &Path) -> io::Result<()> {
        let mut all = self.list()?;
        all.insert(digest, what.to_owned());
        self.write(&all)
    }

    /// Takes trust back. Blocks.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub fn distrust(&self, digest: &Digest) -> io::Result<bool> {
        let mut all = self.list()?;
        let was_trusted = all.remove(digest).is_some();
        if was_trusted {
            self.write(&all)?;
        }
        Ok(was_trusted)
    }

    /// Whether a content is trusted; not when the store cannot be read. Blocks.
    pub fn is_trusted(&self, digest: &Digest) -> bool {
        self.list().is_ok_and(|it| it.contains_key(digest))
    }

    fn write(&self, all: &BTreeMap<Digest, PathBuf>) -> io::Result<()> {
        let lines: Vec<_> = all.iter().map(|(digest, path)| format!("{digest} {}\n", path.display())).collect();
        system::write_whole(&self.path, lines.concat().as_bytes())
    }
}
