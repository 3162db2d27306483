//! Finds, checks, mounts and reloads plugins.
//!
//! The [`Loader`] turns the plugin tree of `linn-config` into fibers: [`Loader::apply`] mounts what is new, disposes what
//! went, and leaves alone what did not change. Plugins are those linked into the program, and those of libraries, which are
//! looked at before they are opened ([`LibraryFile`]) and replaced while they run ([`Loader::reload`]).
//!
//! It reads no config by itself, knows no plugin by name, and speaks to nobody: what it has to say are return values and the
//! events `loader/*` and `hmr/*`.
#![warn(missing_docs)]

mod apply;
mod author;
mod check;
mod library;
mod list;
mod loader;
mod place;
mod problem;
mod registry;
mod reload;
mod system;
mod watch;

pub use author::{AuthorError, Built, Workshop, build, new_plugin};
pub use library::{Difference, Digest, LibraryError, LibraryFile, TrustStore};
pub use list::{Listing, ListingSource};
pub use loader::{Applied, Loader, LoaderSettings};
pub use problem::{EntryFault, EntryProblem};
pub use registry::LibrarySource;
pub use reload::{ReloadError, Reloaded};
pub use watch::Watching;
