//! Who provides which service in which realm, and who needs it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use crate::bus::lock;
use crate::context::{Context, View};
use crate::dispatch;
use crate::effect::{Door, Leaf};
use crate::fault::BusError;
use crate::fiber::{FiberInner, FiberState};
use crate::inject::{NeedList, Resolved};
use crate::internal::InternalService;
use crate::service::{Check, ProvidedInner, Service};

#[derive(Default)]
pub(crate) struct Registry(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// By service and realm.
    entries: HashMap<(u32, u64), Entry>,
    /// Which slot has a service name, so that a second trait of that name is refused.
    names: HashMap<&'static str, (u32, &'static str)>,
    realms: HashMap<String, u64>,
    last_realm: u64,
    last_id: u64,
    /// Fibers that need a service in a realm, by number, which is the order they were mounted in.
    dependants: HashMap<(u32, u64), BTreeMap<u64, Weak<FiberInner>>>,
}

#[derive(Default)]
struct Entry {
    current: Option<Arc<ProvidedInner>>,
    /// Provided by fibers that are prepared in the wings.
    hidden: Vec<Arc<ProvidedInner>>,
    /// Withdrawn providers whose calls have not ended: the service is not available until they have.
    draining: usize,
    /// Those of them that a version switched in took the place of: who asks when it is used need not wait for them.
    replaced: usize,
    last: Weak<ProvidedInner>,
}

/// Why a need is not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Absence {
    NotProvided,
    Draining,
    ProviderNotActive(Arc<str>, FiberState),
    Refused(Arc<str>),
}

impl Registry {
    pub(crate) fn new_realm(&self) -> u64 {
        let mut inner = lock(&self.0);
        inner.last_realm += 1;
        inner.last_realm
    }

    pub(crate) fn realm_named(&self, label: &str) -> u64 {
        let mut inner = lock(&self.0);
        if let Some(realm) = inner.realms.get(label) {
            return *realm;
        }
        inner.last_realm += 1;
        let realm = inner.last_realm;
        inner.realms.insert(label.to_owned(), realm);
        realm
    }

    pub(crate) fn add_dependant(&self, fiber: &Arc<FiberInner>) {
        let mut inner = lock(&self.0);
        for key in fiber.needed() {
            inner.dependants.entry(key).or_default().insert(fiber.identity.id, Arc::downgrade(fiber));
        }
    }

    pub(crate) fn forget_dependant(&self, fiber: &Arc<FiberInner>) {
        let mut inner = lock(&self.0);
        for key in fiber.needed() {
            if let Some(fibers) = inner.dependants.get_mut(&key) {
                // A weak reference, and the caller has a strong one: nothing is dropped with it.
                fibers.remove(&fiber.identity.id);
                if fibers.is_empty() {
                    inner.dependants.remove(&key);
                }
            }
        }
    }

    pub(crate) fn provide<T: Service + ?Sized>(
        &self,
        context: &Context,
        value: Arc<T>,
        check: Option<Check>,
    ) -> Result<Arc<ProvidedInner>, BusError> {
        let descriptor = T::__descriptor();
        let slot = descriptor.slot();
        let key = (slot, context.view().realm(slot));
        let (provided, adopted, replaced, waiting) = {
            let mut inner = lock(&self.0);
            let hidden = !context.fiber_inner().is_visible();
            let first = *inner.names.entry(descriptor.name).or_insert((slot, descriptor.type_path));
            if first.0 != slot {
                return Err(BusError::ServiceClash { service: T::NAME, first: first.1, second: descriptor.type_path });
            }
            let id = inner.last_id + 1;
            let entry = inner.entries.entry(key).or_default();
            let taken = if hidden {
                entry.hidden.iter().find(|it| it.wing() == wing(context.fiber_inner()))
            } else {
                entry.current.as_ref()
            };
            if let Some(taken) = taken {
                return Err(BusError::ServiceTaken { service: T::NAME, owner: taken.owner.identity.name.clone() });
            }
            // The run that withdrew it provides it again, and its calls were never closed: it never went.
            let again = entry
                .last
                .upgrade()
                .filter(|it| Arc::ptr_eq(&it.owner, context.activation()) && !it.gate().is_closed() && !hidden);
            let id = again.as_ref().map_or(id, |it| it.id);
            let (provided, replaced) = ProvidedInner::new(context, value, check, again.as_deref(), id);
            let adopted = context.activation().adopt(provided.clone(), Door::Open, || format!("service `{}`", T::NAME));
            let revived = adopted.is_ok() && again.is_some();
            if adopted.is_ok() {
                if let Some(before) = again {
                    before.revived.store(true, Ordering::Release);
                    entry.draining -= 1;
                }
                if hidden {
                    entry.hidden.push(provided.clone());
                } else {
                    entry.current = Some(provided.clone());
                }
                inner.last_id = inner.last_id.max(id);
            }
            let waiting = if revived { inner.needing(key) } else { Vec::new() };
            (provided, adopted, replaced, waiting)
        };
        // What is replaced or refused is dropped here, where the provider's code finds no lock held.
        drop(replaced);
        adopted?;
        // The withdrawal that would have waited for them is over.
        for fiber in waiting {
            fiber.bus.rows.wake_fiber(fiber.identity.id);
        }
        self.changed(&provided, Some(provided.owner.identity.name.clone()));
        Ok(provided)
    }

    /// Takes a provider out; returns the fibers that captured it.
    pub(crate) fn withdraw(&self, provided: &ProvidedInner, causes: &[u64]) -> Vec<Arc<FiberInner>> {
        let dependants = {
            let mut inner = lock(&self.0);
            let entry = inner.entries.entry(provided.key()).or_default();
            entry.hidden.retain(|it| !std::ptr::eq(&**it, provided));
            if let Some(current) = entry.current.take_if(|it| std::ptr::eq(&**it, provided)) {
                entry.last = Arc::downgrade(&current);
            }
            if !provided.replaced.load(Ordering::Acquire) {
                entry.draining += 1;
            }
            inner.needing(provided.key())
        };
        let users: Vec<_> = dependants.into_iter().filter(|it| it.uses(provided.id)).collect();
        for user in &users {
            user.add_causes(causes);
        }
        self.changed(provided, None);
        users
    }

    /// The calls of a withdrawn provider have ended: whoever provides the service now becomes available.
    pub(crate) fn drained(&self, provided: &ProvidedInner) {
        {
            let mut inner = lock(&self.0);
            let key = provided.key();
            if let Some(entry) = inner.entries.get_mut(&key) {
                entry.draining -= 1;
                entry.replaced -= usize::from(provided.replaced.load(Ordering::Acquire));
                if entry.draining == 0 && entry.current.is_none() && entry.hidden.is_empty() {
                    inner.entries.remove(&key);
                }
            }
        }
        self.notify(provided.key());
    }

    fn changed(&self, provided: &ProvidedInner, provider: Option<Arc<str>>) {
        if let Some(fiber) = provided.fiber.upgrade() {
            dispatch::emit(fiber.emitter(), &InternalService { service: provided.descriptor, provider });
        }
        self.notify(provided.key());
    }

    /// Has every fiber that needs the service, in the realm, look at its needs again.
    pub(crate) fn notify(&self, key: (u32, u64)) {
        let dependants = lock(&self.0).needing(key);
        for fiber in dependants {
            fiber.kick();
        }
    }

    /// Has every fiber with needs look at them again.
    pub(crate) fn notify_all(&self) {
        let all: BTreeMap<_, _> = {
            let inner = lock(&self.0);
            let all = inner.dependants.values().flatten();
            // Those met again are kept until the lock is given back, in place of the same.
            all.filter_map(|(id, fiber)| Some((*id, fiber.upgrade()?))).collect()
        };
        for fiber in all.into_values() {
            fiber.kick();
        }
    }

    /// A fiber that may provide services became active or ceased to be.
    pub(crate) fn provider_changed(&self, provider: &Arc<FiberInner>) {
        let Some(run) = provider.activation() else { return };
        let mut keys = Vec::new();
        run.visit(|leaf| {
            if let Leaf::Service(service) = leaf {
                keys.push(service.key());
            }
        });
        for key in keys {
            self.notify(key);
        }
    }

    /// The provider of a service for a plugin that would keep it, or why there is none.
    pub(crate) fn find(&self, fiber: &Arc<FiberInner>, view: &View, slot: u32) -> Result<Arc<ProvidedInner>, Absence> {
        self.find_now(fiber, view, slot, false)
    }

    fn find_now(
        &self,
        fiber: &Arc<FiberInner>,
        view: &View,
        slot: u32,
        at_use: bool,
    ) -> Result<Arc<ProvidedInner>, Absence> {
        let provided = {
            let inner = lock(&self.0);
            let entry = inner.entries.get(&(slot, view.realm(slot))).ok_or(Absence::NotProvided)?;
            let own_wing = wing(fiber);
            let hidden = own_wing.and_then(|_| entry.hidden.iter().find(|it| it.wing() == own_wing));
            match hidden {
                Some(hidden) => hidden.clone(),
                None if entry.draining > if at_use { entry.replaced } else { 0 } => return Err(Absence::Draining),
                None => entry.current.clone().ok_or(Absence::NotProvided)?,
            }
        };
        let owner = provided.fiber.upgrade();
        let state = owner.as_ref().map_or(FiberState::Disposed, |it| it.state());
        if state != FiberState::Active {
            // It may have been replaced, and begun to go, since it was found.
            if provided.replaced.load(Ordering::Acquire) {
                return self.find_now(fiber, view, slot, at_use);
            }
            return Err(match owner {
                Some(owner) => Absence::ProviderNotActive(owner.identity.name.clone(), state),
                None => Absence::NotProvided,
            });
        }
        if provided.admits(fiber) { Ok(provided) } else { Err(Absence::Refused(provided.owner.identity.name.clone())) }
    }

    /// The provider of the moment, for who asks when it is used: one that was replaced by a switch may be draining still.
    pub(crate) fn look_up(&self, fiber: &Arc<FiberInner>, view: &View, slot: u32) -> Option<Arc<ProvidedInner>> {
        self.find_now(fiber, view, slot, true).ok()
    }

    /// The provider for somebody, whatever state it is in.
    pub(crate) fn look_up_loading(
        &self,
        fiber: &Arc<FiberInner>,
        view: &View,
        slot: u32,
    ) -> Option<Arc<ProvidedInner>> {
        self.current(view, slot).filter(|it| it.admits(fiber))
    }

    /// The provider whatever state it is in and whomever it refuses.
    pub(crate) fn current(&self, view: &View, slot: u32) -> Option<Arc<ProvidedInner>> {
        let inner = lock(&self.0);
        inner.entries.get(&(slot, view.realm(slot)))?.current.clone()
    }

    /// Numbers of the providers of all needs; none when a required one is missing.
    pub(crate) fn providers(&self, fiber: &Arc<FiberInner>, needs: &NeedList) -> Option<Vec<u64>> {
        needs
            .iter()
            .map(|need| match self.find(fiber, &fiber.view, need.slot) {
                Ok(provided) => Some(provided.id),
                Err(_) if need.required => None,
                Err(_) => Some(0),
            })
            .collect()
    }

    /// The providers with these numbers, if they are there still.
    pub(crate) fn capture(&self, fiber: &Arc<FiberInner>, needs: &NeedList, ids: &[u64]) -> Option<Resolved> {
        let found = needs.iter().zip(ids).map(|(need, id)| {
            let provided = self.find(fiber, &fiber.view, need.slot).ok();
            let found = provided.as_ref().map_or(0, |it| it.id);
            (found == *id).then_some((need.slot, provided))
        });
        found.collect::<Option<Vec<_>>>().map(Resolved)
    }

    /// Makes what the fibers in `new` provide current, in place of what those in `old` do, and shows and hides the fibers.
    ///
    /// Nothing changes when a service of the new ones is provided by somebody else already.
    pub(crate) fn switch(&self, new: &[Arc<FiberInner>], old: &[Arc<FiberInner>]) -> Result<(), BusError> {
        let mut inner = lock(&self.0);
        for entry in inner.entries.values() {
            let stays = entry.current.as_ref().filter(|it| !it.is_of(old));
            if let (Some(stays), Some(coming)) = (stays, entry.hidden.iter().find(|it| it.is_of(new))) {
                let owner = stays.owner.identity.name.clone();
                return Err(BusError::ServiceTaken { service: coming.descriptor.name, owner });
            }
        }
        for entry in inner.entries.values_mut() {
            if let Some(going) = entry.current.take_if(|it| it.is_of(old)) {
                // Who captured it goes down now and comes up with the new one, once the calls in flight have ended.
                going.replaced.store(true, Ordering::Release);
                entry.draining += 1;
                entry.replaced += 1;
            }
            if let Some(at) = entry.hidden.iter().position(|it| it.is_of(new)) {
                entry.current = Some(entry.hidden.swap_remove(at));
            }
        }
        // Under the lock: what is provided from now on finds its place by it.
        for fiber in old {
            fiber.identity.replaced.store(true, Ordering::Release);
            fiber.identity.visible.store(false, Ordering::Release);
        }
        for fiber in new {
            fiber.identity.visible.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Every provided service: descriptor, realm, provider.
    pub(crate) fn all(&self) -> Vec<Arc<ProvidedInner>> {
        let inner = lock(&self.0);
        let mut all: Vec<_> =
            inner.entries.values().flat_map(|it| it.current.iter().chain(&it.hidden)).cloned().collect();
        all.sort_by_key(|it| (it.descriptor.name, it.realm, it.id));
        all
    }
}

impl Inner {
    fn needing(&self, key: (u32, u64)) -> Vec<Arc<FiberInner>> {
        self.dependants.get(&key).into_iter().flat_map(BTreeMap::values).filter_map(Weak::upgrade).collect()
    }
}

/// The topmost fiber in the wings above this one; none for what is visible.
fn wing(fiber: &Arc<FiberInner>) -> Option<u64> {
    let mut at = Some(fiber);
    let mut wing = None;
    while let Some(fiber) = at {
        if !fiber.is_visible() {
            wing = Some(fiber.identity.id);
        }
        at = fiber.parent.as_ref();
    }
    wing
}

impl ProvidedInner {
    /// Whether its check lets this fiber have the service.
    fn admits(&self, fiber: &Arc<FiberInner>) -> bool {
        let Some(check) = &self.check else { return true };
        let activation = fiber.activation().unwrap_or_else(|| crate::fiber::Activation::new(fiber));
        let context = Context::new(fiber.clone(), activation, fiber.view.clone());
        // A check that looks for its own service would ask itself for ever: inside it the service is absent.
        let me = std::thread::current().id();
        {
            let mut asking = lock(&self.asking);
            if asking.contains(&me) {
                return false;
            }
            asking.push(me);
        }
        let admitted = check(&context);
        lock(&self.asking).retain(|it| *it != me);
        admitted
    }

    fn wing(&self) -> Option<u64> {
        wing(&self.fiber.upgrade()?)
    }

    fn is_of(&self, fibers: &[Arc<FiberInner>]) -> bool {
        fibers.iter().any(|it| std::ptr::eq(Arc::as_ptr(it), self.fiber.as_ptr()))
    }
}

impl FiberInner {
    /// The services its plugin needs, each in the realm where the fiber looks for it.
    fn needed(&self) -> impl Iterator<Item = (u32, u64)> {
        let needs = self.instance.iter().flat_map(|it| it.needs().iter());
        needs.map(|need| (need.slot, self.view.realm(need.slot)))
    }

    /// Whether the present run captured this provision, or will have when it has loaded.
    pub(crate) fn uses(&self, id: u64) -> bool {
        let life = lock(&self.life);
        life.captured.as_ref().is_some_and(|it| it.0.iter().any(|(_, it)| it.as_ref().is_some_and(|it| it.id == id)))
    }
}
