//! The harness as it is built: all of its plugins together.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod calls;
mod cancel;
mod many;
mod order;
mod prompt;
mod secrets;
mod stage;
