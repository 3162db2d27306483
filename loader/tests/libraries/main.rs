//! Libraries of plugins: built, looked at, opened, replaced.
#![allow(clippy::disallowed_methods, reason = "the tests have a runtime and threads of their own, and run cargo")]
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod calls;
mod contained;
mod edits;
mod examples;
mod models;
mod refused;
mod reload;
mod support;
