//! One asynchronous listener of a dispatch: entered, polled and dropped behind the gate of its fiber.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::bus::{Bus, Parked};
use crate::event::Event;
use crate::fault::{Cause, ListenerError};
use crate::frames::Row;
use crate::hook::{Claim, HookHead};
use crate::listen::{Begun, Outcome};
use crate::pool::{ErasedFuture, Started};

/// What a listener came to.
pub(crate) type Answer<E> = Result<Option<<E as Event>::Output>, ListenerError>;

/// How far a listener got when it was started.
pub(crate) enum Progress<'a, E: Event> {
    /// Disposed meanwhile, or run once already: it counts as if it were not there.
    Skipped,
    Ready(Answer<E>),
    Pending(Running<'a, E>),
}

/// Starts a listener: once, in a frame that names its gate.
#[inline]
pub(crate) fn start<'a, E: Event>(
    bus: &'a Arc<Bus>,
    row: &Row,
    head: &'a HookHead,
    slot: u32,
    cx: &mut Context<'_>,
    begin: impl FnOnce(&mut Context<'_>) -> Begun<'a, E>,
) -> Progress<'a, E> {
    let gate = &head.core.gate;
    let Some(depth) = row.enter(&bus.rows, gate, slot) else { return Progress::Skipped };
    let progress = match head.claim() {
        Claim::Skip => Progress::Skipped,
        claim => {
            if claim == Claim::RunOnce {
                bus.forget(head);
            }
            match begin(cx).0 {
                Started::Ready(outcome) => Progress::Ready(answer::<E>(bus, head, outcome)),
                Started::Pending(future) => {
                    gate.add_pending();
                    Progress::Pending(Running { bus, head, slot, future: Some(future) })
                }
            }
        }
    };
    row.leave(&bus.rows, depth);
    progress
}

#[inline]
fn answer<E: Event>(bus: &Arc<Bus>, head: &HookHead, outcome: Outcome<E>) -> Answer<E> {
    outcome.map_err(|fault| bus.failed::<E>(head, fault))
}

/// A listener that waits for something. Counted on its gate until it ends or is dropped.
pub(crate) struct Running<'a, E: Event> {
    bus: &'a Arc<Bus>,
    head: &'a HookHead,
    slot: u32,
    future: Option<ErasedFuture<'a, Outcome<E>>>,
}

impl<'a, E: Event> Running<'a, E> {
    /// Polls the listener. Once its plugin is unloaded and the grace period is over, the future is dropped instead.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer<E>> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let row = self.bus.rows.row();
        let gate = &self.head.core.gate;
        let depth = row.enter_closed(gate, self.slot);
        let polled = if gate.is_cancelled() {
            Poll::Ready(Err(ListenerError::new(self.head.core.name.clone(), E::NAME, Cause::Unloaded)))
        } else {
            future.poll(cx).map(|outcome| answer::<E>(self.bus, self.head, outcome))
        };
        if polled.is_ready() {
            self.future = None;
            gate.sub_pending();
        }
        row.leave(&self.bus.rows, depth);
        polled
    }

    /// Asks to be polled when the plugin's grace period is over, whatever the listener waits for. The place may serve
    /// several listeners of one task.
    pub(crate) fn park(&self, parked: &mut Option<Parked<'a>>, cx: &Context<'_>) {
        let (bus, head) = (self.bus, self.head);
        parked.get_or_insert_with(|| Parked::new(bus, &head.core.gate, E::NAME)).set(cx.waker());
    }
}

impl<E: Event> Drop for Running<'_, E> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        let row = self.bus.rows.row();
        let depth = row.enter_closed(&self.head.core.gate, self.slot);
        drop(future);
        self.head.core.gate.sub_pending();
        row.leave(&self.bus.rows, depth);
    }
}
