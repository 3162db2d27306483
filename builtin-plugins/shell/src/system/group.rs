//! A command that runs, with all it started.

use std::collections::BTreeSet;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::{Either, select};
use linn_bus::Clock;
use linn_process::{Launch, Leader, Looks, Marks, Pipes, Process, Reach, family, group_of, send_all, session_of};
use rustix::process::{Signal, test_kill_process_group};

/// How often SIGKILL is sent before what does not go is left: it waits in the kernel, and goes when that lets it.
const N_KILLS: u32 = 40;

/// How long after a signal the processes are looked at again: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(80));

/// A command that runs, with all it started. Dropped before it was reaped it is killed at once.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Leader,
    cookie: String,
    known: BTreeSet<Process>,
}

impl Group {
    /// Starts a command in a session of its own. A runtime has to be entered.
    pub(crate) fn start(launch: &Launch, cookie: String) -> io::Result<Self> {
        Ok(Self { leader: Leader::start(launch)?, cookie, known: BTreeSet::new() })
    }

    /// Its standard input and outputs, once.
    pub(crate) fn pipes(&mut self) -> io::Result<Pipes> {
        self.leader.pipes()
    }

    /// Ready when the command itself has exited.
    ///
    /// Cancel safe.
    pub(crate) async fn exited(&mut self) {
        self.leader.exited().await;
    }

    /// Reaps the command, which has exited, and gives what it left running in its session.
    pub(crate) fn reap(&mut self) -> (Option<ExitStatus>, BTreeSet<Process>) {
        let status = self.leader.reap();
        let pid = self.leader.pid();
        // The id was given back a moment ago, and ids are given out in turn: if there is such a group, it is the same one.
        let has_left = self.leader.is_reaped() && test_kill_process_group(pid).is_ok();
        (status, if has_left { session_of(pid) } else { BTreeSet::new() })
    }

    /// Ends all of it: SIGTERM, after `grace` SIGKILL, until nothing is left. Gives the status of the command.
    ///
    /// Cancel safe: what was begun can be begun again.
    pub(crate) async fn end(&mut self, clock: &dyn Clock, grace: Duration) -> Option<ExitStatus> {
        self.terminate();
        // Those in the group have heard of it, and are not told twice.
        let mut told = group_of(self.leader.pid());
        let mut patience = clock.sleep(grace);
        let mut looks = Looks::new(LOOKS.0, LOOKS.1);
        while !self.is_gone() {
            let new: BTreeSet<Process> = self.known.difference(&told).copied().collect();
            send_all(&new, Signal::TERM);
            send_all(&new, Signal::CONT);
            told.extend(new);
            let changed = self.leader.changed(clock, &mut looks);
            if let Either::Right(_) = select(Box::pin(changed), &mut patience).await {
                break;
            }
        }
        let mut looks = Looks::new(LOOKS.0, LOOKS.1);
        for _ in 0..N_KILLS {
            if self.is_gone() {
                break;
            }
            self.kill();
            self.leader.changed(clock, &mut looks).await;
        }
        self.leader.reap()
    }

    /// Whether the command and everything it started have exited.
    fn is_gone(&mut self) -> bool {
        self.look();
        self.known.is_empty() && self.leader.has_exited()
    }

    fn look(&mut self) {
        // A command may live for days, and see its ids given out anew.
        let marks =
            Marks { leader: Some(self.leader.pid()), cookie: &self.cookie, known: &self.known, reach: Reach::All };
        self.known = family(&marks);
    }

    /// Asks the group to end, after a look at who belongs to the command: whom it took along as a parent is not to be told
    /// any more once it is gone.
    pub(crate) fn terminate(&mut self) {
        self.look();
        self.leader.signal(Signal::TERM);
        // What is stopped would not hear of it.
        self.leader.signal(Signal::CONT);
    }

    fn kill(&self) {
        self.leader.signal(Signal::KILL);
        send_all(&self.known, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.leader.is_reaped() && !self.is_gone() {
            self.kill();
        }
        self.leader.reap();
    }
}
