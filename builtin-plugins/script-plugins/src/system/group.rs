//! A script that runs, with all it started.

use std::collections::BTreeSet;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use linn_bus::Clock;
use linn_process::{Launch, Leader, Looks, Marks, Pipes, Reach, family, send_all};
use rustix::process::Signal;

/// How often SIGKILL is sent before what does not go is left: it waits in the kernel, and goes when that lets it.
const N_KILLS: u32 = 40;

/// How often what was dropped is looked at before it is left to die alone.
const N_LOOKS_IN_DROP: u32 = 500;

/// How long after a signal the processes are looked at again: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// A script that runs, with all it started, in a session of its own. Dropped, all of it is killed at once.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Leader,
    mark: String,
}

impl Group {
    /// Starts it in a session of its own; `mark` stands in its environment. A runtime has to be entered.
    pub(crate) fn start(launch: &Launch, mark: String) -> io::Result<Self> {
        Ok(Self { leader: Leader::start(launch)?, mark })
    }

    /// Its standard input and outputs, once.
    pub(crate) fn pipes(&mut self) -> io::Result<Pipes> {
        self.leader.pipes()
    }

    /// Ready when the script itself has exited. It is not reaped.
    ///
    /// Cancel safe.
    pub(crate) async fn exited(&mut self) {
        self.leader.exited().await;
    }

    /// Kills all that is left of it, and gives the status of the script.
    ///
    /// Cancel safe: what was begun can be begun again, or is done by dropping it.
    pub(crate) async fn end(&mut self, clock: &dyn Clock) -> Option<ExitStatus> {
        let mut looks = Looks::new(LOOKS.0, LOOKS.1);
        for _ in 0..N_KILLS {
            if self.kill() {
                break;
            }
            self.leader.changed(clock, &mut looks).await;
        }
        self.leader.reap()
    }

    /// Sends SIGKILL to the script, if it runs, and to all it started; whether nobody was there any more.
    fn kill(&self) -> bool {
        if self.leader.is_reaped() {
            return true;
        }
        self.leader.signal(Signal::KILL);
        let leader = Some(self.leader.pid());
        let family = family(&Marks { leader, cookie: &self.mark, known: &BTreeSet::new(), reach: Reach::Later });
        send_all(&family, Signal::KILL);
        family.is_empty() && self.leader.has_exited()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is killed is gone in moments, and nobody who drops it shall meet it any more.
        for _ in 0..N_LOOKS_IN_DROP {
            if self.kill() {
                break;
            }
            std::thread::yield_now();
        }
        // It is dying, if it is not dead, and holds nothing that could keep it.
        self.leader.wait();
    }
}
