//! The providers as others see them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod changes;
mod discovery;
mod login;
mod network;
mod routing;
mod support;
mod usage;
