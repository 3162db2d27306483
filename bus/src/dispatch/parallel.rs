//! Parallel: all started in order, then awaited together; nobody starves, every failure is reported.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::call::{Progress, Turn, Waiting};
use super::{Emitter, is_internal, record};
use crate::bus::{Bus, Parked};
use crate::cell::Entry;
use crate::event::{Dispatches, Event, verb};
use crate::fault::{ListenerError, ListenerErrors};
use crate::listen::Starter;
use crate::pool::{Buffer, FreeLists};
use crate::wakers::Wakers;

/// Up to here every waiting listener is polled at each wake-up; beyond, only those that were woken.
const POLLED_TOGETHER: usize = 30;

pub(crate) async fn parallel<'a, E>(emitter: Emitter<'a>, event: &'a E) -> Result<(), ListenerErrors>
where
    E: Event,
    E::Mode: Dispatches<verb::parallel, E>,
{
    if !is_internal::<E>() && emitter.bus.is_watched() && emitter.watch(event)? {
        return Box::pin(record::parallel(emitter, event)).await;
    }
    let Some((source, slot)) = emitter.source(event) else { return Ok(()) };
    let Some((snapshot, suspect)) = source.hold(&emitter.bus.rows, slot) else { return Ok(()) };
    if let Some(depth) = suspect {
        emitter.check_nesting(E::NAME, slot, depth)?;
    }
    let mut errors: Errors = Vec::new();
    let mut together = None;
    poll_fn(|cx| match &mut together {
        None => start(emitter.bus, event, slot, &snapshot, &mut together, &mut errors, cx),
        Some(together) => together.poll(cx, &mut errors),
    })
    .await;
    check(errors)
}

fn check(mut errors: Errors) -> Result<(), ListenerErrors> {
    errors.sort_by_key(|(place, _)| *place);
    ListenerErrors::check(errors.into_iter().map(|(_, error)| error).collect())
}

/// What failed, with the place of its listener.
type Errors = Vec<(u32, ListenerError)>;

/// Starts all listeners; those that wait go to `together`.
#[inline]
fn start<'a, E>(
    bus: &'a Arc<Bus>,
    event: &'a E,
    slot: u32,
    entries: &'a [Entry<E>],
    together: &mut Option<Together<'a, E>>,
    errors: &mut Errors,
    cx: &mut Context<'_>,
) -> Poll<()>
where
    E: Event,
    E::Mode: Dispatches<verb::parallel, E>,
{
    FreeLists::with(|free| {
        let mut turn = Turn::new(bus, slot);
        for (place, entry) in (0..).zip(entries) {
            let object = E::Mode::object(entry.hook());
            let begin = || object.start(event, Starter::new(cx, free));
            match turn.start(bus, entry.head(), begin) {
                Progress::Skipped | Progress::Ready(Ok(_)) => {}
                Progress::Ready(Err(error)) => errors.push((place, error)),
                Progress::Pending(waiting) => together
                    .get_or_insert_with(|| Together::new(bus, slot, free, &waiting, entries.len() - place as usize))
                    .add(place, waiting),
            }
        }
    });
    let Some(together) = together else { return Poll::Ready(()) };
    together.parked.set(cx.waker());
    Poll::Pending
}

/// The listeners of one dispatch that wait.
struct Together<'a, E: Event> {
    bus: &'a Arc<Bus>,
    slot: u32,
    listeners: Buffer<(u32, Waiting<'a, E>)>,
    /// How many have not ended.
    left: usize,
    parked: Parked<'a>,
    /// A waker for each, where there are too many to poll them all, from the second poll on: most never wait that long.
    wakers: Option<Wakers>,
}

impl<'a, E: Event> Together<'a, E> {
    fn new(bus: &'a Arc<Bus>, slot: u32, free: &FreeLists, first: &Waiting<'a, E>, at_most: usize) -> Self {
        let parked = first.parked(bus);
        Self { bus, slot, listeners: Buffer::new(free, at_most), left: 0, parked, wakers: None }
    }

    #[inline]
    fn add(&mut self, place: u32, waiting: Waiting<'a, E>) {
        self.listeners.push((place, waiting));
        self.left += 1;
    }

    fn poll(&mut self, cx: &mut Context<'_>, errors: &mut Errors) -> Poll<()> {
        let Self { bus, slot, listeners, left, parked, wakers } = self;
        let count = listeners.len();
        FreeLists::with(|free| {
            let mut turn = Turn::new(bus, *slot);
            let mut poll = |(place, waiting): &mut (u32, Waiting<'a, E>), cx: &mut Context<'_>| {
                if let Poll::Ready(answer) = turn.poll(waiting, free, cx) {
                    *left -= 1;
                    errors.extend(answer.err().map(|error| (*place, error)));
                }
            };
            if count <= POLLED_TOGETHER {
                listeners.iter_mut().for_each(|it| poll(it, cx));
                return;
            }
            let mut poll_at = |wakers: &Wakers, at: usize| {
                wakers.with_waker(at, |waker| poll(&mut listeners[at], &mut Context::from_waker(waker)));
            };
            match wakers {
                // The wakers they have do not tell who was woken.
                None => {
                    let wakers = wakers.insert(Wakers::new(count, cx.waker()));
                    (0..count).for_each(|at| poll_at(wakers, at));
                }
                Some(wakers) => {
                    wakers.wake_through(cx.waker());
                    wakers.woken(count, |at| poll_at(wakers, at));
                }
            }
        });
        if *left == 0 {
            return Poll::Ready(());
        }
        match wakers {
            None => parked.set(cx.waker()),
            Some(wakers) => wakers.with_waker_of_everybody(|waker| parked.set(waker)),
        }
        Poll::Pending
    }
}

impl<E: Event> Drop for Together<'_, E> {
    fn drop(&mut self) {
        if self.left > 0 {
            FreeLists::with(|free| {
                let mut turn = Turn::new(self.bus, self.slot);
                self.listeners.iter_mut().for_each(|(_, waiting)| turn.end(waiting, free));
            });
        }
    }
}
