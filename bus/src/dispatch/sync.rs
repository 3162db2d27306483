//! Emit and bail: on the caller's stack, in one frame a dispatch.

use super::{Emitter, MAX_NESTING, is_internal, record};
use std::sync::Arc;

use crate::bus::{Bus, lock};
use crate::cell::{EventCell, Queued};
use crate::contain::Contained;
use crate::event::{Dispatches, Event, verb};
use crate::fault::{Cause, ListenerError, ListenerErrors};
use crate::hook::Claim;
use crate::listen::Call;
use crate::pool;

/// Runs the listeners in order until `each` has enough.
#[inline]
fn run<'a, E, V>(
    emitter: Emitter<'a>,
    event: &'a E,
    mut each: impl FnMut(Result<Option<E::Output>, ListenerError>) -> bool,
) -> Result<(), ListenerError>
where
    E: Event,
    E::Mode: Dispatches<V, E>,
    V: crate::event::Verb,
    V::Object<E>: CallObject<E>,
{
    if !is_internal::<E>() && emitter.bus.is_watched() && emitter.watch(event)? {
        return record::sync::<E, V>(emitter, event, each);
    }
    let Some((source, slot)) = emitter.source(event) else { return Ok(()) };
    let ran = source.walk(&emitter.bus.rows, slot, |snapshot, suspect| {
        if let Some(depth) = suspect {
            emitter.check_nesting(E::NAME, slot, depth)?;
        }
        for entry in snapshot.iter() {
            let head = entry.head();
            match head.claim() {
                Claim::Run => {}
                Claim::RunOnce => emitter.bus.forget(head),
                Claim::Skip => {
                    if head.absence(E::NAME).is_some_and(|error| each(Err(error))) {
                        break;
                    }
                    continue;
                }
            }
            let outcome = E::Mode::object(entry.hook()).call_object(event);
            let answer = match outcome {
                Ok(None) => continue,
                Ok(answer) => Ok(answer),
                Err(fault) => Err(emitter.bus.failed::<E>(head, fault)),
            };
            if each(answer) {
                break;
            }
        }
        Ok(())
    });
    ran.unwrap_or(Ok(()))
}

/// `dyn Call<E>` under the two verbs that call it.
pub(crate) trait CallObject<E: Event> {
    fn call_object(&self, event: &E) -> crate::listen::Outcome<E>;
}
impl<E: Event> CallObject<E> for dyn Call<E> {
    #[inline(always)]
    fn call_object(&self, event: &E) -> crate::listen::Outcome<E> {
        self.call(event)
    }
}

#[inline]
pub(crate) fn emit<E>(emitter: Emitter<'_>, event: &E)
where
    E: Event,
    E::Mode: Dispatches<verb::emit, E>,
{
    if E::ORDERED {
        in_order(emitter, event);
    } else {
        emit_now(emitter, event);
    }
}

#[inline]
fn emit_now<E>(emitter: Emitter<'_>, event: &E)
where
    E: Event,
    E::Mode: Dispatches<verb::emit, E>,
{
    let refused = run::<E, verb::emit>(emitter, event, |answer| {
        if let Err(error) = answer {
            emitter.bus.report(&error);
        }
        false
    });
    if let Err(error) = refused {
        emitter.bus.report(&error);
    }
}

/// Delivers one event of a kind at a time: what is emitted meanwhile, from inside or from another thread, waits its turn.
fn in_order<E>(emitter: Emitter<'_>, event: &E)
where
    E: Event,
    E::Mode: Dispatches<verb::emit, E>,
{
    let slot = E::__slot().number();
    let Some(cell) = emitter.bus.event_cell(slot) else { return emit_now(emitter, event) };
    let is_running = std::mem::replace(&mut lock(&cell.queue).running, true);
    if is_running && !wait_in_order(emitter, event, cell, slot) {
        return;
    }
    // What panics here is not a listener: the payload's own code, or whoever takes log lines.
    let turn = Turn { bus: emitter.bus, cell };
    emit_now(emitter, event);
    drop(turn);
}

/// Being the one who delivers. At its end what waits is delivered as well, also when a panic goes by.
struct Turn<'a> {
    bus: &'a Arc<Bus>,
    cell: &'a EventCell,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        loop {
            let next = {
                let mut queue = lock(&self.cell.queue);
                let next = queue.waiting.pop_front();
                queue.running = next.is_some();
                queue.depth = next.as_ref().map_or(0, |it| it.depth);
                next
            };
            let Some(Queued { deliver, .. }) = next else { return };
            deliver(self.bus);
        }
    }
}

/// Leaves a copy of the event for whoever delivers now; whether that one has ended meanwhile, so that it is our turn.
#[cold]
fn wait_in_order<E>(emitter: Emitter<'_>, event: &E, cell: &EventCell, slot: u32) -> bool
where
    E: Event,
    E::Mode: Dispatches<verb::emit, E>,
{
    // Made outside the lock, for the payload's own code may dispatch.
    let event = Contained::new(event.__queued().expect("the derive makes ordered events `Clone`"));
    let plugin = emitter.plugin.clone();
    let deliver = Box::new(move |bus: &Arc<Bus>| {
        // Its emitter went on long ago, so a panic has nobody to go to but the panic hook, which has seen it.
        drop(pool::guarded(|| emit_now(Emitter { bus, plugin: &plugin }, &*event)));
    });
    let is_nested = emitter.bus.rows.row().is_inside(slot);
    {
        let mut queue = lock(&cell.queue);
        if !std::mem::replace(&mut queue.running, true) {
            return true;
        }
        let depth = if is_nested { queue.depth + 1 } else { 0 };
        if depth < MAX_NESTING {
            queue.waiting.push_back(Queued { deliver, depth });
            return false;
        }
    }
    emitter.bus.report(&ListenerError::new(emitter.plugin.clone(), E::NAME, Cause::TooDeep));
    false
}

pub(crate) fn try_emit<E>(emitter: Emitter<'_>, event: &E) -> Result<(), ListenerErrors>
where
    E: Event,
    E::Mode: Dispatches<verb::emit, E>,
{
    let mut errors = Vec::new();
    run::<E, verb::emit>(emitter, event, |answer| {
        errors.extend(answer.err());
        false
    })?;
    ListenerErrors::check(errors)
}

pub(crate) fn bail<E>(emitter: Emitter<'_>, event: &E) -> Result<Option<E::Output>, ListenerError>
where
    E: Event,
    E::Mode: Dispatches<verb::bail, E>,
{
    let mut result = Ok(None);
    run::<E, verb::bail>(emitter, event, |answer| {
        result = answer;
        true
    })?;
    result
}
