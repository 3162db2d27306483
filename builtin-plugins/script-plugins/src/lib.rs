//! Plugins made of a manifest and scripts in any language.
//!
//! A script plugin is a folder with a `plugin.json` and programs. A program is started for each question, gets one JSON
//! object on its standard input and answers with one on its standard output. `docs/script-plugins.md` tells authors all of
//! it.
//!
//! Whether a call may run is the business of approval as well; capabilities that a manifest declares are a promise of its
//! author, and no sandbox.

#![forbid(unsafe_code)]

mod active;
mod admin;
mod command;
mod config;
mod discovery;
mod exchange;
mod fleet;
mod hooks;
mod install;
mod manifest;
mod memory;
mod metrics;
mod oauth;
mod order;
mod plugin;
mod record;
mod system;
mod tell;
mod tool;
mod trust;

pub use config::ScriptPluginsConfig;
pub use plugin::{ScriptPluginsNeeds, ScriptPluginsPlugin};
