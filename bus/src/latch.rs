//! Something that happens once, and futures that wait for it.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Set once; every wait ends then.
#[derive(Debug, Default)]
pub(crate) struct Latch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    set: bool,
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

impl Latch {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every wait, now and later.
    pub(crate) fn set(&self) {
        let waiting = {
            let mut state = self.state();
            state.set = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn is_set(&self) -> bool {
        self.state().set
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
        // A waker may own a task, whose drop may come here again: none is dropped under the lock.
        let mut waker = cx.waker().clone();
        let mut state = self.latch.state();
        if state.set {
            return Poll::Ready(());
        }
        let id = self.id.unwrap_or_else(|| {
            state.next += 1;
            state.next
        });
        match state.waiting.iter_mut().find(|(it, _)| *it == id) {
            Some((_, before)) => std::mem::swap(before, &mut waker),
            None => state.waiting.push((id, waker.clone())),
        }
        drop(state);
        self.id = Some(id);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let gone = {
                let mut state = self.latch.state();
                let at = state.waiting.iter().position(|(it, _)| *it == id);
                at.map(|at| state.waiting.remove(at))
            };
            drop(gone);
        }
    }
}
