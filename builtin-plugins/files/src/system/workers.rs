//! Threads for what may take long.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use linn_bus::{Context, Fault};
use linn_services::fs::FsError;

/// Runs jobs on threads that go with the plugin, or in place.
///
/// In place every job runs when it is asked for, on the thread that asks: a run of the harness then goes the same way each
/// time, and nothing else goes on meanwhile.
#[derive(Clone)]
pub(crate) struct Workers(Option<Arc<Shared>>);

/// Whether a job is still wanted; it is not once whoever waits for it has gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets a [`Stop`] when the future that holds it is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        // Who waits for them learns that they are gone.
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(jobs);
        self.changed.notify_all();
    }

    /// What a thread does until the queue is closed.
    fn work(&self) {
        let mut queue = self.queue();
        while !queue.is_closed {
            match queue.jobs.pop_front() {
                Some(job) => {
                    drop(queue);
                    job();
                    queue = self.queue();
                }
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Workers {
    /// Starts threads that go with the plugin of `ctx`, or none to run jobs in place. A job that runs when the plugin goes
    /// is waited for.
    pub(crate) fn start(ctx: &Context, n_threads: usize) -> Result<Self, Fault> {
        if n_threads == 0 {
            return Ok(Self(None));
        }
        let shared = Arc::<Shared>::default();
        ctx.effect("file threads", |fx| {
            let mut ends = Vec::new();
            let mut threads = Vec::new();
            for n in 0..n_threads {
                let (alive, end) = oneshot::channel::<()>();
                let working = shared.clone();
                threads.push(spawn(n, move || {
                    working.work();
                    drop(alive);
                })?);
                ends.push(end);
            }
            let closing = shared.clone();
            fx.defer_async(async move {
                closing.close();
                for end in ends {
                    // Nothing is ever sent: that the sender is gone tells the end.
                    let _: Result<(), oneshot::Canceled> = end.await;
                }
                for thread in threads {
                    // It has nothing left to do, and its jobs caught their panics.
                    drop(thread.join());
                }
            });
            Ok::<_, Fault>(())
        })?;
        Ok(Self(Some(shared)))
    }

    /// Runs a job. Dropping the future takes back a job that did not begin; one that runs sees it at its [`Stop`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Stop) -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let Some(shared) = &self.0 else { return job(&Stop::default()) };
        let guard = StopOnDrop(Stop::default());
        let stop = guard.0.clone();
        let (give, take) = oneshot::channel();
        let job = move || {
            if !stop.is_set() {
                let result = catch_unwind(AssertUnwindSafe(|| job(&stop)));
                // Nobody may wait for it any more.
                drop(give.send(result));
            }
        };
        {
            let mut queue = shared.queue();
            if !queue.is_closed {
                queue.jobs.push_back(Box::new(job));
            }
        }
        shared.changed.notify_one();
        match take.await {
            Ok(Ok(result)) => result,
            // The call of the service catches it, as it would in place.
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(oneshot::Canceled) => Err(FsError::Service("the files are being unloaded".to_owned())),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the effect that owns these threads joins them; the bus has tasks only")]
fn spawn(n: usize, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>, Fault> {
    Ok(std::thread::Builder::new().name(format!("linn-files-{n}")).spawn(work)?)
}
