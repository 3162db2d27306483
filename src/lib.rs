//! Linn is an agent harness in which everything is a plugin on one typed event bus.
//!
//! This crate composes: it is the one that may see every other crate of the workspace, and it holds no rule of its own.
//! [`Harness`] mounts the built-in plugins and yours; agents, sessions and tools are services of its context, and what
//! happens is events on its bus.
//!
//! | To | Read |
//! |---|---|
//! | run a harness in a program | [`Harness`] |
//! | know what events, listeners, contexts and fibers are | [`bus`] |
//! | know which events and services there are | [`services`] |
//! | configure a built-in plugin | [`plugins`] |

#![forbid(unsafe_code)]

mod added;
mod builtins;
mod configured;
mod harness;
mod settings;

pub use added::trust_file;
pub use builtins::built_in_entries;
pub use harness::{BuildError, Harness, HarnessBuilder};
pub use linn_bridge as bridge;
pub use linn_bus as bus;
pub use linn_config as config;
pub use linn_loader as loader;
pub use linn_services as services;
pub use linn_sources as sources;
pub use settings::{LiveConfig, SettingsPlugin};

/// The built-in plugins, with their configs.
pub mod plugins {
    pub use linn_plugin_agent_loop as agent_loop;
    pub use linn_plugin_approval as approval;
    pub use linn_plugin_bulk as bulk;
    pub use linn_plugin_compaction as compaction;
    pub use linn_plugin_diagnostics as diagnostics;
    pub use linn_plugin_files as files;
    pub use linn_plugin_finish as finish;
    pub use linn_plugin_git as git;
    pub use linn_plugin_insight as insight;
    pub use linn_plugin_interaction as interaction;
    pub use linn_plugin_llm_anthropic as llm_anthropic;
    pub use linn_plugin_llm_openai as llm_openai;
    pub use linn_plugin_llm_replay as llm_replay;
    pub use linn_plugin_load_tools as load_tools;
    pub use linn_plugin_providers as providers;
    pub use linn_plugin_script_plugins as script_plugins;
    pub use linn_plugin_session_store as session_store;
    pub use linn_plugin_shell as shell;
    pub use linn_plugin_stuck as stuck;
    pub use linn_plugin_todo as todo;
    pub use linn_plugin_tool_timeout as tool_timeout;
    pub use linn_plugin_web as web;
}
