//! A runtime for tests: one thread, a clock that stands still, and no chance.
//!
//! Tasks run in the order they were woken. When nothing can run the clock jumps to the next timer, so a test that sleeps
//! for an hour takes no time, and runs the same way each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use linn_bus::{BoxFuture, Clock, Executor, Grace, Root, Seams, SeededIds};

use crate::watchdog::{PATIENCE, Steps, watched};

/// Executor and clock in one. Clone it to keep a handle beside the root.
#[derive(Clone)]
pub struct TestRuntime(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    woken: Condvar,
    /// How long one poll may take; `None` for as long as it likes.
    patience: Option<Duration>,
}

#[derive(Default)]
struct State {
    now: Duration,
    next: u64,
    tasks: BTreeMap<u64, Option<BoxFuture<'static, ()>>>,
    ready: VecDeque<u64>,
    timers: BinaryHeap<Reverse<(Duration, u64)>>,
    sleepers: BTreeMap<u64, Waker>,
    /// Who waits until nothing else can run.
    idle: Vec<Waker>,
    /// How often nothing could run while somebody waited for that.
    n_idle: u64,
    /// Whether time passes by `advance` alone.
    held: bool,
}

impl State {
    /// Takes the next timer that somebody waits for and that is due by `until`, and sets the clock to it.
    fn next_timer(&mut self, until: Duration) -> Option<Waker> {
        while let Some(&Reverse((at, timer))) = self.timers.peek() {
            if at > until {
                return None;
            }
            self.timers.pop();
            // A timer that was given up does not move the clock.
            if let Some(waker) = self.sleepers.remove(&timer) {
                self.now = self.now.max(at);
                return Some(waker);
            }
        }
        None
    }
}

/// How long a test may wait for another thread.
const LIMIT: Duration = Duration::from_secs(10);

/// The task that a test's own future is.
const MAIN: u64 = 0;

impl std::fmt::Debug for TestRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestRuntime").field("now", &self.0.state().now).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaskWaker {
    shared: Arc<Shared>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.shared.state();
        if !state.ready.contains(&self.task) {
            state.ready.push_back(self.task);
        }
        drop(state);
        self.shared.woken.notify_all();
    }
}

impl Default for TestRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl TestRuntime {
    /// A runtime at time zero.
    pub fn new() -> Self {
        Self::with_patience(Some(PATIENCE))
    }

    /// [`new`](Self::new), for a test that may keep its thread busy for longer than 10 s at a time.
    pub fn unwatched() -> Self {
        Self::with_patience(None)
    }

    pub(crate) fn with_patience(patience: Option<Duration>) -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), woken: Condvar::new(), patience }))
    }

    /// The seams of this runtime; ids come from the seed 0.
    pub fn seams(&self) -> Seams {
        Seams { executor: Arc::new(self.clone()), clock: Arc::new(self.clone()), ids: Arc::new(SeededIds::new(0)) }
    }

    /// A bus on this runtime, with the default grace periods.
    pub fn root(&self) -> Root {
        Root::new(self.seams())
    }

    /// A bus on this runtime.
    pub fn root_with_grace(&self, grace: Grace) -> Root {
        Root::with_grace(self.seams(), grace)
    }

    /// Runs `future` and every task until `future` is ready. When nothing can run the clock jumps to the next timer.
    ///
    /// # Panics
    ///
    /// When nothing can run, no timer is left, and no other thread wakes anything for 10 s: the test waits for something
    /// that will not happen.
    ///
    /// # Aborts
    ///
    /// When a task has kept the thread for 10 s of real time, as a synchronous listener does that blocks on a disposal: no
    /// task can run then, so nothing will end it. A message with the name of the test goes to the standard error first.
    /// [`unwatched`](Self::unwatched) turns that off.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match self.0.patience {
            Some(patience) => watched(patience, |steps| self.turn_until_ready(future, steps)),
            None => self.turn_until_ready(future, &Steps::default()),
        }
    }

    fn turn_until_ready<T>(&self, future: impl Future<Output = T>, steps: &Steps) -> T {
        let mut future = std::pin::pin!(future);
        let main = self.waker(MAIN);
        self.0.state().ready.push_back(MAIN);
        loop {
            let Some(task) = self.next_ready() else { continue };
            let _step = steps.begin();
            if task == MAIN {
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&main)) {
                    return value;
                }
            } else {
                self.run(task);
            }
        }
    }

    fn next_ready(&self) -> Option<u64> {
        let mut state = self.0.state();
        if let Some(task) = state.ready.pop_front() {
            return Some(task);
        }
        let idle = std::mem::take(&mut state.idle);
        if !idle.is_empty() {
            state.n_idle += 1;
            drop(state);
            idle.into_iter().for_each(Waker::wake);
            return None;
        }
        if !state.held
            && let Some(waker) = state.next_timer(Duration::MAX)
        {
            drop(state);
            waker.wake();
            return None;
        }
        let (state, timeout) = self
            .0
            .woken
            .wait_timeout_while(state, LIMIT, |it| it.ready.is_empty() && (it.held || it.timers.is_empty()))
            .unwrap_or_else(PoisonError::into_inner);
        let held = state.held && !state.sleepers.is_empty();
        drop(state);
        assert!(
            !(timeout.timed_out() && held),
            "nothing can run and the clock is held: call `advance` or `release_clock`"
        );
        assert!(!timeout.timed_out(), "nothing can run and no timer is left: the test waits for what will not happen");
        None
    }

    fn run(&self, task: u64) {
        let Some(Some(mut future)) = self.0.state().tasks.get_mut(&task).map(Option::take) else { return };
        let waker = self.waker(task);
        // The bus catches what panics; anything else is a fault of the test's own task and must not be lost.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        match polled {
            Ok(Poll::Pending) => {
                if let Some(place) = self.0.state().tasks.get_mut(&task) {
                    *place = Some(future);
                }
            }
            Ok(Poll::Ready(())) => {
                drop(self.0.state().tasks.remove(&task));
                drop(future);
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn waker(&self, task: u64) -> Waker {
        Arc::new(TaskWaker { shared: self.0.clone(), task }).into()
    }

    /// Waits until nothing else can run: every task has ended or waits, for a timer or for another thread. No time passes.
    ///
    /// ```
    /// use linn_bus_test::run_with;
    ///
    /// run_with(async |root, runtime| {
    ///     let task = root.spawn(async {}).unwrap();
    ///     assert!(!task.is_finished());
    ///     runtime.idle().await;
    ///     assert!(task.is_finished());
    /// });
    /// ```
    pub async fn idle(&self) {
        let before = self.0.state().n_idle;
        std::future::poll_fn(|cx| {
            let mut state = self.0.state();
            if state.n_idle != before {
                return Poll::Ready(());
            }
            state.idle.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Stops the clock from jumping by itself: time passes by [`advance`](Self::advance) alone, until
    /// [`release_clock`](Self::release_clock).
    pub fn hold_clock(&self) {
        self.0.state().held = true;
    }

    /// Lets the clock jump again whenever nothing can run.
    pub fn release_clock(&self) {
        self.0.state().held = false;
        self.0.woken.notify_all();
    }

    /// Lets `duration` pass. Timers fire in order, each at its own time, and what they wake runs before time goes on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use linn_bus_test::run_with;
    ///
    /// run_with(async |root, runtime| {
    ///     runtime.hold_clock();
    ///     let ctx = root.context().clone();
    ///     let task = root.spawn(async move { ctx.sleep(Duration::from_secs(60)).await }).unwrap();
    ///     runtime.advance(Duration::from_secs(59)).await;
    ///     assert!(!task.is_finished());
    ///     runtime.advance(Duration::from_secs(1)).await;
    ///     assert!(task.is_finished());
    /// });
    /// ```
    pub async fn advance(&self, duration: Duration) {
        // Timers that were about to be set count from the time before.
        self.idle().await;
        let until = self.monotonic() + duration;
        loop {
            let due = self.0.state().next_timer(until);
            let Some(waker) = due else { break };
            waker.wake();
            self.idle().await;
        }
        let mut state = self.0.state();
        state.now = state.now.max(until);
    }

    /// Tasks that have not ended.
    pub fn n_tasks(&self) -> usize {
        self.0.state().tasks.len()
    }

    /// Timers that somebody waits for.
    pub fn n_timers(&self) -> usize {
        self.0.state().sleepers.len()
    }
}

impl Executor for TestRuntime {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut state = self.0.state();
        state.next += 1;
        let id = state.next;
        state.tasks.insert(id, Some(task));
        state.ready.push_back(id);
        drop(state);
        self.0.woken.notify_all();
    }
}

impl Clock for TestRuntime {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.0.state().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let until = self.monotonic() + duration;
        Box::pin(Timer { shared: self.0.clone(), until, id: None })
    }
}

struct Timer {
    shared: Arc<Shared>,
    until: Duration,
    id: Option<u64>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut state = shared.state();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let id = match self.id {
            Some(id) => id,
            None => {
                state.next += 1;
                let id = state.next;
                state.timers.push(Reverse((self.until, id)));
                self.id = Some(id);
                id
            }
        };
        state.sleepers.insert(id, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.shared.state();
        let State { timers, sleepers, .. } = &mut *state;
        let waker = sleepers.remove(&id);
        // Timers given up are left in the heap until most of it is of them.
        if timers.len() > 2 * sleepers.len() + 32 {
            timers.retain(|Reverse((_, id))| sleepers.contains_key(id));
        }
        drop(state);
        drop(waker);
    }
}

/// Runs an asynchronous test on a bus of its own, by [`TestRuntime::block_on`].
///
/// ```
/// use linn_bus::Event;
///
/// #[derive(Event)]
/// #[event(name = "doc/ping", mode = Bail, output = u32)]
/// struct Ping;
///
/// linn_bus_test::run(async |root| {
///     root.on(|_: &Ping| Some(7)).unwrap();
///     root.sleep(std::time::Duration::from_secs(3600)).await.unwrap();
///     assert_eq!(root.bail(&Ping).unwrap(), Some(7));
/// });
/// ```
pub fn run<T>(test: impl AsyncFnOnce(Root) -> T) -> T {
    run_with(async |root, _| test(root).await)
}

/// [`run`] for a test that moves the clock itself: it is given the runtime beside the bus.
pub fn run_with<T>(test: impl AsyncFnOnce(Root, TestRuntime) -> T) -> T {
    let runtime = TestRuntime::new();
    let root = runtime.root();
    runtime.block_on(test(root, runtime.clone()))
}
