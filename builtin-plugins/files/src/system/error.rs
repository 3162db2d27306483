//! What the system says, in words about a path.

use std::io;

use linn_services::fs::FsError;
use rustix::io::Errno;

/// The error of an operation on what `path` leads to.
pub(super) fn about(path: &str, error: &io::Error) -> FsError {
    let path = path.to_owned();
    let io = |why: &str| FsError::Io { path: path.clone(), why: why.to_owned() };
    match error.kind() {
        io::ErrorKind::NotFound => FsError::NotFound(path),
        io::ErrorKind::AlreadyExists => FsError::Exists(path),
        io::ErrorKind::DirectoryNotEmpty => io("the folder is not empty"),
        io::ErrorKind::IsADirectory => FsError::WrongKind { path, found: "a folder", wanted: "a file" },
        io::ErrorKind::NotADirectory => {
            FsError::WrongKind { path, found: "a file or link, or below one", wanted: "in a folder" }
        }
        // It does not come from the system: the path led out of a handle.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => FsError::Outside { path, to: None },
        _ if Errno::from_io_error(error) == Some(Errno::LOOP) => io("a link was put in its way"),
        io::ErrorKind::PermissionDenied => io("permission denied"),
        io::ErrorKind::InvalidFilename => io("the name is too long, or not allowed here"),
        io::ErrorKind::StorageFull => io("no space is left"),
        io::ErrorKind::ReadOnlyFilesystem => io("the file system is read-only"),
        io::ErrorKind::CrossesDevices => io("it is on another file system than the place it goes to"),
        _ => io(&error.to_string()),
    }
}
