//! Recordings as files.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::ReplayError;
use crate::store::RecordingStore;

/// Recordings as files in a folder. A name is the path of a file, with or without `.jsonl`; one that begins at the root of
/// the file system is taken as it is.
#[derive(Debug, Clone)]
pub struct FolderStore {
    folder: PathBuf,
}

impl FolderStore {
    /// The recordings of a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn file_with_extension(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.jsonl"))
    }
}

fn failed(what: &'static str, file: &Path, error: &io::Error) -> ReplayError {
    ReplayError::Io { what, file: file.display().to_string(), why: error.to_string() }
}

/// Most bytes of a recording.
const MOST_BYTES: u64 = 1 << 30;

/// The text of a file, if it is a regular one of bearable size.
fn read(file: &Path) -> io::Result<String> {
    let metadata = fs::metadata(file)?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is no regular file"));
    }
    let mut text = String::new();
    fs::File::open(file)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "a recording has at most 1 GiB"));
    }
    Ok(text)
}

/// A recording holds what was said to a model, which is nobody else's business.
fn owned_by_the_user() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl RecordingStore for FolderStore {
    fn load(&self, name: &str) -> Result<Option<String>, ReplayError> {
        for file in [self.file(name), self.file_with_extension(name)] {
            match read(&file) {
                Ok(text) => return Ok(Some(text)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                // A folder of the name does not hide the file with the extension.
                Err(error) if error.kind() == ErrorKind::IsADirectory => {}
                Err(error) => return Err(failed("cannot read", &file, &error)),
            }
        }
        Ok(None)
    }

    fn append(&self, name: &str, head: &str, lines: &str) -> Result<(), ReplayError> {
        let file = self.file(name);
        let failed = |error: io::Error| failed("cannot write", &file, &error);
        let mut open = owned_by_the_user().open(&file).map_err(failed)?;
        let is_new = open.metadata().map_err(failed)?.len() == 0;
        // One write, so that two programs that record to one file do not mix their lines.
        let text = if is_new { format!("{head}{lines}") } else { lines.to_owned() };
        open.write_all(text.as_bytes()).map_err(failed)
    }

    fn whereabouts(&self, name: &str) -> String {
        format!("{} and {}", self.file(name).display(), self.file_with_extension(name).display())
    }
}
