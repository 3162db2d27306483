//! The adapter through the plugin, without a network but for `network`.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod failures;
mod network;
mod requests;
mod streams;
mod support;
