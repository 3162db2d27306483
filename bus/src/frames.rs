//! In-flight frames: what every thread is running of this bus right now.
//!
//! Two questions need an answer when something is torn down: may this snapshot be freed, and does code of this fiber still run?
//! Both are answered by the same rows, one a thread, to which a dispatch writes with plain stores:
//!
//! - a *dispatch frame* names the snapshot of listeners that a synchronous dispatch walks (a hazard pointer);
//! - a *call frame* names the [`Gate`] whose code is on the CPU: an asynchronous listener, a service method, a task's poll.
//!
//! The reader's fence is free on Linux: the side that tears down pays for both with `membarrier`. Elsewhere both sides fence.
//! Futures that are pending are counted on their gate *inside* a frame, so the order of the questions is rows first, counters second.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::dispatch::MAX_NESTING;

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, loom))]
mod model;

/// Frames a thread has before it takes another block of them.
const BLOCK: usize = if cfg!(loom) { 2 } else { 64 };

/// Whether code may be entered, and how many of its futures are pending.
#[derive(Debug)]
pub(crate) struct Gate {
    closed: AtomicBool,
    cancelled: AtomicBool,
    pending: AtomicU32,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { closed: AtomicBool::new(false), cancelled: AtomicBool::new(false), pending: AtomicU32::new(0) }
    }

    /// Nothing new may be entered. Takes effect for others after [`Rows::heavy_fence`].
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Pending futures are dropped at their next poll.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Futures that were polled at least once and have neither ended nor been dropped.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire) as usize
    }

    /// Call only inside a frame that names this gate.
    #[inline]
    pub(crate) fn add_pending(&self) {
        self.pending.fetch_add(1, Ordering::AcqRel);
    }

    /// Call only inside a frame that names this gate, and leave it with [`Row::leave_ended`], which wakes who waits.
    #[inline]
    pub(crate) fn sub_pending(&self) {
        self.pending.fetch_sub(1, Ordering::AcqRel);
    }

    /// Several at once. Call only inside a frame that names this gate; where it is fewer than none, wake who waits once the
    /// frame is left.
    #[inline]
    pub(crate) fn count_pending(&self, more: isize) {
        self.pending.fetch_add(more as u32, Ordering::AcqRel);
    }

    fn mark(&self) -> usize {
        std::ptr::from_ref(self) as usize | CALL
    }
}

/// Mark on the slot of a frame that is a further layer of a dispatch which has a frame already: it does not nest.
pub(crate) const INNER: u32 = 1 << 31;
/// Slot of a service call.
pub(crate) const SERVICE: u32 = u32::MAX;
/// Slot of a task or of the start of a plugin, whose pending futures no gate counts.
pub(crate) const TASK: u32 = u32::MAX - 1;

/// No slot.
const NONE: u32 = u32::MAX - 2;

/// Tag of a call frame; snapshots and gates are aligned, so the bit is free.
const CALL: usize = 1;

#[derive(Debug)]
struct Frame {
    what: AtomicUsize,
    slot: AtomicU32,
}

#[derive(Debug)]
struct Frames {
    here: [Frame; BLOCK],
    more: OnceLock<Box<Frames>>,
}

impl Frames {
    fn new() -> Self {
        Self {
            here: std::array::from_fn(|_| Frame { what: AtomicUsize::new(0), slot: AtomicU32::new(0) }),
            more: OnceLock::new(),
        }
    }
}

/// The frames of one thread. Only that thread writes; whoever tears something down reads. Nothing that another thread writes
/// shares a cache line with it, nor the line that is fetched along.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Row {
    /// Which thread has the row; 0 when none has.
    owner: AtomicU64,
    depth: AtomicUsize,
    /// Whether the other side fences for us.
    asymmetric: bool,
    /// Slot of the event that nested too deep; nothing more of it nests until its outermost dispatch is over.
    overrun: AtomicU32,
    frames: Frames,
}

impl Row {
    fn new(owner: u64, asymmetric: bool) -> Self {
        Self {
            owner: AtomicU64::new(owner),
            depth: AtomicUsize::new(0),
            asymmetric,
            overrun: AtomicU32::new(NONE),
            frames: Frames::new(),
        }
    }

    #[inline]
    fn frame(&self, depth: usize) -> &Frame {
        if depth < BLOCK { &self.frames.here[depth] } else { self.far_frame(depth) }
    }

    #[cold]
    fn far_frame(&self, depth: usize) -> &Frame {
        let mut block = &self.frames;
        for _ in 0..depth / BLOCK {
            block = block.more.get_or_init(|| Box::new(Frames::new()));
        }
        &block.here[depth % BLOCK]
    }

    fn live_frames(&self) -> impl Iterator<Item = &Frame> {
        let mut block = Some(&self.frames);
        std::iter::from_fn(move || {
            let it = block?;
            block = it.more.get().map(|next| &**next);
            Some(it)
        })
        .flat_map(|block| block.here.iter())
    }

    #[inline]
    fn light_fence(&self) {
        if self.asymmetric {
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Opens a frame that names nothing yet; returns its depth.
    #[inline]
    pub(crate) fn push(&self, slot: u32) -> usize {
        let depth = self.depth.load(Ordering::Relaxed);
        let frame = self.frame(depth);
        frame.slot.store(slot, Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
        depth
    }

    /// Names a snapshot in the frame; it is protected once it is seen to be current still.
    #[inline]
    pub(crate) fn protect(&self, depth: usize, address: usize) {
        self.frame(depth).what.store(address, Ordering::Relaxed);
        self.light_fence();
    }

    /// Enters code behind `gate`; `None` when the gate is closed.
    #[inline]
    pub(crate) fn enter(&self, rows: &Rows, gate: &Gate, slot: u32) -> Option<usize> {
        let depth = self.enter_closed(gate, slot);
        if gate.is_closed() {
            self.leave(rows, depth);
            return None;
        }
        Some(depth)
    }

    /// Enters code behind `gate` whether or not it is closed: for what runs while a gate drains.
    #[inline]
    pub(crate) fn enter_closed(&self, gate: &Gate, slot: u32) -> usize {
        self.open(gate, slot).depth
    }

    /// [`enter_closed`](Self::enter_closed), and the frame is left when the result is dropped.
    #[inline]
    pub(crate) fn enter_closed_for<'a>(&'a self, rows: &'a Rows, gate: &Gate, slot: u32) -> Inside<'a> {
        Inside { row: self, rows, opened: self.open(gate, slot) }
    }

    #[inline(always)]
    fn open(&self, gate: &Gate, slot: u32) -> Opened<'_> {
        let depth = self.depth.load(Ordering::Relaxed);
        let frame = self.frame(depth);
        frame.slot.store(slot, Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
        frame.what.store(gate.mark(), Ordering::Relaxed);
        self.light_fence();
        Opened { frame, depth }
    }

    /// Leaves the code that the innermost frame is in and enters that behind `gate`, closed or not.
    #[inline]
    pub(crate) fn move_on(&self, rows: &Rows, depth: usize, gate: &Gate) {
        let frame = self.frame(depth);
        let before = frame.what.load(Ordering::Relaxed);
        frame.what.store(gate.mark(), Ordering::Release);
        self.light_fence();
        if rows.waiting.load(Ordering::Relaxed) != 0 {
            rows.left(before);
        }
    }

    /// Leaves the innermost frame.
    #[inline]
    pub(crate) fn leave(&self, rows: &Rows, depth: usize) {
        self.close(rows, Opened { frame: self.frame(depth), depth });
    }

    #[inline(always)]
    fn close(&self, rows: &Rows, Opened { frame, depth }: Opened<'_>) {
        let what = frame.what.load(Ordering::Relaxed);
        frame.what.store(0, Ordering::Release);
        self.depth.store(depth, Ordering::Relaxed);
        self.light_fence();
        if rows.waiting.load(Ordering::Relaxed) != 0 {
            rows.left(what);
        }
    }

    /// Leaves the innermost frame, in which a future ended that was counted as pending.
    #[inline]
    pub(crate) fn leave_ended(&self, rows: &Rows, depth: usize) {
        self.leave(rows, depth);
        rows.wake_if_waiting();
    }

    /// Whether [`nests_too_deep`](Self::nests_too_deep) has to be asked for a dispatch of `slot` whose frame is this deep.
    #[inline]
    pub(crate) fn is_suspect(&self, slot: u32, depth: usize) -> bool {
        depth >= MAX_NESTING || self.overrun.load(Ordering::Relaxed) == slot
    }

    /// Whether this thread is inside too many dispatches of `slot`, counted up to `depth`. Once it was, it is until the
    /// outermost of them is over: listeners that each dispatch twice would make 2^64 of them otherwise.
    #[cold]
    pub(crate) fn nests_too_deep(&self, slot: u32, depth: usize) -> bool {
        let nested = self.nesting(slot, depth);
        let was_too_deep = self.overrun.load(Ordering::Relaxed) == slot;
        if nested >= MAX_NESTING {
            self.overrun.store(slot, Ordering::Relaxed);
        } else if nested == 0 && was_too_deep {
            self.overrun.store(NONE, Ordering::Relaxed);
        }
        nested >= MAX_NESTING || (was_too_deep && nested > 0)
    }

    /// Whether this thread is inside a dispatch of `slot`.
    #[cold]
    pub(crate) fn is_inside(&self, slot: u32) -> bool {
        self.nesting(slot, self.depth.load(Ordering::Relaxed)) > 0
    }

    /// How many dispatches of `slot` this thread is inside, counted up to `depth`.
    #[cold]
    fn nesting(&self, slot: u32, depth: usize) -> usize {
        (0..depth).filter(|it| self.frame(*it).slot.load(Ordering::Relaxed) == slot).count()
    }
}

/// A frame that was found already, and its depth.
#[derive(Clone, Copy)]
struct Opened<'a> {
    frame: &'a Frame,
    depth: usize,
}

/// The code behind a gate that this thread is in until this is dropped.
pub(crate) struct Inside<'a> {
    row: &'a Row,
    rows: &'a Rows,
    opened: Opened<'a>,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.row.close(self.rows, self.opened);
    }
}

/// A snapshot that was current once and may be read still.
pub(crate) trait Retired: Send + Sync {
    fn address(&self) -> usize;
    /// Whether it holds a listener behind `gate`.
    fn mentions(&self, gate: &Gate) -> bool;
}

/// Who waits, by what for and then by number.
#[derive(Default)]
struct Waiters {
    last: u64,
    wakers: BTreeMap<(u64, u64), Waker>,
}

/// What those wait for who ask about frames and pending futures; other waits are for the fiber of that number.
const CALLS: u64 = u64::MAX;

/// All rows of one bus, what was retired while they were in use, and who waits for them.
pub(crate) struct Rows {
    rows: Mutex<Vec<Arc<Row>>>,
    /// Number of waiters for calls and of retired snapshots: what makes leaving a frame take the long way.
    waiting: AtomicUsize,
    /// Whether somebody who waits found code on a CPU and must be told when it leaves. Without it a call that is polled in
    /// one task with a disposal would wake that task by being polled, for ever.
    watched: AtomicBool,
    waiters: Mutex<Waiters>,
    retired: Mutex<Vec<Arc<dyn Retired>>>,
    asymmetric: bool,
    /// The bus is gone: no thread is inside it, and those that were give their rows up.
    gone: AtomicBool,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

thread_local! {
    /// The row used last, so that the usual case is one comparison.
    static LAST: Cell<(*const Rows, *const Row)> = const { Cell::new((std::ptr::null(), std::ptr::null())) };
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}

/// The rows this thread has, one a bus. Holding the `Rows` keeps their address from being reused.
struct Mine(Vec<(Arc<Rows>, Arc<Row>)>);

impl Drop for Mine {
    fn drop(&mut self) {
        LAST.set((std::ptr::null(), std::ptr::null()));
        for (_, row) in self.0.drain(..) {
            row.owner.store(0, Ordering::Release);
        }
    }
}

/// A number that no other live thread has, the same in every library of the process.
fn this_thread() -> u64 {
    #[cfg(all(unix, not(loom)))]
    {
        // SAFETY: `pthread_self` has no preconditions.
        unsafe { libc::pthread_self() as u64 }
    }
    #[cfg(any(not(unix), loom))]
    {
        #[cfg(loom)]
        use loom::thread;
        use std::hash::{DefaultHasher, Hash, Hasher};
        #[cfg(not(loom))]
        use std::thread;
        let mut hasher = DefaultHasher::new();
        thread::current().id().hash(&mut hasher);
        hasher.finish() | 1
    }
}

/// See [`Root::prepare_process`](crate::Root::prepare_process).
pub(crate) fn prepare_process() {
    membarrier::register();
}

impl Rows {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            rows: Mutex::default(),
            waiting: AtomicUsize::new(0),
            watched: AtomicBool::new(false),
            waiters: Mutex::default(),
            retired: Mutex::default(),
            asymmetric: membarrier::register(),
            gone: AtomicBool::new(false),
        })
    }

    /// The row of the running thread.
    #[inline]
    pub(crate) fn row(self: &Arc<Self>) -> &Row {
        let (rows, row) = LAST.get();
        if std::ptr::eq(rows, Arc::as_ptr(self)) {
            // SAFETY: `LAST` is set only to a row that `MINE` of this thread holds, together with the `Rows` compared here,
            // and is cleared before `MINE` gives either up. The row outlives every use: the reference cannot leave the
            // thread (`Row` users are on its stack) and `MINE` drops rows of a live `Rows` only when the thread ends.
            unsafe { &*row }
        } else {
            self.find_row()
        }
    }

    #[cold]
    fn find_row(self: &Arc<Self>) -> &Row {
        let found = MINE.try_with(|mine| {
            let mine = &mut mine.borrow_mut().0;
            let row = match mine.iter().find(|(rows, _)| Arc::ptr_eq(rows, self)) {
                Some((_, row)) => row.clone(),
                None => {
                    mine.retain(|(rows, _)| !rows.gone.load(Ordering::Acquire));
                    let row = self.claim_row();
                    mine.push((self.clone(), row.clone()));
                    row
                }
            };
            let row = Arc::as_ptr(&row);
            LAST.set((Arc::as_ptr(self), row));
            row
        });
        let row = found.unwrap_or_else(|_| Arc::as_ptr(&self.last_row()));
        // SAFETY: `self.rows` holds every row it ever handed out, and `self` is borrowed for the result.
        unsafe { &*row }
    }

    /// A thread that is ending has lost its list: it gets one row for what is left of its life.
    fn last_row(&self) -> Arc<Row> {
        let me = this_thread();
        let own = lock(&self.rows).iter().find(|row| row.owner.load(Ordering::Relaxed) == me).cloned();
        own.unwrap_or_else(|| self.claim_row())
    }

    /// Lets threads forget their rows, at the end of the bus.
    pub(crate) fn give_up(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// A row of its own for the caller: a free one or a new one.
    pub(crate) fn claim_row(&self) -> Arc<Row> {
        let me = this_thread();
        let mut rows = lock(&self.rows);
        for row in rows.iter() {
            if row.owner.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return row.clone();
            }
        }
        let row = Arc::new(Row::new(me, self.asymmetric));
        rows.push(row.clone());
        row
    }

    /// The expensive half of the fence pair: after it, every frame entered before is visible, and every frame entered
    /// later sees what was written before.
    pub(crate) fn heavy_fence(&self) {
        if self.asymmetric {
            membarrier::barrier();
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Keeps `old` until no frame names it. Call it under the lock that made `old` a snapshot of the past, so that nobody
    /// who takes that lock later looks for it in vain; call [`reclaim`](Self::reclaim) once the lock is given back.
    pub(crate) fn retire(&self, old: impl IntoIterator<Item = Arc<dyn Retired>>) {
        let mut retired = lock(&self.retired);
        let before = retired.len();
        retired.extend(old);
        self.waiting.fetch_add(retired.len() - before, Ordering::Relaxed);
    }

    /// Drops what was retired and is not named any more. Drops of listeners run in here, outside every lock.
    pub(crate) fn reclaim(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let free = {
            let mut retired = lock(&self.retired);
            if retired.is_empty() {
                return;
            }
            // Under the lock, so that it comes after every snapshot in the list was taken away.
            self.heavy_fence();
            let rows = lock(&self.rows);
            let free: Vec<_> = retired.extract_if(.., |it| !is_named(&rows, it.address(), None)).collect();
            self.waiting.fetch_sub(free.len(), Ordering::Relaxed);
            free
        };
        if !free.is_empty() {
            drop(free);
            self.wake();
        }
    }

    /// The long way out of a frame: somebody waits, or something was retired.
    #[cold]
    fn left(&self, what: usize) {
        if what & CALL == 0 {
            self.reclaim();
        } else if self.watched.swap(false, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// [`wake`](Self::wake) after a frame was left in which fewer futures came to be pending.
    #[inline]
    pub(crate) fn wake_if_waiting(&self) {
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    /// Wakes everyone who waits for rows or counters; they look again.
    pub(crate) fn wake(&self) {
        self.wake_those(CALLS);
    }

    /// Wakes everyone who waits for something about a fiber; they look again.
    pub(crate) fn wake_fiber(&self, fiber: u64) {
        self.wake_those(fiber);
    }

    fn wake_those(&self, of: u64) {
        let wakers: Vec<_> = {
            let waiters = lock(&self.waiters);
            waiters.wakers.range((of, 0)..=(of, u64::MAX)).map(|(_, waker)| waker.clone()).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// The gates that frames of the running thread name, and how many calls each counts as pending while they wait.
    pub(crate) fn own_frames(&self) -> Vec<(usize, usize)> {
        let me = this_thread();
        let mut calls: Vec<(usize, usize)> = Vec::new();
        for row in lock(&self.rows).iter().filter(|row| row.owner.load(Ordering::Relaxed) == me) {
            let depth = row.depth.load(Ordering::Relaxed);
            for at in 0..depth {
                let what = row.frame(at).what.load(Ordering::Relaxed);
                if what & CALL == 0 {
                    continue;
                }
                let counted = usize::from(row.frame(at).slot.load(Ordering::Relaxed) != TASK);
                match calls.iter_mut().find(|(gate, _)| *gate == what & !CALL) {
                    Some((_, count)) => *count += counted,
                    None => calls.push((what & !CALL, counted)),
                }
            }
        }
        calls
    }

    /// What a frame names while code behind `gate` runs in it: the gate first, then every snapshot that holds a listener behind it.
    fn marks(&self, gate: &Gate) -> Vec<usize> {
        let retired = lock(&self.retired);
        let snapshots = retired.iter().filter(|it| it.mentions(gate)).map(|it| it.address());
        std::iter::once(gate.mark()).chain(snapshots).collect()
    }

    /// Whether another thread walks a snapshot of the past that holds a listener behind `gate`.
    pub(crate) fn is_walked(&self, gate: &Gate) -> bool {
        let (me, marks) = (this_thread(), self.marks(gate));
        let rows = lock(&self.rows);
        marks.iter().skip(1).any(|it| is_named(&rows, *it, Some(me)))
    }

    /// Slots of the frames in which other threads run code behind `gate`.
    pub(crate) fn running(&self, gate: &Gate) -> Vec<u32> {
        let (me, marks) = (this_thread(), self.marks(gate));
        let rows = lock(&self.rows);
        rows.iter()
            .filter(|row| row.owner.load(Ordering::Relaxed) != me)
            .flat_map(|row| row.live_frames().filter(|it| marks.contains(&it.what.load(Ordering::Acquire))))
            .map(|it| it.slot.load(Ordering::Relaxed))
            .collect()
    }

    /// Whether no other thread runs code behind `gate` or walks a snapshot that holds a listener behind it.
    pub(crate) fn is_off_cpu(&self, gate: &Gate) -> bool {
        let me = this_thread();
        let is_off = || {
            let marks = self.marks(gate);
            let rows = lock(&self.rows);
            !marks.iter().any(|it| is_named(&rows, *it, Some(me)))
        };
        if is_off() {
            return true;
        }
        self.watched.swap(true, Ordering::AcqRel);
        self.heavy_fence();
        is_off()
    }

    /// Waits until `ready` holds; looks again whenever a call behind a gate or a dispatch with a retired snapshot ends.
    ///
    /// Cancel safe: dropping it gives up the place among the waiters.
    pub(crate) fn wait_until<F: FnMut() -> bool + Unpin>(self: &Arc<Self>, ready: F) -> WaitUntil<F> {
        WaitUntil { rows: self.clone(), of: CALLS, id: None, ready }
    }

    /// Waits until `ready` holds; looks again whenever somebody tells of the fiber with [`wake_fiber`](Self::wake_fiber).
    /// Nobody else is woken then: many fibers may be waited for at once.
    ///
    /// Cancel safe: dropping it gives up the place among the waiters.
    pub(crate) fn wait_for<F: FnMut() -> bool + Unpin>(self: &Arc<Self>, fiber: u64, ready: F) -> WaitUntil<F> {
        WaitUntil { rows: self.clone(), of: fiber, id: None, ready }
    }
}

fn is_named(rows: &[Arc<Row>], what: usize, except: Option<u64>) -> bool {
    rows.iter()
        .filter(|row| except != Some(row.owner.load(Ordering::Relaxed)))
        .any(|row| row.live_frames().any(|it| it.what.load(Ordering::Acquire) == what))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Future of [`Rows::wait_until`] and [`Rows::wait_for`].
pub(crate) struct WaitUntil<F> {
    rows: Arc<Rows>,
    of: u64,
    id: Option<u64>,
    ready: F,
}

impl<F: FnMut() -> bool + Unpin> Future for WaitUntil<F> {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // A waker may own a task, whose drop may come here again: none is dropped under the lock.
        let waker = cx.waker().clone();
        let before = {
            let mut waiters = lock(&this.rows.waiters);
            let id = *this.id.get_or_insert_with(|| {
                waiters.last += 1;
                if this.of == CALLS {
                    this.rows.waiting.fetch_add(1, Ordering::Relaxed);
                }
                waiters.last
            });
            waiters.wakers.insert((this.of, id), waker)
        };
        drop(before);
        // What concerns a fiber alone is read and written under its lock.
        if this.of == CALLS {
            this.rows.heavy_fence();
        }
        if (this.ready)() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<F> Drop for WaitUntil<F> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waker = lock(&self.rows.waiters).wakers.remove(&(self.of, id));
            drop(waker);
            if self.of == CALLS {
                self.rows.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// The kernel's process-wide fence.
#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod membarrier {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn call(command: libc::c_int) -> libc::c_long {
        // SAFETY: the system call takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0 as libc::c_uint, 0 as libc::c_int) }
    }

    /// Whether the fence can be had. Kernels before 4.14 and some sandboxes refuse.
    pub(super) fn register() -> bool {
        call(REGISTER_PRIVATE_EXPEDITED) == 0
    }

    pub(super) fn barrier() {
        let outcome = call(PRIVATE_EXPEDITED);
        debug_assert_eq!(outcome, 0, "a registered process may always ask for the fence");
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
mod membarrier {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() {}
}
