//! The `linn` program.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os().collect(), std::env::var("LINN_LOG").ok().as_deref())
}
