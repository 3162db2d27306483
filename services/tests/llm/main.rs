//! Conformance of calls of models: putting answers together, and the registry of adapters.
//!
//! The name of a test begins with the id of the case it holds, where it holds one.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod adapters;
mod assembler;
mod calls;
mod wires;
