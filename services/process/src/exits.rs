//! Waiting for a child without reaping it.
//!
//! As long as a child is not reaped its process id names nothing else, so what is sent to its group reaches its group.

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears of children that exit.
#[derive(Debug)]
pub struct Exits(Signal);

impl Exits {
    /// Hears of what exits from now on. A runtime has to be entered.
    pub fn listen() -> io::Result<Self> {
        signal(SignalKind::child()).map(Self)
    }

    /// Ready when some child may have exited.
    ///
    /// Cancel safe.
    pub async fn some(&mut self) {
        // `None` would mean that nothing comes any more; the runtime is going down then, and this future with it.
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Ready when this child has exited.
    ///
    /// Cancel safe.
    pub async fn of(&mut self, child: Pid) {
        while !has_exited(child) {
            self.some().await;
        }
    }
}

/// Whether a child has exited; it is not reaped.
pub fn has_exited(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error says that it is no child any more.
    !matches!(waitid(WaitId::Pid(child), options), Ok(None))
}
