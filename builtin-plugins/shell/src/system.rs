//! Where commands meet the operating system: processes, their descendants, pipes, and files of output.
//!
//! A command leads a session of its own, without a terminal, and carries the variable `LINN_CALL` of its call in its
//! environment; what is found of what it starts is described in [`linn_process`].

mod group;
mod house;
mod outputs;
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
