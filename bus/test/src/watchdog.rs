//! Who notices that a task has blocked the only thread there is.
//!
//! Nothing on that thread can notice it, and no other thread can make it panic: the process is ended, with a message.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long one step may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// In so many parts the time is waited for. A process that was stopped, by a debugger or with the machine, is behind by
/// one part of it and not by all the time it stood still.
const PARTS: u32 = 10;

/// Counts where steps begin and where they end: odd inside of one.
#[derive(Default)]
pub(crate) struct Steps(AtomicU64);

pub(crate) struct Step<'a>(&'a Steps);

impl Steps {
    pub(crate) fn begin(&self) -> Step<'_> {
        self.0.fetch_add(1, Relaxed);
        Step(self)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Relaxed);
    }
}

/// Runs `body` on this thread, and ends the process when one step of it takes longer than `patience`.
pub(crate) fn watched<T>(patience: Duration, body: impl FnOnce(&Steps) -> T) -> T {
    let thread = std::thread::current();
    let steps = Steps::default();
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&steps, patience, end, thread.name().unwrap_or("a thread without a name")));
        // Moved in here, so that it goes before the watcher is waited for, also when `body` panics.
        let _ended = ended;
        body(&steps)
    })
}

/// Watches until the other end of `end` is gone.
fn watch(steps: &Steps, patience: Duration, end: Receiver<()>, thread: &str) {
    let (mut last, mut n_parts) = (0, 0);
    while end.recv_timeout(patience / PARTS) == Err(RecvTimeoutError::Timeout) {
        let now = steps.0.load(Relaxed);
        let stands = now % 2 == 1 && now == last;
        n_parts = if stands { n_parts + 1 } else { 0 };
        last = now;
        if n_parts == PARTS {
            abort(thread, patience);
        }
    }
}

fn abort(thread: &str, patience: Duration) -> ! {
    // Not by `eprintln!`, whose text a test's harness keeps back and does not live to show.
    let written = writeln!(
        std::io::stderr(),
        "\n`{thread}`: a task has blocked the thread for {patience:?}: a sync listener that waits for a disposal?\n\
         No other task can run, so the process ends here. A test that is only slow takes `TestRuntime::unwatched()`."
    );
    // Nobody is left to be told that the message could not be written.
    drop(written);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::TestRuntime;

    #[derive(linn_bus::Event)]
    #[event(name = "kit/block", mode = Emit)]
    struct Block;

    /// Set for the process that blocks itself.
    const BLOCKS: &str = "LINN_BUS_TEST_BLOCKS";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the process that ends itself must be another one; it is waited for")]
    fn a_listener_that_blocks_the_thread_ends_the_process_with_a_message() {
        if std::env::var_os(BLOCKS).is_some() {
            return block_for_ever();
        }
        let name = "watchdog::tests::a_listener_that_blocks_the_thread_ends_the_process_with_a_message";
        let this = std::env::current_exe().expect("a test is run from a file");
        let child = Command::new(this).args([name, "--exact"]).env(BLOCKS, "").output().expect("it ran once already");
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(!child.status.success(), "{said}");
        assert!(said.contains(&format!("`{name}`: a task has blocked the thread for 100ms")), "{said}");
    }

    fn block_for_ever() {
        let runtime = TestRuntime::with_patience(Some(Duration::from_millis(100)));
        let root = runtime.root();
        let (_kept, never) = channel::<()>();
        let never = std::sync::Mutex::new(never);
        root.on(move |_: &Block| drop(never.lock().map(|it| it.recv()))).expect("the root is active");
        runtime.block_on(async { root.emit(&Block) });
    }

    #[test]
    fn a_thread_that_waits_between_two_steps_or_is_unwatched_is_let_be() {
        let patience = Duration::from_millis(10);
        let (_kept, never) = channel::<()>();
        let wait = || assert_eq!(never.recv_timeout(patience * 5), Err(RecvTimeoutError::Timeout));
        // Between two steps the runtime waits, and says itself what that is for.
        watched(patience, |_| wait());
        TestRuntime::with_patience(None).block_on(async { wait() });
    }
}
