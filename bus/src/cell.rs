//! Where the listeners of one event are kept, and the snapshots that dispatches walk.
//!
//! An event has one [`EventCell`] in a bus. Where scopes filter the event, every scope with listeners of its own has a
//! [`ScopeCell`] beside it, whose snapshot holds its own listeners and those outside any scope, merged in order. A snapshot
//! is built by the first dispatch after a change and replaced as a whole, so what a dispatch walks never changes under it.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::bus::Bus;
use crate::event::Event;
use crate::frames::{Gate, Retired, Rows};
use crate::hook::{HookControl, HookHead};
use crate::listen::Stored;

mod slots;
mod stored;

pub(crate) use slots::{CellSlot, SlotTable};
use stored::Raw;
pub(crate) use stored::{Entry, Kind, Place};

/// The listeners of one event that one dispatch runs, in order.
pub(crate) struct Snapshot {
    kind: &'static Kind,
    places: Box<[Place]>,
}

impl Snapshot {
    /// Of those that can be heard.
    fn of<'a>(kind: &'static Kind, at_most: usize, listeners: impl Iterator<Item = (Raw, &'a HookHead)>) -> Self {
        let mut places = Vec::with_capacity(at_most);
        places.extend(listeners.filter(|(_, head)| visible(head)).map(|(raw, head)| {
            // SAFETY: it is in a list of this kind, which keeps it alive.
            unsafe { kind.retain(raw) };
            Place { raw, head }
        }));
        Self { kind, places: places.into_boxed_slice() }
    }

    /// Whether it holds a listener behind the gate at this address.
    fn mentions_at(&self, gate: usize) -> bool {
        self.places.iter().any(|it| ptr::from_ref(&it.head().core.gate) as usize == gate)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        for place in &self.places {
            // SAFETY: the count that `of` added, given back once.
            drop(unsafe { self.kind.erase(place.raw) });
        }
    }
}

impl Retired for Snapshot {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }
    fn mentions(&self, gate: &Gate) -> bool {
        self.places.iter().any(|it| ptr::eq(&it.head().core.gate, gate))
    }
}

/// The current snapshot: none (a change came, build one), empty, or a counted reference to one.
struct Current(AtomicPtr<Snapshot>);

/// Stands for a snapshot without entries, which needs no protection.
const EMPTY: *mut Snapshot = ptr::without_provenance_mut(align_of::<Snapshot>());

impl Current {
    const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    fn set(&self, snapshot: Snapshot) {
        let new = if snapshot.places.is_empty() { EMPTY } else { Arc::into_raw(Arc::new(snapshot)).cast_mut() };
        let old = self.0.swap(new, Ordering::SeqCst);
        debug_assert!(old.is_null(), "a snapshot is set only where a change took the last one away");
    }

    /// Takes the snapshot away; the caller retires it.
    fn take(&self) -> Option<Arc<Snapshot>> {
        let old = self.0.swap(ptr::null_mut(), Ordering::SeqCst);
        if old.is_null() || old == EMPTY {
            return None;
        }
        // SAFETY: made by `Arc::into_raw` in `set`; the cell's count goes with the pointer, which is gone from the cell.
        Some(unsafe { Arc::from_raw(old) })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The registered listeners of one cell, in order of registration with holes, sorted when a snapshot is built. It has a
/// count of each.
struct Listeners {
    kind: &'static Kind,
    hooks: Vec<Raw>,
    holes: usize,
    /// Whether the list is in order of dispatch.
    sorted: bool,
}

impl Listeners {
    const fn new(kind: &'static Kind) -> Self {
        Self { kind, hooks: Vec::new(), holes: 0, sorted: true }
    }

    fn len(&self) -> usize {
        self.hooks.len() - self.holes
    }

    /// Those that are no holes.
    fn iter(&self) -> impl Iterator<Item = (Raw, &HookHead)> {
        // SAFETY: the list is of this kind and has a count of each.
        self.hooks.iter().filter(|it| !it.is_hole()).map(|it| (*it, unsafe { self.kind.head(*it) }))
    }

    fn add(&mut self, hook: Raw) {
        if self.holes > self.hooks.len() / 2 + 8 {
            self.compact();
        }
        // SAFETY: of this kind, and the list has the count that comes with it from here on.
        let head = unsafe { self.kind.head(hook) };
        let index = u32::try_from(self.hooks.len()).expect("fewer than 2^32 listeners");
        head.index.store(index, Ordering::Relaxed);
        // Mostly the newest comes last, and there is nothing to sort. The last place is never a hole.
        self.sorted &= self.hooks.last().is_none_or(|last| {
            // SAFETY: in the list.
            dispatch_order(unsafe { self.kind.head(*last) }, head, self.kind.own_fiber).is_lt()
        });
        self.hooks.push(hook);
    }

    fn remove(&mut self, head: &HookHead) -> Option<Arc<dyn HookControl>> {
        let place = self.hooks.get_mut(head.index.load(Ordering::Relaxed) as usize).filter(|it| !it.is_hole())?;
        // SAFETY: in the list, and no hole.
        if !ptr::eq(unsafe { self.kind.head(*place) }, head) {
            return None;
        }
        self.holes += 1;
        let hook = std::mem::replace(place, Raw::HOLE);
        while self.hooks.pop_if(|it| it.is_hole()).is_some() {
            self.holes -= 1;
        }
        self.sorted |= self.hooks.is_empty();
        // SAFETY: the count that the list had, which has forgotten it.
        Some(unsafe { self.kind.erase(hook) })
    }

    fn compact(&mut self) {
        if self.holes > 0 {
            self.hooks.retain(|it| !it.is_hole());
            self.holes = 0;
            self.number();
        }
    }

    fn number(&self) {
        for (index, (_, head)) in self.iter().enumerate() {
            head.index.store(index as u32, Ordering::Relaxed);
        }
    }

    /// The list without holes and in order of dispatch; cheap where little changed, for the sort looks for runs.
    fn in_order(&mut self) -> impl Iterator<Item = (Raw, &HookHead)> {
        if !self.sorted {
            let mut listeners: Vec<_> = self.iter().collect();
            listeners.sort_by(|(_, a), (_, b)| dispatch_order(a, b, self.kind.own_fiber));
            self.hooks = listeners.into_iter().map(|(raw, _)| raw).collect();
            self.holes = 0;
            self.number();
            self.sorted = true;
        }
        self.iter()
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..).filter(|it| !it.is_hole()) {
            // SAFETY: the count that the list had, which has forgotten it.
            drop(unsafe { self.kind.erase(hook) });
        }
    }
}

/// First the listeners marked so, then by place in the tree, then by number within the fiber. Where listeners hear their
/// own fiber only, those that hear all of them come outside.
fn dispatch_order(a: &HookHead, b: &HookHead, own_fiber: bool) -> std::cmp::Ordering {
    let outside = |it: &HookHead| own_fiber && !it.global;
    (!a.first, outside(a)).cmp(&(!b.first, outside(b))).then_with(|| a.order().cmp(&b.order()))
}

#[inline]
fn visible(head: &HookHead) -> bool {
    head.core.is_visible() && !head.is_dead()
}

/// The cell that a listener is in.
#[derive(Clone)]
pub(crate) enum Cell {
    Event(Arc<EventCell>),
    Scope(Arc<ScopeCell>),
}

impl Cell {
    /// The cell of the event, which cells of one event share.
    pub(crate) fn event(&self) -> &Arc<EventCell> {
        match self {
            Self::Event(cell) => cell,
            Self::Scope(cell) => &cell.event,
        }
    }

    /// Name of the event.
    pub(crate) fn name(&self) -> &'static str {
        self.event().kind.name
    }

    /// Takes a listener out and retires snapshots that held it, for the caller to reclaim. The listener itself is returned
    /// so that it is dropped outside the lock.
    pub(crate) fn remove(&self, head: &HookHead, rows: &Rows) -> Option<Arc<dyn HookControl>> {
        match self {
            Self::Event(cell) => cell.remove(head, rows),
            Self::Scope(cell) => cell.remove(head, rows),
        }
    }
}

/// A cell that listeners of `E` may be added to.
pub(crate) struct CellOf<E> {
    cell: Cell,
    event: PhantomData<fn(E)>,
}

impl<E: Event> CellOf<E> {
    /// # Safety
    ///
    /// The cell was made for `E`, or for the same event in another library.
    pub(crate) unsafe fn new(cell: Cell) -> Self {
        Self { cell, event: PhantomData }
    }

    pub(crate) fn cell(&self) -> &Cell {
        &self.cell
    }

    pub(crate) fn add(&self, rows: &Rows, hook: Stored<E>) {
        debug_assert_eq!(self.cell.name(), E::NAME, "a cell has listeners of one event");
        let hook = Raw::new::<E>(hook);
        match &self.cell {
            Cell::Event(cell) => cell.add(rows, hook),
            Cell::Scope(cell) => cell.add(rows, hook),
        }
    }
}

/// All listeners of one event in one bus.
pub(crate) struct EventCell {
    pub(crate) kind: &'static Kind,
    current: Current,
    lists: Mutex<Lists>,
    pub(crate) queue: Mutex<OrderedQueue>,
}

/// Dispatches of an ordered event that wait for the running one.
#[derive(Default)]
pub(crate) struct OrderedQueue {
    pub(crate) running: bool,
    /// How many dispatches, each made inside the one before, led to the running one.
    pub(crate) depth: usize,
    pub(crate) waiting: VecDeque<Queued>,
}

type Deliver = dyn FnOnce(&Arc<Bus>) + Send;

/// A dispatch that waits.
pub(crate) struct Queued {
    pub(crate) deliver: Box<Deliver>,
    pub(crate) depth: usize,
}

struct Lists {
    /// Listeners outside any scope, `global` ones, and all listeners of an event that is not filtered.
    everywhere: Listeners,
    /// Scopes with listeners of their own, in the order they got the first.
    scopes: BTreeMap<u64, Arc<ScopeCell>>,
    /// Scopes whose snapshot was built since the last change out here. Weak, for a scope without listeners is kept by its
    /// key alone.
    built: Vec<Weak<ScopeCell>>,
    /// How many scopes lost their last listener since those in `built` were looked through.
    gone: usize,
    /// Snapshots of the past, as long as a dispatch that waits holds them.
    past: Vec<Weak<Snapshot>>,
}

impl Lists {
    /// Keeps what was taken away until no dispatch has it any more.
    fn retire(&mut self, rows: &Rows, old: Option<Arc<Snapshot>>) {
        let Some(old) = old else { return };
        if self.past.len() == self.past.capacity() {
            self.past.retain(|it| it.strong_count() > 0);
        }
        self.past.push(Arc::downgrade(&old));
        let old: Arc<dyn Retired> = old;
        rows.retire([old]);
    }
}

/// The listeners one scope has of one event.
pub(crate) struct ScopeCell {
    current: Current,
    event: Arc<EventCell>,
    /// Taken only by who holds the lock of the event's lists.
    own: Mutex<Listeners>,
    built: AtomicBool,
    /// Its place among the event's scopes, while it has listeners.
    at: AtomicU64,
    me: Weak<ScopeCell>,
}

impl EventCell {
    pub(crate) fn new<E: Event>() -> Arc<Self> {
        let kind = Kind::of::<E>();
        Arc::new(Self {
            kind,
            current: Current::none(),
            lists: Mutex::new(Lists {
                everywhere: Listeners::new(kind),
                scopes: BTreeMap::new(),
                built: Vec::new(),
                gone: 0,
                past: Vec::new(),
            }),
            queue: Mutex::default(),
        })
    }

    /// All listeners that scopes have of the event and that can be heard there, in no order that a dispatch has.
    pub(crate) fn in_scopes(&self) -> Vec<Arc<dyn HookControl>> {
        let lists = self.locked();
        let kind = self.kind;
        let heard = |scope: &Arc<ScopeCell>| {
            let own = scope.owned();
            let share = |raw| {
                // SAFETY: in a list of this kind, which has a count of its own.
                unsafe { kind.retain(raw) };
                // SAFETY: this is the count just added.
                unsafe { kind.erase(raw) }
            };
            own.iter().filter(|(_, head)| visible(head)).map(|(raw, _)| share(raw)).collect::<Vec<_>>()
        };
        lists.scopes.values().flat_map(heard).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, rows: &Rows, hook: Raw) {
        {
            let mut lists = self.locked();
            lists.everywhere.add(hook);
            self.invalidate(&mut lists, rows);
        }
        rows.reclaim();
    }

    fn remove(&self, head: &HookHead, rows: &Rows) -> Option<Arc<dyn HookControl>> {
        let mut lists = self.locked();
        let hook = lists.everywhere.remove(head)?;
        self.invalidate(&mut lists, rows);
        Some(hook)
    }

    fn invalidate(&self, lists: &mut Lists, rows: &Rows) {
        lists.retire(rows, self.current.take());
        lists.gone = 0;
        let mut built = std::mem::take(&mut lists.built);
        for scope in built.drain(..).filter_map(|it| it.upgrade()) {
            scope.built.store(false, Ordering::Relaxed);
            lists.retire(rows, scope.current.take());
        }
        lists.built = built;
    }

    #[cold]
    fn build(&self) {
        let mut lists = self.locked();
        if self.current.is_none() {
            let at_most = lists.everywhere.len();
            self.current.set(Snapshot::of(self.kind, at_most, lists.everywhere.in_order()));
        }
    }

    /// Holds every change of the event's lists off until the guard is dropped.
    pub(crate) fn lock(&self) -> LockedCell<'_> {
        LockedCell { cell: self, lists: self.locked() }
    }

    /// Whether a dispatch has a snapshot of the past in hand that holds a listener behind `gate`; those that hold one behind
    /// a gate at `except` as well do not count.
    pub(crate) fn is_held(&self, gate: &Gate, except: &[usize], rows: &Rows) -> bool {
        let past: Vec<_> = self.locked().past.iter().filter_map(Weak::upgrade).collect();
        let held = past.iter().any(|it| it.mentions(gate) && !except.iter().any(|other| it.mentions_at(*other)));
        for snapshot in past {
            // Whoever gave it up meanwhile told of it too early: others who look may have met our count.
            if let Some(last) = Arc::into_inner(snapshot) {
                drop(last);
                rows.wake_if_waiting();
            }
        }
        held
    }

    /// Registered listeners that can be heard: name of the plugin and whether it is in a scope, in order of dispatch.
    pub(crate) fn heads(&self) -> Vec<(Arc<str>, bool)> {
        let mut lists = self.locked();
        let Lists { everywhere, scopes, .. } = &mut *lists;
        let name = |head: &HookHead| head.core.identity.name.clone();
        let mut heads: Vec<_> = everywhere.in_order().map(|(_, head)| (name(head), false)).collect();
        for scope in scopes.values() {
            heads.extend(scope.owned().in_order().map(|(_, head)| (name(head), true)));
        }
        heads
    }
}

/// An event whose lists cannot change for now.
pub(crate) struct LockedCell<'a> {
    cell: &'a EventCell,
    lists: MutexGuard<'a, Lists>,
}

impl LockedCell<'_> {
    /// Makes the next dispatches build new snapshots.
    pub(crate) fn invalidate(&mut self, rows: &Rows) {
        self.cell.invalidate(&mut self.lists, rows);
        let taken: Vec<_> = self.lists.scopes.values().map(|scope| scope.current.take()).collect();
        for old in taken {
            self.lists.retire(rows, old);
        }
    }

    /// The same, after places changed.
    pub(crate) fn reorder(&mut self, rows: &Rows) {
        self.invalidate(rows);
        self.lists.everywhere.sorted = false;
        self.lists.scopes.values().for_each(|scope| scope.owned().sorted = false);
    }
}

impl ScopeCell {
    pub(crate) fn new(event: Arc<EventCell>) -> Arc<Self> {
        let kind = event.kind;
        Arc::new_cyclic(|me| Self {
            current: Current::none(),
            event,
            own: Mutex::new(Listeners::new(kind)),
            built: AtomicBool::new(false),
            at: AtomicU64::new(0),
            me: me.clone(),
        })
    }

    fn owned(&self) -> MutexGuard<'_, Listeners> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, rows: &Rows, hook: Raw) {
        {
            let mut lists = self.event.locked();
            let mut own = self.owned();
            if own.len() == 0 {
                let at = lists.scopes.last_key_value().map_or(0, |(last, _)| last + 1);
                self.at.store(at, Ordering::Relaxed);
                lists.scopes.extend(self.me.upgrade().map(|me| (at, me)));
            }
            own.add(hook);
            lists.retire(rows, self.current.take());
        }
        rows.reclaim();
    }

    fn remove(&self, head: &HookHead, rows: &Rows) -> Option<Arc<dyn HookControl>> {
        let mut lists = self.event.locked();
        let mut own = self.owned();
        let hook = own.remove(head)?;
        lists.retire(rows, self.current.take());
        // The caller has this cell, so it is not dropped here.
        if own.len() == 0 && lists.scopes.remove(&self.at.load(Ordering::Relaxed)).is_some() {
            lists.gone += 1;
            if lists.gone > lists.built.len() / 2 {
                lists.gone = 0;
                lists.built.retain(|it| it.strong_count() > 0);
            }
        }
        Some(hook)
    }

    #[cold]
    fn build(&self) {
        let mut lists = self.event.locked();
        if !self.current.is_none() {
            return;
        }
        let Lists { everywhere, built, .. } = &mut *lists;
        let mut own = self.owned();
        let (kind, at_most) = (self.event.kind, own.len() + everywhere.len());
        let (mut ours, mut theirs) = (own.in_order().peekable(), everywhere.in_order().peekable());
        let merged = std::iter::from_fn(|| {
            let from_own = match (ours.peek(), theirs.peek()) {
                (Some((_, a)), Some((_, b))) => dispatch_order(a, b, kind.own_fiber).is_lt(),
                (ours, _) => ours.is_some(),
            };
            if from_own { ours.next() } else { theirs.next() }
        });
        self.current.set(Snapshot::of(kind, at_most, merged));
        if !self.built.swap(true, Ordering::Relaxed) {
            if built.len() == built.capacity() {
                built.retain(|it| it.strong_count() > 0);
            }
            built.push(self.me.clone());
        }
    }
}

/// What a dispatch of `E` reads from: the cell of the event, or of the event in one scope.
pub(crate) struct Source<'a, E: Event> {
    cell: SourceCell<'a>,
    event: PhantomData<fn(E)>,
}

#[derive(Clone, Copy)]
pub(crate) enum SourceCell<'a> {
    Event(&'a EventCell),
    Scope(&'a ScopeCell),
}

impl SourceCell<'_> {
    #[cold]
    fn build(self) {
        match self {
            Self::Event(cell) => cell.build(),
            Self::Scope(cell) => cell.build(),
        }
    }
}

impl<'a, E: Event> Source<'a, E> {
    /// # Safety
    ///
    /// The cell was made for `E`.
    #[inline]
    pub(crate) unsafe fn new(cell: SourceCell<'a>) -> Self {
        Self { cell, event: PhantomData }
    }

    /// Runs `f` on the current listeners, which stay valid and unchanged meanwhile; `f` is told the depth of its frame
    /// where it may be one too many. Without listeners nothing runs and there is no frame.
    #[inline]
    pub(crate) fn walk<R>(
        self,
        rows: &Arc<Rows>,
        slot: u32,
        f: impl FnOnce(&[Entry<E>], Option<usize>) -> R,
    ) -> Option<R> {
        self.walk_snapshot(rows, slot, |snapshot, suspect| {
            // SAFETY: the frame of the walk protects it. The cell was made for `E`, as `new` asks, and so is its snapshot.
            f(unsafe { Entry::all(&(*snapshot).places) }, suspect)
        })
    }

    /// The snapshot is as `Arc::into_raw` made it, and protected until `f` returns.
    #[inline]
    fn walk_snapshot<R>(
        self,
        rows: &Arc<Rows>,
        slot: u32,
        f: impl FnOnce(*const Snapshot, Option<usize>) -> R,
    ) -> Option<R> {
        let current = match self.cell {
            SourceCell::Event(cell) => &cell.current.0,
            SourceCell::Scope(cell) => &cell.current.0,
        };
        let mut at = current.load(Ordering::Acquire);
        if at == EMPTY {
            return None;
        }
        let row = rows.row();
        let frame = Frame { row, rows, depth: row.push(slot) };
        loop {
            if at.is_null() {
                self.cell.build();
                at = current.load(Ordering::Acquire);
                continue;
            }
            if at == EMPTY {
                return None;
            }
            row.protect(frame.depth, at as usize);
            let seen = current.load(Ordering::Acquire);
            if seen == at {
                break;
            }
            at = seen;
        }
        // The frame named the snapshot before it was seen to be current, so whoever retires it later finds the frame and
        // keeps it; `frame` is left after the last use, also on unwinding.
        let result = f(at, row.is_suspect(slot, frame.depth).then_some(frame.depth));
        drop(frame);
        Some(result)
    }

    /// A counted reference to the current listeners, for dispatches that wait.
    #[inline]
    pub(crate) fn hold(self, rows: &'a Arc<Rows>, slot: u32) -> Option<(Held<'a, E>, Option<usize>)> {
        self.walk_snapshot(rows, slot, |raw, suspect| {
            // SAFETY: made by `Arc::into_raw`, and protected by the frame of the walk, so its count is at least one.
            unsafe { Arc::increment_strong_count(raw) };
            // SAFETY: this is the count just added.
            let snapshot = ManuallyDrop::new(unsafe { Arc::from_raw(raw) });
            (Held { snapshot, rows, slot, event: PhantomData }, suspect)
        })
    }
}

/// The listeners of a dispatch that waits. While it has them, what a version switched out has among them runs on.
pub(crate) struct Held<'a, E: Event> {
    snapshot: ManuallyDrop<Arc<Snapshot>>,
    rows: &'a Arc<Rows>,
    slot: u32,
    event: PhantomData<fn(E)>,
}

impl<E: Event> Deref for Held<'_, E> {
    type Target = [Entry<E>];
    #[inline(always)]
    fn deref(&self) -> &[Entry<E>] {
        // SAFETY: from a `Source` of `E`.
        unsafe { Entry::all(&self.snapshot.places) }
    }
}

impl<E: Event> Drop for Held<'_, E> {
    #[inline]
    fn drop(&mut self) {
        // In a frame, whose end is ordered with the looks of whoever waits for the snapshot to be given back.
        let row = self.rows.row();
        let depth = row.push(self.slot);
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.snapshot) };
        row.leave_ended(self.rows, depth);
    }
}

struct Frame<'a> {
    row: &'a crate::frames::Row,
    rows: &'a Arc<Rows>,
    depth: usize,
}

impl Drop for Frame<'_> {
    #[inline]
    fn drop(&mut self) {
        self.row.leave(self.rows, self.depth);
    }
}
