//! Parallel: all started in order, then awaited together; nobody starves, every failure is reported.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesUnordered, Stream};

use super::call::{Answer, Progress, Running, Turn};
use super::{Emitter, is_internal};
use crate::bus::{Bus, Parked};
use crate::event::{Dispatches, Event, verb};
use crate::fault::{ListenerError, ListenerErrors};
use crate::listen::Starter;
use crate::pool::FreeLists;

/// Up to here every waiting listener is polled at each wake-up; beyond, only those that were woken.
const POLLED_TOGETHER: usize = 30;

pub(crate) async fn parallel<'a, E>(emitter: Emitter<'a>, event: &'a E) -> Result<(), ListenerErrors>
where
    E: Event,
    E::Mode: Dispatches<verb::parallel, E>,
{
    if !is_internal::<E>() && emitter.bus.is_observed() {
        emitter.observe(event)?;
    }
    let Some((source, slot)) = emitter.source(event) else { return Ok(()) };
    let Some((snapshot, suspect)) = source.hold(&emitter.bus.rows, slot) else { return Ok(()) };
    if let Some(depth) = suspect {
        emitter.check_nesting::<E>(slot, depth)?;
    }
    let mut errors: Vec<(usize, ListenerError)> = Vec::new();
    let mut waiting = Set::Few(Vec::new());
    let mut parked = None;
    let mut started = false;
    poll_fn(|cx| {
        if !std::mem::replace(&mut started, true) {
            let mut few = Vec::new();
            FreeLists::with(|free| {
                let mut turn = Turn::new(emitter.bus, slot);
                for (place, entry) in snapshot.iter().enumerate() {
                    let object = E::Mode::object(&entry.hook);
                    let begin = || object.start(event, Starter::new(cx, free));
                    match turn.start(emitter.bus, entry.head(), begin) {
                        Progress::Skipped | Progress::Ready(Ok(_)) => {}
                        Progress::Ready(Err(error)) => errors.push((place, error)),
                        Progress::Pending(running) => {
                            if few.is_empty() {
                                few.reserve_exact(snapshot.len() - place);
                            }
                            few.push(Waiting { place, running });
                        }
                    }
                }
            });
            if few.is_empty() {
                return Poll::Ready(());
            }
            parked.get_or_insert_with(|| few[0].running.parked()).set(cx.waker());
            waiting = Set::new(few);
            if let Set::Few(_) = &waiting {
                return Poll::Pending;
            }
        }
        let polled = waiting
            .poll(emitter.bus, slot, cx, |place, answer| errors.extend(answer.err().map(|error| (place, error))));
        if polled.is_pending()
            && let Set::Few(few) = &waiting
            && let Some(first) = few.first()
        {
            parked.get_or_insert_with(|| first.running.parked()).set(cx.waker());
        }
        polled
    })
    .await;
    errors.sort_by_key(|(place, _)| *place);
    ListenerErrors::check(errors.into_iter().map(|(_, error)| error).collect())
}

/// The listeners that wait.
enum Set<'a, E: Event> {
    Few(Vec<Waiting<'a, E>>),
    Many(FuturesUnordered<Parking<'a, E>>),
}

impl<'a, E: Event> Set<'a, E> {
    fn new(waiting: Vec<Waiting<'a, E>>) -> Self {
        if waiting.len() <= POLLED_TOGETHER {
            return Self::Few(waiting);
        }
        Self::Many(waiting.into_iter().map(|waiting| Parking { waiting, parked: None }).collect())
    }

    fn poll(
        &mut self,
        bus: &'a Arc<Bus>,
        slot: u32,
        cx: &mut Context<'_>,
        mut ended: impl FnMut(usize, Answer<E>),
    ) -> Poll<()> {
        match self {
            Self::Few(few) => {
                FreeLists::with(|free| {
                    let mut turn = Turn::new(bus, slot);
                    few.retain_mut(|it| match it.running.poll(&mut turn, free, cx) {
                        Poll::Pending => true,
                        Poll::Ready(answer) => {
                            ended(it.place, answer);
                            false
                        }
                    });
                });
                if few.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            }
            Self::Many(many) => loop {
                match ready!(Pin::new(&mut *many).poll_next(cx)) {
                    Some((place, answer)) => ended(place, answer),
                    None => return Poll::Ready(()),
                }
            },
        }
    }
}

/// A listener that waits, with its place in the order of the listeners.
struct Waiting<'a, E: Event> {
    place: usize,
    running: Running<'a, E>,
}

/// A listener with a waker of its own, which must be known where its plugin goes.
struct Parking<'a, E: Event> {
    waiting: Waiting<'a, E>,
    parked: Option<Parked<'a>>,
}

impl<E: Event> Future for Parking<'_, E> {
    type Output = (usize, Answer<E>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Parking { waiting, parked } = &mut *self;
        let polled = waiting.running.poll_alone(cx);
        if polled.is_pending() {
            parked.get_or_insert_with(|| waiting.running.parked()).set(cx.waker());
        }
        polled.map(|answer| (waiting.place, answer))
    }
}
