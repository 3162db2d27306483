//! A model that makes the same call over and over is told so.
//!
//! Only calls that look count, and a call that may change something begins the count anew: after it the same look may show
//! something else.

#![forbid(unsafe_code)]

mod plugin;
mod repeats;

pub use plugin::{StuckConfig, StuckPlugin};
