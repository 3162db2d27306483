//! How a turn is brought to its end: the tool `finish`, and what sees to it that a turn with tool calls ends with a word for
//! the human.
//!
//! What was said and called is read from the log; here is only how often a model was asked to say more.

#![forbid(unsafe_code)]

mod plugin;
mod rounds;

pub use plugin::{FinishConfig, FinishPlugin};
