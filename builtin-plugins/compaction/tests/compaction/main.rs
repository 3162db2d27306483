//! Compaction through the plugin: what makes room, what stays, and what fails.
//!
//! The name of a test begins with the id of the case it holds, where it holds one.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod limits;
mod manual;
mod region;
mod support;
mod threshold;
mod window;
