//! The vocabulary of the harness: events with their payloads and decisions, the facts of session logs, the seams that
//! plugins provide, and the registries that live in memory.
//!
//! There is no I/O here, and nothing that could be done in two ways: what can is a seam, and a plugin provides it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod approval;
pub mod chat;
pub mod commands;
pub mod compaction;
pub mod events;
pub mod fs;
pub mod ids;
pub mod interaction;
pub mod json;
pub mod kept;
pub mod llm;
pub mod memory_provider;
pub mod model;
pub mod oauth;
pub mod persistence;
pub mod plugin_admin;
pub mod prompt;
pub mod providers;
pub mod secrets;
pub mod session;
pub mod settings;
pub mod shell;
pub mod skills;
pub mod subagents;
pub mod tools;
pub mod usage;
pub mod web;
pub mod workflows;

linn_bus::shared_crate!();
