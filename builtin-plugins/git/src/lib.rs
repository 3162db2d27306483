//! The model's tools for git, over the `git` command.
//!
//! Those that look are told apart from those that change, and may run side by side. Pagers, external diffs, text converters,
//! signature checks and file system monitors that a repository names are not run for them.

#![forbid(unsafe_code)]

mod command;
mod plugin;
mod tools;

pub use plugin::{GitConfig, GitPlugin};
