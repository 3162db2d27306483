//! Opening a library: the one place that runs code nobody has looked at.

use std::path::{Path, PathBuf};

use libloading::Library;
use linn_bus::library::{Attach, ENTRY_MAGIC, Entry, LibraryContents, fields};

use crate::library::file::file_error;
use crate::library::{LibraryError, LibraryFile};
use crate::system;

/// A library in memory, where it stays until the program ends: nothing says that no value of it is left somewhere.
pub(crate) struct Image {
    pub(crate) file: LibraryFile,
    /// What was opened, under a name that no other has.
    copy: PathBuf,
    entry: &'static Entry,
    contents: LibraryContents,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("file", &self.file.path).field("copy", &self.copy).finish()
    }
}

impl Image {
    pub(crate) fn contents(&self) -> &LibraryContents {
        &self.contents
    }

    /// Ends what the library runs by itself; its plugins are gone.
    pub(crate) fn detach(&self) {
        self.entry.detach();
    }

    /// The file that is mapped.
    pub(crate) fn copy(&self) -> &Path {
        &self.copy
    }
}

/// Opens a library that was found to be built like this program, and ties it to it. Blocks.
///
/// A copy is opened, under a fresh name in `folder`: the system takes two files of one name for one library, and the file
/// itself may be built anew at any time.
pub(crate) fn open(file: &LibraryFile, folder: &Path, number: u64) -> Result<Image, LibraryError> {
    file.check()?;
    let path = || file.path.clone();
    let extension = file.path.extension().unwrap_or_default().to_string_lossy();
    let copy = folder.join(format!("{}-{number}.{extension}", file.krate));
    system::write_new(&copy, &file.bytes).map_err(|error| file_error("copy", &copy, error))?;
    let opened = opened(&copy, &file.symbol);
    // Where the system lets go of the name of a mapped file, nothing is left behind. Elsewhere the folder goes with the
    // program.
    system::remove(&copy);
    let entry = opened.map_err(|error| match error {
        Refused::Open(reason) => LibraryError::Open { path: path(), reason },
        Refused::Symbol => LibraryError::NoPlugin { path: path() },
    })?;
    let says = fields(ENTRY_MAGIC, entry.header);
    let is_same = says.is_some_and(|it| it.iter().any(|(key, value)| key == "symbol" && *value == file.symbol));
    if !is_same || memchr::memmem::find(&file.bytes, entry.header).is_none() {
        return Err(LibraryError::Mismatch { path: path() });
    }
    entry.attach(&Attach::here(&file.krate)).map_err(|source| LibraryError::Attach { path: path(), source })?;
    let contents = entry.contents();
    Ok(Image { file: file.clone().without_bytes(), copy, entry, contents })
}

enum Refused {
    Open(String),
    Symbol,
}

fn opened(copy: &Path, symbol: &str) -> Result<&'static Entry, Refused> {
    // SAFETY: opening runs static constructors of the library. They are those of Rust crates built like this program, which
    // register entries in lists and do nothing else unless an author wrote some; that is in the guide for authors, and a
    // library that a repository brought is opened only after its user trusted it.
    let library = unsafe { Library::new(copy) }.map_err(|error| Refused::Open(describe(&error)))?;
    let entry = {
        // SAFETY: the file's record, made by `plugin!`, names the symbol, which `plugin!` gave this type; the record's
        // fingerprint says that the type is laid out as it is here.
        let symbol = unsafe { library.get::<extern "C" fn() -> &'static Entry>(symbol) };
        symbol.map(|it| *it).map_err(|_| Refused::Symbol)
    };
    // Never unmapped: values, wakers, thread-locals and texts of it may be anywhere.
    std::mem::forget(library);
    entry.map(|entry| entry())
}

/// With what the system said, which is the source.
fn describe(error: &libloading::Error) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
