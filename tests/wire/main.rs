//! The built program, driven over standard input and output as front ends drive it, against a model server on loopback.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod approval;
mod beside;
mod cancel;
mod client;
mod closing;
mod commands;
mod compaction;
mod errors;
mod limits;
mod plugins;
mod restart;
mod scripts;
mod sessions;
mod startup;
mod transport;
mod turns;
