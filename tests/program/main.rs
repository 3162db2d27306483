//! The built program, from outside.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod demo;
mod run;
mod sessions;
mod stage;
