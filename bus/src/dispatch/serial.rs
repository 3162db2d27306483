//! Serial: awaited one after another until one answers.

use std::future::poll_fn;
use std::task::Poll;

use super::call::{Answer, Progress, Running, start};
use super::{Emitter, MAX_NESTING, is_internal};
use crate::event::{Dispatches, Event, verb};
use crate::fault::ListenerError;

pub(crate) async fn serial<'a, E>(emitter: Emitter<'a>, event: &'a E) -> Result<Option<E::Output>, ListenerError>
where
    E: Event,
    E::Mode: Dispatches<verb::serial, E>,
{
    if !is_internal::<E>() && emitter.bus.is_observed() {
        emitter.observe(event)?;
    }
    let Some((source, slot)) = emitter.source(event) else { return Ok(None) };
    let Some((snapshot, depth)) = source.hold(&emitter.bus.rows, slot) else { return Ok(None) };
    if depth >= MAX_NESTING {
        emitter.check_nesting::<E>(slot, depth)?;
    }
    // The listener that waits, and the place of the next one.
    let mut running: Option<Running<'_, E>> = None;
    let mut at = 0;
    let mut parked = None;
    poll_fn(|cx| {
        let row = emitter.bus.rows.row();
        loop {
            let answer: Answer<E> = match &mut running {
                Some(waiting) => match waiting.poll(cx) {
                    Poll::Pending => {
                        waiting.park(&mut parked, cx);
                        return Poll::Pending;
                    }
                    Poll::Ready(answer) => {
                        running = None;
                        answer
                    }
                },
                None => {
                    let Some(entry) = snapshot.get(at) else { return Poll::Ready(Ok(None)) };
                    at += 1;
                    let object = E::Mode::object(&entry.hook);
                    match start(emitter.bus, row, entry.head(), slot, cx, |cx| object.start(event, cx)) {
                        Progress::Skipped => continue,
                        Progress::Ready(answer) => answer,
                        Progress::Pending(waiting) => {
                            running.insert(waiting).park(&mut parked, cx);
                            return Poll::Pending;
                        }
                    }
                }
            };
            match answer {
                Ok(None) => {}
                decided => return Poll::Ready(decided),
            }
        }
    })
    .await
}
