//! A process that leads a session.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::select;
use linn_bus::Clock;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use crate::exits::{Exits, has_exited};
use crate::launch::Launch;
use crate::pipes::Pipes;
use crate::spawn::{Ends, spawn};

/// A process that leads a session of its own, without a terminal.
///
/// Dropping it does nothing to the process: whoever owns it ends it, or lets it be.
#[derive(Debug)]
pub struct Leader {
    pid: Pid,
    ends: Ends,
    exits: Exits,
    is_reaped: bool,
}

impl Leader {
    /// Starts a process in a session of its own. A tokio runtime with I/O has to be entered.
    ///
    /// # Errors
    ///
    /// It cannot be started, or exits cannot be heard of.
    pub fn start(launch: &Launch) -> io::Result<Self> {
        let exits = Exits::listen()?;
        let (pid, ends) = spawn(launch)?;
        Ok(Self { pid, ends, exits, is_reaped: false })
    }

    /// The id of the process, of its group and of its session.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its standard input and outputs, once.
    ///
    /// # Errors
    ///
    /// An output is no pipe, or was taken before.
    pub fn pipes(&mut self) -> io::Result<Pipes> {
        Pipes::of(std::mem::take(&mut self.ends))
    }

    /// Our end of its standard input, once, if that is a pipe.
    pub(crate) fn stdin(&mut self) -> Option<OwnedFd> {
        self.ends.stdin.take()
    }

    /// Ready when the process has exited. It is not reaped.
    ///
    /// Cancel safe.
    pub async fn exited(&mut self) {
        self.exits.of(self.pid).await;
    }

    /// Whether the process has exited.
    pub fn has_exited(&self) -> bool {
        self.is_reaped || has_exited(self.pid)
    }

    /// Whether its status was taken: from then on its id may be that of somebody else.
    pub fn is_reaped(&self) -> bool {
        self.is_reaped
    }

    /// Takes the status of the process, if it has exited and nobody has taken it before.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        if self.is_reaped {
            return None;
        }
        // The only error is that somebody else has reaped it, and then its status is lost.
        let status = waitpid(Some(self.pid), WaitOptions::NOHANG);
        self.is_reaped = !matches!(status, Ok(None));
        status.ok().flatten().map(|(_, status)| ExitStatus::from_raw(status.as_raw()))
    }

    /// Blocks until the process has exited, and reaps it. It is for one that was killed, which is a matter of moments.
    pub fn wait(&mut self) {
        while !self.is_reaped {
            // The only other error is that somebody else has reaped it.
            let is_interrupted = waitpid(Some(self.pid), WaitOptions::empty()).is_err_and(|it| it == Errno::INTR);
            self.is_reaped = !is_interrupted;
        }
    }

    /// Sends a signal to its group; nothing once it is reaped.
    pub fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            // Nobody may be left in it.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Waits until some child exits, or until it is time to look again.
    ///
    /// Cancel safe.
    pub async fn changed(&mut self, clock: &dyn Clock, looks: &mut Looks) {
        let pause = clock.sleep(looks.next());
        drop(select(Box::pin(self.exits.some()), pause).await);
    }
}

/// How long processes are let be before they are looked at again: twice as long from look to look, up to a limit.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    next: Duration,
    most: Duration,
}

impl Looks {
    /// Looks that begin with one pause and end with the other.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { next: first, most }
    }

    fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.most);
        pause
    }
}
