//! `internal/dispatch`: a look at every dispatch before its listeners, and the chance to refuse it.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use super::Emitter;
use crate::decision::Lent;
use crate::event::{Event, EventDescriptor, ScopeRule};
use crate::fault::{Cause, Fault, ListenerError};
use crate::scope::ScopeKey;

/// An event is about to be dispatched. Listeners look at it and may refuse it; they cannot change it.
///
/// - Mode: emit.
/// - Scope: everybody.
/// - Emitted by: the bus, before the listeners of every event whose name does not begin with `internal/`, also when there
///   are none.
/// - On listener error or panic: the dispatch is refused; its caller gets [`Cause::Refused`] with the observer's plugin.
/// - Cancelled by: nothing.
#[derive(crate::Event)]
#[event(name = "internal/dispatch", mode = Emit)]
pub struct InternalDispatch {
    /// The event that is dispatched.
    pub event: &'static EventDescriptor,
    /// Scope the payload is about, for an event that scopes filter.
    pub scope: Option<ScopeKey>,
    /// Plugin that dispatches.
    pub plugin: std::sync::Arc<str>,
    payload: Lent,
    slot: u32,
}

/// A payload without its type, lent to whoever looks at it.
///
/// ```
/// use linn_bus::{Event, EventRef};
///
/// #[derive(Event)]
/// #[event(name = "doc/sent", mode = Emit)]
/// struct Sent { size_bytes: u64 }
///
/// let sent = Sent { size_bytes: 7 };
/// let any = EventRef::new(&sent);
/// assert_eq!(any.descriptor().name, "doc/sent");
/// assert_eq!(any.payload::<Sent>().map(|it| it.size_bytes), Some(7));
/// ```
#[derive(Clone, Copy)]
pub struct EventRef<'a> {
    descriptor: &'static EventDescriptor,
    slot: u32,
    payload: *const (),
    lent: PhantomData<&'a ()>,
}

// SAFETY: a reference to a payload, and payloads are `Sync` like every event.
unsafe impl Send for EventRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for EventRef<'_> {}

impl<'a> EventRef<'a> {
    /// Lends `event`.
    pub fn new<E: Event>(event: &'a E) -> Self {
        let slot = E::__slot().number();
        Self { descriptor: E::descriptor(), slot, payload: ptr::from_ref(event).cast(), lent: PhantomData }
    }

    /// A payload at this address, of the event with this slot, which is there for `'a`.
    pub(crate) fn lent(descriptor: &'static EventDescriptor, slot: u32, payload: *const ()) -> Self {
        Self { descriptor, slot, payload, lent: PhantomData }
    }

    /// What the event is.
    pub fn descriptor(&self) -> &'static EventDescriptor {
        self.descriptor
    }

    /// The payload, if the event is `E`.
    pub fn payload<E: Event>(&self) -> Option<&'a E> {
        if E::__slot().number() != self.slot {
            return None;
        }
        // SAFETY: the slot is that of `E` alone, so the payload is an `E`, which is lent for `'a`.
        Some(unsafe { &*self.payload.cast::<E>() })
    }
}

impl fmt::Debug for EventRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventRef({})", self.descriptor.name)
    }
}

impl InternalDispatch {
    /// The payload, if the dispatched event is `E`.
    pub fn payload<E: Event>(&self) -> Option<&E> {
        self.event_ref().payload()
    }

    /// The payload without its type.
    pub fn event_ref(&self) -> EventRef<'_> {
        // This value is only ever lent to listeners while `Emitter::observe` borrows the payload, and it cannot be cloned: the
        // payload is there as long as `self` is.
        EventRef::lent(self.event, self.slot, self.payload.0)
    }
}

impl fmt::Debug for InternalDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InternalDispatch")
            .field("event", &self.event.name)
            .field("mode", &self.event.mode)
            .field("scope", &self.scope)
            .field("plugin", &self.plugin)
            .finish()
    }
}

/// Whether `E` is one of the bus's own events, which nobody observes.
#[inline(always)]
pub(crate) const fn is_internal<E: Event>() -> bool {
    const PREFIX: &[u8] = b"internal/";
    let name = E::NAME.as_bytes();
    let mut i = 0;
    while i < PREFIX.len() {
        if i >= name.len() || name[i] != PREFIX[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// An event that is dispatched, without its type.
pub(super) struct Untyped<'a> {
    pub(super) descriptor: &'static EventDescriptor,
    pub(super) scope: Option<&'a ScopeKey>,
    pub(super) slot: u32,
    pub(super) payload: *const (),
}

// SAFETY: a reference to a payload, and payloads are `Sync` like every event.
unsafe impl Send for Untyped<'_> {}
// SAFETY: as above.
unsafe impl Sync for Untyped<'_> {}

impl<'a> Untyped<'a> {
    pub(super) fn of<E: Event>(event: &'a E) -> Self {
        Self {
            descriptor: E::descriptor(),
            scope: <E::Scope as ScopeRule<E>>::key(event),
            slot: E::__slot().number(),
            payload: ptr::from_ref(event).cast(),
        }
    }
}

impl Emitter<'_> {
    pub(super) fn observe(self, event: &Untyped<'_>) -> Result<(), ListenerError> {
        let dispatch = InternalDispatch {
            event: event.descriptor,
            scope: event.scope.cloned(),
            plugin: self.plugin.clone(),
            payload: Lent(event.payload),
            slot: event.slot,
        };
        super::try_emit(self, &dispatch).map_err(|errors| {
            let first = errors.iter().next().expect("an aggregate is never empty");
            let fault = match first.cause() {
                Cause::Failed(fault) => fault.clone(),
                _ => Fault::msg(format_args!("{first:#}")),
            };
            ListenerError::new(first.plugin().into(), event.descriptor.name, Cause::Refused(fault))
        })
    }
}
