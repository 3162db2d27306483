//! Timers that belong to a fiber.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::bus::lock;
use crate::context::Context;
use crate::fault::BusError;
use crate::fiber::Activation;
use crate::seams::BoxFuture;
use crate::task::Task;

/// The plugin went before the time came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Context has been disposed")]
pub struct Disposed;

/// The time came before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not ready within {} ms", .after.as_millis())]
pub struct Elapsed {
    /// How long was waited.
    pub after: Duration,
}

/// Future of [`Context::sleep`].
#[must_use = "nobody waits until this is awaited: `ctx.sleep(..).await`"]
pub struct Sleep {
    timer: BoxFuture<'static, ()>,
    ended: BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sleep")
    }
}

impl Future for Sleep {
    type Output = Result<(), Disposed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.ended.as_mut().poll(cx).map(|()| Err(Disposed))
    }
}

impl Context {
    /// Ready after `duration`, or with an error when the plugin goes before. Dropping it gives the timer up.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let activation = self.activation().clone();
        Sleep {
            timer: self.bus().seams.clock.sleep(duration),
            ended: Box::pin(async move { activation.ended().wait().await }),
        }
    }

    /// `future`, if it is ready within `duration`.
    ///
    /// # Errors
    ///
    /// [`Elapsed`] when it is not; the future is dropped then. Cancel safe if `future` is.
    pub async fn within<T>(&self, duration: Duration, future: impl Future<Output = T>) -> Result<T, Elapsed> {
        let mut future = std::pin::pin!(future);
        let mut timer = self.bus().seams.clock.sleep(duration);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            timer.as_mut().poll(cx).map(|()| Err(Elapsed { after: duration }))
        })
        .await
    }

    /// Calls `callback` once, after `duration`; never when the timer or the plugin goes before.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down.
    pub fn timeout(&self, duration: Duration, callback: impl FnOnce() + Send + 'static) -> Result<Timer, BusError> {
        let timer = self.bus().seams.clock.sleep(duration);
        let task = self.spawn_as("ctx.timeout()", async move {
            timer.await;
            callback();
        })?;
        Ok(Timer(task))
    }

    /// Calls `callback` every `period`, first after one, until the timer or the plugin goes. Periods that passed while a
    /// call ran are left out.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down.
    pub fn interval(&self, period: Duration, mut callback: impl FnMut() + Send + 'static) -> Result<Timer, BusError> {
        let mut ticks = self.ticks(period);
        let identity = self.activation().identity.clone();
        let task = self.spawn_as("ctx.interval()", async move {
            // Not while calls in flight end on a version that was replaced: the new one has its own interval.
            while ticks.tick().await.is_ok() && !identity.is_replaced() {
                callback();
            }
        })?;
        Ok(Timer(task))
    }

    /// Moments `period` apart to wait for. A moment that passes while nobody waits is lost.
    pub fn ticks(&self, period: Duration) -> Ticks {
        Ticks { start: self.bus().seams.clock.monotonic(), period, context: self.clone() }
    }

    /// Calls that run at most once a `period`: the first at once, and the last of those that came meanwhile at its end.
    ///
    /// After the plugin is gone the first call still runs, but none is left for later.
    pub fn throttle<A: Send + 'static>(
        &self,
        period: Duration,
        callback: impl FnMut(A) + Send + 'static,
    ) -> Throttle<A> {
        self.paced(period, Pace::Throttle { trailing: true }, callback)
    }

    /// [`throttle`](Self::throttle) that drops what comes within a period instead of keeping the last for its end.
    pub fn throttle_leading<A: Send + 'static>(
        &self,
        period: Duration,
        callback: impl FnMut(A) + Send + 'static,
    ) -> Throttle<A> {
        self.paced(period, Pace::Throttle { trailing: false }, callback)
    }

    /// Calls that run once nobody has called for `period`, with what came last; none once the plugin is gone.
    pub fn debounce<A: Send + 'static>(
        &self,
        period: Duration,
        callback: impl FnMut(A) + Send + 'static,
    ) -> Throttle<A> {
        self.paced(period, Pace::Debounce, callback)
    }

    fn paced<A: Send + 'static>(
        &self,
        period: Duration,
        pace: Pace,
        callback: impl FnMut(A) + Send + 'static,
    ) -> Throttle<A> {
        let state = PacedState { last_run: None, waiting: None, timer: None, running: false, disposed: false };
        Throttle(Arc::new(Paced {
            context: self.clone(),
            period,
            pace,
            callback: Mutex::new(Box::new(callback)),
            state: Mutex::new(state),
        }))
    }
}

/// A timer that will call back. Dropping the handle changes nothing: the timer runs until it is disposed, or its plugin is.
#[derive(Debug)]
pub struct Timer(Task<()>);

impl Timer {
    /// Stops the timer; whether it was running still.
    pub fn dispose(&self) -> bool {
        let running = !self.0.is_finished();
        self.0.abort();
        running
    }
}

/// Moments to wait for, one period apart; see [`Context::ticks`].
#[derive(Debug)]
pub struct Ticks {
    start: Duration,
    period: Duration,
    context: Context,
}

impl Ticks {
    /// Waits for the next moment.
    ///
    /// # Errors
    ///
    /// [`Disposed`] when the plugin is gone. Cancel safe.
    pub async fn tick(&mut self) -> Result<(), Disposed> {
        let activation: &Arc<Activation> = self.context.activation();
        if activation.ended().is_set() {
            return Err(Disposed);
        }
        let passed = self.context.bus().seams.clock.monotonic().saturating_sub(self.start).as_nanos();
        let period = self.period.as_nanos().max(1);
        let left = period - passed % period;
        let nanos = u64::try_from(left).unwrap_or(u64::MAX);
        self.context.sleep(Duration::from_nanos(nanos)).await
    }
}

#[derive(Debug, Clone, Copy)]
enum Pace {
    Throttle { trailing: bool },
    Debounce,
}

/// A function that is called less often than it is asked; made by [`Context::throttle`] and [`Context::debounce`].
pub struct Throttle<A>(Arc<Paced<A>>);

struct Paced<A> {
    context: Context,
    period: Duration,
    pace: Pace,
    callback: Mutex<Box<dyn FnMut(A) + Send>>,
    state: Mutex<PacedState<A>>,
}

struct PacedState<A> {
    last_run: Option<Duration>,
    /// What the call at the end of the period gets.
    waiting: Option<A>,
    timer: Option<Timer>,
    /// The function runs: what it asks for itself comes after it.
    running: bool,
    disposed: bool,
}

impl<A> Paced<A> {
    /// Calls the function; `state.running` is set.
    fn run(&self, arguments: A) {
        let _running = Running(&self.state);
        (lock(&self.callback))(arguments);
    }
}

/// Ends a run of a paced function, also one that panics.
struct Running<'a, A>(&'a Mutex<PacedState<A>>);

impl<A> Drop for Running<'_, A> {
    fn drop(&mut self) {
        lock(self.0).running = false;
    }
}

impl<A> PacedState<A> {
    fn stop_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.dispose();
        }
    }
}

impl<A> Clone for Throttle<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A> std::fmt::Debug for Throttle<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Throttle({:?}, {:?})", self.0.pace, self.0.period)
    }
}

impl<A: Send + 'static> Throttle<A> {
    /// Asks for a call with `arguments`.
    pub fn call(&self, arguments: A) {
        let paced = &self.0;
        let now = paced.context.bus().seams.clock.monotonic();
        // Declared before the lock, so that it is dropped after it: its own code may ask again.
        let dropped;
        let mut refused = None;
        let mut state = lock(&paced.state);
        let delay = match paced.pace {
            Pace::Debounce => {
                state.stop_timer();
                paced.period
            }
            Pace::Throttle { trailing } => {
                let passed = state.last_run.map(|it| now.saturating_sub(it));
                match passed {
                    Some(passed) if passed < paced.period => {
                        if !trailing {
                            return;
                        }
                        paced.period - passed
                    }
                    _ if !state.running && state.timer.as_ref().is_none_or(|it| it.0.is_finished()) => {
                        state.last_run = Some(now);
                        state.running = true;
                        drop(state);
                        paced.run(arguments);
                        return;
                    }
                    _ if !trailing => return,
                    _ => Duration::ZERO,
                }
            }
        };
        if state.disposed {
            return;
        }
        dropped = state.waiting.replace(arguments);
        if state.timer.as_ref().is_some_and(|it| !it.0.is_finished()) {
            return;
        }
        let later = paced.clone();
        let label = match paced.pace {
            Pace::Debounce => "ctx.debounce()",
            Pace::Throttle { .. } => "ctx.throttle()",
        };
        let timer = paced.context.bus().seams.clock.sleep(delay);
        let task = paced.context.spawn_as(label, async move {
            timer.await;
            let arguments = {
                let mut state = lock(&later.state);
                state.last_run = Some(later.context.bus().seams.clock.monotonic());
                state.timer = None;
                let arguments = state.waiting.take();
                state.running |= arguments.is_some();
                arguments
            };
            if let Some(arguments) = arguments {
                later.run(arguments);
            }
        });
        match task {
            Ok(task) => state.timer = Some(Timer(task)),
            // The plugin is gone: nothing is left for later.
            Err(_) => refused = state.waiting.take(),
        }
        drop(state);
        drop((dropped, refused));
    }

    /// Drops the call that waits for the end of the period, and lets none wait any more.
    pub fn dispose(&self) {
        let waiting = {
            let mut state = lock(&self.0.state);
            state.disposed = true;
            state.stop_timer();
            state.waiting.take()
        };
        drop(waiting);
    }
}
