//! Stored listeners without the type of their event, so that cells are one piece of code for all events: a program has
//! hundreds of events, and lists, sorts and snapshots for each of them would be megabytes.
//!
//! A cell is made for one event and knows its [`Kind`]; whoever comes with a typed listener, or wants one back, comes
//! through the slot of that event.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::event::{Event, EventDescriptor, Mode, ScopeRule};
use crate::hook::{HookControl, HookHead};

type Object<E> = <<E as Event>::Mode as Mode>::Object<E>;

/// What `Arc::into_raw` made of an `Arc<Object<E>>`, or a hole. Such a pointer is two words, as the compiler lays it out; its
/// size and alignment are asserted, and nothing is made of its words but that pointer again.
#[derive(Clone, Copy)]
pub(super) struct Raw([*const (); 2]);

// SAFETY: it stands for an `Arc` of a listener, which is `Send` and `Sync` whatever its event.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Raw {
    /// No listener's pointer: one of its two words is the address of the listener.
    pub(super) const HOLE: Self = Self([ptr::null(); 2]);

    pub(super) fn is_hole(self) -> bool {
        self.0 == Self::HOLE.0
    }

    pub(super) fn new<E: Event>(hook: Arc<Object<E>>) -> Self {
        const {
            assert!(size_of::<*const Object<E>>() == size_of::<Self>());
            assert!(align_of::<*const Object<E>>() == align_of::<Self>());
        }
        let mut raw = Self::HOLE;
        // SAFETY: it fits, as asserted above.
        unsafe { ptr::from_mut(&mut raw.0).cast::<*const Object<E>>().write(Arc::into_raw(hook)) };
        raw
    }

    /// # Safety
    ///
    /// It is no hole, and made by [`new`](Self::new) for the same event.
    #[inline(always)]
    unsafe fn pointer<E: Event>(&self) -> *const Object<E> {
        // SAFETY: `new` wrote such a pointer here, which is two words, both of them pointers. Read in place: a copy of both
        // at once would have to wait for itself.
        unsafe { *ptr::from_ref(&self.0).cast::<*const Object<E>>() }
    }
}

/// What cells know of the event they are of. Each function takes what was made for that event and is no hole.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Whether those that hear all fibers come outside of those that hear their own only.
    pub(super) own_fiber: bool,
    pub(crate) descriptor: fn() -> &'static EventDescriptor,
    head: unsafe fn(Raw) -> *const HookHead,
    retain: unsafe fn(Raw),
    erase: unsafe fn(Raw) -> Arc<dyn HookControl>,
}

impl Kind {
    pub(super) const fn of<E: Event>() -> &'static Self {
        const {
            &Self {
                name: E::NAME,
                own_fiber: <E::Scope as ScopeRule<E>>::OWN_FIBER,
                descriptor: E::descriptor,
                head: head::<E>,
                retain: retain::<E>,
                erase: erase::<E>,
            }
        }
    }

    /// # Safety
    ///
    /// `raw` is no hole, is of this kind, and its listener lives for `'a`.
    pub(super) unsafe fn head<'a>(&self, raw: Raw) -> &'a HookHead {
        // SAFETY: as the caller promises; the head is part of the listener.
        unsafe { &*(self.head)(raw) }
    }

    /// Adds a count.
    ///
    /// # Safety
    ///
    /// As for [`head`](Self::head).
    pub(super) unsafe fn retain(&self, raw: Raw) {
        // SAFETY: as the caller promises.
        unsafe { (self.retain)(raw) }
    }

    /// The listener with the count that `raw` has.
    ///
    /// # Safety
    ///
    /// As for [`head`](Self::head), and the count is not used twice.
    pub(super) unsafe fn erase(&self, raw: Raw) -> Arc<dyn HookControl> {
        // SAFETY: as the caller promises.
        unsafe { (self.erase)(raw) }
    }
}

unsafe fn head<E: Event>(raw: Raw) -> *const HookHead {
    // SAFETY: as `Kind::head` asks.
    unsafe { &*raw.pointer::<E>() }.head()
}

unsafe fn retain<E: Event>(raw: Raw) {
    // SAFETY: as `Kind::retain` asks; the pointer is from `Arc::into_raw`.
    unsafe { Arc::increment_strong_count(raw.pointer::<E>()) }
}

unsafe fn erase<E: Event>(raw: Raw) -> Arc<dyn HookControl> {
    // SAFETY: as `Kind::erase` asks; the pointer is from `Arc::into_raw`.
    E::Mode::erase::<E>(unsafe { Arc::from_raw(raw.pointer::<E>()) })
}

/// One listener in a snapshot, which has a count of it. The head is reached without a call.
pub(crate) struct Place {
    pub(super) raw: Raw,
    pub(super) head: *const HookHead,
}

impl Place {
    #[inline(always)]
    pub(crate) fn head(&self) -> &HookHead {
        // SAFETY: points into the listener that the snapshot has a count of.
        unsafe { &*self.head }
    }
}

// SAFETY: `head` points into the listener, which is `Send` and `Sync`.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// One listener in a snapshot, with its type.
#[repr(transparent)]
pub(crate) struct Entry<E: Event>(Place, PhantomData<fn(E)>);

impl<E: Event> Entry<E> {
    /// # Safety
    ///
    /// The places are of a snapshot that was made for `E`.
    #[inline(always)]
    pub(super) unsafe fn all(places: &[Place]) -> &[Self] {
        // SAFETY: an entry is a place, whatever its event.
        unsafe { &*(ptr::from_ref(places) as *const [Self]) }
    }

    /// The same without the type.
    pub(crate) fn places(entries: &[Self]) -> &[Place] {
        // SAFETY: an entry is a place.
        unsafe { &*(ptr::from_ref(entries) as *const [Place]) }
    }

    #[inline(always)]
    pub(crate) fn hook(&self) -> &Object<E> {
        // SAFETY: of a snapshot made for `E`, as `all` asks, and the snapshot has a count of it.
        unsafe { &*self.0.raw.pointer::<E>() }
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &HookHead {
        self.0.head()
    }
}
