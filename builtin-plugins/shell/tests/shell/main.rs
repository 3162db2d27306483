//! Commands, as whoever runs them sees them; what is left of them is looked for in the table of processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod bash;
mod bash_sudo;
mod ends;
mod environment;
mod input_output;
mod life;
mod support;
