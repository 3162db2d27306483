//! Files, as the loader reads and writes them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// How the names of folders for copies of libraries begin.
const SCRATCH: &str = "linn-libraries-";

/// Locked in such a folder as long as its program runs.
const LOCK: &str = "lock";

/// A folder for copies of libraries. It goes with the program, if the system lets go of what is in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    /// Unlocked when the program ends, however that comes about.
    _lock: File,
}

impl Scratch {
    /// Makes one among the temporary files, and removes those of programs that are gone: some systems keep a file as long as
    /// it is mapped, and a program that is killed tidies nothing up.
    pub(crate) fn new() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> io::Result<Self> {
        for folder in left_behind(parent) {
            // It may have files that somebody else has open; the next program tries again.
            drop(fs::remove_dir_all(folder));
        }
        let folder = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(parent)?;
        // Under its name it is locked from the beginning, so nobody takes it for one that was left.
        let unnamed = folder.path().join("new");
        let lock = File::create_new(&unnamed)?;
        lock.lock()?;
        fs::rename(&unnamed, folder.path().join(LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Folders for copies of libraries whose program is gone.
fn left_behind(parent: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = folders.filter(|it| it.file_name().to_string_lossy().starts_with(SCRATCH)).map(|it| it.path());
    let is_left = |it: &PathBuf| {
        let lock = File::options().write(true).open(it.join(LOCK));
        lock.is_ok_and(|it| it.try_lock().is_ok())
    };
    named.filter(is_left).collect()
}

/// Writes a file that is not there yet, for this user alone.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
    options.open(path)?.write_all(bytes)
}

/// Opens a file that nobody else opens, to read it.
#[cfg(target_os = "linux")]
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
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

/// A folder as the system names it, links followed; as it is given if it is not there.
pub(crate) fn canonical(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
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

/// Where what cargo says goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// To standard error, as it comes.
    Shown,
    /// Into the output.
    Kept,
}

/// Runs `cargo` in a folder, until it ends.
pub(crate) fn cargo(folder: &Path, arguments: &[String], progress: Progress) -> io::Result<Output> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = command(program, folder);
    if progress == Progress::Shown {
        command.stderr(Stdio::inherit());
    }
    command.args(arguments).stdin(Stdio::null()).output()
}

/// Release and commit of the compiler that builds what is in a folder, such as `1.95.0 (f2f1c5a3b)`: as a fingerprint has it.
pub(crate) fn compiler(folder: &Path) -> io::Result<String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = command(program, folder).arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let release = field("release:").ok_or_else(|| io::Error::other("`rustc -vV` names no release"))?;
    let commit = field("commit-hash:").unwrap_or("unknown");
    Ok(format!("{release} ({})", commit.get(..9).unwrap_or(commit)))
}

#[expect(clippy::disallowed_methods, reason = "an author asks for it, outside of any session")]
fn command(program: OsString, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command
}

/// Makes a folder and those above it, each that is not there yet for this user alone.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// A folder for this user alone that goes when it is dropped.
pub(crate) fn private_folder_in(path: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".coming-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir_in(path)
}

/// Writes a file and makes the folders above it.
pub(crate) fn write_simple(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Has a folder take the place of another, if there is one, which goes into `aside`.
pub(crate) fn put_in_place(folder: &Path, place: &Path, aside: &Path) -> io::Result<()> {
    match fs::rename(place, aside.join("old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(folder, place)
}

/// All files below a folder; none when it is not there.
pub(crate) fn all_files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = files_in(folder)?;
    let Ok(entries) = fs::read_dir(folder) else { return Ok(files) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(all_files_in(&path)?);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_programs_that_are_gone_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let (gone, other) = (parent.path().join("linn-libraries-gone"), parent.path().join("other"));
        for folder in [&gone, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(LOCK), "").unwrap();
            fs::write(folder.join("word-count-1.dll"), "").unwrap();
        }
        let lives = Scratch::below(parent.path()).unwrap();
        assert!(!gone.exists() && other.exists());
        // Two of one program stand side by side as two programs do.
        let beside = Scratch::below(parent.path()).unwrap();
        assert!(lives.path().join(LOCK).exists() && beside.path() != lives.path());
        let path = lives.path().to_owned();
        drop(lives);
        assert!(!path.exists() && beside.path().exists());
    }
}
