//! Events as types: name, mode, output and scope rule belong to the payload type.

use std::fmt;
use std::sync::Arc;

use crate::decision::Same;
use crate::hook::HookControl;
use crate::intern::{self, Slot};
#[cfg(feature = "json")]
use crate::json::{Json, Shown};
use crate::listen::{Call, Layer, Start};
use crate::scope::ScopeKey;

/// A typed, named occurrence that listeners can hear.
///
/// Derive it; the derive writes the identity by which two separately built copies of one event recognise each other.
///
/// ```
/// use linn_bus::Event;
///
/// /// A file was saved.
/// #[derive(Event)]
/// #[event(name = "editor/saved", mode = Emit)]
/// pub struct Saved { pub path: String }
/// assert_eq!(Saved::NAME, "editor/saved");
/// ```
///
/// # Safety
///
/// `__slot` must belong to this type alone: the bus turns stored listeners back into typed ones on the strength of it.
/// The derive guarantees that; do not implement this trait by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "declare it with `#[derive(Event)] #[event(name = \"area/name\", mode = Emit)]`, and let the listener take it by reference: `|e: &{Self}| ..`"
)]
pub unsafe trait Event: Send + Sync + Sized + 'static {
    /// Name by which logs, catalogues and other processes know the event, as `area/name`.
    const NAME: &'static str;
    /// Whether a dispatch that starts inside another one of this event waits until that one has reached everybody.
    const ORDERED: bool = false;
    /// How listeners are run; decides which verb of [`Context`](crate::Context) dispatches the event.
    type Mode: Mode;
    /// What a listener answers; [`Infallible`](std::convert::Infallible) where nobody can.
    type Output: Send + 'static;
    /// Who hears a dispatch.
    type Scope: ScopeRule<Self>;

    /// The descriptor that catalogues show.
    fn descriptor() -> &'static EventDescriptor {
        Self::__slot().descriptor()
    }

    #[doc(hidden)]
    fn __slot() -> &'static EventSlot;

    /// A copy for the queue of an ordered event; `None` for all others.
    #[doc(hidden)]
    fn __queued(&self) -> Option<Self> {
        None
    }

    /// Keeps an answer to tell others from it; `None` where it can be neither copied nor compared.
    #[doc(hidden)]
    fn __keep(_: &Self::Output) -> Option<Same<Self::Output>> {
        None
    }

    /// The payload as JSON; `None` for an event that declares no view.
    #[cfg(feature = "json")]
    #[doc(hidden)]
    fn __view(&self) -> Option<Shown> {
        None
    }

    /// An answer as JSON; `None` for an event that declares no view of its answers.
    #[cfg(feature = "json")]
    #[doc(hidden)]
    fn __output_view(_: &Self::Output) -> Option<Shown> {
        None
    }

    /// JSON Schema of the view; `None` for an event that declares none.
    #[cfg(feature = "json")]
    #[doc(hidden)]
    fn __schema() -> Option<serde_json::Value> {
        None
    }
}

mod sealed {
    pub trait Sealed {}
}

/// How the listeners of an event are run. The five modes are [`Emit`], [`Bail`], [`Serial`], [`Parallel`] and [`Waterfall`].
pub trait Mode: sealed::Sealed + 'static {
    /// The mode as a value.
    const NAME: ModeName;
    #[doc(hidden)]
    type Object<E: Event>: ?Sized + HookControl;
    #[doc(hidden)]
    fn erase<E: Event>(hook: Arc<Self::Object<E>>) -> Arc<dyn HookControl>;
    /// The listener as a layer; none in modes without `next`.
    #[doc(hidden)]
    fn layer<E: Event>(_: &Self::Object<E>) -> Option<&dyn Layer<E>> {
        None
    }
}

macro_rules! modes {
    ($($(#[$doc:meta])* $mode:ident => $object:ident $({ $layer:item })?;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $mode {}
        impl sealed::Sealed for $mode {}
        impl Mode for $mode {
            const NAME: ModeName = ModeName::$mode;
            type Object<E: Event> = dyn $object<E>;
            fn erase<E: Event>(hook: Arc<dyn $object<E>>) -> Arc<dyn HookControl> {
                hook
            }
            $(#[inline(always)] $layer)?
        }
    )*};
}

modes! {
    /// Synchronous, all listeners in order, no answers. Verb: [`emit`](crate::Context::emit).
    Emit => Call;
    /// Synchronous, in order, the first answer stops. Verb: [`bail`](crate::Context::bail).
    Bail => Call;
    /// Awaited in order, the first answer stops. Verb: [`serial`](crate::Context::serial).
    Serial => Start;
    /// All started, then awaited together, no answers. Verb: [`parallel`](crate::Context::parallel).
    Parallel => Start;
    /// Each listener wraps the rest through `next`. Verb: [`waterfall`](crate::Context::waterfall).
    Waterfall => Layer {
        fn layer<E: Event>(hook: &Self::Object<E>) -> Option<&dyn Layer<E>> {
            Some(hook)
        }
    };
}

/// The mode of an event as a value, for descriptors and observers.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModeName {
    /// See [`Emit`].
    Emit,
    /// See [`Bail`].
    Bail,
    /// See [`Serial`].
    Serial,
    /// See [`Parallel`].
    Parallel,
    /// See [`Waterfall`].
    Waterfall,
}

impl ModeName {
    /// The name in lower case, as catalogues and observers write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Emit => "emit",
            Self::Bail => "bail",
            Self::Serial => "serial",
            Self::Parallel => "parallel",
            Self::Waterfall => "waterfall",
        }
    }
}

impl fmt::Display for ModeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The verbs of [`Context`](crate::Context), as types that compiler messages can name.
pub mod verb {
    #![allow(non_camel_case_types, reason = "compiler messages show these as the verbs they stand for")]

    /// `ctx.emit(&e)` and `ctx.try_emit(&e)`.
    #[derive(Debug)]
    pub enum emit {}
    /// `ctx.bail(&e)`.
    #[derive(Debug)]
    pub enum bail {}
    /// `ctx.serial(&e).await`.
    #[derive(Debug)]
    pub enum serial {}
    /// `ctx.parallel(&e).await`.
    #[derive(Debug)]
    pub enum parallel {}
    /// `ctx.waterfall(&e, default).await`.
    #[derive(Debug)]
    pub enum waterfall {}
}

/// That a mode is dispatched with the verb `V`; implemented once for each mode.
#[diagnostic::on_unimplemented(
    message = "`{E}` cannot be dispatched with `ctx.{V}(..)`: its mode is `{Self}`",
    label = "wrong verb for `{E}`",
    note = "the verb follows the mode: Emit => `ctx.emit(&e)`, Bail => `ctx.bail(&e)?`, Serial => `ctx.serial(&e).await?`, Parallel => `ctx.parallel(&e).await?`, Waterfall => `ctx.waterfall(&e, async || default).await?`"
)]
pub trait Dispatches<V: Verb, E: Event>: Mode {
    #[doc(hidden)]
    fn object(stored: &Self::Object<E>) -> &V::Object<E>;
}

/// What a verb calls.
#[doc(hidden)]
pub trait Verb {
    type Object<E: Event>: ?Sized;
}

macro_rules! verbs {
    ($($verb:ident $mode:ident $object:ident;)*) => {$(
        impl Verb for verb::$verb {
            type Object<E: Event> = dyn $object<E>;
        }
        impl<E: Event> Dispatches<verb::$verb, E> for $mode {
            fn object(stored: &Self::Object<E>) -> &<verb::$verb as Verb>::Object<E> {
                stored
            }
        }
    )*};
}
verbs! {
    emit Emit Call;
    bail Bail Call;
    serial Serial Start;
    parallel Parallel Start;
    waterfall Waterfall Layer;
}

/// Who hears a dispatch of an event: [`Everybody`], [`Subject`] or, for framework events, [`OwnFiber`].
pub trait ScopeRule<E>: sealed::Sealed + 'static {
    /// Whether listeners registered in a scope hear only dispatches of that scope.
    const SCOPED: bool;
    /// Whether listeners that are not `global` hear only dispatches about the fiber that registered them.
    const OWN_FIBER: bool = false;
    #[doc(hidden)]
    fn key(event: &E) -> Option<&ScopeKey>;
}

/// Scope rule: every listener hears every dispatch, whatever scope it was registered in.
#[derive(Debug, Clone, Copy)]
pub enum Everybody {}
/// Scope rule: the payload names its subject, and a listener in a scope hears only dispatches about that scope.
///
/// A payload without a subject is heard by listeners outside any scope and by `global` ones.
#[derive(Debug, Clone, Copy)]
pub enum Subject {}
/// Scope rule of `internal/update`: a listener hears what concerns the fiber that registered it; `global` ones hear all.
#[derive(Debug, Clone, Copy)]
pub enum OwnFiber {}

impl sealed::Sealed for Everybody {}
impl sealed::Sealed for Subject {}
impl sealed::Sealed for OwnFiber {}

impl<E> ScopeRule<E> for Everybody {
    const SCOPED: bool = false;
    fn key(_: &E) -> Option<&ScopeKey> {
        None
    }
}
impl<E: HasSubject> ScopeRule<E> for Subject {
    const SCOPED: bool = true;
    fn key(event: &E) -> Option<&ScopeKey> {
        event.subject()
    }
}
impl<E: HasSubject> ScopeRule<E> for OwnFiber {
    const SCOPED: bool = true;
    const OWN_FIBER: bool = true;
    fn key(event: &E) -> Option<&ScopeKey> {
        event.subject()
    }
}

/// A payload that knows which scope it is about. Written by the derive from `subject = ..`.
pub trait HasSubject {
    /// The key of the scope this occurrence is about, if it is about one.
    fn subject(&self) -> Option<&ScopeKey>;
}

/// What an event is, for catalogues, observers and errors.
#[non_exhaustive]
#[derive(Debug)]
pub struct EventDescriptor {
    /// Name, as `area/name`.
    pub name: &'static str,
    /// Mode.
    pub mode: ModeName,
    /// Type that listeners answer, as written at the declaration.
    pub output: &'static str,
    /// Whether scopes filter who hears it.
    pub scoped: bool,
    /// Whether nested dispatches wait for the running one.
    pub ordered: bool,
    /// Whether the payload can be shown as JSON: `view` of the declaration. The feature `json` has what shows it.
    pub has_view: bool,
    /// Whether answers can be shown as JSON: `output_view` of the declaration.
    pub has_output_view: bool,
    /// Whether the payload has a JSON Schema: `schema` of the declaration.
    pub has_schema: bool,
    /// Doc comment of the payload type.
    pub docs: &'static str,
    /// Path of the payload type.
    pub type_path: &'static str,
    /// Crate that declares it.
    pub krate: &'static str,
    /// Version of that crate.
    pub version: &'static str,
    /// Digest of the declaration; two copies of one event agree on it, two events of one name do not.
    pub digest: u64,
    #[cfg(feature = "json")]
    pub(crate) json: Json,
}

/// The fields a derive knows of an event.
#[doc(hidden)]
#[derive(Debug)]
pub struct EventParts {
    pub name: &'static str,
    pub mode: ModeName,
    pub output: &'static str,
    pub scoped: bool,
    pub ordered: bool,
    pub has_view: bool,
    pub has_output_view: bool,
    pub has_schema: bool,
    pub docs: &'static str,
    pub type_path: &'static str,
    pub krate: &'static str,
    pub version: &'static str,
    pub tokens: u64,
    pub line: u32,
    pub column: u32,
}

#[doc(hidden)]
pub const fn event_descriptor<E: Event>(parts: EventParts) -> EventDescriptor {
    let place = ((parts.line as u64) << 32) | parts.column as u64;
    let digest = intern::digest(parts.tokens, [parts.name, parts.type_path, parts.version], place);
    EventDescriptor {
        name: parts.name,
        mode: parts.mode,
        output: parts.output,
        scoped: parts.scoped,
        ordered: parts.ordered,
        has_view: parts.has_view,
        has_output_view: parts.has_output_view,
        has_schema: parts.has_schema,
        docs: parts.docs,
        type_path: parts.type_path,
        krate: parts.krate,
        version: parts.version,
        digest,
        #[cfg(feature = "json")]
        json: Json::of::<E>(),
    }
}

/// The place in the tables of every bus that an event type has; filled at its first use.
#[doc(hidden)]
#[derive(Debug)]
pub struct EventSlot {
    slot: Slot,
    descriptor: &'static EventDescriptor,
}

impl EventSlot {
    pub const fn of<E: Event>(descriptor: &'static EventDescriptor) -> Self {
        Self { slot: Slot::of::<E>(), descriptor }
    }

    pub fn descriptor(&self) -> &'static EventDescriptor {
        self.descriptor
    }

    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.slot.get(self.descriptor.name, self.descriptor.digest)
    }
}

/// One link-time registration of an event.
#[doc(hidden)]
#[derive(Debug)]
pub struct EventRegistration(pub fn() -> &'static EventSlot);
inventory::collect!(EventRegistration);

/// Every event linked into this program, sorted by name.
///
/// ```
/// let names: Vec<_> = linn_bus::event_catalogue().iter().map(|event| event.name).collect();
/// assert!(names.contains(&"internal/dispatch"));
/// ```
pub fn event_catalogue() -> Vec<&'static EventDescriptor> {
    let mut all: Vec<_> = inventory::iter::<EventRegistration>.into_iter().map(|it| it.0().descriptor()).collect();
    all.sort_by_key(|it| (it.name, it.type_path));
    all.dedup_by_key(|it| (it.name, it.digest));
    all
}

/// What `subject = ..` of the derive may point at.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no scope",
    label = "not a scope key",
    note = "`subject = ..` points at a `ScopeKey`, an `Option<ScopeKey>`, or a reference to one of them"
)]
pub trait SubjectOf<'k> {
    fn subject_of(self) -> Option<&'k ScopeKey>;
}
impl<'k> SubjectOf<'k> for &'k ScopeKey {
    fn subject_of(self) -> Option<&'k ScopeKey> {
        Some(self)
    }
}
impl<'r, 'k, T> SubjectOf<'k> for &'r Option<T>
where
    &'r T: SubjectOf<'k>,
{
    fn subject_of(self) -> Option<&'k ScopeKey> {
        self.as_ref().and_then(SubjectOf::subject_of)
    }
}
impl<'k, 't, T: ?Sized> SubjectOf<'k> for &&'t T
where
    &'t T: SubjectOf<'k>,
{
    fn subject_of(self) -> Option<&'k ScopeKey> {
        (*self).subject_of()
    }
}
impl<'r, 'k, T: ?Sized> SubjectOf<'k> for &'r Arc<T>
where
    &'r T: SubjectOf<'k>,
{
    fn subject_of(self) -> Option<&'k ScopeKey> {
        (&**self).subject_of()
    }
}
