//! Mounts prepared in the wings: a new version starts unseen and takes the place of the old one in one step.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bus::lock;
use crate::context::Context;
use crate::effect::Leaf;
use crate::fault::{BusError, DisposeError};
use crate::fiber::{Fiber, FiberInner, FiberState, NewFiber, NewPlace};
use crate::plugin::{Instance, InstanceOf, Mounted, Plugin};

/// A mounted plugin that nobody hears or sees yet: its listeners are registered but not run, its services not found but by
/// itself. Disposing it leaves no trace.
pub struct Prepared<P> {
    mounted: Mounted<P>,
    old: Option<Fiber>,
}

// By hand, so that plugins need no `Debug` for the sake of `unwrap_err`.
impl<P> std::fmt::Debug for Prepared<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("mounted", &self.mounted).field("old", &self.old).finish()
    }
}

impl Context {
    /// Mounts a plugin in the wings, to be switched in.
    ///
    /// # Errors
    ///
    /// As [`mount`](Self::mount).
    pub fn prepare<P: Plugin>(&self, config: P::Config) -> Result<Prepared<P>, BusError> {
        let place = NewPlace::Below(vec![self.activation().next_mount()]);
        self.prepare_at(place, self, None, config)
    }

    /// Mounts a plugin in the wings that will take the place of `old`: its place in the tree and its view of services.
    /// Asked for by `old` itself, or by what is mounted below it, the new one is mounted by whoever mounted `old`.
    ///
    /// # Errors
    ///
    /// As [`mount`](Self::mount); [`BusError::Disposed`] when `old` is gone, or is the root.
    pub fn prepare_for<P: Plugin>(&self, old: &Fiber, config: P::Config) -> Result<Prepared<P>, BusError> {
        if old.id().is_none() || old.inner().parent.is_none() {
            return Err(BusError::Disposed { plugin: old.inner().identity.name.clone() });
        }
        let view = old.inner().view.clone();
        // What the old version mounts goes with it, so a plugin that replaces itself has the new one mounted by its owner.
        let (fiber, run) = match (&old.inner().parent, old.inner().owner()) {
            (Some(parent), Some(owner)) if self.fiber_inner().is_within(old.inner().identity.id) => (parent, owner),
            _ => (self.fiber_inner(), self.activation()),
        };
        let context = Context::new(fiber.clone(), run.clone(), view);
        self.prepare_at(NewPlace::At(old.place()), &context, Some(old.clone()), config)
    }

    fn prepare_at<P: Plugin>(
        &self,
        place: NewPlace,
        parent: &Context,
        old: Option<Fiber>,
        config: P::Config,
    ) -> Result<Prepared<P>, BusError> {
        let instance = Box::new(InstanceOf::<P>::new(config));
        self.prepare_instance(P::NAME.into(), place, parent, old, instance)
    }

    pub(crate) fn prepare_instance<P>(
        &self,
        name: Arc<str>,
        place: NewPlace,
        parent: &Context,
        old: Option<Fiber>,
        instance: Box<dyn Instance>,
    ) -> Result<Prepared<P>, BusError> {
        let view = parent.view().clone();
        let new = NewFiber { name, place, parent, view, instance: Some(instance), hidden: true };
        Ok(Prepared { mounted: Mounted::new(self.start_fiber(new)?), old })
    }
}

impl<P> Prepared<P> {
    /// The fiber in the wings.
    pub fn fiber(&self) -> &Fiber {
        self.mounted.fiber()
    }

    /// Waits until the new version has started, then puts it in the place of the old one: from one moment to the next all
    /// its listeners are heard and its services found, and none of the old one's. Every dispatch sees either all of the
    /// old or all of the new. Calls in flight end on the old version, which is disposed then, with the grace of a reload: a
    /// dispatch that began before and has listeners of the old version ahead of it meets them. Where it comes to them after
    /// the grace only, it fails as [`Cause::Unloaded`](crate::Cause::Unloaded) and passes over none of them.
    ///
    /// # Errors
    ///
    /// What the new version failed with, [`BusError::NotPrepared`] when it waits for a service,
    /// [`BusError::ServiceTaken`] when somebody else came to provide a service of it meanwhile, or [`BusError::Disposed`]
    /// when another version has taken the place of the old one; it is disposed and what is in the place runs on.
    ///
    /// Not cancel safe before the switch: dropping the future leaves the new version in the wings.
    pub async fn switch(self) -> Result<Switched<P>, BusError> {
        let fiber = self.mounted.fiber().inner().clone();
        let old = self.old.as_ref().map(|it| it.inner().clone());
        let switched = match self.mounted.settled().await {
            Ok(FiberState::Active) => switch(&fiber, old.as_ref()),
            Ok(_) => Err(BusError::NotPrepared { plugin: fiber.identity.name.clone() }),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = switched {
            // What would not end of the failed version has been logged; the failure is what the caller asked for.
            drop(fiber.dispose().await);
            return Err(failure);
        }
        if let Some(old) = &old {
            old.request_dispose(&[], Some(fiber.bus.grace.reload));
        }
        Ok(Switched { mounted: self.mounted, old: self.old })
    }
}

/// A new version that was switched in.
pub struct Switched<P> {
    mounted: Mounted<P>,
    old: Option<Fiber>,
}

impl<P> std::fmt::Debug for Switched<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switched").field("mounted", &self.mounted).field("old", &self.old).finish()
    }
}

impl<P> Switched<P> {
    /// The new version.
    pub fn mounted(&self) -> &Mounted<P> {
        &self.mounted
    }

    /// Waits until the old version is quiet and gone. A listener that awaits this inside a dispatch which has listeners of
    /// the old version ahead is not waited for; its dispatch fails there.
    ///
    /// # Errors
    ///
    /// What of it would not end. Cancel safe: it goes on without the waiter.
    pub async fn old_gone(&self) -> Result<(), DisposeError> {
        match &self.old {
            Some(old) => old.dispose().await,
            None => Ok(()),
        }
    }
}

fn subtree(bus: &crate::bus::Bus, top: &Arc<FiberInner>) -> Vec<Arc<FiberInner>> {
    bus.fibers().into_iter().filter(|it| it.is_within(top.identity.id)).collect()
}

fn visit_cells<'a>(
    fibers: impl Iterator<Item = &'a Arc<FiberInner>>,
    cells: &mut BTreeMap<usize, Arc<crate::cell::EventCell>>,
) {
    for activation in fibers.filter_map(|it| it.activation()) {
        activation.visit(|leaf| {
            if let Leaf::Hook(head) = leaf {
                let event = head.cell.event();
                cells.insert(Arc::as_ptr(event) as usize, event.clone());
            }
        });
    }
}

impl Fiber {
    /// Gives it, and everything mounted below it, another place below the fiber that mounted it. Places are compared number by
    /// number. Nothing of it restarts: from one moment to the next its listeners run in another order.
    ///
    /// # Errors
    ///
    /// [`BusError::Disposed`] when it is gone, or is the root.
    pub fn move_to(&self, below: &[u32]) -> Result<(), BusError> {
        let fiber = self.inner();
        let parent = fiber.parent.as_ref().filter(|_| self.id().is_some());
        let gone = || BusError::Disposed { plugin: fiber.identity.name.clone() };
        let parent = parent.ok_or_else(gone)?;
        let bus = &fiber.bus;
        {
            let _tree = lock(&bus.tree);
            let moved = subtree(bus, fiber);
            let mut cells = BTreeMap::new();
            visit_cells(moved.iter(), &mut cells);
            let mut locked: Vec<_> = cells.values().map(|it| it.lock()).collect();
            let old = fiber.identity.place();
            let new: Vec<u32> = parent.identity.place().iter().chain(below).copied().collect();
            for fiber in &moved {
                let inside = fiber.identity.place();
                // What came from elsewhere to be below it has a place of its own.
                if let Some(rest) = inside.strip_prefix(&*old) {
                    fiber.identity.set_place(new.iter().chain(rest).copied().collect());
                }
            }
            for cell in &mut locked {
                cell.reorder(&bus.rows);
            }
            drop(locked);
            // As in `switch`: listeners that were registered meanwhile.
            let mut late = BTreeMap::new();
            visit_cells(moved.iter(), &mut late);
            for (_, cell) in late.iter().filter(|(at, _)| !cells.contains_key(at)) {
                cell.lock().reorder(&bus.rows);
            }
        }
        bus.rows.reclaim();
        Ok(())
    }
}

/// The one step. While it runs no list of the events concerned changes, no dispatch that needs a new snapshot of them
/// begins, and no fiber is mounted below either version.
fn switch(new: &Arc<FiberInner>, old: Option<&Arc<FiberInner>>) -> Result<(), BusError> {
    let bus = &new.bus;
    let switched = {
        let _tree = lock(&bus.tree);
        // Two versions in one place would both be heard.
        if let Some(old) = old.filter(|it| it.is_replaced()) {
            return Err(BusError::Disposed { plugin: old.identity.name.clone() });
        }
        let coming = subtree(bus, new);
        let going = old.map(|it| subtree(bus, it)).unwrap_or_default();
        let mut cells = BTreeMap::new();
        visit_cells(coming.iter().chain(&going), &mut cells);
        // In order of address, so that two switches cannot hold each other up.
        let mut locked: Vec<_> = cells.values().map(|it| it.lock()).collect();
        for cell in &mut locked {
            cell.invalidate(&bus.rows);
        }
        let switched = bus.registry.switch(&coming, &going);
        drop(locked);
        // Listeners that were registered meanwhile may be in, or missing from, snapshots of events not met above.
        let mut late = BTreeMap::new();
        visit_cells(coming.iter().chain(&going), &mut late);
        for (_, cell) in late.iter().filter(|(at, _)| !cells.contains_key(at)) {
            cell.lock().invalidate(&bus.rows);
        }
        switched
    };
    bus.rows.reclaim();
    switched?;
    bus.registry.notify_all();
    Ok(())
}
