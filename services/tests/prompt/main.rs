//! Conformance of the system prompt: what it is made of, who may change it, and how it becomes text.
//!
//! The name of a test begins with the id of the case it holds, where it holds one.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod assembly;
mod protection;
mod registration;
mod rendering;
mod support;
