//! Waterfall: each listener wraps the rest, down to the default of whoever dispatches.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::call::{Answer, Progress, Running, start_alone};
use super::record::{self, Recording};
use super::{Emitter, is_internal};
use crate::bus::Parked;
use crate::cell::Entry;
use crate::event::Mode;
use crate::event::{Dispatches, Event, verb};
use crate::fault::ListenerError;
use crate::frames::INNER;
use crate::listen::{Answers, Begun, FinishAs, Outcome, Starter};
use crate::pool::{self, ErasedFuture, FreeLists, Started};
use crate::seams::BoxFuture;

pub(crate) async fn waterfall<'a, E, D, Fut, K>(
    emitter: Emitter<'a>,
    event: &'a E,
    default: D,
) -> Result<E::Output, ListenerError>
where
    E: Event,
    E::Mode: Dispatches<verb::waterfall, E> + Answers<E, Fut::Output, K>,
    D: Fn() -> Fut + Send + Sync,
    Fut: Future + Send,
{
    if !is_internal::<E>() && emitter.bus.is_watched() && emitter.watch(event)? {
        return Box::pin(record::waterfall(emitter, event, default)).await;
    }
    let held = emitter.source(event).and_then(|(source, slot)| Some((source.hold(&emitter.bus.rows, slot)?, slot)));
    let (entries, slot): (&[Entry<E>], u32) = match &held {
        Some(((snapshot, suspect), slot)) => {
            if let Some(depth) = suspect {
                emitter.check_nesting(E::NAME, *slot, *depth)?;
            }
            (snapshot, *slot)
        }
        None => (&[], 0),
    };
    let start_default = |free: &FreeLists, cx: &mut Context<'_>| {
        Begun::<E>(pool::start::<Fut, FinishAs<E, Fut::Output, K>>(free, &default, cx))
    };
    let chain = Chain { emitter, event, entries, slot, default: &start_default, recording: None };
    Next { chain: &chain, at: 0 }.run().await
}

/// What all layers of one dispatch share.
pub(super) struct Chain<'a, E: Event> {
    pub(super) emitter: Emitter<'a>,
    pub(super) event: &'a E,
    pub(super) entries: &'a [Entry<E>],
    pub(super) slot: u32,
    pub(super) default: &'a (dyn Fn(&FreeLists, &mut Context<'_>) -> Begun<'a, E> + Send + Sync + 'a),
    /// Of a dispatch that is recorded; it has the entries then.
    pub(super) recording: Option<&'a Recording<'a, E>>,
}

/// The rest of a waterfall, from one place on. It is `Copy` and remembers its place: running it twice runs the inner
/// listeners twice, which is what a retry needs.
pub struct Next<'a, E: Event> {
    pub(super) chain: &'a Chain<'a, E>,
    /// Of another size than the pointer, so that both are copied one by one: a copy of both at once would have to wait
    /// until what was just written one by one has reached the cache.
    pub(super) at: u32,
}

impl<E: Event> Clone for Next<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E: Event> Copy for Next<'_, E> {}

impl<E: Event> std::fmt::Debug for Next<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Next({} of {} on {})", self.at, self.chain.entries.len(), E::NAME)
    }
}

impl<'a, E: Event> Next<'a, E> {
    /// Runs the inner listeners and, if they all delegate, the default.
    ///
    /// The error names the listener that failed, panicked, or was unloaded while it waited; answer something else to
    /// recover, or pass it on with `?` or as it is.
    ///
    /// Cancel safe: dropping the future drops the inner listeners' futures.
    #[inline]
    pub fn run(self) -> Run<'a, E> {
        Run { next: self, state: State::Start }
    }
}

/// Future of [`Next::run`].
#[must_use = "the inner listeners run when this is awaited"]
pub struct Run<'a, E: Event> {
    next: Next<'a, E>,
    state: State<'a, E>,
}

enum State<'a, E: Event> {
    Start,
    /// In a box, to keep the futures of layers small.
    Listener(Box<Waits<'a, E>>),
    Default(ErasedFuture<'a, Outcome<E>>),
    Recorded(BoxFuture<'a, Answer<E>>),
}

struct Waits<'a, E: Event> {
    running: Running<'a, E>,
    parked: Parked<'a>,
}

impl<E: Event> std::fmt::Debug for Run<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({:?})", self.next)
    }
}

impl<E: Event> Future for Run<'_, E> {
    type Output = Result<E::Output, ListenerError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { next, state } = &mut *self;
        let answer = match state {
            State::Start => FreeLists::with(|free| next.start(state, free, cx)),
            State::Listener(waiting) => {
                let polled = waiting.running.poll_alone(cx);
                if polled.is_pending() {
                    waiting.parked.set(cx.waker());
                }
                polled
            }
            State::Recorded(layers) => layers.as_mut().poll(cx),
            State::Default(future) => future.poll(cx).map(|outcome| next.default_answer(outcome)),
        };
        answer.map(|answer| answer.map(|value| value.expect("every answer of a waterfall listener has a value")))
    }
}

impl<'a, E: Event> Next<'a, E> {
    /// Starts the first layer from here on that is there still; what waits goes to `state`.
    #[inline]
    fn start(self, state: &mut State<'a, E>, free: &FreeLists, cx: &mut Context<'_>) -> Poll<Answer<E>> {
        // All layers are one dispatch, however many there are; the outermost stands for it.
        let slot = if self.at == 0 { self.chain.slot } else { self.chain.slot | INNER };
        self.start_this(slot, state, free, cx).unwrap_or_else(|| self.start_further(slot, state, free, cx))
    }

    /// Starts the layer at this place, or the default past the last one; nothing where the layer is gone.
    #[inline(always)]
    fn start_this(
        self,
        slot: u32,
        state: &mut State<'a, E>,
        free: &FreeLists,
        cx: &mut Context<'_>,
    ) -> Option<Poll<Answer<E>>> {
        let Self { chain, at } = self;
        let Some(entry) = chain.entries.get(at as usize) else { return Some(self.start_default(state, free, cx)) };
        let layer = E::Mode::layer::<E>(entry.hook())?;
        let begin = || layer.start(chain.event, Next { chain, at: at + 1 }, Starter::new(cx, free));
        match start_alone(chain.emitter.bus, entry.head(), slot, begin) {
            Progress::Skipped => None,
            Progress::Ready(answer) => Some(Poll::Ready(answer)),
            Progress::Pending(waiting) => Some(wait(Running::new(chain.emitter.bus, slot, waiting), state, cx)),
        }
    }

    #[cold]
    fn start_further(
        mut self,
        slot: u32,
        state: &mut State<'a, E>,
        free: &FreeLists,
        cx: &mut Context<'_>,
    ) -> Poll<Answer<E>> {
        loop {
            self.at += 1;
            if let Some(polled) = self.start_this(slot, state, free, cx) {
                return polled;
            }
        }
    }

    #[inline(never)]
    fn start_default(self, state: &mut State<'a, E>, free: &FreeLists, cx: &mut Context<'_>) -> Poll<Answer<E>> {
        if let Some(recording) = self.chain.recording {
            let mut layers = recording.run(self);
            let polled = layers.as_mut().poll(cx);
            *state = State::Recorded(layers);
            return polled;
        }
        match (self.chain.default)(free, cx).0 {
            Started::Ready(outcome) => Poll::Ready(self.default_answer(outcome)),
            Started::Pending(future) => {
                *state = State::Default(future);
                Poll::Pending
            }
        }
    }

    pub(super) fn default_answer(self, outcome: Outcome<E>) -> Answer<E> {
        let plugin = self.chain.emitter.plugin;
        outcome.map_err(|fault| ListenerError::from_fault(Arc::clone(plugin), E::NAME, fault))
    }
}

#[inline(never)]
fn wait<'a, E: Event>(running: Running<'a, E>, state: &mut State<'a, E>, cx: &mut Context<'_>) -> Poll<Answer<E>> {
    let mut parked = running.parked();
    parked.set(cx.waker());
    *state = State::Listener(Box::new(Waits { running, parked }));
    Poll::Pending
}
