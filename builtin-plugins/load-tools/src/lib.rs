//! Tools that a model is offered only once it asked for them, so that each request is shorter: the tool `load_tools`.
//!
//! What an agent has loaded is in the log of its session, as `tools/loaded` facts, and nowhere else.

#![forbid(unsafe_code)]

mod config;
mod loaded;
mod plugin;

pub use config::LoadToolsConfig;
pub use loaded::{LOADED, loaded_in};
pub use plugin::LoadToolsPlugin;
