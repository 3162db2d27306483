//! Needs: the services a plugin asks for, as types.

use std::sync::Arc;

use crate::context::Context;
use crate::service::{Lookup, ProvidedInner, Service, ServiceDescriptor, Svc};

/// What may stand in `type Needs`: services, structs of services with `#[derive(Inject)]`, and tuples.
///
/// | need | the fiber waits for it | restarts it when | absent |
/// |---|---|---|---|
/// | [`Svc<dyn T>`](Svc) | yes | replaced, gone | cannot be |
/// | `Option<Svc<dyn T>>` | no | it comes, is replaced, goes | `None` |
/// | [`Lookup<dyn T>`](Lookup) | no | never | asked at the moment of use |
///
/// ```
/// # use linn_bus::{Inject, ServiceError, Svc, service};
/// # #[service("doc.store")] trait Store { fn get(&self) -> Result<u8, ServiceError>; }
/// # #[service("doc.users")] trait Users { fn get(&self) -> Result<u8, ServiceError>; }
/// # #[service("doc.cache")] trait Cache { fn get(&self) -> Result<u8, ServiceError>; }
/// #[derive(Inject)]
/// struct Needs {
///     store: Svc<dyn Store>,
///     users: Svc<dyn Users>,
///     cache: Option<Svc<dyn Cache>>,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be injected",
    label = "not a need",
    note = "write `Svc<dyn Trait>` for a service the plugin needs, `Option<Svc<dyn Trait>>` for one it can do without, `Lookup<dyn Trait>` to look when it is used; group them in a struct with `#[derive(Inject)]`, where `Trait` is declared with `#[service(\"name\")]`"
)]
pub trait Inject: Sized + Send + 'static {
    /// Lists the needs without touching anything.
    fn declare(list: &mut NeedList);
    /// Takes the services.
    fn take(from: &Resolver<'_>) -> Result<Self, Missing>;
}

/// One need of a plugin.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The service.
    pub service: &'static ServiceDescriptor,
    /// Whether the fiber waits for it.
    pub required: bool,
    pub(crate) slot: u32,
}

/// Whether a plugin can do without a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// It waits for the service.
    Required,
    /// It runs with and without the service, and starts anew when that comes or goes.
    Optional,
}

/// The needs of a plugin, in order of declaration.
#[derive(Debug, Clone, Default)]
pub struct NeedList(Vec<Need>);

impl NeedList {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn of<N: Inject>() -> Self {
        let mut list = Self::default();
        N::declare(&mut list);
        list
    }

    /// Adds a need.
    pub fn add<T: Service + ?Sized>(&mut self, demand: Demand) {
        let required = demand == Demand::Required;
        self.0.push(Need { service: T::__descriptor(), required, slot: T::__descriptor().slot() });
    }

    /// Adds a need of a service that is known by its descriptor alone.
    pub fn add_described(&mut self, service: &'static ServiceDescriptor, demand: Demand) {
        self.0.push(Need { service, required: demand == Demand::Required, slot: service.slot() });
    }

    /// Adds those of `more` that are not in the list.
    #[cfg(feature = "json")]
    pub(crate) fn extend(&mut self, more: &NeedList) {
        for need in more.iter().filter(|it| !self.contains(it.slot)).copied().collect::<Vec<_>>() {
            self.0.push(need);
        }
    }

    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.0.iter().any(|it| it.slot == slot)
    }

    /// The needs.
    pub fn iter(&self) -> std::slice::Iter<'_, Need> {
        self.0.iter()
    }
}

/// A service that was needed is not there. The bus starts nothing whose needs are missing, so this is met only where a
/// service goes in the very moment of a start; the fiber then waits for it again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("service `{service}` is not provided")]
pub struct Missing {
    service: &'static str,
}

/// The providers captured for one run: one for each need, none for an absent optional one.
#[doc(hidden)]
pub(crate) struct Resolved(pub(crate) Vec<(u32, Option<Arc<ProvidedInner>>)>);

impl Resolved {
    pub(crate) fn find(&self, slot: u32) -> Option<&Option<Arc<ProvidedInner>>> {
        self.0.iter().find(|(it, _)| *it == slot).map(|(_, provided)| provided)
    }
}

/// Where [`Inject::take`] takes from.
pub struct Resolver<'a> {
    context: &'a Context,
    resolved: &'a Resolved,
}

impl std::fmt::Debug for Resolver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(context: &'a Context, resolved: &'a Resolved) -> Self {
        Self { context, resolved }
    }

    fn find<T: Service + ?Sized>(&self) -> Option<Svc<T>> {
        let provided = self.resolved.find(T::__descriptor().slot())?.as_ref()?;
        Some(Svc::new(provided))
    }
}

impl<T: Service + ?Sized> Inject for Svc<T> {
    fn declare(list: &mut NeedList) {
        list.add::<T>(Demand::Required);
    }
    fn take(from: &Resolver<'_>) -> Result<Self, Missing> {
        from.find().ok_or(Missing { service: T::NAME })
    }
}

impl<T: Service + ?Sized> Inject for Option<Svc<T>> {
    fn declare(list: &mut NeedList) {
        list.add::<T>(Demand::Optional);
    }
    fn take(from: &Resolver<'_>) -> Result<Self, Missing> {
        Ok(from.find())
    }
}

impl<T: Service + ?Sized> Inject for Lookup<T> {
    fn declare(_: &mut NeedList) {}
    fn take(from: &Resolver<'_>) -> Result<Self, Missing> {
        Ok(from.context.lookup())
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Inject),*> Inject for ($($name,)*) {
            fn declare(list: &mut NeedList) {
                let _ = &list;
                $($name::declare(list);)*
            }
            fn take(from: &Resolver<'_>) -> Result<Self, Missing> {
                let _ = from;
                Ok(($($name::take(from)?,)*))
            }
        }
    };
}
tuples!();
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
