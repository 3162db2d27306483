//! A test kit for plugins of `linn-bus`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod runtime;

pub use runtime::{TestRuntime, run};
