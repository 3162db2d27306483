//! The real environment, home folder and files: the one module here that calls the operating system.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atomic_write_file::AtomicWriteFile;

use crate::sources::{Access, FileLock, Files, Sources};

impl Sources {
    /// The sources of this process, with `arguments` as its command line. Variables that are no UTF-8 are left out.
    ///
    /// # Errors
    ///
    /// If the folder the process runs in is gone.
    pub fn system(arguments: Vec<String>) -> io::Result<Self> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Ok(Self {
            variables: env::vars_os().filter_map(text).collect(),
            home: env::home_dir().filter(|it| !it.as_os_str().is_empty()),
            folder: env::current_dir()?,
            arguments,
            files: Arc::new(SystemFiles),
        })
    }
}

/// What a file of configuration has at most.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The files of the system. What is no regular file, or has more than 16 MiB, is not read.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

struct LockedFile(File);

impl FileLock for LockedFile {}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing the file unlocks it too, so a failure here changes nothing.
        let _ = self.0.unlock();
    }
}

impl Files for SystemFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        // A repository may hold a link to a device that never ends.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no regular file"));
        }
        let mut text = String::new();
        File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "this is more than 16 MiB"));
        }
        Ok(text)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn write(&self, path: &Path, text: &str, access: Access) -> io::Result<()> {
        make_folder_of(path)?;
        // The link of a user who keeps such files elsewhere stays a link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut options = AtomicWriteFile::options();
        restrict(&mut options, access);
        let mut file = options.open(&path)?;
        file.write_all(text.as_bytes())?;
        file.commit()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        make_folder_of(path)?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(Box::new(LockedFile(file)))
    }
}

fn make_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => fs::create_dir_all(folder),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn restrict(options: &mut atomic_write_file::OpenOptions, access: Access) {
    use atomic_write_file::unix::OpenOptionsExt as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    if access == Access::Private {
        options.preserve_mode(false).mode(0o600);
    }
}

#[cfg(not(unix))]
fn restrict(_options: &mut atomic_write_file::OpenOptions, _access: Access) {}
