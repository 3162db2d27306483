//! A listener for events of any mode that keeps what it heard.

use std::any::Any;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use linn_bus::{
    Bail, BusError, Context, Emit, Event, Listener, ListenerError, Mode, Next, Parallel, Serial, Waterfall, listener,
};

/// Listens to events of any mode, passes them on or answers them, and keeps what it heard in order.
///
/// It keeps copies of payloads that are `Clone`, or whatever a closure makes of them. Clones of a recorder share one record.
///
/// ```
/// use linn_bus::Event;
/// use linn_bus_test::{Recorder, run};
///
/// #[derive(Event, Clone, PartialEq, Debug)]
/// #[event(name = "doc/ask", mode = Bail, output = u32)]
/// struct Ask(u8);
/// #[derive(Event)]
/// #[event(name = "doc/done", mode = Waterfall, output = u32)]
/// struct Done { by: String }
///
/// run(async |root| {
///     let recorder = Recorder::new();
///     recorder.answer(&root, |ask: &Ask| (ask.0 > 1).then_some(7)).unwrap();
///     recorder.note(&root, |done: &Done| done.by.clone()).unwrap();
///
///     assert_eq!(root.bail(&Ask(1)).unwrap(), None);
///     assert_eq!(root.bail(&Ask(2)).unwrap(), Some(7));
///     assert_eq!(root.waterfall(&Done { by: "me".into() }, async || 3).await.unwrap(), 3);
///
///     assert_eq!(recorder.heard::<Ask>(), [Ask(1), Ask(2)]);
///     assert_eq!(recorder.heard::<String>(), ["me"]);
///     assert_eq!(recorder.names(), ["doc/ask", "doc/ask", "doc/done"]);
/// });
/// ```
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    entries: Vec<Entry>,
    waiting: Vec<Waker>,
}

struct Entry {
    event: &'static str,
    kept: Box<dyn Any + Send>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Recorder").field(&self.names()).finish()
    }
}

impl Recorder {
    /// A recorder that listens to nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps copies of `E` and passes every occurrence on: no answer, and `next` in a waterfall.
    ///
    /// # Errors
    ///
    /// As [`Context::on`].
    pub fn listen<E: Event + Clone>(&self, ctx: &Context) -> Result<Listener, BusError>
    where
        E::Mode: Recordable<E>,
    {
        self.note(ctx, E::clone)
    }

    /// Keeps copies of `E` and answers it; `None` passes the occurrence on.
    ///
    /// # Errors
    ///
    /// As [`Context::on`].
    pub fn answer<E: Event + Clone>(
        &self,
        ctx: &Context,
        answer: impl Fn(&E) -> Option<E::Output> + Send + Sync + 'static,
    ) -> Result<Listener, BusError>
    where
        E::Mode: Recordable<E>,
    {
        self.register(ctx, E::clone, answer)
    }

    /// Keeps what `keep` makes of `E` and passes every occurrence on; for payloads that cannot be cloned, and where only a
    /// part matters.
    ///
    /// # Errors
    ///
    /// As [`Context::on`].
    pub fn note<E: Event, K: Send + 'static>(
        &self,
        ctx: &Context,
        keep: impl Fn(&E) -> K + Send + Sync + 'static,
    ) -> Result<Listener, BusError>
    where
        E::Mode: Recordable<E>,
    {
        self.register(ctx, keep, |_| None)
    }

    fn register<E: Event, K: Send + 'static>(
        &self,
        ctx: &Context,
        keep: impl Fn(&E) -> K + Send + Sync + 'static,
        answer: impl Fn(&E) -> Option<E::Output> + Send + Sync + 'static,
    ) -> Result<Listener, BusError>
    where
        E::Mode: Recordable<E>,
    {
        let recorder = self.clone();
        E::Mode::listen(ctx, move |event| {
            recorder.add(E::NAME, Box::new(keep(event)));
            answer(event)
        })
    }

    fn add(&self, event: &'static str, kept: Box<dyn Any + Send>) {
        let mut state = self.state();
        state.entries.push(Entry { event, kept });
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// What was kept of type `K`, in the order it was heard: the payload type, or what a closure made of it.
    pub fn heard<K: Clone + 'static>(&self) -> Vec<K> {
        self.state().entries.iter().filter_map(|it| it.kept.downcast_ref::<K>()).cloned().collect()
    }

    /// Names of all events heard, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.state().entries.iter().map(|it| it.event).collect()
    }

    /// Forgets what was heard so far.
    pub fn clear(&self) {
        self.state().entries.clear();
    }

    /// Waits until a `K` was kept `n` times, and gives the last of these; 1 is the first one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use linn_bus::Event;
    /// # use linn_bus_test::{Recorder, run};
    /// #[derive(Event, Clone)]
    /// #[event(name = "doc/tick", mode = Emit)]
    /// struct Tick(u32);
    ///
    /// run(async |root| {
    ///     let recorder = Recorder::new();
    ///     recorder.listen::<Tick>(&root).unwrap();
    ///     let (ctx, mut n) = (root.context().clone(), 0);
    ///     let every = Duration::from_secs(60);
    ///     root.interval(every, move || { n += 1; ctx.emit(&Tick(n)) }).unwrap();
    ///     assert_eq!(recorder.nth::<Tick>(3).await.0, 3);
    ///     assert_eq!(root.clock().monotonic(), every * 3);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// When `n` is 0.
    pub async fn nth<K: Clone + 'static>(&self, n: usize) -> K {
        let before = n.checked_sub(1).expect("occurrences are counted from 1");
        poll_fn(|cx| {
            let mut state = self.state();
            if let Some(kept) = state.entries.iter().filter_map(|it| it.kept.downcast_ref::<K>()).nth(before) {
                return Poll::Ready(kept.clone());
            }
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// How a [`Recorder`] listens to the events of a mode. Implemented by all five.
pub trait Recordable<E: Event>: Mode {
    /// Registers a listener that passes an occurrence on where `hear` answers `None`.
    ///
    /// # Errors
    ///
    /// As [`Context::on`].
    fn listen(
        ctx: &Context,
        hear: impl Fn(&E) -> Option<E::Output> + Send + Sync + 'static,
    ) -> Result<Listener, BusError>;
}

macro_rules! recordable {
    ($($mode:ident: $hear:ident $event:ident => $body:expr;)*) => {$(
        impl<E: Event<Mode = $mode>> Recordable<E> for $mode {
            fn listen(
                ctx: &Context,
                $hear: impl Fn(&E) -> Option<E::Output> + Send + Sync + 'static,
            ) -> Result<Listener, BusError> {
                ctx.on(move |$event: &E| $body)
            }
        }
    )*};
}
recordable! {
    Emit: hear event => drop(hear(event));
    Parallel: hear event => drop(hear(event));
    Bail: hear event => hear(event);
    Serial: hear event => hear(event);
}

impl<E: Event<Mode = Waterfall>> Recordable<E> for Waterfall {
    fn listen(
        ctx: &Context,
        hear: impl Fn(&E) -> Option<E::Output> + Send + Sync + 'static,
    ) -> Result<Listener, BusError> {
        ctx.on(listener!(async move |event: &E, next: Next<'_, E>| {
            match hear(event) {
                Some(answer) => Ok::<_, ListenerError>(answer),
                None => next.run().await,
            }
        }))
    }
}
