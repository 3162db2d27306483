//! Conformance of fibers: effects, plugins, lifecycle, services, isolation, timers and loggers.
//!
//! The name of a test begins with the id of the case it holds, where it holds one.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::disallowed_names, reason = "the cases call their services foo and bar")]

mod effects;
mod isolation;
mod lifecycle;
mod logger;
mod misuse;
mod needs;
mod plugins;
mod services;
mod support;
mod timers;
mod updates;
