//! What a context does with services: provide them, find them, and have them apart.

use std::sync::Arc;

use super::Context;
use crate::dispatch;
use crate::fault::BusError;
use crate::internal::InternalSet;
use crate::service::{Lookup, Provided, Service, ServiceDescriptor, Svc};

/// # Services
impl Context {
    /// Provides a service: `ctx.provide::<dyn Tools>(Arc::new(MyTools))`. Plugins that need it start once this one is
    /// active; it is taken back with this plugin.
    ///
    /// # Errors
    ///
    /// [`BusError::ServiceTaken`] when it is provided already in this realm, [`BusError::ServiceClash`] when another trait
    /// has the name, [`BusError::Inactive`] when the plugin is going down.
    pub fn provide<T: Service + ?Sized>(&self, value: Arc<T>) -> Result<Provided<T>, BusError> {
        self.bus().registry.provide(self, value, None).map(Provided::new)
    }

    /// [`provide`](Self::provide) to those whose context passes `check`; for everybody else, and for the check itself, the
    /// service is absent.
    /// [`Provided::notify`] has it asked again.
    ///
    /// # Errors
    ///
    /// As [`provide`](Self::provide).
    pub fn provide_if<T: Service + ?Sized>(
        &self,
        value: Arc<T>,
        check: impl Fn(&Context) -> bool + Send + Sync + 'static,
    ) -> Result<Provided<T>, BusError> {
        // Caught here, where the code of the check is: its panic must not leave the library it is in.
        let check = move |context: &Context| crate::pool::guarded(|| check(context)).unwrap_or(false);
        self.bus().registry.provide(self, value, Some(Box::new(check))).map(Provided::new)
    }

    /// Replaces the value of a service this plugin provides, in place: those who use it see the new value and do not
    /// reload. Whether it was replaced: a listener on `internal/set` may keep the old one.
    ///
    /// # Errors
    ///
    /// [`BusError::ServiceUnprovided`], [`BusError::ServiceForeign`] when another plugin provides it, or the failure of an
    /// `internal/set` listener. Cancel safe.
    pub async fn set<T: Service + ?Sized>(&self, value: Arc<T>) -> Result<bool, BusError> {
        let slot = T::__descriptor().slot();
        let provided =
            self.bus().registry.current(self.view(), slot).ok_or(BusError::ServiceUnprovided { service: T::NAME })?;
        if !std::ptr::eq(provided.fiber.as_ptr(), Arc::as_ptr(self.fiber_inner())) {
            return Err(BusError::ServiceForeign {
                service: T::NAME,
                owner: provided.owner.identity.name.clone(),
                plugin: self.activation().identity.name.clone(),
            });
        }
        let change = InternalSet { service: T::__descriptor(), plugin: self.activation().identity.name.clone() };
        let stored = dispatch::waterfall(self.emitter(), &change, async || {
            provided.set::<T>(value.clone());
            true
        })
        .await?;
        Ok(stored)
    }

    /// The service of the moment, from a plugin that is active, whoever it is; none when there is none.
    pub fn get<T: Service + ?Sized>(&self) -> Option<Svc<T>> {
        let provided = self.bus().registry.look_up(self.fiber_inner(), self.view(), T::__descriptor().slot())?;
        Some(Svc::new(&provided))
    }

    /// A service this context may rely on: one its plugin or a plugin around it declares as a need, or that a plugin
    /// around it provides. At the root, any service, also of a plugin that is still starting.
    ///
    /// # Errors
    ///
    /// [`BusError::ServiceUndeclared`] when it may not, [`BusError::ServiceInactive`] when the run of its plugin that the
    /// context is of is over, [`BusError::ServiceUnprovided`] at the root and for an optional need that is absent.
    pub fn require<T: Service + ?Sized>(&self) -> Result<Svc<T>, BusError> {
        let slot = T::__descriptor().slot();
        let plugin = || self.activation().identity.name.clone();
        if self.fiber_inner().parent.is_none() {
            let found = self.bus().registry.look_up_loading(self.fiber_inner(), self.view(), slot);
            return found.map(|it| Svc::new(&it)).ok_or(BusError::ServiceUnprovided { service: T::NAME });
        }
        if !self.activation().is_current() {
            return Err(BusError::ServiceInactive {
                service: T::NAME,
                plugin: plugin(),
                state: self.activation().state(),
            });
        }
        let realm = self.view().realm(slot);
        let mut at = Some(self.fiber_inner());
        while let Some(fiber) = at {
            if fiber.declares(slot) && fiber.view.realm(slot) == realm {
                if let Some(provided) = fiber.captured(slot) {
                    return Ok(Svc::new(&provided));
                }
                // A run that lacks it has it as an optional need.
                return Err(match fiber.activation() {
                    Some(_) => BusError::ServiceUnprovided { service: T::NAME },
                    None => BusError::ServiceInactive {
                        service: T::NAME,
                        plugin: fiber.identity.name.clone(),
                        state: fiber.state(),
                    },
                });
            }
            at = fiber.parent.as_ref();
        }
        match self.bus().registry.look_up_loading(self.fiber_inner(), self.view(), slot) {
            Some(provided)
                if provided.fiber.upgrade().is_some_and(|it| self.fiber_inner().is_within(it.identity.id)) =>
            {
                Ok(Svc::new(&provided))
            }
            _ => Err(BusError::ServiceUndeclared { service: T::NAME, plugin: plugin() }),
        }
    }

    /// A handle that looks for the service when it is used.
    pub fn lookup<T: Service + ?Sized>(&self) -> Lookup<T> {
        Lookup::new(self.clone())
    }

    /// A context that has the service `T` to itself: what is provided through it is seen through it and what is made from
    /// it, and nowhere else.
    pub fn isolate<T: Service + ?Sized>(&self) -> Self {
        self.in_realm::<T>(self.bus().registry.new_realm())
    }

    /// [`isolate`](Self::isolate) in a realm that all contexts isolated with the same label share.
    pub fn isolate_as<T: Service + ?Sized>(&self, label: &str) -> Self {
        self.in_realm::<T>(self.bus().registry.realm_named(label))
    }

    fn in_realm<T: Service + ?Sized>(&self, realm: u64) -> Self {
        self.with_realm(T::__descriptor().slot(), realm)
    }

    /// [`isolate`](Self::isolate), or with a label [`isolate_as`](Self::isolate_as), of a service that is known by its
    /// descriptor alone.
    pub fn isolate_described(&self, service: &'static ServiceDescriptor, label: Option<&str>) -> Self {
        let registry = &self.bus().registry;
        self.with_realm(service.slot(), label.map_or_else(|| registry.new_realm(), |it| registry.realm_named(it)))
    }

    /// [`intercept`](Self::intercept) with a config in JSON, of a service that is known by its descriptor alone. Read with
    /// [`intercepts_json`](Self::intercepts_json).
    #[cfg(feature = "json")]
    pub fn intercept_described(&self, service: &'static ServiceDescriptor, config: &serde_json::Value) -> Self {
        // As text, a type that is the same in every library.
        let text = Arc::new(config.to_string());
        self.with_view(|view| view.rest().intercepts.push((service.slot(), text)))
    }

    /// The configs in JSON for a service that this context and those around it carry, the outermost first, as far as they
    /// are of this type.
    #[cfg(feature = "json")]
    pub fn intercepts_json<T: Service + ?Sized, C: serde::de::DeserializeOwned>(&self) -> Vec<C> {
        self.intercepts::<T, String>().iter().filter_map(|it| serde_json::from_str(it).ok()).collect()
    }

    fn with_realm(&self, slot: u32, realm: u64) -> Self {
        self.with_view(|view| {
            let realms = &mut view.rest().realms;
            realms.retain(|(it, _)| *it != slot);
            realms.push((slot, realm));
        })
    }

    /// A context that carries a config for the service `T`, for the service to read with
    /// [`intercepts`](Self::intercepts) from the contexts it is handed.
    pub fn intercept<T: Service + ?Sized, C: Send + Sync + 'static>(&self, config: C) -> Self {
        self.with_view(|view| view.rest().intercepts.push((T::__descriptor().slot(), Arc::new(config))))
    }

    /// The configs that this context and those around it carry for the service `T`, the outermost first; those of another
    /// type are left out.
    pub fn intercepts<T: Service + ?Sized, C: Send + Sync + 'static>(&self) -> Vec<Arc<C>> {
        let slot = T::__descriptor().slot();
        let ours = self.view().rest.iter().flat_map(|it| &it.intercepts).filter(|(it, _)| *it == slot);
        ours.filter_map(|(_, config)| config.clone().downcast().ok()).collect()
    }
}
