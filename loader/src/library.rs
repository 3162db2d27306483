//! Plugins in libraries: looked at, opened, replaced.

mod error;
mod file;
mod open;
mod pages;
mod trust;

pub use error::{Difference, LibraryError};
pub use file::{Digest, LibraryFile};
pub(crate) use file::{file_error, shared_differences};
pub(crate) use open::{Image, open};
pub(crate) use pages::give_back;
pub use trust::TrustStore;
