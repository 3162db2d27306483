//! Something that happens once, and futures that wait for it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Set once; every wait ends then.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    set: AtomicBool,
    /// Made by the first who waits.
    waiting: Mutex<Option<Box<Waiting>>>,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    wakers: Vec<(u64, Waker)>,
}

impl Latch {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Option<Box<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every wait, now and later.
    pub(crate) fn set(&self) {
        let waiting = {
            let mut waiting = self.waiting();
            self.set.store(true, Ordering::Release);
            waiting.take()
        };
        let wakers = waiting.map(|it| it.wakers).unwrap_or_default();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Cancel safe.
    pub(crate) fn wait(&self) -> Wait<'_> {
        Wait { latch: self, id: None }
    }
}

pub(crate) struct Wait<'a> {
    latch: &'a Latch,
    id: Option<u64>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let latch = self.latch;
        let mut guard = latch.waiting();
        if latch.is_set() {
            return Poll::Ready(());
        }
        let waiting = guard.get_or_insert_default();
        let id = self.id.unwrap_or_else(|| {
            waiting.last += 1;
            waiting.last
        });
        // The old waker is dropped outside the lock: it may be the last of a task.
        let old = match waiting.wakers.iter_mut().find(|(it, _)| *it == id) {
            Some((_, waker)) => Some(std::mem::replace(waker, cx.waker().clone())),
            None => {
                waiting.wakers.push((id, cx.waker().clone()));
                None
            }
        };
        self.id = Some(id);
        drop(guard);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let gone = self.latch.waiting().as_mut().and_then(|waiting| {
            let at = waiting.wakers.iter().position(|(it, _)| *it == id)?;
            Some(waiting.wakers.swap_remove(at))
        });
        drop(gone);
    }
}
