//! The tool `diagnostics`: what the compiler or linter of a project says.
//!
//! The project is found by a file that marks it, at the path that is asked about or above; the program runs in its folder.

#![forbid(unsafe_code)]

mod config;
mod plugin;

pub use config::{Check, DiagnosticsConfig};
pub use plugin::DiagnosticsPlugin;
