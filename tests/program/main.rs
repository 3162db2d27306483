//! The built program, from outside.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod chat;
mod config;
mod demo;
mod endpoints;
mod first_plugin;
mod hooks;
mod killed;
mod plugins;
mod run;
mod secrets;
mod sessions;
mod stage;
