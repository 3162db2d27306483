//! Bounded queues: for an observer that must not slow the dispatch it hears.
//!
//! A listener of an [`Emit`] event runs on the stack of whoever emits, so a slow one slows everybody. What takes its time
//! hears the event through a queue instead: the emit copies the payload into it and goes on, a task of the observer reads
//! it at its own pace, and what it was too slow for is counted, not kept.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crate::bus::lock;
use crate::context::{Context, On};
use crate::effect::Listener;
use crate::event::{Emit, Event};
use crate::fault::BusError;
use crate::seams::BoxFuture;

/// What [`Queue::next`] gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Queued<E> {
    /// The next event.
    Event(E),
    /// So many events at this place were dropped, because the queue was full when later ones came.
    Dropped {
        /// How many; at least one.
        n: u64,
    },
}

/// The reading end of a bounded queue of events; made by [`Context::queue`].
///
/// Dropping it takes its listener out.
pub struct Queue<E> {
    shared: Arc<Shared<E>>,
    listener: Listener,
    /// Ends when the run of the plugin is over.
    plugin_ends: BoxFuture<'static, ()>,
    ended: bool,
    plugin: Arc<str>,
    event: &'static str,
}

struct Shared<E> {
    capacity: usize,
    state: Mutex<State<E>>,
}

struct State<E> {
    events: VecDeque<E>,
    /// Dropped in front of the first event, and not reported yet.
    n_dropped: u64,
    reader: Option<Waker>,
}

impl<E> Shared<E> {
    /// Takes an event in; the oldest one goes when there is no room.
    fn push(&self, event: E) {
        let (oldest, reader) = {
            let mut state = lock(&self.state);
            let oldest = if state.events.len() < self.capacity { None } else { state.events.pop_front() };
            state.n_dropped += u64::from(oldest.is_some());
            state.events.push_back(event);
            (oldest, state.reader.take())
        };
        // Code of the payload and of the executor, so outside the lock.
        drop(oldest);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<E> Queue<E> {
    /// The next event or a notice of what was dropped before it; none once the plugin is going down and nothing is left.
    ///
    /// The notice is logged as well.
    ///
    /// Cancel safe: what is not returned stays in the queue.
    pub async fn next(&mut self) -> Option<Queued<E>> {
        let next = std::future::poll_fn(|cx| {
            // Asked before the queue is looked at, so that what came before the end is not missed.
            self.ended = self.ended || self.plugin_ends.as_mut().poll(cx).is_ready();
            let mut state = lock(&self.shared.state);
            if state.n_dropped > 0 {
                return Poll::Ready(Some(Queued::Dropped { n: std::mem::take(&mut state.n_dropped) }));
            }
            if let Some(event) = state.events.pop_front() {
                return Poll::Ready(Some(Queued::Event(event)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let before = state.reader.replace(cx.waker().clone());
            drop(state);
            drop(before);
            Poll::Pending
        })
        .await;
        if let Some(Queued::Dropped { n }) = next {
            self.log_dropped(n);
        }
        next
    }

    fn log_dropped(&self, n: u64) {
        tracing::warn!(plugin = &*self.plugin, event = self.event, n, "a slow observer missed events");
    }
}

impl<E> Drop for Queue<E> {
    fn drop(&mut self) {
        self.listener.dispose();
        let n = lock(&self.shared.state).n_dropped;
        if n > 0 {
            self.log_dropped(n);
        }
    }
}

impl<E> std::fmt::Debug for Queue<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = lock(&self.shared.state);
        f.debug_struct("Queue")
            .field("event", &self.event)
            .field("capacity", &self.shared.capacity)
            .field("len", &state.events.len())
            .field("n_dropped", &state.n_dropped)
            .finish()
    }
}

impl Context {
    /// Hears an event through a queue of at most `capacity` events (at least one): for an observer that must not slow who
    /// emits, however slow it is itself. An emit pays for a copy of the payload and a short lock.
    ///
    /// When the queue is full the *oldest* event is dropped, so that the last one (a turn that ended) always arrives. The
    /// reader is told how many are missing, at the place where they are. The queue goes with the plugin.
    ///
    /// ```
    /// # use linn_bus::{BusError, Context, Event, Queued};
    /// # #[derive(Clone, Event)] #[event(name = "doc/delta", mode = Emit)] struct Delta { text: String }
    /// # fn doc(ctx: &Context) -> Result<(), BusError> {
    /// let mut deltas = ctx.queue::<Delta>(256)?;
    /// ctx.spawn(async move {
    ///     while let Some(next) = deltas.next().await {
    ///         match next {
    ///             Queued::Event(delta) => println!("{}", delta.text),
    ///             Queued::Dropped { n } => println!("[{n} pieces left out]"),
    ///         }
    ///     }
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`on`](Self::on).
    pub fn queue<E: Event<Mode = Emit, Output = Infallible> + Clone>(
        &self,
        capacity: usize,
    ) -> Result<Queue<E>, BusError> {
        self.queue_with(capacity, |listener| self.on(listener))
    }

    fn queue_with<E: Event<Mode = Emit, Output = Infallible> + Clone>(
        &self,
        capacity: usize,
        register: impl FnOnce(Push<E>) -> Result<Listener, BusError>,
    ) -> Result<Queue<E>, BusError> {
        let state = Mutex::new(State { events: VecDeque::new(), n_dropped: 0, reader: None });
        let shared = Arc::new(Shared { capacity: capacity.max(1), state });
        let into = shared.clone();
        let listener = register(Box::new(move |event| into.push(event.clone())))?;
        let activation = self.activation().clone();
        Ok(Queue {
            shared,
            listener,
            plugin_ends: Box::pin(async move { activation.ended().wait().await }),
            ended: false,
            plugin: self.activation().identity.name.clone(),
            event: E::NAME,
        })
    }
}

type Push<E> = Box<dyn Fn(&E) + Send + Sync>;

impl On<'_> {
    /// See [`Context::queue`].
    pub fn queue<E: Event<Mode = Emit, Output = Infallible> + Clone>(
        &self,
        capacity: usize,
    ) -> Result<Queue<E>, BusError> {
        self.context().queue_with(capacity, |listener| self.on(listener))
    }
}
