//! Serial: awaited one after another until one answers.

use std::future::poll_fn;
use std::task::Poll;

use super::call::{Progress, Running, Turn};
use super::{Emitter, is_internal, record};
use crate::event::{Dispatches, Event, verb};
use crate::fault::ListenerError;
use crate::listen::Starter;
use crate::pool::FreeLists;

pub(crate) async fn serial<'a, E>(emitter: Emitter<'a>, event: &'a E) -> Result<Option<E::Output>, ListenerError>
where
    E: Event,
    E::Mode: Dispatches<verb::serial, E>,
{
    if !is_internal::<E>() && emitter.bus.is_watched() && emitter.watch(event)? {
        return Box::pin(record::serial(emitter, event)).await;
    }
    let Some((source, slot)) = emitter.source(event) else { return Ok(None) };
    let Some((snapshot, suspect)) = source.hold(&emitter.bus.rows, slot) else { return Ok(None) };
    if let Some(depth) = suspect {
        emitter.check_nesting(E::NAME, slot, depth)?;
    }
    // The listener that waits, and the place of the next one.
    let mut running: Option<Running<'_, E>> = None;
    let mut at = 0;
    let mut parked = None;
    poll_fn(|cx| {
        FreeLists::with(|free| {
            let mut turn = Turn::new(emitter.bus, slot);
            if let Some(waiting) = &mut running {
                let Poll::Ready(answer) = waiting.poll(&mut turn, free, cx) else {
                    parked.get_or_insert_with(|| waiting.parked()).set(cx.waker());
                    return Poll::Pending;
                };
                running = None;
                if !matches!(answer, Ok(None)) {
                    return Poll::Ready(answer);
                }
            }
            while let Some(entry) = snapshot.get(at) {
                at += 1;
                let object = E::Mode::object(entry.hook());
                let begin = || object.start(event, Starter::new(cx, free));
                let progress: Progress<'_, E> = turn.start(emitter.bus, entry.head(), begin);
                match progress {
                    Progress::Skipped | Progress::Ready(Ok(None)) => {}
                    Progress::Ready(decided) => return Poll::Ready(decided),
                    Progress::Pending(waiting) => {
                        let waiting = Running::new(emitter.bus, slot, waiting);
                        parked.get_or_insert_with(|| waiting.parked()).set(cx.waker());
                        running = Some(waiting);
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(None))
        })
    })
    .await
}
