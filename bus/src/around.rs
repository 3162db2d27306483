//! What a library runs its code inside of, such as a runtime of its own.
//!
//! Every copy of the bus has its own, and pays one load a call. Copies built without the feature `around`, such as
//! that of a program, have none and pay nothing.

#[cfg(feature = "around")]
mod kept {
    use std::sync::atomic::{AtomicPtr, Ordering};

    use crate::library::Around;

    static AROUND: AtomicPtr<Around> = AtomicPtr::new(std::ptr::null_mut());

    /// From now on everything this copy of the bus calls runs inside of `around`.
    pub(crate) fn set(around: &'static Around) {
        AROUND.store(std::ptr::from_ref(around).cast_mut(), Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn inside<R>(f: impl FnOnce() -> R) -> R {
        let around = AROUND.load(Ordering::Acquire);
        if around.is_null() { f() } else { inside_of(around, f) }
    }

    #[cold]
    fn inside_of<R>(around: *const Around, f: impl FnOnce() -> R) -> R {
        // SAFETY: only `set` stores here, from a reference that lives for ever to a value that never changes.
        let around = unsafe { *around };
        let mut f = Some(f);
        let mut result = None;
        around(&mut || {
            if let Some(f) = f.take() {
                result = Some(f());
            }
        });
        result.expect("what runs a function around another calls it")
    }
}

#[cfg(feature = "around")]
pub(crate) use kept::{inside, set};

/// Runs `f` inside of what the library wants its code to run in.
#[cfg(not(feature = "around"))]
#[inline(always)]
pub(crate) fn inside<R>(f: impl FnOnce() -> R) -> R {
    f()
}
