//! Files, as the loader reads and writes them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Writes a file that is not there yet, for this user alone.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
    options.open(path)?.write_all(bytes)
}

/// Replaces a file as a whole; whoever reads it sees the old content or the new.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Removes a file, if the system lets it go.
pub(crate) fn remove(path: &Path) {
    // It may be mapped still, which some systems do not allow; then it goes with its folder.
    drop(fs::remove_file(path));
}

/// Files in a folder, by name; none when the folder is not there.
pub(crate) fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = entries.map(|it| it.map(|it| it.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|it| it.is_file());
    files.sort();
    Ok(files)
}

/// Runs `work`, which blocks, on a thread of its own.
///
/// Cancel safe: the work goes on without whoever waited.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = futures_channel::oneshot::channel();
    #[expect(clippy::disallowed_methods, reason = "what it does blocks, and is waited for by whoever asked")]
    std::thread::Builder::new().name("loader".to_owned()).spawn(move || drop(sender.send(work())))?;
    receiver.await.map_err(|_| io::Error::other("the work panicked"))
}

/// Runs `cargo` in a folder, until it ends.
pub(crate) fn cargo(folder: &Path, arguments: &[&str]) -> io::Result<std::process::Output> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    #[expect(clippy::disallowed_methods, reason = "an author asks for it, outside of any session")]
    let mut command = std::process::Command::new(program);
    command.current_dir(folder).args(arguments).output()
}
