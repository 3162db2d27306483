//! The stdio protocol: a front end's commands come in as JSON lines, and what happens in the harness goes out as JSON
//! lines. docs/protocol.md describes it.
//!
//! The bridge is a plugin like any other: it makes an agent, drives it through the services of the harness, and hears of it
//! on the bus. It is not a place for features: what it cannot do with the services that are mounted it says so.
//!
//! ```no_run
//! use linn_bridge::{BridgeConfig, BridgePlugin, stdio};
//!
//! # async fn doc(root: linn_bus::Root) -> Result<(), Box<dyn std::error::Error>> {
//! let (input, output) = stdio()?;
//! let config = BridgeConfig::new(input, output, "/tmp/project");
//! let handle = config.handle();
//! root.mount::<BridgePlugin>(config)?.running().await?;
//! handle.ended().await;
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asks;
mod body;
mod bridge;
mod commands;
mod config;
mod events;
mod input;
mod journal;
mod models;
mod plugin;
mod run;
mod serve;
mod session;
mod sink;
mod system;
mod tally;
mod wire;
mod work;

pub use config::{BridgeConfig, BridgeHandle};
pub use plugin::{BridgeNeeds, BridgePlugin};
pub use system::stdio;
