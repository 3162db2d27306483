//! Where commands meet the operating system: processes, their descendants, pipes, and files of output.
//!
//! # What is found of what a command starts
//!
//! A command leads a session of its own, without a terminal. On Linux everything is found that is in this session or its
//! process group, that descends from the command as long as its parents live, or that carries the variable `LINN_CALL` of
//! the call in its environment. What left the session, lost its parents and cleared its environment is found no more, and
//! neither is what runs as another user: signals to that need more rights than the harness has.
//!
//! On other systems the process group alone is found.

mod exits;
mod group;
mod house;
mod outputs;
mod processes;
mod run;

pub(crate) use house::House;
pub(crate) use outputs::{KeptOutput, Outputs};
pub(crate) use run::run;

use std::ffi::OsString;

/// The environment of the harness.
pub(crate) fn own_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// The program that runs lines where none is configured.
pub(crate) fn default_shell() -> &'static str {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_bash = std::env::split_paths(&path).any(|it| it.join("bash").is_file());
    if has_bash { "bash" } else { "sh" }
}
