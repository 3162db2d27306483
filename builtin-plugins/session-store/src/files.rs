//! What is done with a file as a whole, in terms of the [`Disk`].

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_services::persistence::PersistenceError;

use crate::system::{Disk, DiskFile, Open};

/// Says which file failed at what.
pub(crate) fn failed(what: &'static str, file: &Path) -> impl FnOnce(io::Error) -> PersistenceError {
    let file = file.to_owned();
    move |error| PersistenceError::Io { what, file, why: error.to_string() }
}

/// Writes all of it at a place.
pub(crate) fn write_all_at(file: &dyn DiskFile, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => (bytes, at) = (&bytes[n..], at + n as u64),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends, and gives how much that was.
pub(crate) fn read_up_to(file: &dyn DiskFile, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The whole of a file; `None` if there is none.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::Existing) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = usize::try_from(file.len()?).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; len];
    let n = read_up_to(&*file, &mut bytes, 0)?;
    bytes.truncate(n);
    Ok(Some(bytes))
}

/// Puts a file with these bytes in the place of another, so that at each moment one of the two is there, whole.
///
/// `mark` is part of the name of the file in between: it differs between any two who write at the same time.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8], mark: u64) -> io::Result<()> {
    let (between, file) = open_between(disk, path, mark)?;
    let done = write_all_at(&*file, bytes, 0).and_then(|()| file.sync()).and_then(|()| disk.rename(&between, path));
    if let Err(error) = done {
        // What is left of it is no harm, and the first error is the one that counts.
        let _ = disk.remove(&between);
        return Err(error);
    }
    disk.sync_folder(folder_of(path))
}

/// A new file beside the one to replace. A process that died may have left one of the same name.
fn open_between(disk: &dyn Disk, path: &Path, mark: u64) -> io::Result<(PathBuf, Arc<dyn DiskFile>)> {
    let mut mark = mark;
    loop {
        let between = beside(path, &format!(".{mark:016x}.tmp"));
        match disk.open(&between, Open::New) {
            Ok(file) => return Ok((between, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => mark = mark.wrapping_add(1),
            Err(error) => return Err(error),
        }
    }
}

/// Adds to the end of a file.
pub(crate) fn append(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(path, Open::OrNew)?;
    write_all_at(&*file, bytes, file.len()?)?;
    file.sync()
}

/// The path with something behind its name.
pub(crate) fn beside(path: &Path, behind: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(behind);
    name.into()
}

/// The folder a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
