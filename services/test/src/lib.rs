//! A test kit for plugins of the harness.
//!
//! | To | Use |
//! |---|---|
//! | let a model answer from a script, and see what it was asked | [`ScriptedModel`], [`Reply`] |
//! | test an adapter without a network | [`ScriptedTransport`], [`HttpAnswer`] |
//! | hold a stream or a tool at a place until the test lets it go on | [`Gate`] |
//! | give a tool an agent to work for | [`undriven_agent`], [`undriven_agents`] |
//! | compare the log of a session in short | [`log_of`], [`summary`] |
//! | compare what a model is shown, in short | [`request_of`], [`message`] |
//!
//! The kit is not tied to a loop: mount the plugins you test beside it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod gate;
mod model;
mod reply;
mod short;
mod wire;

pub use agent::{undriven_agent, undriven_agents};
pub use gate::Gate;
pub use model::ScriptedModel;
pub use reply::Reply;
pub use short::{log_of, message, request_of, summary};
pub use wire::{HttpAnswer, ScriptedTransport};
