//! Tests of the registry of tools and of the way of a call.

mod calls;
mod decisions;
mod endings;
mod registry;
pub(crate) mod support;
