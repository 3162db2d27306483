//! The file system: the one module of this crate that reaches it, behind a trait, so that tests can have a disk that fails.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// What the store needs of a file system.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;

    /// Takes the lock of a file, which is made if need be, and writes into it who has it.
    ///
    /// The system lets go of it when the process ends in any way.
    fn lock(&self, path: &Path, patience: Patience) -> io::Result<Lock>;

    /// Length and age of a file; `None` if there is none.
    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>>;

    /// Names and infos of the files in a folder, in no order; none if there is no folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<(String, FileInfo)>>;

    /// Puts the file `from` in the place of `to`, at once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; one that is not there is no error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder and those around it.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Has the names in a folder on the medium.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Whether there is such a folder.
    fn is_folder(&self, path: &Path) -> bool;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Its length, in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at a place; gives how many bytes there were, 0 at the end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes at a place; gives how many bytes were taken, which may be fewer than there are.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Cuts it, or fills it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Has it on the medium.
    fn sync(&self) -> io::Result<()>;
}

/// Which files `open` opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// One that is there.
    Existing,
    /// One that is there, or a new one.
    OrNew,
    /// A new one, which must not be there.
    New,
}

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// Until it is free; for those that are held for moments.
    Wait,
}

/// What is known of a file without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Length in bytes.
    pub len: u64,
    /// When it was last written, in milliseconds since 1970 UTC.
    pub modified_ms: i64,
}

/// What came of taking a lock.
#[derive(Debug)]
pub enum Lock {
    /// It is ours, until the guard is dropped.
    Ours(LockGuard),
    /// Somebody else has it, who says so in these words.
    Theirs(String),
}

/// A lock that is held.
pub struct LockGuard {
    path: PathBuf,
    // Closed after the name is gone, so that nobody takes a lock on a file that is about to go.
    _file: File,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // A lock file that stays is no harm: what counts is who holds it.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.path).finish()
    }
}

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match how {
            Open::Existing => {}
            Open::OrNew => drop(options.create(true).truncate(false)),
            Open::New => drop(options.create_new(true)),
        }
        private(&mut options);
        Ok(Arc::new(SystemFile(options.open(path)?)))
    }

    fn lock(&self, path: &Path, patience: Patience) -> io::Result<Lock> {
        loop {
            let mut options = OpenOptions::new();
            private(options.read(true).write(true).create(true).truncate(false));
            let mut file = options.open(path)?;
            match patience {
                Patience::Wait => file.lock()?,
                Patience::None => match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => return Ok(Lock::Theirs(owner_in(&mut file))),
                    Err(TryLockError::Error(error)) => return Err(error),
                },
            }
            // Whoever had it before may have removed the name; then this is a lock on nothing.
            if is_same_file(&file, path) {
                file.set_len(0)?;
                // Who has it is for people to read; the lock holds without it, also on a full disk.
                let _ = file.write_all(format!("process {}\n", std::process::id()).as_bytes());
                return Ok(Lock::Ours(LockGuard { path: path.to_owned(), _file: file }));
            }
        }
    }

    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(info_of(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, FileInfo)>> {
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            // One that went meanwhile, or whose name is no text, is not ours to list.
            if let (Ok(metadata), Ok(name)) = (entry.metadata(), entry.file_name().into_string())
                && metadata.is_file()
            {
                files.push((name, info_of(&metadata)));
            }
        }
        Ok(files)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)
    }

    #[cfg(unix)]
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// Names of files are on the medium with the files there.
    #[cfg(not(unix))]
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

fn info_of(metadata: &std::fs::Metadata) -> FileInfo {
    let modified = metadata.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    FileInfo { len: metadata.len(), modified_ms: i64::try_from(modified.as_millis()).unwrap_or(i64::MAX) }
}

fn owner_in(file: &mut File) -> String {
    let mut text = String::new();
    // On some systems nobody else can read a locked file.
    let _ = file.take(200).read_to_string(&mut text);
    match text.trim() {
        "" => "a process that did not say which".to_owned(),
        owner => owner.to_owned(),
    }
}

/// Sessions are for their owner's eyes.
#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// A file that is open cannot be removed there.
#[cfg(not(unix))]
fn is_same_file(_: &File, _: &Path) -> bool {
    true
}

struct SystemFile(File);

impl DiskFile for SystemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buffer, at)
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, buffer, at)
    }

    #[cfg(unix)]
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&self.0, bytes, at)
    }

    #[cfg(windows)]
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(&self.0, bytes, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
