//! The plugin tree as fibers.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod built_in;
mod entries;
mod isolation;
mod support;
mod trust;
