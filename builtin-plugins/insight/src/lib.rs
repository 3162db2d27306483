//! What sessions cost, and what fills the context of agents: the provider of [`Usage`](linn_services::usage::Usage).
//!
//! Everything derives from the logs of sessions. A log is read on from where it was read to before.

#![forbid(unsafe_code)]

mod breakdown;
mod plugin;
mod tally;

pub use plugin::{InsightConfig, InsightPlugin};
