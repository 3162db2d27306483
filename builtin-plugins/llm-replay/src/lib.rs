//! Records what models stream, and replays it: models named `replay:<name>` answer from a recording.
//!
//! A recording is a text of JSON lines that can be read, written by hand, bundled in the program, and sent with the report of
//! a bug; [`Recording`] tells what is in it. Neither replay nor tests need a key or a network.
//!
//! It asks no model by itself, and does not run tools: those of the replayed session run for real.

#![forbid(unsafe_code)]

mod adapter;
mod bundled;
mod compare;
mod error;
mod format;
mod plugin;
mod recorder;
mod store;
mod system;
mod tape;

pub use bundled::{BUNDLED, Bundled};
pub use compare::Difference;
pub use error::ReplayError;
pub use format::{Exchange, Outcome, RECORDING_VERSION, RecordedRequest, Recording, TimedChunk};
pub use plugin::{ReplayConfig, ReplayMode, ReplayPlugin};
pub use store::RecordingStore;
pub use system::FolderStore;
