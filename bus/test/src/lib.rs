//! A test kit for plugins of `linn-bus`.
//!
//! | To | Use |
//! |---|---|
//! | run an asynchronous test on a bus of its own, without real time | [`run`], [`run_with`], [`TestRuntime`] |
//! | listen to events of any mode and keep what was heard | [`Recorder`] |
//! | say which events have to be dispatched, in which order | [`Expected`] |
//! | find what a plugin leaves behind | [`leak_check`] |
//! | record time and numbers, and play them back | [`Recording`], [`Playback`] |
//!
//! The kit reaches the bus only through its public interface; whatever it does, a plugin's own tests could do too.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod expect;
mod leak;
mod record;
mod recorder;
mod runtime;
mod watchdog;

pub use expect::{Expected, Watch};
pub use leak::leak_check;
pub use record::{Draw, Playback, Recording};
pub use recorder::{Recordable, Recorder};
pub use runtime::{TestRuntime, run, run_with};
