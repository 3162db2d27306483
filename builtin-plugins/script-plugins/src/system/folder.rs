//! The folder of a plugin: what is in it, and whether it changed.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Why a file that a manifest names cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileProblem {
    Absolute,
    Escapes,
    Missing,
    NotAFile,
    NotExecutable,
    TooLarge,
}

/// The file of a script that a manifest names: an existing regular file inside the folder that may be executed.
///
/// `folder` is free of links.
pub(crate) fn script_file(folder: &Path, named: &str) -> Result<PathBuf, FileProblem> {
    let (file, metadata) = file_in(folder, named)?;
    // Any of the three bits; whose it is shows when it is started.
    if metadata.mode() & 0o111 == 0 {
        return Err(FileProblem::NotExecutable);
    }
    Ok(file)
}

/// The file of a template that a manifest names.
pub(crate) fn prompt_file(folder: &Path, named: &str, limit_bytes: u64) -> Result<PathBuf, FileProblem> {
    if Path::new(named).is_absolute() {
        return Err(FileProblem::Absolute);
    }
    let (file, metadata) = file_in(folder, named)?;
    if metadata.len() > limit_bytes {
        return Err(FileProblem::TooLarge);
    }
    Ok(file)
}

fn file_in(folder: &Path, named: &str) -> Result<(PathBuf, fs::Metadata), FileProblem> {
    let named = Path::new(named);
    if named.components().any(|it| it == Component::ParentDir) {
        return Err(FileProblem::Escapes);
    }
    let joined = folder.join(named);
    let file = match fs::canonicalize(&joined) {
        Ok(file) => file,
        // What is not there cannot be followed; where it would be decides which of the two is told.
        Err(_) if joined.starts_with(folder) => return Err(FileProblem::Missing),
        Err(_) => return Err(FileProblem::Escapes),
    };
    if !file.starts_with(folder) {
        return Err(FileProblem::Escapes);
    }
    let metadata = fs::metadata(&file).map_err(|_| FileProblem::Missing)?;
    if !metadata.is_file() {
        return Err(FileProblem::NotAFile);
    }
    Ok((file, metadata))
}

/// The folders in a folder, links to folders included, by name; none if it cannot be read.
pub(crate) fn children(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries.filter_map(|it| Some(it.ok()?.path())).filter(|it| it.is_dir()).collect();
    folders.sort();
    folders
}

/// Whether there is a folder.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// A path free of links.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Opens a file to read it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The text of a file.
pub(crate) fn text_of_file(path: &Path, limit_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(limit_bytes + 1);
    file.read_to_string(&mut text)?;
    if text.len() as u64 > limit_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit_bytes} bytes")));
    }
    Ok(text)
}

/// What a folder holds, in short: equal for equal names, bytes, links and permissions to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest(String);

impl Digest {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a look at the names alone tells of a folder: it is equal as long as nobody touched a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot(Vec<(PathBuf, [i128; 6])>);

impl Snapshot {
    /// Looks at a folder.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let mut seen = Vec::new();
        walk(folder, &mut |path, metadata| {
            let facts = [
                i128::from(metadata.ino()),
                i128::from(metadata.size()),
                i128::from(metadata.mode()),
                i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
                i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()),
                i128::from(metadata.dev()),
            ];
            seen.push((path.to_owned(), facts));
            Ok(())
        })?;
        Ok(Self(seen))
    }
}

/// The digest of a folder. Nothing in it is left out.
pub(crate) fn digest(folder: &Path) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    walk(folder, &mut |path, metadata| {
        let name = path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(name);
        if metadata.is_symlink() {
            part(b"link");
            part(fs::read_link(path)?.as_os_str().as_bytes());
        } else if metadata.is_dir() {
            part(b"folder");
        } else {
            part(if metadata.mode() & 0o111 == 0 { b"file" } else { b"program" });
            let mut contents = Sha256::new();
            let mut file = File::open(path)?;
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let n = file.read(&mut buffer)?;
                if n == 0 {
                    break;
                }
                contents.update(&buffer[..n]);
            }
            part(&contents.finalize());
        }
        Ok(())
    })?;
    let hex: String = hash.finalize().iter().map(|it| format!("{it:02x}")).collect();
    Ok(Digest(format!("sha256:{hex}")))
}

/// Visits everything below a folder in the order of the names; links are not followed, and what is neither file, folder nor
/// link is passed over.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path, &fs::Metadata) -> io::Result<()>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?.map(|it| Ok(it?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            visit(&path, &metadata)?;
            walk(&path, visit)?;
        } else if metadata.is_file() || metadata.is_symlink() {
            visit(&path, &metadata)?;
        }
    }
    Ok(())
}
