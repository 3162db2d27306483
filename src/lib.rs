//! Linn is an agent harness in which everything is a plugin on one typed event bus.
//!
//! This crate composes: it is the one that may see every other crate of the workspace, and it holds no rule of its own.
//! What events, listeners, contexts and fibers are is said in [`bus`].

#![forbid(unsafe_code)]

pub use linn_bus as bus;
