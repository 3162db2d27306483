//! Tasks that belong to a fiber.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context as TaskContext, Poll, Waker};

use pin_project_lite::pin_project;

use crate::bus::{Bus, lock};
use crate::context::Context;
use crate::effect::{Door, Leaf, NOWHERE, Owned, Undoing};
use crate::fault::{BusError, Cause, DisposeProblem, ListenerError};
use crate::fiber::Activation;
use crate::frames::TASK;
use crate::latch::Latch;
use crate::pool;
use crate::seams::BoxFuture;

#[doc(hidden)]
pub struct TaskState {
    me: Weak<TaskState>,
    place: AtomicU32,
    label: &'static str,
    activation: Arc<Activation>,
    cancelled: AtomicBool,
    waker: Mutex<Option<Waker>>,
    done: Latch,
}

impl TaskState {
    /// Has the task dropped at its next poll, which comes at once.
    pub(crate) fn cancel(&self) -> Arc<TaskState> {
        self.cancelled.store(true, Ordering::Release);
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
        self.me.upgrade().expect("a task that is reached is alive")
    }

    pub(crate) fn label(&self) -> &str {
        self.label
    }

    pub(crate) async fn wait(&self) {
        self.done.wait().await;
    }

    fn end(&self) {
        drop(self.activation.release(&self.place));
        self.done.set();
    }
}

impl Owned for TaskState {
    fn place(&self) -> &AtomicU32 {
        &self.place
    }
    fn label(&self) -> String {
        self.label.to_owned()
    }
    fn visit(&self, visitor: &mut dyn FnMut(Leaf<'_>)) {
        visitor(Leaf::Task(self));
    }
    fn undo<'a>(self: Arc<Self>, undoing: &'a Undoing<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.cancel();
            if undoing.in_grace(self.wait()).await.is_none() {
                undoing.problem(DisposeProblem::Stuck { plugin: undoing.plugin.clone(), what: self.label.to_owned() });
            }
        })
    }
    fn activation(&self) -> Option<Arc<Activation>> {
        Some(self.activation.clone())
    }
}

/// Why a task has no result.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// It was aborted, its plugin was unloaded, or its executor ended.
    #[error("the task was cancelled")]
    Cancelled,
    /// It panicked; the text of the panic.
    #[error("the task panicked: {0}")]
    Panicked(String),
}

/// A running task. Dropping the handle changes nothing: the task runs on until it ends, or its plugin does.
pub struct Task<T> {
    state: Arc<TaskState>,
    result: Arc<Mutex<Option<Result<T, TaskError>>>>,
}

impl<T> std::fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Task({})", self.state.label)
    }
}

impl<T> Task<T> {
    pub(crate) fn state(&self) -> &Arc<TaskState> {
        &self.state
    }

    /// Waits for the result.
    ///
    /// # Errors
    ///
    /// [`TaskError`] when the task has none. Cancel safe only as long as it is not ready: it gives the result away.
    pub async fn join(self) -> Result<T, TaskError> {
        self.state.done.wait().await;
        lock(&self.result).take().unwrap_or(Err(TaskError::Cancelled))
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.state.done.is_set()
    }

    /// Has the task dropped where it waits. Ends before the task is gone; [`join`](Self::join) waits for that.
    pub fn abort(&self) {
        self.state.cancel();
    }
}

pin_project! {
    struct Tracked<F: Future> {
        #[pin]
        future: Option<F>,
        state: Arc<TaskState>,
        bus: Arc<Bus>,
        result: Arc<Mutex<Option<Result<F::Output, TaskError>>>>,
    }

    impl<F: Future> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                let row = this.bus.rows.row();
                let depth = row.enter_closed(&this.state.activation.gate, TASK);
                drop(pool::guarded(|| this.future.set(None)));
                row.leave(&this.bus.rows, depth);
                this.state.end();
            }
        }
    }
}

impl<F: Future> Future for Tracked<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let mut this = self.project();
        // The old one may own a task, whose drop must not run under the lock.
        let old = lock(&this.state.waker).replace(cx.waker().clone());
        drop(old);
        let row = this.bus.rows.row();
        let depth = row.enter_closed(&this.state.activation.gate, TASK);
        let polled = match this.future.as_mut().as_pin_mut() {
            Some(_) if this.state.cancelled.load(Ordering::Acquire) => Poll::Ready(Err(TaskError::Cancelled)),
            Some(future) => match pool::guarded(|| future.poll(cx)) {
                Ok(polled) => polled.map(Ok),
                Err(text) => Poll::Ready(Err(TaskError::Panicked(text.0))),
            },
            None => Poll::Ready(Err(TaskError::Cancelled)),
        };
        let Poll::Ready(result) = polled else {
            row.leave(&this.bus.rows, depth);
            return Poll::Pending;
        };
        // The drop of a future may panic as well as its poll; the result stands.
        drop(pool::guarded(|| this.future.set(None)));
        row.leave(&this.bus.rows, depth);
        if let Err(TaskError::Panicked(text)) = &result {
            let cause = Cause::Panicked(text.clone());
            this.bus.report(&ListenerError::new(this.state.activation.identity.name.clone(), this.state.label, cause));
        }
        *lock(this.result) = Some(result);
        this.state.end();
        Poll::Ready(())
    }
}

impl Context {
    /// Runs `future` as a task of this plugin, on the executor of the root. When the plugin goes the task is dropped where
    /// it waits, and disposal waits until it is gone. A panic is logged and reported as `internal/fault`.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down.
    pub fn spawn<F>(&self, future: F) -> Result<Task<F::Output>, BusError>
    where
        F: Future + Send + 'static, // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
        F::Output: Send + 'static,
    {
        self.spawn_as("ctx.spawn()", future)
    }

    pub(crate) fn spawn_as<F>(&self, label: &'static str, future: F) -> Result<Task<F::Output>, BusError>
    where
        F: Future + Send + 'static, // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
        F::Output: Send + 'static,
    {
        let state = Arc::new_cyclic(|me| TaskState {
            me: me.clone(),
            place: AtomicU32::new(NOWHERE),
            label,
            activation: self.activation().clone(),
            cancelled: AtomicBool::new(false),
            waker: Mutex::default(),
            done: Latch::default(),
        });
        self.activation().adopt(state.clone(), Door::Tasks, || format!("`{label}`"))?;
        let result = Arc::new(Mutex::new(None));
        let bus = self.bus().clone();
        let tracked = Tracked { future: Some(future), state: state.clone(), bus, result: result.clone() };
        self.bus().seams.executor.spawn(Box::pin(tracked));
        Ok(Task { state, result })
    }
}
