//! The bus's own events. They are never reported to `internal/dispatch` observers.

use std::any::Any;
use std::sync::Arc;

use crate::contain::Contained;
use crate::effect::Listener;
use crate::event::{
    Event, EventDescriptor, EventParts, EventRegistration, EventSlot, HasSubject, ModeName, OwnFiber, Waterfall,
    event_descriptor,
};
use crate::fault::ListenerError;
use crate::fiber::{Fiber, FiberState};
use crate::scope::ScopeKey;
use crate::service::{AnyService, ServiceDescriptor};

/// A fiber came to be (its id is set) or was disposed (its id is gone).
///
/// - Mode: emit.
/// - Scope: everybody.
/// - Emitted by: mounting, and the beginning of a disposal; the state is still the one before then.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, linn_bus_macros::Event)]
#[event(name = "internal/plugin", mode = Emit)]
#[non_exhaustive]
pub struct InternalPlugin {
    /// The fiber.
    pub fiber: Fiber,
}

/// A fiber changed its state.
///
/// - Mode: emit.
/// - Scope: everybody.
/// - Emitted by: the fiber, after the change and before fibers that depend on it are told.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, linn_bus_macros::Event)]
#[event(name = "internal/status", mode = Emit)]
#[non_exhaustive]
pub struct InternalStatus {
    /// The fiber.
    pub fiber: Fiber,
    /// State it left.
    pub previous: FiberState,
    /// State it is in.
    pub state: FiberState,
}

/// A service came or went. A value replaced in place is told to `internal/set` alone.
///
/// - Mode: emit.
/// - Scope: everybody.
/// - Emitted by: the service registry.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, linn_bus_macros::Event)]
#[event(name = "internal/service", mode = Emit)]
#[non_exhaustive]
pub struct InternalService {
    /// The service.
    pub service: &'static ServiceDescriptor,
    /// Plugin that provides it, or none when it went.
    pub provider: Option<Arc<str>>,
}

/// Docs of `internal/update`, for readers of the type and for its descriptor.
macro_rules! update_docs {
    () => {
        "The config of a fiber is about to be replaced. Returning without `next` keeps the old one and the fiber running.\n\
         \n\
         - Mode: waterfall; the default stores the config and restarts the fiber. Answers whether it was stored.\n\
         - Scope: the fiber: a listener hears updates of the fiber that registered it, a `global` one hears all and runs outside.\n\
         - Emitted by: [`Mounted::update`](crate::Mounted::update), after the config passed its validation.\n\
         - On listener error or panic: the update is refused and the error returned to whoever asked for it.\n\
         - Cancelled by: dropping the update."
    };
}

#[doc = update_docs!()]
pub struct InternalUpdate {
    /// The fiber.
    pub fiber: Fiber,
    /// Whether the change should be kept beyond this run.
    pub save: bool,
    pub(crate) key: ScopeKey,
    pub(crate) config: Arc<dyn Any + Send + Sync>,
}

static UPDATE: EventDescriptor = event_descriptor::<InternalUpdate>(EventParts {
    name: "internal/update",
    mode: ModeName::Waterfall,
    output: "bool",
    scoped: true,
    ordered: false,
    has_view: false,
    has_output_view: false,
    has_schema: false,
    docs: update_docs!(),
    type_path: concat!(module_path!(), "::InternalUpdate"),
    krate: env!("CARGO_PKG_NAME"),
    version: env!("CARGO_PKG_VERSION"),
    tokens: 0,
    line: line!(),
    column: column!(),
});
static UPDATE_SLOT: EventSlot = EventSlot::of::<InternalUpdate>(&UPDATE);

// Written out because no other event has its scope rule.
// SAFETY: the slot is that of this type alone.
unsafe impl Event for InternalUpdate {
    const NAME: &'static str = "internal/update";
    type Mode = Waterfall;
    type Output = bool;
    type Scope = OwnFiber;
    fn __slot() -> &'static EventSlot {
        &UPDATE_SLOT
    }
}
inventory::submit! { EventRegistration(<InternalUpdate as Event>::__slot) }

impl HasSubject for InternalUpdate {
    fn subject(&self) -> Option<&ScopeKey> {
        Some(&self.key)
    }
}

impl InternalUpdate {
    /// The new config, where the asker knows its type. A library that has its own copy of the type does not.
    pub fn config<C: 'static>(&self) -> Option<&C> {
        self.config.downcast_ref::<Contained<C>>().map(|it| &**it)
    }
}

impl std::fmt::Debug for InternalUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InternalUpdate").field("fiber", &self.fiber).field("save", &self.save).finish_non_exhaustive()
    }
}

/// A [`Lookup`](crate::Lookup) asks for a service. Answer one to supply it.
///
/// - Mode: waterfall; the default is what the registry has.
/// - Scope: everybody.
/// - Emitted by: [`Lookup::get`](crate::Lookup::get).
/// - On listener error or panic: the error goes to the asker.
/// - Cancelled by: dropping the lookup.
#[derive(Debug, linn_bus_macros::Event)]
#[event(name = "internal/get", mode = Waterfall, output = Option<AnyService>)]
#[non_exhaustive]
pub struct InternalGet {
    /// The service asked for.
    pub service: &'static ServiceDescriptor,
    /// Plugin that asks.
    pub plugin: Arc<str>,
}

/// The value of a service is about to be replaced in place. Returning `false` without `next` keeps the old one.
///
/// - Mode: waterfall; the default replaces the value and answers `true`.
/// - Scope: everybody.
/// - Emitted by: [`Context::set`](crate::Context::set), after the caller was found to be the provider.
/// - On listener error or panic: the error goes to the caller, the value stays.
/// - Cancelled by: dropping the call.
#[derive(Debug, linn_bus_macros::Event)]
#[event(name = "internal/set", mode = Waterfall, output = bool)]
#[non_exhaustive]
pub struct InternalSet {
    /// The service.
    pub service: &'static ServiceDescriptor,
    /// Plugin that provides it.
    pub plugin: Arc<str>,
}

/// A listener is about to be registered. Answering another handle takes the registration over: nothing is stored, and the
/// caller gets that handle.
///
/// - Mode: bail.
/// - Scope: everybody.
/// - Emitted by: `on` and its relatives, for events that are not the bus's own.
/// - On listener error or panic: the registration fails with the error.
/// - Cancelled by: nothing.
#[derive(Debug, linn_bus_macros::Event)]
#[event(name = "internal/listener", mode = Bail, output = Listener)]
#[non_exhaustive]
pub struct InternalListener {
    /// The event listened to.
    pub event: &'static EventDescriptor,
    /// Plugin that registers.
    pub plugin: Arc<str>,
    /// Whether it asked to come first.
    pub first: bool,
    /// Whether it asked to run once.
    pub once: bool,
    /// Whether it asked to hear every scope.
    pub global: bool,
}

/// A failure was contained: an emit listener failed, a task or timer panicked, or an observer refused an emit.
///
/// - Mode: emit.
/// - Scope: everybody.
/// - Emitted by: the bus, once for each failure, beside the log line.
/// - On listener error or panic: logged, nothing else.
/// - Cancelled by: nothing.
#[derive(Debug, linn_bus_macros::Event)]
#[event(name = "internal/fault", mode = Emit)]
#[non_exhaustive]
pub struct InternalFault {
    /// What failed, with the plugin's name.
    pub error: ListenerError,
}
