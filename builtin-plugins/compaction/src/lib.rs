//! Makes room in the window of a model: large old tool results are cut first, then the older part of the history gives way
//! to a summary that a model writes.
//!
//! What is replaced stays in the log. A summary is no memory: what is worth keeping beyond the session is told with
//! `compaction/end`, for whoever keeps it.

#![forbid(unsafe_code)]

mod compactor;
mod config;
mod digest;
mod estimate;
mod plugin;
mod pressure;
mod region;
mod repair;
mod summary;
mod transcript;

pub use config::CompactionConfig;
pub use plugin::CompactionPlugin;
