//! Why a library is not one to load.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use linn_bus::library::AttachError;

/// One thing in which a library and the program are built differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is, such as `compiler`, or the name of a crate that both share.
    pub what: String,
    /// How the program has it.
    pub program: String,
    /// How the library has it.
    pub library: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_nothing = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        write!(f, "{}: {} here, {} in the library", self.what, or_nothing(&self.program), or_nothing(&self.library))
    }
}

struct Listed<'a>(&'a [Difference]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, difference) in self.0.iter().enumerate() {
            write!(f, "{}{difference}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Why a library is not loaded. Nothing of it ran, but for the kinds that say so.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The file cannot be read or copied.
    #[error("cannot {action} {}", path.display())]
    File {
        /// `read`, `copy` or `list`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// The file is no shared library of any kind.
    #[error("{} is no library: {reason}", path.display())]
    NoLibrary {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        reason: String,
    },
    /// The file ends before its end.
    #[error("{} is cut off: {n_bytes} bytes are there, and {n_wanted} are named in it; build it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        n_bytes: u64,
        /// The length it would have.
        n_wanted: u64,
    },
    /// The library is none of a plugin.
    #[error("{} exports no plugin; write `linn_sdk::plugin!(..)` in it, and `crate-type = [\"cdylib\", \"rlib\"]` in its manifest", path.display())]
    NoPlugin {
        /// The file.
        path: PathBuf,
    },
    /// It was built in another way than the program.
    #[error("{} was built differently: {}; build it again with `linn plugin build`", path.display(), Listed(differences))]
    BuiltDifferently {
        /// The file.
        path: PathBuf,
        /// In what.
        differences: Vec<Difference>,
    },
    /// It shares a crate with another library that has another copy of it.
    #[error("{} does not go with {}: {}; build both with the same version", path.display(), other.display(), Listed(differences))]
    Shared {
        /// The file.
        path: PathBuf,
        /// The other library.
        other: PathBuf,
        /// In what.
        differences: Vec<Difference>,
    },
    /// Nobody said that this content may run.
    #[error("{} comes with the workspace and is not trusted; look at it, then say `linn plugin trust {}`", path.display(), path.display())]
    NotTrusted {
        /// The file.
        path: PathBuf,
        /// Its content.
        digest: crate::library::Digest,
    },
    /// The system does not open it. Code of it may have run.
    #[error("cannot open {}: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// What it exports is not what its file says. Code of it has run.
    #[error("{} is not what its file says; build it again", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
    },
    /// It could not be tied to the program. Code of it has run.
    #[error("{}: {source}", path.display())]
    Attach {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: AttachError,
    },
    /// A plugin of it has the name of another one.
    #[error("{}: plugin `{plugin}` is there already, in {other}; rename one of them", path.display())]
    NameTaken {
        /// The file.
        path: PathBuf,
        /// The plugin.
        plugin: String,
        /// Where the other one is: a crate or a file.
        other: String,
    },
    /// Too many libraries that are not in use any more stay in memory.
    #[error(
        "{n_pinned} replaced libraries stay in memory, and {max_pinned} may; restart the program, or raise `max_pinned`. The old version runs on"
    )]
    TooManyPinned {
        /// How many there are.
        n_pinned: usize,
        /// How many there may be.
        max_pinned: usize,
    },
}

impl LibraryError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File { .. } => "LIBRARY_FILE",
            Self::NoLibrary { .. } => "LIBRARY_NONE",
            Self::Truncated { .. } => "LIBRARY_TRUNCATED",
            Self::NoPlugin { .. } => "LIBRARY_NO_PLUGIN",
            Self::BuiltDifferently { .. } => "LIBRARY_BUILT_DIFFERENTLY",
            Self::Shared { .. } => "LIBRARY_SHARED_CRATE",
            Self::NotTrusted { .. } => "LIBRARY_NOT_TRUSTED",
            Self::Open { .. } => "LIBRARY_OPEN",
            Self::Mismatch { .. } => "LIBRARY_MISMATCH",
            Self::Attach { source, .. } => source.code(),
            Self::NameTaken { .. } => "LIBRARY_NAME_TAKEN",
            Self::TooManyPinned { .. } => "LIBRARY_TOO_MANY_PINNED",
        }
    }
}
