//! Wakers that tell which of many futures of one task was woken, in one allocation for every 64 of them.

use std::mem::offset_of;
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::task::{RawWaker, RawWakerVTable, Waker};

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(all(test, loom))]
mod model;

/// Futures of one group: one for each bit.
const GROUP: usize = u64::BITS as usize;

/// Futures of one task that have a waker each, by their place.
pub(crate) struct Wakers {
    first: Arc<Group>,
    more: Vec<Arc<Group>>,
}

/// What 64 wakers share.
struct Group {
    woken: AtomicU64,
    everybody: AtomicBool,
    /// The waker of the task.
    task: Mutex<Waker>,
    /// A waker points to one of these, which says which it is and where the group is. The last one stands for everybody.
    marks: [u8; GROUP + 1],
}

impl Wakers {
    /// As many wakers as asked for, which wake `task`.
    pub(crate) fn new(count: usize, task: &Waker) -> Self {
        let more = count.saturating_sub(1) / GROUP;
        Self { first: Group::new(task), more: (0..more).map(|_| Group::new(task)).collect() }
    }

    fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// From now on `task` is woken. Call it before [`woken`](Self::woken): what is woken in between is seen there.
    pub(crate) fn wake_through(&self, task: &Waker) {
        for group in self.groups() {
            let before = {
                let mut own = group.task();
                if own.will_wake(task) { None } else { Some(std::mem::replace(&mut *own, task.clone())) }
            };
            // A waker may own a task, whose drop must not run under the lock.
            drop(before);
        }
    }

    /// Takes note of what was woken since the last time and calls `each` with its place, below `count`, in ascending order.
    pub(crate) fn woken(&self, count: usize, mut each: impl FnMut(usize)) {
        if self.first.everybody.swap(false, Ordering::AcqRel) {
            self.groups().for_each(|it| {
                it.woken.swap(0, Ordering::AcqRel);
            });
            return (0..count).for_each(each);
        }
        for (number, group) in self.groups().enumerate() {
            let mut woken = group.woken.swap(0, Ordering::AcqRel);
            while woken != 0 {
                each(number * GROUP + woken.trailing_zeros() as usize);
                woken &= woken - 1;
            }
        }
    }

    /// Runs `f` with the waker of the future at `place`.
    pub(crate) fn with_waker<R>(&self, place: usize, f: impl FnOnce(&Waker) -> R) -> R {
        let group = match (place / GROUP).checked_sub(1) {
            None => &self.first,
            Some(more) => &self.more[more],
        };
        group.with_waker(place % GROUP, f)
    }

    /// Runs `f` with a waker that wakes all futures.
    pub(crate) fn with_waker_of_everybody<R>(&self, f: impl FnOnce(&Waker) -> R) -> R {
        self.first.with_waker(GROUP, f)
    }
}

impl Group {
    fn new(task: &Waker) -> Arc<Self> {
        Arc::new(Self {
            woken: AtomicU64::new(0),
            everybody: AtomicBool::new(false),
            task: Mutex::new(task.clone()),
            marks: std::array::from_fn(|it| it as u8),
        })
    }

    fn task(&self) -> MutexGuard<'_, Waker> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_waker<R>(self: &Arc<Self>, mark: usize, f: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: the pointer has the provenance of the whole group, and `mark` is one of its marks.
        let data = unsafe { (&raw const (*Arc::as_ptr(self)).marks).cast::<u8>().add(mark) };
        // SAFETY: the functions of the table keep the contract, with `data` a mark of a group in an `Arc`. The waker has no
        // count of its own: that of `self` is held while `f` runs, and it is not dropped.
        let waker = std::mem::ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(data.cast(), &TABLE)) });
        f(&waker)
    }

    /// Notes the future of `mark` as woken, and wakes the task if nothing was: if something was, whoever noted it wakes the
    /// task, which takes note of both.
    fn wake(&self, mark: usize) {
        let is_first = if mark == GROUP {
            !self.everybody.swap(true, Ordering::AcqRel)
        } else {
            self.woken.fetch_or(1 << mark, Ordering::AcqRel) == 0
        };
        if is_first {
            let task = self.task().clone();
            task.wake();
        }
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: called with the data of a waker, which has a count of its group; the clone gets its own.
        unsafe { Arc::increment_strong_count(group_of(data).0) };
        RawWaker::new(data, &TABLE)
    },
    |data| {
        // SAFETY: as above; the waker is used up, and its count is dropped after the last use.
        let (group, mark) = unsafe { group_of(data) };
        // SAFETY: made by `Arc::new`, and the count is that of the waker.
        unsafe { Arc::from_raw(group) }.wake(mark);
    },
    |data| {
        // SAFETY: called with the data of a waker.
        let (group, mark) = unsafe { group_of(data) };
        // SAFETY: the count of the waker keeps the group.
        unsafe { &*group }.wake(mark);
    },
    |data| {
        // SAFETY: called with the data of a waker, whose count this is.
        drop(unsafe { Arc::from_raw(group_of(data).0) });
    },
);

/// The group that a mark is of, and which one it is.
///
/// # Safety
///
/// `data` points to a mark of a live [`Group`] and has the provenance of the whole of it.
unsafe fn group_of(data: *const ()) -> (*const Group, usize) {
    let mark = data.cast::<u8>();
    // SAFETY: by contract.
    let number = usize::from(unsafe { ptr::read(mark) });
    // SAFETY: a mark says how many stand before it, so this is where the group begins.
    (unsafe { mark.sub(offset_of!(Group, marks) + number) }.cast(), number)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn woken(wakers: &Wakers, count: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        wakers.woken(count, |it| seen.push(it));
        seen
    }

    #[test]
    fn it_is_known_who_was_woken_and_the_task_is_woken_once_a_group() {
        for count in [31, 64, 65, 128, 129, 300] {
            let task = Arc::new(Task::default());
            let wakers = Wakers::new(count, &task.clone().into());
            let kept: Vec<_> = (0..count).map(|it| wakers.with_waker(it, Waker::clone)).collect();
            assert!(woken(&wakers, count).is_empty());
            for it in kept {
                it.wake_by_ref();
                it.wake();
            }
            assert_eq!(task.0.load(Ordering::Relaxed), count.div_ceil(64));
            assert_eq!(woken(&wakers, count), (0..count).collect::<Vec<_>>());
            wakers.with_waker(count - 1, Waker::wake_by_ref);
            assert_eq!(woken(&wakers, count), [count - 1]);
            wakers.with_waker_of_everybody(Waker::wake_by_ref);
            assert_eq!(woken(&wakers, count), (0..count).collect::<Vec<_>>());
            assert!(woken(&wakers, count).is_empty());
        }
    }

    #[test]
    fn a_waker_outlives_the_future_and_wakes_the_task_of_the_last_poll() {
        let (before, after) = (Arc::new(Task::default()), Arc::new(Task::default()));
        let wakers = Wakers::new(100, &before.clone().into());
        let kept = wakers.with_waker(70, Waker::clone);
        wakers.wake_through(&after.clone().into());
        assert_eq!(Arc::strong_count(&before), 1, "the old waker is dropped");
        drop(wakers);
        kept.wake();
        assert_eq!((before.0.load(Ordering::Relaxed), after.0.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(Arc::strong_count(&after), 1, "the group goes with its last waker");
    }
}
