//! Scopes: who hears what, and a lifetime of their own.

use std::sync::{Arc, OnceLock, Weak};

use crate::bus::{Bus, lock};
use crate::cell::{ScopeCell, SlotTable};
use crate::context::Context;
use crate::fault::{BusError, DisposeError};
use crate::fiber::{Fiber, FiberInner};
use crate::service::Service;

/// The identity of a scope: minted by a context, equal only to its own clones.
///
/// An event that is about the owner of a key carries a clone of it and names it as `subject`; a listener registered through
/// a [`Scope`] with that key hears the event then. Whatever lives has its own key: an agent, a session, a build target.
#[derive(Clone)]
pub struct ScopeKey(Arc<KeyInner>);

struct KeyInner {
    bus: Weak<Bus>,
    id: u64,
    /// The scope's own listeners, by event.
    cells: OnceLock<Box<SlotTable<ScopeCell>>>,
}

impl ScopeKey {
    pub(crate) fn new(bus: &Arc<Bus>) -> Self {
        let id = bus.seams.ids.next_u64();
        Self(Arc::new(KeyInner { bus: Arc::downgrade(bus), id, cells: OnceLock::new() }))
    }

    /// The table of the scope, on the bus that minted the key; on any other bus nobody ever listened in this scope.
    #[inline]
    pub(crate) fn cells(&self, bus: &Bus) -> Option<&SlotTable<ScopeCell>> {
        if self.is_of(bus) { self.0.cells.get().map(|it| &**it) } else { None }
    }

    /// The same, made for the first listener.
    pub(crate) fn cells_to_fill(&self, bus: &Bus) -> Option<&SlotTable<ScopeCell>> {
        self.is_of(bus).then(|| &**self.0.cells.get_or_init(|| Box::new(SlotTable::new())))
    }

    fn is_of(&self, bus: &Bus) -> bool {
        std::ptr::eq(self.0.bus.as_ptr(), bus)
    }
}

impl PartialEq for ScopeKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for ScopeKey {}
impl std::hash::Hash for ScopeKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
impl std::fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ScopeKey({:016x})", self.0.id)
    }
}

/// A scope: a context whose listeners hear what concerns its key, and a lifetime that ends with [`dispose`](Self::dispose).
///
/// Two scopes may share a key and are disposed each on its own. A scope made inside another lives no longer than that one
/// and hears its own key alone.
#[derive(Debug, Clone)]
pub struct Scope {
    context: Context,
    key: ScopeKey,
    fiber: Fiber,
}

impl Scope {
    pub(crate) fn new(context: Context, key: ScopeKey, fiber: Fiber) -> Self {
        Self { context, key, fiber }
    }

    /// Where registrations of the scope go through.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The key that events about this scope carry.
    pub fn key(&self) -> &ScopeKey {
        &self.key
    }

    /// The fiber that owns what is registered here; give it to [`Composite::own`](crate::Composite::own) to have the scope
    /// end at a certain place of a composite effect.
    pub fn fiber(&self) -> &Fiber {
        &self.fiber
    }

    /// Undoes everything registered in the scope, the last first, and waits until it is quiet. Further calls wait for the
    /// same end.
    ///
    /// Cancel safe: the disposal goes on without the waiter.
    pub async fn dispose(&self) -> Result<(), DisposeError> {
        self.fiber.dispose().await
    }
}

/// A place under which many scopes live and die together, with services they may all use.
///
/// Dispose of it starts the end of every scope before it waits for any.
#[derive(Debug, Clone)]
pub struct ScopeHost {
    context: Context,
    fiber: Fiber,
}

impl ScopeHost {
    pub(crate) fn new(context: Context, fiber: Fiber) -> Self {
        Self { context, fiber }
    }

    /// A new scope under this host.
    pub fn mint(&self, key: &ScopeKey) -> Result<Scope, BusError> {
        self.context.scope_for(key)
    }

    /// The service `T`, as every scope of this host sees it.
    pub fn require<T: Service + ?Sized>(&self) -> Result<crate::Svc<T>, BusError> {
        self.context.require::<T>()
    }

    /// Ends all scopes of this host. One that fails is that failure; several are one error that holds them all.
    ///
    /// Cancel safe: the disposal goes on without the waiter.
    pub async fn dispose(&self) -> Result<(), DisposeError> {
        let host = self.fiber.inner();
        let is_ours =
            |it: &Arc<FiberInner>| it.parent.as_ref().is_some_and(|parent| parent.identity.id == host.identity.id);
        let scopes: Vec<_> = host.bus.fibers().into_iter().rev().filter(is_ours).collect();
        for scope in &scopes {
            scope.request_dispose(&[host.identity.id], None);
        }
        let mut problems = self.fiber.dispose().await.err().map(|it| it.problems).unwrap_or_default();
        // A scope that was gone before the host came to it has kept what went wrong.
        for scope in scopes {
            problems.append(&mut lock(&scope.life).rest.problems);
        }
        if problems.is_empty() { Ok(()) } else { Err(DisposeError { plugin: host.identity.name.clone(), problems }) }
    }
}
