//! Processes that lead a session, and all that they start: how they are waited for, found and ended.
//!
//! It is mechanics alone: what is run, for how long, and what its end means is the business of the plugins that run it.
//!
//! # What is found of what a process starts
//!
//! A [`Leader`] leads a session of its own, without a terminal. On Linux everything is found that is in this session or its
//! process group, that descends from the leader as long as the parents live, or that carries its mark in its environment;
//! see [`family`]. What left the session, lost its parents and cleared its environment is found no more, and neither is what
//! runs as another user: signals to that need more rights than the harness has.
//!
//! On other systems the process group alone is found.
//!
//! What is to end when this process is killed, and so can end nothing itself, is given a [`Watch`].
//!
//! ```
//! use linn_process::{Launch, Leader, Stream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let mut leader = Leader::start(&Launch {
//!     program: "true".into(),
//!     arguments: Vec::new(),
//!     cwd: "/".into(),
//!     environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
//!     stdin: Stream::Null,
//!     outputs: Stream::Null,
//! })?;
//! leader.exited().await;
//! assert!(leader.reap().is_some_and(|status| status.success()));
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

mod exits;
mod family;
mod launch;
mod leader;
mod pipes;
mod spawn;
mod watch;

pub use exits::{Exits, has_exited};
pub use family::{Marks, Process, Reach, family, group_of, send_all, session_of};
pub use launch::{Launch, Stream};
pub use leader::{Leader, Looks};
pub use pipes::{Pipes, next_piece, write_whole};
pub use watch::Watch;
