//! A command that runs, with all it started.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::Duration;

use futures_util::future::select;
use linn_bus::Clock;
use process_wrap::std::{CommandWrap, CommandWrapper, ProcessSession};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::system::exits::{Exits, has_exited};
use crate::system::processes::{Marks, Process, family, group_of, send_all, session_of};

/// How often SIGKILL is sent before what does not go is left: it waits in the kernel, and goes when that lets it.
const N_KILLS: u32 = 40;

/// How long after a signal the processes are looked at again: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(80));

/// A command that runs, with all it started. Dropped before it was reaped it is killed at once.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    pid: Pid,
    cookie: String,
    exits: Exits,
    known: BTreeSet<Process>,
    is_reaped: bool,
}

impl Group {
    /// Starts a command in a session of its own. A runtime has to be entered.
    pub(crate) fn start(mut command: Command, cookie: String) -> io::Result<Self> {
        let exits = Exits::listen()?;
        // The wrapper makes the session before the program runs; what it would make of the child is not wanted.
        ProcessSession.pre_spawn(&mut command, &CommandWrap::with_new("", |_| {}))?;
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, cookie, exits, known: BTreeSet::new(), is_reaped: false })
    }

    /// Its standard input and outputs, once, where they are pipes.
    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Ready when the command itself has exited.
    ///
    /// Cancel safe.
    pub(crate) async fn exited(&mut self) {
        self.exits.of(self.pid).await;
    }

    /// Reaps the command, which has exited, and gives what it left running in its session.
    pub(crate) fn reap(&mut self) -> (Option<ExitStatus>, BTreeSet<Process>) {
        let status = self.try_reap();
        // The id was given back a moment ago, and ids are given out in turn: if there is such a group, it is the same one.
        let has_left = self.is_reaped && test_kill_process_group(self.pid).is_ok();
        (status, if has_left { session_of(self.pid) } else { BTreeSet::new() })
    }

    fn try_reap(&mut self) -> Option<ExitStatus> {
        // The only error is that somebody else has reaped it, and then its status is lost.
        let status = self.child.try_wait();
        self.is_reaped = !matches!(status, Ok(None));
        status.ok().flatten()
    }

    /// Ends all of it: SIGTERM, after `grace` SIGKILL, until nothing is left. Gives the status of the command.
    ///
    /// Cancel safe: what was begun can be begun again.
    pub(crate) async fn end(&mut self, clock: &dyn Clock, grace: Duration) -> Option<ExitStatus> {
        self.terminate();
        // Those in the group have heard of it, and are not told twice.
        let mut told = group_of(self.pid);
        let mut patience = clock.sleep(grace);
        let mut look_after = LOOKS.0;
        while !self.is_gone() {
            let new: BTreeSet<Process> = self.known.difference(&told).copied().collect();
            send_all(&new, Signal::TERM);
            send_all(&new, Signal::CONT);
            told.extend(new);
            let changed = self.changed(clock, &mut look_after);
            if let futures_util::future::Either::Right(_) = select(Box::pin(changed), &mut patience).await {
                break;
            }
        }
        let mut look_after = LOOKS.0;
        for _ in 0..N_KILLS {
            if self.is_gone() {
                break;
            }
            self.kill();
            self.changed(clock, &mut look_after).await;
        }
        if has_exited(self.pid) { self.try_reap() } else { None }
    }

    /// Waits until some child exits, or until it is time to look again.
    async fn changed(&mut self, clock: &dyn Clock, look_after: &mut Duration) {
        let pause = clock.sleep(*look_after);
        *look_after = (*look_after * 2).min(LOOKS.1);
        drop(select(Box::pin(self.exits.some()), pause).await);
    }

    /// Whether the command and everything it started have exited.
    fn is_gone(&mut self) -> bool {
        self.look();
        self.known.is_empty() && has_exited(self.pid)
    }

    fn look(&mut self) {
        self.known = family(&Marks { leader: Some(self.pid), cookie: &self.cookie, known: &self.known });
    }

    /// Asks the group to end, after a look at who belongs to the command: whom it took along as a parent is not to be told
    /// any more once it is gone.
    pub(crate) fn terminate(&mut self) {
        self.look();
        self.signal(Signal::TERM);
        // What is stopped would not hear of it.
        self.signal(Signal::CONT);
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
        send_all(&self.known, Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            // Nobody may be left in it.
            let _ = kill_process_group(self.pid, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped && !self.is_gone() {
            self.kill();
        }
        if !self.is_reaped {
            self.try_reap();
        }
    }
}
