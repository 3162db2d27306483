//! The gate before tool calls: modes, rules, and what a human permitted for the rest of a session.
//!
//! It judges in `tools/pre-execute`, and answers `approval/request` where a human has permitted the like before. Asking
//! the human is the business of front ends.

#![forbid(unsafe_code)]

mod command;
mod config;
mod gate;
mod glob;
mod judge;
mod permissions;
mod plugin;
mod restricted;
mod rule;
mod subject;

pub use config::ApprovalGateConfig;
pub use plugin::{ApprovalGateNeeds, ApprovalGatePlugin};
