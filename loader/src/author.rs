//! What authors of plugins need: a crate to begin with, the sources it depends on, and a library of it.

mod build;
mod create;
mod manifest;
mod unpack;

use std::io;
use std::path::PathBuf;

pub use build::{Built, Workshop, build};
pub use create::new_plugin;

use crate::library::LibraryError;

/// Why a plugin was not made or not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorError {
    /// The name is none for a crate.
    #[error("`{0}` is no name for a plugin; use lower-case letters, digits and `-`, beginning with a letter")]
    Name(String),
    /// Something is there already.
    #[error("{} is there already; choose another name or folder", .0.display())]
    Exists(PathBuf),
    /// A file was not written.
    #[error("cannot write below {}", path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no crate in a folder.
    #[error("{} has no `Cargo.toml` that can be read; name the folder of a plugin", path.display())]
    NoCrate {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// `cargo` or `rustc` did not run.
    #[error("cannot run cargo; install Rust from https://rustup.rs")]
    Cargo(#[source] io::Error),
    /// Another compiler than the one that built the program.
    #[error(
        "the compiler here is {found}, and this program was built by {wanted}; libraries of the two do not fit: \
         install that one with `rustup toolchain install {release}`, and set `RUSTUP_TOOLCHAIN={release}`"
    )]
    Compiler {
        /// Release and commit of the one that is here.
        found: String,
        /// Release and commit of the one that built the program.
        wanted: String,
        /// The release of that one.
        release: String,
    },
    /// The crate does not build.
    #[error("{} does not build{}{output}", path.display(), if output.is_empty() { "" } else { ":\n" })]
    Build {
        /// Folder of the crate.
        path: PathBuf,
        /// What the compiler says, if it was not shown already.
        output: String,
    },
    /// It builds and makes no library.
    #[error("{} makes no library; write `crate-type = [\"cdylib\", \"rlib\"]` below `[lib]` in its manifest", .0.display())]
    NoLibrary(PathBuf),
    /// It makes a library that cannot be loaded.
    #[error(transparent)]
    Library(#[from] LibraryError),
}

impl AuthorError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "PLUGIN_NAME",
            Self::Exists(_) => "PLUGIN_EXISTS",
            Self::Write { .. } => "PLUGIN_WRITE",
            Self::NoCrate { .. } => "PLUGIN_NO_CRATE",
            Self::Cargo(_) => "PLUGIN_CARGO",
            Self::Compiler { .. } => "PLUGIN_COMPILER",
            Self::Build { .. } => "PLUGIN_BUILD",
            Self::NoLibrary(_) => "PLUGIN_NO_LIBRARY",
            Self::Library(error) => error.code(),
        }
    }
}
