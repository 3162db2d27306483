//! What all contexts of one root share.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use crate::cell::{Cell, CellOf, CellSlot, EventCell, ScopeCell, SlotTable, Source, SourceCell};
use crate::decision::InternalDecision;
use crate::dispatch::InternalDispatch;
use crate::event::{Event, ScopeRule};
use crate::fault::{BusError, Fault, ListenerError};
use crate::fiber::{Activation, FiberInner};
use crate::frames::{Gate, INNER, Rows};
use crate::hook::HookHead;
use crate::internal::InternalFault;
use crate::registry::Registry;
use crate::scope::ScopeKey;
use crate::seams::Seams;

/// Events whose cells are found without a detour.
const NEAR: u32 = 256;

/// What one listener on `internal/decision` counts among the watchers.
const RECORDER: u64 = 1 << 32;

/// After so many panics of its listeners a plugin is disabled.
pub const MAX_PANICS: u32 = 10;

pub(crate) struct Bus {
    pub(crate) rows: Arc<Rows>,
    /// Cells of the events with small numbers, which are nearly all there are.
    near: [CellSlot<EventCell>; NEAR as usize],
    far: SlotTable<EventCell>,
    /// Which type has an event name, so that a second one is refused.
    event_names: Mutex<HashMap<&'static str, u32>>,
    /// Who looks at dispatches: listeners on `internal/dispatch`, and above them those on `internal/decision`.
    watchers: AtomicU64,
    pub(crate) registry: Registry,
    pub(crate) seams: Seams,
    pub(crate) grace: Grace,
    next_fiber: AtomicU64,
    /// Names that many fibers have.
    pub(crate) scope_name: Arc<str>,
    pub(crate) scope_host_name: Arc<str>,
    /// Each knows its place.
    fibers: Mutex<Slots<Weak<FiberInner>>>,
    parked: Mutex<Slots<ParkedCall>>,
    /// Calls that wait for a disposal from inside what is disposed.
    pub(crate) self_waits: Mutex<Slots<SelfWait>>,
    /// Held while fibers are mounted, while a version is switched in, and while an effect comes to own something.
    pub(crate) tree: Mutex<()>,
    /// Starts of plugins that run now.
    pub(crate) starting: Mutex<Vec<(usize, Weak<FiberInner>)>>,
}

/// How long teardown waits for code to end by itself.
#[derive(Debug, Clone, Copy)]
pub struct Grace {
    /// For disposal, restart, and loss of a needed service. Default 5 s.
    pub dispose: Duration,
    /// For the old version when a prepared mount is switched in. Default 30 s.
    pub reload: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self { dispose: Duration::from_secs(5), reload: Duration::from_secs(30) }
    }
}

impl Bus {
    pub(crate) fn new(seams: Seams, grace: Grace) -> Arc<Self> {
        Arc::new(Self {
            rows: Rows::new(),
            near: [const { OnceLock::new() }; NEAR as usize],
            far: SlotTable::new(),
            event_names: Mutex::default(),
            watchers: AtomicU64::new(0),
            registry: Registry::default(),
            seams,
            grace,
            next_fiber: AtomicU64::new(0),
            scope_name: "scope".into(),
            scope_host_name: "scope host".into(),
            fibers: Mutex::default(),
            parked: Mutex::default(),
            self_waits: Mutex::default(),
            tree: Mutex::default(),
            starting: Mutex::default(),
        })
    }

    pub(crate) fn next_fiber_id(&self) -> u64 {
        self.next_fiber.fetch_add(1, Ordering::Relaxed)
    }

    /// Remembers a fiber for listings.
    pub(crate) fn enlist(&self, fiber: &Arc<FiberInner>) {
        let place = lock(&self.fibers).add(Arc::downgrade(fiber));
        let place = u32::try_from(place).expect("fewer than 2^32 fibers");
        fiber.listed.store(place, Ordering::Relaxed);
    }

    pub(crate) fn delist(&self, fiber: &FiberInner) {
        let gone = lock(&self.fibers).take(fiber.listed.load(Ordering::Relaxed) as usize);
        drop(gone);
    }

    /// In the order they came in.
    pub(crate) fn fibers(&self) -> Vec<Arc<FiberInner>> {
        let mut fibers: Vec<_> = lock(&self.fibers).iter().filter_map(Weak::upgrade).collect();
        fibers.sort_unstable_by_key(|it| it.identity.id);
        fibers
    }

    /// The cell of an event, if anybody ever listened to it on this bus.
    #[inline]
    pub(crate) fn event_cell(&self, slot: u32) -> Option<&Arc<EventCell>> {
        match self.near.get(slot as usize) {
            Some(near) => near.get(),
            None => self.far.get(slot - NEAR),
        }
    }

    /// The cell that listeners of `E` are added to, made at the first one: that of the event, or of the event in a scope.
    pub(crate) fn cell_for<E: Event>(&self, slot: u32, key: Option<&ScopeKey>) -> Result<CellOf<E>, BusError> {
        {
            let mut names = lock(&self.event_names);
            let owner = *names.entry(E::NAME).or_insert(slot);
            if owner != slot {
                let first = self.event_cell(owner).map_or("another type", |it| (it.kind.descriptor)().type_path);
                let second = E::descriptor().type_path;
                return Err(BusError::EventClash { event: E::NAME, first, second });
            }
        }
        let event = match self.near.get(slot as usize) {
            Some(near) => near.get_or_init(EventCell::new::<E>),
            None => self.far.get_or_init(slot - NEAR, EventCell::new::<E>),
        };
        let scope = key.and_then(|key| key.cells_to_fill(self));
        let scope = scope.map(|cells| cells.get_or_init(slot, || ScopeCell::new(event.clone())));
        let cell = scope.map_or_else(|| Cell::Event(event.clone()), |it| Cell::Scope(it.clone()));
        // SAFETY: the names above have one slot an event, and a slot stands for one event type: see `Bus::source`.
        Ok(unsafe { CellOf::new(cell) })
    }

    /// Where the listeners that hear this dispatch are.
    #[inline]
    pub(crate) fn source<'a, E: Event>(&'a self, event: &'a E, slot: u32) -> Option<Source<'a, E>> {
        let mut cell = SourceCell::Event(self.event_cell(slot)?);
        if <E::Scope as ScopeRule<E>>::SCOPED
            && let Some(key) = <E::Scope as ScopeRule<E>>::key(event)
            && let Some(scope) = key.cells(self).and_then(|cells| cells.get(slot))
        {
            cell = SourceCell::Scope(scope);
        }
        // SAFETY: a slot stands for one event type (see `Event`), and the tables of a bus and of its scopes hold, at the
        // slot of `E`, the cells that `cell_for` made for `E`. Copies of `E` in other libraries are the same declaration
        // built by the same compiler, which the loader checks before it opens a library.
        Some(unsafe { Source::new(cell) })
    }

    /// Event cells for listings.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Arc<EventCell>> {
        self.near.iter().filter_map(OnceLock::get).chain(self.far.iter())
    }

    /// Whether anybody looks at dispatches.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn is_observed(&self) -> bool {
        !self.watchers.load(Ordering::Relaxed).is_multiple_of(RECORDER)
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) >= RECORDER
    }

    pub(crate) fn count_watcher(&self, event: &'static str, more: bool) {
        let one = match event {
            InternalDispatch::NAME => 1,
            InternalDecision::NAME => RECORDER,
            _ => return,
        };
        if more {
            self.watchers.fetch_add(one, Ordering::Relaxed);
        } else {
            self.watchers.fetch_sub(one, Ordering::Relaxed);
        }
    }

    /// Takes a listener that is dead already out of all lists.
    #[cold]
    pub(crate) fn forget(&self, head: &HookHead) {
        let hook = head.cell.remove(head, &self.rows);
        if hook.is_some() {
            self.count_watcher(head.cell.name(), false);
        }
        let owned = head.core.release(&head.owned);
        self.rows.reclaim();
        drop((hook, owned));
    }

    /// Turns what a listener said into an error that names it; counts panics.
    #[cold]
    pub(crate) fn failed<E: Event>(&self, head: &HookHead, fault: Fault) -> ListenerError {
        if fault.is_panic() {
            head.core.panicked(E::NAME);
        }
        ListenerError::from_fault(head.core.identity.name.clone(), E::NAME, fault)
    }

    /// Tells about a failure that the dispatch contained.
    #[cold]
    pub(crate) fn report(self: &Arc<Self>, error: &ListenerError) {
        tracing::error!(plugin = error.plugin(), event = error.event(), code = error.code(), "{error:#}");
        if error.event() != InternalFault::NAME {
            let root: Arc<str> = "root".into();
            let emitter = crate::dispatch::Emitter { bus: self, plugin: &root };
            crate::dispatch::emit(emitter, &InternalFault { error: error.clone() });
        }
    }

    /// Wakes every call that waits, so that those behind a cancelled gate end.
    pub(crate) fn wake_parked(&self) {
        let wakers: Vec<_> = lock(&self.parked).iter().map(|it| it.waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// What the calls behind `gate` that wait are listeners or methods of.
    pub(crate) fn parked_behind(&self, gate: &Gate) -> Vec<&'static str> {
        let gate = ptr::from_ref(gate) as usize;
        lock(&self.parked).iter().filter(|it| it.gate == gate).map(|it| it.what).collect()
    }

    /// Names for the slots of frames.
    pub(crate) fn slot_name(&self, slot: u32) -> &'static str {
        match slot {
            crate::frames::TASK => "task",
            crate::frames::SERVICE => "service call",
            event => self.event_cell(event & !INNER).map_or("event", |it| it.kind.name),
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.rows.give_up();
    }
}

struct ParkedCall {
    waker: Waker,
    gate: usize,
    what: &'static str,
}

/// The place of one waiting call among all of a bus.
pub(crate) struct Parked<'a> {
    bus: &'a Bus,
    gate: usize,
    what: &'static str,
    place: Option<usize>,
    /// Data and table of the waker that is registered, which is kept alive there.
    last: (usize, usize),
}

impl<'a> Parked<'a> {
    pub(crate) fn new(bus: &'a Bus, gate: &Gate, what: &'static str) -> Self {
        Self { bus, gate: ptr::from_ref(gate) as usize, what, place: None, last: (0, 0) }
    }

    pub(crate) fn set(&mut self, waker: &Waker) {
        let identity = |it: &Waker| (it.data().addr(), ptr::from_ref(it.vtable()).addr());
        if self.place.is_some() && self.last == identity(waker) {
            return;
        }
        let waker = waker.clone();
        self.last = identity(&waker);
        let call = ParkedCall { waker, gate: self.gate, what: self.what };
        let mut parked = lock(&self.bus.parked);
        let before = match self.place {
            Some(place) => parked.replace(place, call),
            None => {
                self.place = Some(parked.add(call));
                None
            }
        };
        // A waker may own a task, whose drop must not run under the lock.
        drop(parked);
        drop(before);
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let call = lock(&self.bus.parked).take(place);
            drop(call);
        }
    }
}

/// A call that waits for the disposal of what it belongs to.
pub(crate) struct SelfWait {
    /// Fiber whose disposal it waits for.
    pub(crate) target: u64,
    /// Gates of the calls around the wait, and how many frames each has.
    pub(crate) calls: Vec<(usize, usize)>,
}

/// Values with places that stay valid until they are taken.
pub(crate) struct Slots<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn add(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.values[place] = Some(value);
                place
            }
            None => {
                self.values.push(Some(value));
                self.values.len() - 1
            }
        }
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.values.get(place)?.as_ref()
    }

    pub(crate) fn replace(&mut self, place: usize, value: T) -> Option<T> {
        self.values[place].replace(value)
    }

    pub(crate) fn take(&mut self, place: usize) -> Option<T> {
        let value = self.values.get_mut(place)?.take();
        if value.is_some() {
            self.free.push(place);
        }
        value
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Panics of one activation's listeners; the tenth disables the plugin.
#[derive(Debug, Default)]
pub(crate) struct PanicCount(AtomicU32);

impl PanicCount {
    /// Counts one more; whether it is the one too many.
    pub(crate) fn add(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) + 1 == MAX_PANICS
    }
}

impl Activation {
    /// Counts a panic on the plugin the listener is of: a scope's listeners are those of the plugin that made it.
    fn panicked(&self, event: &'static str) {
        let Some(fiber) = self.fiber.upgrade() else { return };
        match (&fiber.instance, fiber.owner()) {
            (None, Some(owner)) => owner.panicked(event),
            _ if self.panics.add() => fiber.disable(self, event),
            _ => {}
        }
    }
}
