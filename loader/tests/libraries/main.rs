//! Libraries of plugins: built, looked at, opened, replaced.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod calls;
mod refused;
mod reload;
mod support;
