//! A registered listener: its head, which every dispatch reads, and its body.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::cell::Cell;
use crate::decision::SkipReason;
use crate::effect::{NOWHERE, Owned};
use crate::fault::{Cause, ListenerError};
use crate::fiber::FiberCore;
use crate::pool;

const LIVE: u8 = 0;
const ONCE: u8 = 1;
const DEAD: u8 = 2;
/// Dead, for it runs once and did.
const CLAIMED: u8 = 4;
/// Dead, because its version was switched out and ended: a dispatch that has it ahead must not pass over it.
const ENDED: u8 = 3;

/// What the bus knows of a listener, whatever its event.
#[doc(hidden)]
pub struct HookHead {
    state: AtomicU8,
    pub(crate) first: bool,
    pub(crate) global: bool,
    /// Number within the fiber, in order of registration.
    pub(crate) number: u32,
    /// Place in the list of its cell; written under the lock of that cell.
    pub(crate) index: AtomicU32,
    /// Place in the list of its fiber's effects; written under the lock of that list.
    pub(crate) owned: AtomicU32,
    pub(crate) core: Arc<FiberCore>,
    pub(crate) cell: Cell,
}

/// Whether a listener may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    Run,
    /// It may, and is gone then: the claimer takes it out of the lists.
    RunOnce,
    /// It was disposed, or ran once already.
    Skip,
}

/// Options of a registration, given as a prefix: `ctx.first().once().on(..)`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HookOptions {
    pub(crate) first: bool,
    pub(crate) once: bool,
    pub(crate) global: bool,
}

impl HookHead {
    pub(crate) fn new(options: HookOptions, number: u32, core: Arc<FiberCore>, cell: Cell) -> Self {
        Self {
            state: AtomicU8::new(if options.once { ONCE } else { LIVE }),
            first: options.first,
            global: options.global,
            number,
            index: AtomicU32::new(u32::MAX),
            owned: AtomicU32::new(NOWHERE),
            core,
            cell,
        }
    }

    /// Whether the listener may run now; claims one that runs once.
    #[inline(always)]
    pub(crate) fn claim(&self) -> Claim {
        match self.state.load(Ordering::Relaxed) {
            LIVE => Claim::Run,
            state => self.claim_once(state),
        }
    }

    #[cold]
    fn claim_once(&self, state: u8) -> Claim {
        if state == ONCE && self.state.compare_exchange(ONCE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            Claim::RunOnce
        } else {
            Claim::Skip
        }
    }

    /// Marks the listener as disposed; whether it was not before. A claimed `once` listener counts as disposed.
    pub(crate) fn kill(&self) -> bool {
        self.kill_as(DEAD)
    }

    /// [`kill`](Self::kill) with the version it is of, in whose place there is another one.
    pub(crate) fn end(&self) -> bool {
        self.kill_as(ENDED)
    }

    fn kill_as(&self, how: u8) -> bool {
        let living = |state| (state < DEAD).then_some(how);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, living).is_ok()
    }

    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= DEAD
    }

    /// What it means to a dispatch that the listener was not there to run: nothing where it was disposed, a failure where
    /// its version was switched out and ended before the dispatch came to it.
    #[cold]
    pub(crate) fn absence(&self, event: &'static str) -> Option<ListenerError> {
        let ended = self.state.load(Ordering::Relaxed) == ENDED;
        ended.then(|| ListenerError::new(self.core.identity.name.clone(), event, Cause::Unloaded))
    }

    /// Why a dispatch that had it among its listeners did not run it.
    #[cold]
    pub(crate) fn why_absent(&self) -> SkipReason {
        match self.state.load(Ordering::Relaxed) {
            LIVE | ONCE => SkipReason::Unloaded,
            CLAIMED => SkipReason::Once,
            _ if self.core.gate.is_closed() => SkipReason::Unloaded,
            _ => SkipReason::Disposed,
        }
    }

    /// Position among the listeners of one event: marked `first`, place in the plugin tree, number within the fiber.
    pub(crate) fn order(&self) -> (bool, Arc<[u32]>, u32) {
        (!self.first, self.core.identity.place(), self.number)
    }
}

/// A listener without its type.
#[doc(hidden)]
pub trait HookControl: Owned {
    fn head(&self) -> &HookHead;
}

/// A listener with its type: one allocation holds head and body.
#[doc(hidden)]
pub(crate) struct Hook<L> {
    pub(crate) head: HookHead,
    pub(crate) body: ManuallyDrop<L>,
}

impl<L> Hook<L> {
    pub(crate) fn new(head: HookHead, body: L) -> Self {
        Self { head, body: ManuallyDrop::new(body) }
    }
}

impl<L> Drop for Hook<L> {
    fn drop(&mut self) {
        // Whoever drops the last of it is not to blame for a panic; its text has nobody to go to but the panic hook.
        // SAFETY: dropped once, here, and not used afterwards.
        drop(pool::guarded(|| unsafe { ManuallyDrop::drop(&mut self.body) }));
    }
}

impl<L: Send + Sync + 'static> HookControl for Hook<L> {
    fn head(&self) -> &HookHead {
        &self.head
    }
}
