//! The files of a workspace: the `Fs` service, the model's tools for files, and the policy that wants files read before they
//! are written.
//!
//! Shell commands and version control are not here; restricted paths are the business of approval.

#![forbid(unsafe_code)]

mod config;
mod diff;
mod edits;
mod patching;
mod plugin;
mod policy;
mod provider;
mod system;
mod text;
mod tools;

pub use config::{Confinement, FilesConfig, FsConfig};
pub use plugin::{FileToolsNeeds, FileToolsPlugin, FilesPlugin};
pub use policy::FsPolicyPlugin;
pub use provider::{FsNeeds, FsPlugin};
