//! A script that runs, with all it started.

use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::Duration;

use futures_util::future::select;
use linn_bus::Clock;
use process_wrap::std::{CommandWrap, CommandWrapper, ProcessSession};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::system::exits::{Exits, has_exited};
use crate::system::processes::kill_family;

/// How often SIGKILL is sent before what does not go is left: it waits in the kernel, and goes when that lets it.
const N_KILLS: u32 = 40;

/// How often what was dropped is looked at before it is left to die alone.
const N_LOOKS_IN_DROP: u32 = 500;

/// How long after a signal the processes are looked at again: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// A script that runs, with all it started, in a session of its own. Dropped, all of it is killed at once.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    pid: Pid,
    mark: String,
    exits: Exits,
    is_reaped: bool,
}

impl Group {
    /// Starts a command in a session of its own; `mark` stands in its environment. A runtime has to be entered.
    pub(crate) fn start(mut command: Command, mark: String) -> io::Result<Self> {
        let exits = Exits::listen()?;
        // The wrapper makes the session before the program runs; what it would make of the child is not wanted.
        ProcessSession.pre_spawn(&mut command, &CommandWrap::with_new("", |_| {}))?;
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, mark, exits, is_reaped: false })
    }

    /// Its standard input and outputs, once.
    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Ready when the script itself has exited. It is not reaped.
    ///
    /// Cancel safe.
    pub(crate) async fn exited(&mut self) {
        self.exits.of(self.pid).await;
    }

    /// Kills all that is left of it, and gives the status of the script.
    ///
    /// Cancel safe: what was begun can be begun again, or is done by dropping it.
    pub(crate) async fn end(&mut self, clock: &dyn Clock) -> Option<ExitStatus> {
        let mut look_after = LOOKS.0;
        for _ in 0..N_KILLS {
            if self.kill() == 0 && has_exited(self.pid) {
                break;
            }
            let pause = clock.sleep(look_after);
            look_after = (look_after * 2).min(LOOKS.1);
            drop(select(Box::pin(self.exits.some()), pause).await);
        }
        self.try_reap()
    }

    /// Sends SIGKILL to the script, if it runs, and to all it started; gives how many others there were.
    fn kill(&self) -> usize {
        if self.is_reaped {
            return 0;
        }
        // Nobody may be left in it.
        let _ = kill_process_group(self.pid, Signal::KILL);
        kill_family(self.pid, &self.mark)
    }

    fn try_reap(&mut self) -> Option<ExitStatus> {
        if !has_exited(self.pid) {
            return None;
        }
        // The only error is that somebody else has reaped it, and then its status is lost.
        let status = self.child.try_wait();
        self.is_reaped = !matches!(status, Ok(None));
        status.ok().flatten()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is killed is gone in moments, and nobody who drops it shall meet it any more.
        for _ in 0..N_LOOKS_IN_DROP {
            if self.is_reaped || (self.kill() == 0 && has_exited(self.pid)) {
                break;
            }
            std::thread::yield_now();
        }
        if !self.is_reaped && self.try_reap().is_none() {
            // It is dying, and holds nothing that could keep it.
            let _ = self.child.wait();
        }
    }
}
