//! Code of a plugin, caught where it is.
//!
//! A library has its own copy of the machinery of panics, and a panic that leaves it ends the process, whoever would catch
//! it. So everything of a plugin that others call is caught in functions that are made where the plugin is made.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::fault::Fault;
use crate::pool;

/// Calls `f`; a panic of it is a fault.
///
/// # Errors
///
/// The panic, as [`Fault::is_panic`] says.
#[inline]
pub fn contain_now<T>(f: impl FnOnce() -> T) -> Result<T, Fault> {
    pool::guarded(f).map_err(Fault::panicked)
}

/// Wraps a future; a panic of it is a fault. It is dropped as soon as it is ready, and a panic of that drop changes nothing.
pub fn contain<F, T, E>(future: F) -> Contain<F>
where
    F: Future<Output = Result<T, E>>,
    E: From<Fault>,
{
    Contain { future: Some(future) }
}

pin_project! {
    /// What [`contain`] makes.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Contain<F> {
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for Contain<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Its text has nobody to go to but the panic hook, which has seen it.
            drop(pool::guarded(|| this.future.set(None)));
        }
    }
}

impl<F, T, E> Future for Contain<F>
where
    F: Future<Output = Result<T, E>>,
    E: From<Fault>,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let polled = contain_now(|| future.poll(cx)).unwrap_or_else(|panic| Poll::Ready(Err(panic.into())));
        if polled.is_ready() {
            drop(pool::guarded(|| this.future.set(None)));
        }
        polled
    }
}

/// A value whose drop may panic without harm to whoever drops it.
#[derive(Debug)]
pub struct Contained<T>(ManuallyDrop<T>);

impl<T> Contained<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Contained<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        // Whoever drops it is not to blame for a panic; its text has nobody to go to but the panic hook.
        // SAFETY: dropped once, here, and not used afterwards.
        drop(pool::guarded(|| unsafe { ManuallyDrop::drop(&mut self.0) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_panic_is_a_fault() {
        let fault = contain_now(|| -> u8 { panic!("seven") }).unwrap_err();
        assert!(fault.is_panic());
        assert_eq!(fault.to_string(), "seven");
        let eight = |is_bad: bool| async move {
            assert!(!is_bad, "eight");
            Ok::<u8, Fault>(8)
        };
        assert_eq!(futures::executor::block_on(contain(eight(false))).unwrap(), 8);
        let outcome = futures::executor::block_on(contain(eight(true)));
        assert!(outcome.unwrap_err().is_panic());
    }

    #[test]
    fn a_panic_of_a_drop_hurts_nobody() {
        drop(Contained::new(Bomb));
        let outcome = futures::executor::block_on(contain(async {
            let _bomb = Bomb;
            std::future::ready(()).await;
            Ok::<u8, Fault>(7)
        }));
        assert!(outcome.unwrap_err().is_panic());
    }
}
