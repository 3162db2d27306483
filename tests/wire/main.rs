//! The built program, driven over standard input and output as front ends drive it, against a model server on loopback.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod approval;
mod cancel;
mod client;
mod commands;
mod errors;
mod plugins;
mod sessions;
mod startup;
mod transport;
mod turns;
