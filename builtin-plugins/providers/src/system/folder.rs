//! Texts in a folder, shared with other programs.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;

use atomic_write_file::AtomicWriteFile;

/// What came of an attempt to change a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merge {
    /// It is written.
    Done,
    /// Another program changes it at this moment.
    Busy,
}

/// Texts by name in a folder.
#[derive(Debug, Clone)]
pub(crate) struct CacheFolder {
    folder: PathBuf,
}

impl CacheFolder {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The text of this name, if there is one.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.folder.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts what `merge` makes of the text in its place, in one step, while no other program does so.
    pub(crate) fn merge(&self, name: &str, merge: impl FnOnce(Option<&str>) -> String) -> io::Result<Merge> {
        fs::create_dir_all(&self.folder)?;
        let lock = private(self.folder.join(format!("{name}.lock")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Merge::Busy),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let old = self.read(name)?;
        let mut options = AtomicWriteFile::options();
        restrict(&mut options);
        let mut file = options.open(self.folder.join(name))?;
        file.write_all(merge(old.as_deref()).as_bytes())?;
        file.commit()?;
        Ok(Merge::Done)
    }
}

/// Addresses of endpoints are for their user alone.
#[cfg(unix)]
fn restrict(options: &mut atomic_write_file::OpenOptions) {
    use atomic_write_file::unix::OpenOptionsExt as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    options.preserve_mode(false).mode(0o600);
}

#[cfg(not(unix))]
fn restrict(_: &mut atomic_write_file::OpenOptions) {}

fn private(path: PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_merged_in_one_step_and_while_nobody_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFolder::new(folder.path().join("not yet there"));
        assert_eq!(cache.read("a").unwrap(), None);
        let append = |old: Option<&str>| format!("{}x", old.unwrap_or_default());
        assert_eq!(cache.merge("a", append).unwrap(), Merge::Done);
        assert_eq!(cache.merge("a", append).unwrap(), Merge::Done);
        assert_eq!(cache.read("a").unwrap().as_deref(), Some("xx"));

        let other = private(folder.path().join("not yet there/a.lock")).unwrap();
        other.lock().unwrap();
        assert_eq!(cache.merge("a", append).unwrap(), Merge::Busy);
        assert_eq!(cache.read("a").unwrap().as_deref(), Some("xx"));
    }

    #[cfg(unix)]
    #[test]
    fn texts_are_for_their_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        CacheFolder::new(folder.path().to_owned()).merge("a", |_| "x".to_owned()).unwrap();
        let mode = fs::metadata(folder.path().join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
