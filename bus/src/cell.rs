//! Where the listeners of one event are kept, and the snapshots that dispatches walk.
//!
//! An event has one [`EventCell`] in a bus. Where scopes filter the event, every scope with listeners of its own has a
//! [`ScopeCell`] beside it, whose snapshot holds its own listeners and those outside any scope, merged in order. A snapshot
//! is built by the first dispatch after a change and replaced as a whole, so what a dispatch walks never changes under it.

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::event::{Event, Mode};
use crate::frames::{Gate, Retired, Rows};
use crate::hook::{HookControl, HookHead};

type Object<E> = <<E as Event>::Mode as Mode>::Object<E>;

/// One listener in a snapshot. The head is reached without going through the fat pointer.
pub(crate) struct Entry<E: Event> {
    pub(crate) hook: Arc<Object<E>>,
    head: *const HookHead,
}

impl<E: Event> Entry<E> {
    /// An entry for a listener that can be heard.
    #[inline]
    fn of_visible(hook: &Arc<Object<E>>) -> Option<Self> {
        let head = hook.head();
        visible(head).then(|| Self { hook: hook.clone(), head })
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &HookHead {
        // SAFETY: points into `self.hook`, which keeps it alive and in place.
        unsafe { &*self.head }
    }
}

// SAFETY: `head` points into `hook`, which is `Send` and `Sync` like every stored listener.
unsafe impl<E: Event> Send for Entry<E> {}
// SAFETY: as above.
unsafe impl<E: Event> Sync for Entry<E> {}

/// The listeners of one event that one dispatch runs, in order.
pub(crate) struct Snapshot<E: Event> {
    entries: Box<[Entry<E>]>,
}

impl<E: Event> Deref for Snapshot<E> {
    type Target = [Entry<E>];
    #[inline(always)]
    fn deref(&self) -> &[Entry<E>] {
        &self.entries
    }
}

impl<E: Event> Snapshot<E> {
    /// Whether it holds a listener behind the gate at this address.
    fn mentions_at(&self, gate: usize) -> bool {
        self.entries.iter().any(|it| ptr::from_ref(&it.head().core.gate) as usize == gate)
    }
}

impl<E: Event> Retired for Snapshot<E> {
    fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }
    fn mentions(&self, gate: &Gate) -> bool {
        self.entries.iter().any(|it| ptr::eq(&it.head().core.gate, gate))
    }
}

/// The current snapshot: none (a change came, build one), empty, or a counted reference to one.
struct Current<E: Event>(AtomicPtr<Snapshot<E>>);

/// Stands for a snapshot without entries, which needs no protection.
fn empty<E: Event>() -> *mut Snapshot<E> {
    ptr::without_provenance_mut(align_of::<Snapshot<E>>())
}

impl<E: Event> Current<E> {
    fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn set(&self, snapshot: Snapshot<E>) {
        let new = if snapshot.is_empty() { empty() } else { Arc::into_raw(Arc::new(snapshot)).cast_mut() };
        let old = self.0.swap(new, Ordering::SeqCst);
        debug_assert!(old.is_null(), "a snapshot is set only where a change took the last one away");
    }

    /// Takes the snapshot away; the caller retires it.
    fn take(&self) -> Option<Arc<Snapshot<E>>> {
        let old = self.0.swap(ptr::null_mut(), Ordering::SeqCst);
        if old.is_null() || old == empty() {
            return None;
        }
        // SAFETY: made by `Arc::into_raw` in `set`; the cell's count goes with the pointer, which is gone from the cell.
        Some(unsafe { Arc::from_raw(old) })
    }
}

impl<E: Event> Drop for Current<E> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The registered listeners of one cell, in order of registration with holes, sorted when a snapshot is built.
struct Listeners<E: Event> {
    hooks: Vec<Option<Arc<Object<E>>>>,
    holes: usize,
    /// Whether the list is in order of dispatch.
    sorted: bool,
}

impl<E: Event> Listeners<E> {
    const fn new() -> Self {
        Self { hooks: Vec::new(), holes: 0, sorted: true }
    }

    fn len(&self) -> usize {
        self.hooks.len() - self.holes
    }

    fn add(&mut self, hook: Arc<Object<E>>) {
        if self.holes > self.hooks.len() / 2 + 8 {
            self.compact();
        }
        let index = u32::try_from(self.hooks.len()).expect("fewer than 2^32 listeners");
        hook.head().index.store(index, Ordering::Relaxed);
        // Mostly the newest comes last, and there is nothing to sort.
        let last = self.hooks.last().and_then(Option::as_ref);
        self.sorted &=
            last.is_none_or(|last| dispatch_order(last.head(), hook.head(), own_fiber_inside::<E>()).is_lt());
        self.hooks.push(Some(hook));
    }

    fn remove(&mut self, head: &HookHead) -> Option<Arc<Object<E>>> {
        let hook = self.hooks.get_mut(head.index.load(Ordering::Relaxed) as usize)?;
        if !hook.as_ref().is_some_and(|it| ptr::eq(it.head(), head)) {
            return None;
        }
        self.holes += 1;
        let hook = hook.take();
        // The last place is never a hole.
        while self.hooks.pop_if(|it| it.is_none()).is_some() {
            self.holes -= 1;
        }
        self.sorted |= self.hooks.is_empty();
        hook
    }

    fn compact(&mut self) {
        if self.holes > 0 {
            self.hooks.retain(Option::is_some);
            self.holes = 0;
            self.number();
        }
    }

    fn number(&self) {
        for (index, hook) in self.hooks.iter().flatten().enumerate() {
            hook.head().index.store(index as u32, Ordering::Relaxed);
        }
    }

    /// The list without holes and in order of dispatch; cheap where little changed, for the sort looks for runs.
    fn in_order(&mut self) -> impl Iterator<Item = &Arc<Object<E>>> {
        if !self.sorted {
            self.hooks.retain(Option::is_some);
            self.holes = 0;
            let heads: Vec<_> = self.hooks.iter().flatten().map(|it| it.head()).collect();
            let order = in_dispatch_order(&heads, own_fiber_inside::<E>());
            self.hooks = order.into_iter().map(|index| self.hooks[index].take()).collect();
            self.number();
            self.sorted = true;
        }
        self.hooks.iter().flatten()
    }
}

/// Whether those that hear all fibers come outside of those that hear their own only.
fn own_fiber_inside<E: Event>() -> bool {
    <E::Scope as crate::event::ScopeRule<E>>::OWN_FIBER
}

/// First the listeners marked so, then by place in the tree, then by number within the fiber. Where listeners hear their
/// own fiber only, those that hear all of them come outside.
fn dispatch_order(a: &HookHead, b: &HookHead, own_fiber: bool) -> std::cmp::Ordering {
    let outside = |it: &HookHead| own_fiber && !it.global;
    (!a.first, outside(a)).cmp(&(!b.first, outside(b))).then_with(|| a.order().cmp(&b.order()))
}

/// The places of these listeners in order of dispatch. It is not generic: a sort for each event would be much code.
fn in_dispatch_order(heads: &[&HookHead], own_fiber: bool) -> Vec<usize> {
    let mut order: Vec<_> = (0..heads.len()).collect();
    order.sort_by(|a, b| dispatch_order(heads[*a], heads[*b], own_fiber));
    order
}

#[inline]
fn visible(head: &HookHead) -> bool {
    head.core.is_visible() && !head.is_dead()
}

/// What all cells can do, whatever their event.
pub(crate) trait CellControl: Send + Sync {
    /// Takes a listener out and retires snapshots that held it, for the caller to reclaim. The listener itself is returned
    /// so that it is dropped outside the lock.
    fn remove(&self, head: &HookHead, rows: &Rows) -> Option<Arc<dyn HookControl>>;
    /// Address of the event's cell: cells of one event share it.
    fn event_cell(&self) -> *const ();
    /// Holds every change of the event's lists off until the guard is dropped.
    fn lock<'a>(&'a self) -> Box<dyn LockedCell + 'a>;
    /// Whether a dispatch has a snapshot of the past in hand that holds a listener behind `gate`; those that hold one behind
    /// a gate at `except` as well do not count.
    fn is_held(&self, gate: &Gate, except: &[usize], rows: &Rows) -> bool;
    fn name(&self) -> &'static str;
    fn type_path(&self) -> &'static str;
    /// Registered listeners that can be heard: name of the plugin and whether it is in a scope, in order of dispatch.
    fn heads(&self) -> Vec<(Arc<str>, bool)>;
}

/// An event whose lists cannot change for now.
pub(crate) trait LockedCell {
    /// Makes the next dispatches build new snapshots.
    fn invalidate(&mut self, rows: &Rows);
    /// The same, after places changed.
    fn reorder(&mut self, rows: &Rows);
}

/// All listeners of one event in one bus.
pub(crate) struct EventCell<E: Event> {
    current: Current<E>,
    lists: Mutex<Lists<E>>,
    pub(crate) queue: Mutex<OrderedQueue<E>>,
}

/// Dispatches of an ordered event that wait for the running one.
pub(crate) struct OrderedQueue<E> {
    pub(crate) running: bool,
    /// How many dispatches, each made inside the one before, led to the running one.
    pub(crate) depth: usize,
    pub(crate) waiting: VecDeque<Queued<E>>,
}

/// A dispatch that waits.
pub(crate) struct Queued<E> {
    pub(crate) event: E,
    pub(crate) depth: usize,
    /// Plugin that dispatched it.
    pub(crate) plugin: Arc<str>,
}

struct Lists<E: Event> {
    /// Listeners outside any scope, `global` ones, and all listeners of an event that is not filtered.
    everywhere: Listeners<E>,
    /// Scopes with listeners of their own, in the order they got the first.
    scopes: BTreeMap<u64, Arc<ScopeCell<E>>>,
    /// Scopes whose snapshot was built since the last change out here. Weak, for a scope without listeners is kept by its
    /// key alone.
    built: Vec<Weak<ScopeCell<E>>>,
    /// How many scopes lost their last listener since those in `built` were looked through.
    gone: usize,
    /// Snapshots of the past, as long as a dispatch that waits holds them.
    past: Vec<Weak<Snapshot<E>>>,
}

impl<E: Event> Lists<E> {
    /// Keeps what was taken away until no dispatch has it any more.
    fn retire(&mut self, rows: &Rows, old: Option<Arc<Snapshot<E>>>) {
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
pub(crate) struct ScopeCell<E: Event> {
    current: Current<E>,
    event: Arc<EventCell<E>>,
    /// Taken only by who holds the lock of the event's lists.
    own: Mutex<Listeners<E>>,
    built: AtomicBool,
    /// Its place among the event's scopes, while it has listeners.
    at: AtomicU64,
    me: Weak<ScopeCell<E>>,
}

impl<E: Event> EventCell<E> {
    pub(crate) fn new() -> Self {
        Self {
            current: Current::none(),
            lists: Mutex::new(Lists {
                everywhere: Listeners::new(),
                scopes: BTreeMap::new(),
                built: Vec::new(),
                gone: 0,
                past: Vec::new(),
            }),
            queue: Mutex::new(OrderedQueue { running: false, depth: 0, waiting: VecDeque::new() }),
        }
    }

    /// All listeners that scopes have of the event and that can be heard there, in no order that a dispatch has.
    pub(crate) fn in_scopes(&self) -> Vec<Arc<Object<E>>> {
        let lists = self.locked();
        let cells = lists.scopes.values();
        let heard = |scope: &Arc<ScopeCell<E>>| {
            let own = scope.owned();
            own.hooks.iter().flatten().filter(|it| visible(it.head())).cloned().collect::<Vec<_>>()
        };
        cells.flat_map(heard).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Lists<E>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, rows: &Rows, hook: Arc<Object<E>>) {
        {
            let mut lists = self.locked();
            lists.everywhere.add(hook);
            self.invalidate(&mut lists, rows);
        }
        rows.reclaim();
    }

    fn invalidate(&self, lists: &mut Lists<E>, rows: &Rows) {
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
        if self.current.0.load(Ordering::Relaxed).is_null() {
            let mut entries = Vec::with_capacity(lists.everywhere.len());
            entries.extend(lists.everywhere.in_order().filter_map(Entry::of_visible));
            self.current.set(Snapshot { entries: entries.into_boxed_slice() });
        }
    }
}

impl<E: Event> ScopeCell<E> {
    pub(crate) fn new(event: Arc<EventCell<E>>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            current: Current::none(),
            event,
            own: Mutex::new(Listeners::new()),
            built: AtomicBool::new(false),
            at: AtomicU64::new(0),
            me: me.clone(),
        })
    }

    fn owned(&self) -> MutexGuard<'_, Listeners<E>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, rows: &Rows, hook: Arc<Object<E>>) {
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

    #[cold]
    fn build(&self) {
        let mut lists = self.event.locked();
        if !self.current.0.load(Ordering::Relaxed).is_null() {
            return;
        }
        let Lists { everywhere, built, .. } = &mut *lists;
        let mut own = self.owned();
        let mut entries = Vec::with_capacity(own.len() + everywhere.len());
        let (mut ours, mut theirs) = (own.in_order().peekable(), everywhere.in_order().peekable());
        loop {
            let from_own = match (ours.peek(), theirs.peek()) {
                (Some(a), Some(b)) => dispatch_order(a.head(), b.head(), own_fiber_inside::<E>()).is_lt(),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let hook = if from_own { ours.next() } else { theirs.next() };
            entries.extend(hook.and_then(Entry::of_visible));
        }
        self.current.set(Snapshot { entries: entries.into_boxed_slice() });
        if !self.built.swap(true, Ordering::Relaxed) {
            if built.len() == built.capacity() {
                built.retain(|it| it.strong_count() > 0);
            }
            built.push(self.me.clone());
        }
    }
}

impl<E: Event> CellControl for EventCell<E> {
    fn remove(&self, head: &HookHead, rows: &Rows) -> Option<Arc<dyn HookControl>> {
        let mut lists = self.locked();
        let hook = lists.everywhere.remove(head)?;
        self.invalidate(&mut lists, rows);
        Some(E::Mode::erase(hook))
    }
    fn event_cell(&self) -> *const () {
        ptr::from_ref(self).cast()
    }
    fn lock<'a>(&'a self) -> Box<dyn LockedCell + 'a> {
        Box::new((self, self.locked()))
    }
    fn is_held(&self, gate: &Gate, except: &[usize], rows: &Rows) -> bool {
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
    fn name(&self) -> &'static str {
        E::NAME
    }
    fn type_path(&self) -> &'static str {
        E::descriptor().type_path
    }
    fn heads(&self) -> Vec<(Arc<str>, bool)> {
        let mut lists = self.locked();
        let Lists { everywhere, scopes, .. } = &mut *lists;
        let everywhere =
            everywhere.in_order().map(|it| (it.head().core.identity.name.clone(), false)).collect::<Vec<_>>();
        let scoped = scopes.values().flat_map(|scope| {
            scope.owned().in_order().map(|it| (it.head().core.identity.name.clone(), true)).collect::<Vec<_>>()
        });
        everywhere.into_iter().chain(scoped).collect()
    }
}

impl<E: Event> LockedCell for (&EventCell<E>, MutexGuard<'_, Lists<E>>) {
    fn invalidate(&mut self, rows: &Rows) {
        let (cell, lists) = self;
        cell.invalidate(lists, rows);
        let taken: Vec<_> = lists.scopes.values().map(|scope| scope.current.take()).collect();
        for old in taken {
            lists.retire(rows, old);
        }
    }
    fn reorder(&mut self, rows: &Rows) {
        self.invalidate(rows);
        let (_, lists) = self;
        lists.everywhere.sorted = false;
        lists.scopes.values().for_each(|scope| scope.owned().sorted = false);
    }
}

impl<E: Event> CellControl for ScopeCell<E> {
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
        Some(E::Mode::erase(hook))
    }
    fn event_cell(&self) -> *const () {
        Arc::as_ptr(&self.event).cast()
    }
    fn lock<'a>(&'a self) -> Box<dyn LockedCell + 'a> {
        CellControl::lock(&*self.event)
    }
    fn is_held(&self, gate: &Gate, except: &[usize], rows: &Rows) -> bool {
        self.event.is_held(gate, except, rows)
    }
    fn name(&self) -> &'static str {
        E::NAME
    }
    fn type_path(&self) -> &'static str {
        E::descriptor().type_path
    }
    fn heads(&self) -> Vec<(Arc<str>, bool)> {
        self.event.heads()
    }
}

/// What a dispatch reads from: the cell of the event, or of the event in one scope.
pub(crate) enum Source<'a, E: Event> {
    Event(&'a EventCell<E>),
    Scope(&'a ScopeCell<E>),
}

impl<E: Event> Clone for Source<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E: Event> Copy for Source<'_, E> {}

impl<'a, E: Event> Source<'a, E> {
    #[inline]
    fn current(self) -> &'a AtomicPtr<Snapshot<E>> {
        match self {
            Self::Event(cell) => &cell.current.0,
            Self::Scope(cell) => &cell.current.0,
        }
    }

    #[cold]
    fn build(self) {
        match self {
            Self::Event(cell) => cell.build(),
            Self::Scope(cell) => cell.build(),
        }
    }

    /// Runs `f` on the current listeners, which stay valid and unchanged meanwhile; `f` is told the depth of its frame
    /// where it may be one too many. Without listeners nothing runs and there is no frame.
    #[inline]
    pub(crate) fn walk<R>(
        self,
        rows: &Arc<Rows>,
        slot: u32,
        f: impl FnOnce(&Snapshot<E>, Option<usize>) -> R,
    ) -> Option<R> {
        let current = self.current();
        let mut at = current.load(Ordering::Acquire);
        if at == empty() {
            return None;
        }
        let row = rows.row();
        let frame = Frame { row, rows, depth: row.push(slot) };
        loop {
            if at.is_null() {
                self.build();
                at = current.load(Ordering::Acquire);
                continue;
            }
            if at == empty() {
                return None;
            }
            row.protect(frame.depth, at as usize);
            let seen = current.load(Ordering::Acquire);
            if seen == at {
                break;
            }
            at = seen;
        }
        // SAFETY: the frame named the snapshot before it was seen to be current, so whoever retires it later finds the
        // frame and keeps it; `frame` is left after the last use, also on unwinding.
        let result = f(unsafe { &*at }, row.is_suspect(slot, frame.depth).then_some(frame.depth));
        drop(frame);
        Some(result)
    }

    /// A counted reference to the current listeners, for dispatches that wait.
    #[inline]
    pub(crate) fn hold(self, rows: &Arc<Rows>, slot: u32) -> Option<(Held<'_, E>, Option<usize>)> {
        self.walk(rows, slot, |snapshot, suspect| {
            let raw = ptr::from_ref(snapshot);
            // SAFETY: made by `Arc::into_raw`, and protected by the frame of `walk`, so its count is at least one.
            unsafe { Arc::increment_strong_count(raw) };
            // SAFETY: this is the count just added.
            let snapshot = ManuallyDrop::new(unsafe { Arc::from_raw(raw) });
            (Held { snapshot, rows, slot }, suspect)
        })
    }
}

/// The listeners of a dispatch that waits. While it has them, what a version switched out has among them runs on.
pub(crate) struct Held<'a, E: Event> {
    snapshot: ManuallyDrop<Arc<Snapshot<E>>>,
    rows: &'a Arc<Rows>,
    slot: u32,
}

impl<E: Event> Deref for Held<'_, E> {
    type Target = Snapshot<E>;
    #[inline(always)]
    fn deref(&self) -> &Snapshot<E> {
        &self.snapshot
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

/// The place of one cell; filled once.
pub(crate) type CellSlot = OnceLock<Arc<dyn CellControl>>;

/// An append-only table from slot to cell, read without a lock; grows in blocks of doubling size.
pub(crate) struct SlotTable {
    blocks: [OnceLock<Box<[CellSlot]>>; BLOCKS],
}

const FIRST_BLOCK: u32 = 32;
const BLOCKS: usize = 12;

impl SlotTable {
    pub(crate) const fn new() -> Self {
        Self { blocks: [const { OnceLock::new() }; BLOCKS] }
    }

    #[inline]
    fn place(slot: u32) -> (usize, usize) {
        let shifted = slot + FIRST_BLOCK;
        let block = shifted.ilog2() - FIRST_BLOCK.ilog2();
        (block as usize, (shifted - (FIRST_BLOCK << block)) as usize)
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Arc<dyn CellControl>> {
        let (block, index) = Self::place(slot);
        self.blocks.get(block)?.get()?[index].get()
    }

    pub(crate) fn get_or_init(&self, slot: u32, make: impl FnOnce() -> Arc<dyn CellControl>) -> &Arc<dyn CellControl> {
        let (block, index) = Self::place(slot);
        let block = self.blocks.get(block).expect("fewer than 131,040 declared events");
        let size = FIRST_BLOCK as usize * (1 << (Self::place(slot).0));
        block.get_or_init(|| (0..size).map(|_| OnceLock::new()).collect())[index].get_or_init(make)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn CellControl>> {
        self.blocks.iter().filter_map(OnceLock::get).flat_map(|block| block.iter()).filter_map(OnceLock::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_distinct_places_in_blocks_of_doubling_size() {
        assert_eq!(SlotTable::place(0), (0, 0));
        assert_eq!(SlotTable::place(31), (0, 31));
        assert_eq!(SlotTable::place(32), (1, 0));
        assert_eq!(SlotTable::place(95), (1, 63));
        assert_eq!(SlotTable::place(96), (2, 0));
    }
}
