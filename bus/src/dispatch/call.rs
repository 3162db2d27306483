//! One asynchronous listener of a dispatch: entered, polled and dropped behind the gate of its fiber.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::bus::{Bus, Parked};
use crate::event::Event;
use crate::fault::{Cause, ListenerError};
use crate::frames::{Gate, Row};
use crate::hook::{Claim, HookHead};
use crate::listen::{Begun, Outcome};
use crate::pool::{ErasedFuture, FreeLists, Started};

/// What a listener came to.
pub(crate) type Answer<E> = Result<Option<<E as Event>::Output>, ListenerError>;

/// How far a listener got when it was started.
pub(crate) enum Progress<'a, E: Event> {
    /// Disposed meanwhile, or run once already: it counts as if it were not there.
    Skipped,
    Ready(Answer<E>),
    Pending(Waiting<'a, E>),
}

impl<E: Event> Progress<'_, E> {
    /// The listener is not there to run.
    #[cold]
    fn absent(head: &HookHead) -> Self {
        head.absence(E::NAME).map_or(Self::Skipped, |error| Self::Ready(Err(error)))
    }
}

/// The frame in which the listeners of one poll run, one after another.
pub(crate) struct Turn<'a> {
    bus: &'a Arc<Bus>,
    row: &'a Row,
    slot: u32,
    /// The frame, and the gate it names.
    inside: Option<(usize, &'a Gate)>,
    /// Futures that became pending behind that gate in this turn, less those that ended; counted on the gate in one go
    /// before the frame names another one.
    pending: isize,
}

impl<'a> Turn<'a> {
    #[inline]
    pub(crate) fn new(bus: &'a Arc<Bus>, slot: u32) -> Self {
        Self { bus, row: bus.rows.row(), slot, inside: None, pending: 0 }
    }

    /// Has the frame name `gate`, closed or not.
    #[inline(always)]
    fn enter(&mut self, gate: &'a Gate) {
        if !self.inside.is_some_and(|(_, inside)| std::ptr::eq(inside, gate)) {
            self.change(gate);
        }
    }

    #[inline]
    fn change(&mut self, gate: &'a Gate) {
        let depth = match self.inside {
            Some((depth, inside)) => {
                let ended = self.count(inside);
                self.row.move_on(&self.bus.rows, depth, gate);
                if ended {
                    self.bus.rows.wake_if_waiting();
                }
                depth
            }
            None => self.row.enter_closed(gate, self.slot),
        };
        self.inside = Some((depth, gate));
    }

    /// Whether there are fewer pending than before.
    #[inline]
    fn count(&mut self, gate: &Gate) -> bool {
        let more = std::mem::take(&mut self.pending);
        if more != 0 {
            gate.count_pending(more);
        }
        more < 0
    }

    /// Starts a listener, once, in a frame that names its gate.
    #[inline]
    pub(crate) fn start<'l: 'a, E: Event>(
        &mut self,
        bus: &'l Arc<Bus>,
        head: &'l HookHead,
        begin: impl FnOnce() -> Begun<'l, E>,
    ) -> Progress<'l, E> {
        let gate = &head.core.gate;
        self.enter(gate);
        if gate.is_closed() {
            return Progress::absent(head);
        }
        match head.claim() {
            Claim::Run => {}
            Claim::RunOnce => bus.forget(head),
            Claim::Skip => return Progress::absent(head),
        }
        match begin().0 {
            Started::Ready(outcome) => Progress::Ready(answer::<E>(bus, head, outcome)),
            Started::Pending(future) => {
                self.pending += 1;
                Progress::Pending(Waiting { head, future: Some(future) })
            }
        }
    }
}

impl<'a> Turn<'a> {
    /// Polls a listener that waits, in the frame of this turn. Once its plugin is unloaded and the grace period is over, the
    /// future is dropped instead. One that has ended stays pending.
    pub(crate) fn poll<'l: 'a, E: Event>(
        &mut self,
        waiting: &mut Waiting<'l, E>,
        free: &FreeLists,
        cx: &mut Context<'_>,
    ) -> Poll<Answer<E>> {
        let Some(future) = &mut waiting.future else { return Poll::Pending };
        let gate = &waiting.head.core.gate;
        self.enter(gate);
        let polled = if gate.is_cancelled() {
            Poll::Ready(Err(ListenerError::new(waiting.head.core.identity.name.clone(), E::NAME, Cause::Unloaded)))
        } else {
            future.poll(cx).map(|outcome| answer::<E>(self.bus, waiting.head, outcome))
        };
        if polled.is_ready() {
            self.end(waiting, free);
        }
        polled
    }

    /// Drops the future of a listener that waits.
    #[inline]
    pub(crate) fn end<'l: 'a, E: Event>(&mut self, waiting: &mut Waiting<'l, E>, free: &FreeLists) {
        if let Some(future) = waiting.future.take() {
            self.enter(&waiting.head.core.gate);
            future.give_back(free);
            self.pending -= 1;
        }
    }
}

/// Starts one listener in a frame of its own, which names its gate.
#[inline(always)]
pub(crate) fn start_alone<'l, E: Event>(
    bus: &'l Arc<Bus>,
    head: &'l HookHead,
    slot: u32,
    begin: impl FnOnce() -> Begun<'l, E>,
) -> Progress<'l, E> {
    let gate = &head.core.gate;
    let _inside = bus.rows.row().enter_closed_for(&bus.rows, gate, slot);
    if gate.is_closed() {
        return Progress::absent(head);
    }
    match head.claim() {
        Claim::Run => {}
        Claim::RunOnce => bus.forget(head),
        Claim::Skip => return Progress::absent(head),
    }
    match begin().0 {
        Started::Ready(outcome) => Progress::Ready(answer::<E>(bus, head, outcome)),
        Started::Pending(future) => {
            gate.add_pending();
            Progress::Pending(Waiting { head, future: Some(future) })
        }
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((depth, gate)) = self.inside {
            if self.count(gate) {
                self.row.leave_ended(&self.bus.rows, depth);
            } else {
                self.row.leave(&self.bus.rows, depth);
            }
        }
    }
}

#[inline]
fn answer<E: Event>(bus: &Arc<Bus>, head: &HookHead, outcome: Outcome<E>) -> Answer<E> {
    outcome.map_err(|fault| bus.failed::<E>(head, fault))
}

/// A listener that waits for something. It is counted on its gate until a turn ends it, which whoever has it sees to.
pub(crate) struct Waiting<'a, E: Event> {
    head: &'a HookHead,
    /// Gone once it has ended.
    future: Option<ErasedFuture<'a, Outcome<E>>>,
}

impl<'a, E: Event> Waiting<'a, E> {
    /// A place from which the task is woken when the plugin's grace period is over, whatever the listener waits for. It may
    /// serve several listeners of one task.
    pub(crate) fn parked(&self, bus: &'a Bus) -> Parked<'a> {
        Parked::new(bus, &self.head.core.gate, E::NAME)
    }
}

/// A listener that waits, alone in its turns.
pub(crate) struct Running<'a, E: Event> {
    bus: &'a Arc<Bus>,
    slot: u32,
    waiting: Waiting<'a, E>,
}

impl<'a, E: Event> Running<'a, E> {
    pub(crate) fn new(bus: &'a Arc<Bus>, slot: u32, waiting: Waiting<'a, E>) -> Self {
        Self { bus, slot, waiting }
    }

    /// Polls the listener in a turn that goes on; see [`Turn::poll`].
    pub(crate) fn poll<'t>(&mut self, turn: &mut Turn<'t>, free: &FreeLists, cx: &mut Context<'_>) -> Poll<Answer<E>>
    where
        'a: 't,
    {
        turn.poll(&mut self.waiting, free, cx)
    }

    /// Polls the listener in a turn of its own.
    pub(crate) fn poll_alone(&mut self, cx: &mut Context<'_>) -> Poll<Answer<E>> {
        FreeLists::with(|free| Turn::new(self.bus, self.slot).poll(&mut self.waiting, free, cx))
    }

    /// See [`Waiting::parked`].
    pub(crate) fn parked(&self) -> Parked<'a> {
        self.waiting.parked(self.bus)
    }
}

impl<E: Event> Drop for Running<'_, E> {
    fn drop(&mut self) {
        if self.waiting.future.is_some() {
            FreeLists::with(|free| Turn::new(self.bus, self.slot).end(&mut self.waiting, free));
        }
    }
}
