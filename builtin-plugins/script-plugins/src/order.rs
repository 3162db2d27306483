//! One after the other, in the order in which they came.

use std::sync::{Mutex, PoisonError};

use tokio_util::sync::{CancellationToken, DropGuard};

/// Lets one pass after the other.
#[derive(Debug)]
pub(crate) struct Turnstile(Mutex<CancellationToken>);

impl Default for Turnstile {
    fn default() -> Self {
        let free = CancellationToken::new();
        free.cancel();
        Self(Mutex::new(free))
    }
}

/// A place in the queue, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    before: CancellationToken,
    _done: DropGuard,
}

impl Turnstile {
    /// Takes the place behind all that were taken.
    pub(crate) fn take(&self) -> Place {
        let done = CancellationToken::new();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Place { before: std::mem::replace(&mut last, done.clone()), _done: done.drop_guard() }
    }

    /// Ready when the one that came last is done.
    pub(crate) async fn passed(&self) {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.cancelled().await;
    }
}

impl Place {
    /// Ready when the one before is done, whoever came before that.
    ///
    /// Cancel safe.
    pub(crate) async fn reached(&self) {
        self.before.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn places_are_reached_in_the_order_in_which_they_were_taken() {
        let turnstile = Turnstile::default();
        let (first, second) = (turnstile.take(), turnstile.take());
        assert!(first.reached().now_or_never().is_some());
        assert!(second.reached().now_or_never().is_none());
        assert!(turnstile.passed().now_or_never().is_none());
        drop(first);
        assert!(second.reached().now_or_never().is_some());
        drop(second);
        assert!(turnstile.passed().now_or_never().is_some());
    }
}
