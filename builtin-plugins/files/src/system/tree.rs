//! The folder that everything happens in, and what is done in it.

mod locate;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, FileType, Metadata, OpenOptions};
use linn_services::fs::{FsEntry, FsError, FsFile, FsKind, FsMetadata, FsTarget, FsWriteIntent};
use linn_services::ids::FsVersion;
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::config::Confinement;
use crate::system::error::about;
pub(super) use locate::{LastLink, Place};

/// A folder and all below it.
pub(crate) struct Tree {
    /// What every step begins at: the workspace, or the root of the file system where nothing is confined.
    base: Dir,
    /// Where that is, without links.
    base_path: PathBuf,
    /// Where the workspace is, without links.
    workspace: PathBuf,
    confinement: Confinement,
    /// Held from the look at a version to the write that relies on it.
    writing: Mutex<()>,
}

/// A folder that is open, and a name in it.
struct Entry {
    folder: Dir,
    name: OsString,
}

impl Tree {
    /// Opens the workspace, which has to be there.
    pub(crate) fn open(workspace: &Path, confinement: Confinement) -> io::Result<Self> {
        let workspace = workspace.canonicalize()?;
        let base_path = match confinement {
            Confinement::Workspace | Confinement::ByApproval => workspace.clone(),
            Confinement::None => PathBuf::from("/"),
        };
        let base = Dir::open_ambient_dir(&base_path, ambient_authority())?;
        Ok(Self { base, base_path, workspace, confinement, writing: Mutex::default() })
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(crate) fn resolve(&self, path: &str) -> Result<FsTarget, FsError> {
        Ok(self.locate(path, LastLink::Follow)?.target())
    }

    pub(crate) fn read(&self, path: &str, limit_bytes: u64) -> Result<FsFile, FsError> {
        let place = self.locate(path, LastLink::Follow)?;
        let entry = self.entry(&place, path)?;
        let file = open_file(&entry.folder, &entry.name).map_err(|it| about(path, &it))?;
        let metadata = file.metadata().map_err(|it| about(path, &it))?;
        expect_file(path, metadata.file_type())?;
        let content = read_within(path, file, metadata.len(), limit_bytes)?;
        let version = version_of(&content);
        Ok(FsFile { target: place.target(), content, version })
    }

    /// `number` makes the name of the file that the content is gathered in; it should be one of many.
    pub(crate) fn write(
        &self,
        path: &str,
        content: &[u8],
        intent: &FsWriteIntent,
        number: u64,
    ) -> Result<FsVersion, FsError> {
        let place = self.locate(path, LastLink::Follow)?;
        let stale = || FsError::Stale(path.to_owned());
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match intent {
            FsWriteIntent::ReplaceIfVersion { .. } => match self.entry(&place, path) {
                Err(FsError::NotFound(_)) => return Err(stale()),
                entry => entry?,
            },
            FsWriteIntent::Unconditional | FsWriteIntent::CreateIfAbsent => self.entry_with_folders(&place, path)?,
        };
        let old = entry.metadata().map_err(|it| about(path, &it))?;
        if let Some(old) = &old {
            expect_file(path, old.file_type())?;
            if old.permissions().readonly() {
                return Err(FsError::Io { path: path.to_owned(), why: "it is read-only".to_owned() });
            }
        }
        match (intent, &old) {
            (FsWriteIntent::Unconditional, _) | (FsWriteIntent::CreateIfAbsent, None) => {}
            (FsWriteIntent::CreateIfAbsent, Some(_)) => return Err(FsError::Exists(path.to_owned())),
            (FsWriteIntent::ReplaceIfVersion { .. }, None) => return Err(stale()),
            (FsWriteIntent::ReplaceIfVersion { version }, Some(_)) => {
                let file = open_file(&entry.folder, &entry.name).map_err(|it| about(path, &it))?;
                if digest(file).map_err(|it| about(path, &it))? != *version {
                    return Err(stale());
                }
            }
        }
        let is_new = matches!(intent, FsWriteIntent::CreateIfAbsent);
        entry.replace(content, old.as_ref(), is_new, number).map_err(|it| about(path, &it))?;
        Ok(version_of(content))
    }

    pub(crate) fn list(&self, path: &str) -> Result<Vec<FsEntry>, FsError> {
        let place = self.locate(path, LastLink::Follow)?;
        let folder = self.folder(place.relative()).map_err(|it| about(path, &it))?;
        let mut entries = Vec::new();
        for entry in folder.entries().map_err(|it| about(path, &it))? {
            let entry = entry.map_err(|it| about(path, &it))?;
            let kind = entry.file_type().map_err(|it| about(path, &it))?;
            entries.push(FsEntry { name: entry.file_name().to_string_lossy().into_owned(), kind: kind_of(kind) });
        }
        entries.sort();
        Ok(entries)
    }

    pub(crate) fn metadata(&self, path: &str) -> Result<Option<FsMetadata>, FsError> {
        let place = self.locate(path, LastLink::Keep)?;
        let metadata = if place.is_base() {
            self.base.dir_metadata().map(Some)
        } else {
            match self.entry(&place, path) {
                Err(FsError::NotFound(_)) => return Ok(None),
                entry => entry?.metadata(),
            }
        };
        let metadata = metadata.map_err(|it| about(path, &it))?;
        Ok(metadata.map(|it| FsMetadata { kind: kind_of(it.file_type()), size_bytes: it.len() }))
    }

    pub(crate) fn create_folder(&self, path: &str) -> Result<(), FsError> {
        let place = self.locate(path, LastLink::Follow)?;
        self.folder_made(place.relative()).map(drop).map_err(|it| match it.kind() {
            io::ErrorKind::NotADirectory => FsError::Exists(path.to_owned()),
            _ => about(path, &it),
        })
    }

    pub(crate) fn delete(&self, path: &str) -> Result<FsKind, FsError> {
        let place = self.locate(path, LastLink::Keep)?;
        let entry = self.entry(&place, path)?;
        let metadata = entry.metadata().map_err(|it| about(path, &it))?;
        let Some(metadata) = metadata else { return Err(FsError::NotFound(path.to_owned())) };
        let kind = kind_of(metadata.file_type());
        let deleted = match kind {
            FsKind::Folder => entry.folder.remove_dir(&entry.name),
            FsKind::File | FsKind::Link | FsKind::Other => entry.folder.remove_file(&entry.name),
        };
        deleted.map(|()| kind).map_err(|it| about(path, &it))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), FsError> {
        let source = self.entry(&self.locate(from, LastLink::Keep)?, from)?;
        let target_place = self.locate(to, LastLink::Keep)?;
        if source.metadata().map_err(|it| about(from, &it))?.is_none() {
            return Err(FsError::NotFound(from.to_owned()));
        }
        let target = self.entry_with_folders(&target_place, to)?;
        source.move_to(&target).map_err(|it| match it.kind() {
            io::ErrorKind::InvalidInput => {
                FsError::Io { path: from.to_owned(), why: format!("it cannot go to \"{to}\"") }
            }
            io::ErrorKind::NotFound => about(from, &it),
            _ => about(to, &it),
        })
    }

    /// A folder below the base, opened step by step.
    pub(super) fn folder(&self, relative: &Path) -> io::Result<Dir> {
        open_below(&self.base, relative)
    }

    pub(super) fn workspace_folder(&self) -> io::Result<Dir> {
        let below = self.workspace.strip_prefix(&self.base_path).unwrap_or(Path::new(""));
        open_below(&self.base, below)
    }

    /// The same as [`folder`](Self::folder), and makes the folders that are missing.
    fn folder_made(&self, relative: &Path) -> io::Result<Dir> {
        let mut folder = self.base.try_clone()?;
        for name in relative {
            folder = match folder.open_dir_nofollow(name) {
                Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                    match folder.create_dir(name) {
                        // Somebody else may have made it meanwhile.
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => folder.open_dir_nofollow(name)?,
                    }
                }
                opened => opened?,
            };
        }
        Ok(folder)
    }

    /// What is at a place.
    pub(super) fn kind_at(&self, place: &Place, path: &str) -> Result<Option<FsKind>, FsError> {
        if place.is_base() {
            return Ok(Some(FsKind::Folder));
        }
        let metadata = match self.entry(place, path) {
            Err(FsError::NotFound(_)) => return Ok(None),
            entry => entry?.metadata().map_err(|it| about(path, &it))?,
        };
        Ok(metadata.map(|it| kind_of(it.file_type())))
    }

    /// The folder above a place, and the name in it.
    pub(super) fn open_above(&self, place: &Place, path: &str) -> Result<(Dir, OsString), FsError> {
        self.entry(place, path).map(|it| (it.folder, it.name))
    }

    fn entry(&self, place: &Place, path: &str) -> Result<Entry, FsError> {
        let (above, name) = place.split(path)?;
        Ok(Entry { folder: self.folder(above).map_err(|it| about(path, &it))?, name })
    }

    fn entry_with_folders(&self, place: &Place, path: &str) -> Result<Entry, FsError> {
        let (above, name) = place.split(path)?;
        Ok(Entry { folder: self.folder_made(above).map_err(|it| about(path, &it))?, name })
    }
}

impl Entry {
    /// What is there; a link is a link.
    fn metadata(&self) -> io::Result<Option<Metadata>> {
        match self.folder.symlink_metadata(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            metadata => metadata.map(Some),
        }
    }

    /// Puts a file with this content here in one step, with the mode of the old one.
    fn replace(&self, content: &[u8], old: Option<&Metadata>, is_new: bool, number: u64) -> io::Result<()> {
        let name = OsString::from(format!(".linn-{number:016x}.tmp"));
        let options = &mut OpenOptions::new();
        let gathered = self.folder.open_with(&name, options.write(true).create_new(true).follow(FollowSymlinks::No))?;
        let gathered_entry = Self { folder: self.folder.try_clone()?, name };
        let filled = fill(gathered, content, old).and_then(|()| {
            if is_new {
                gathered_entry.move_to(self)
            } else {
                self.folder.rename(&gathered_entry.name, &self.folder, &self.name)
            }
        });
        filled.inspect_err(|_| {
            // The error that is told is the first one.
            drop(self.folder.remove_file(&gathered_entry.name));
        })
    }

    /// Moves what is here to where nothing is.
    fn move_to(&self, target: &Self) -> io::Result<()> {
        match renameat_with(&self.folder, &self.name, &target.folder, &target.name, RenameFlags::NOREPLACE) {
            // Not every file system can do both in one step.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                if target.metadata()?.is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                self.folder.rename(&self.name, &target.folder, &target.name)
            }
            moved => Ok(moved?),
        }
    }
}

/// Opens a folder step by step, through no link.
pub(super) fn open_below(from: &Dir, path: &Path) -> io::Result<Dir> {
    path.iter().try_fold(from.try_clone()?, |folder, name| folder.open_dir_nofollow(name))
}

fn fill(mut file: File, content: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    file.write_all(content)?;
    if let Some(old) = old {
        file.set_permissions(old.permissions())?;
    }
    // A rename that reaches the disk before the content would leave an empty file after a power failure.
    file.sync_data()
}

/// Opens what is at a name to read it, unless that is a link. Does not wait for the other end of a pipe.
pub(super) fn open_file(folder: &Dir, name: &OsStr) -> io::Result<File> {
    let options = &mut OpenOptions::new();
    folder.open_with(name, options.read(true).follow(FollowSymlinks::No).nonblock(true))
}

/// Reads a file that may grow meanwhile.
fn read_within(path: &str, file: File, size_bytes: u64, limit_bytes: u64) -> Result<Vec<u8>, FsError> {
    let too_large = |size_bytes| FsError::TooLarge { path: path.to_owned(), size_bytes, limit_bytes };
    if size_bytes > limit_bytes {
        return Err(too_large(size_bytes));
    }
    let mut content = Vec::with_capacity(usize::try_from(size_bytes).unwrap_or_default());
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut content).map_err(|it| about(path, &it))?;
    let n_read = content.len() as u64;
    if n_read > limit_bytes { Err(too_large(n_read)) } else { Ok(content) }
}

fn version_of(content: &[u8]) -> FsVersion {
    version(Sha256::new_with_prefix(content))
}

fn digest(mut file: File) -> io::Result<FsVersion> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(version(hasher)),
            n => hasher.update(&buffer[..n]),
        }
    }
}

fn version(hasher: Sha256) -> FsVersion {
    use std::fmt::Write;
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        write!(text, "{byte:02x}").expect("a string takes all that is written");
    }
    text.into()
}

fn kind_of(kind: FileType) -> FsKind {
    match kind {
        it if it.is_file() => FsKind::File,
        it if it.is_dir() => FsKind::Folder,
        it if it.is_symlink() => FsKind::Link,
        _ => FsKind::Other,
    }
}

fn expect_file(path: &str, kind: FileType) -> Result<(), FsError> {
    let found = match kind_of(kind) {
        FsKind::File => return Ok(()),
        FsKind::Folder => "a folder",
        FsKind::Link => "a link that was put there just now",
        FsKind::Other => "a pipe, socket or device",
    };
    Err(FsError::WrongKind { path: path.to_owned(), found, wanted: "a file" })
}
