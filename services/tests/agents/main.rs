//! The registry of agents: how they come, how they are found, and in which order they go.
#![expect(clippy::unwrap_used, reason = "helpers of tests unwrap as the tests do")]

mod birth;
mod death;
mod factories;
mod many;
mod request;
mod resume;
mod support;
