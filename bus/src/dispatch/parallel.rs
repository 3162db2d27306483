//! Parallel: all started in order, then awaited together; nobody starves, every failure is reported.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream};

use super::call::{Answer, Progress, Running, start};
use super::{Emitter, MAX_NESTING, is_internal};
use crate::event::{Dispatches, Event, verb};
use crate::fault::{ListenerError, ListenerErrors};

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
    let Some((snapshot, depth)) = source.hold(&emitter.bus.rows, slot) else { return Ok(()) };
    if depth >= MAX_NESTING {
        emitter.check_nesting::<E>(slot, depth)?;
    }
    let mut errors: Vec<(usize, ListenerError)> = Vec::new();
    let mut waiting: Vec<Waiting<'_, E>> = Vec::new();
    let mut many: FuturesUnordered<Waiting<'_, E>> = FuturesUnordered::new();
    let mut started = false;
    poll_fn(|cx| {
        if !started {
            started = true;
            for (place, entry) in snapshot.iter().enumerate() {
                let object = E::Mode::object(&entry.hook);
                match start(emitter.bus, entry.head(), slot, cx, |cx| object.start(event, cx)) {
                    Progress::Skipped | Progress::Ready(Ok(_)) => {}
                    Progress::Ready(Err(error)) => errors.push((place, error)),
                    Progress::Pending(running) => {
                        if waiting.is_empty() {
                            waiting.reserve_exact(snapshot.len() - place);
                        }
                        waiting.push(Waiting { place, running });
                    }
                }
            }
            if waiting.len() > POLLED_TOGETHER {
                many.extend(waiting.drain(..));
            }
        } else {
            waiting.retain_mut(|it| match it.running.poll(cx) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    errors.extend(answer.err().map(|error| (it.place, error)));
                    false
                }
            });
        }
        while let Poll::Ready(Some((place, answer))) = Pin::new(&mut many).poll_next(cx) {
            errors.extend(answer.err().map(|error| (place, error)));
        }
        if waiting.is_empty() && many.is_empty() {
            return Poll::Ready(());
        }
        if let Some(first) = waiting.first_mut() {
            first.running.park(cx);
        }
        Poll::Pending
    })
    .await;
    errors.sort_by_key(|(place, _)| *place);
    ListenerErrors::check(errors.into_iter().map(|(_, error)| error).collect())
}

/// A listener that waits, with its place in the order of the listeners.
struct Waiting<'a, E: Event> {
    place: usize,
    running: Running<'a, E>,
}

impl<E: Event> Future for Waiting<'_, E> {
    type Output = (usize, Answer<E>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let place = self.place;
        let polled = self.running.poll(cx).map(|answer| (place, answer));
        if polled.is_pending() {
            self.running.park(cx);
        }
        polled
    }
}
