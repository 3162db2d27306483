//! The model's file tools and the service behind them, on real files.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail a test by panicking")]

mod bulk;
mod confinement;
mod edit;
mod grep;
mod list;
mod manage;
mod plugin;
mod policy;
mod read;
mod support;
mod write;
