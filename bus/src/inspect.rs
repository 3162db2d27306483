//! A look at everything that is on a bus.

use std::sync::Arc;

use crate::context::Context;
use crate::effect::EffectInfo;
use crate::fault::BusError;
use crate::fiber::{FiberInner, FiberState};
use crate::registry::Absence;

/// What is on a bus at one moment.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Inspection {
    /// All fibers, in order of their place in the tree.
    pub fibers: Vec<FiberInfo>,
    /// All provided services, by name.
    pub services: Vec<ServiceInfo>,
    /// All events that anybody listens to, by name.
    pub events: Vec<EventInfo>,
}

/// One fiber.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct FiberInfo {
    /// Its number.
    pub id: u64,
    /// Name of its plugin.
    pub name: Arc<str>,
    /// Place in the tree.
    pub place: Arc<[u32]>,
    /// Its state.
    pub state: FiberState,
    /// What it waits for, if it is pending.
    pub waits_for: Vec<Waiting>,
    /// Why it failed, if it did.
    pub error: Option<BusError>,
    /// What it registered.
    pub effects: Vec<EffectInfo>,
}

/// One provided service.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct ServiceInfo {
    /// Its name.
    pub name: &'static str,
    /// Plugin that provides it.
    pub provider: Arc<str>,
    /// Realm it is provided in; 0 unless isolated.
    pub realm: u64,
}

/// One event with listeners.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct EventInfo {
    /// Its name.
    pub name: &'static str,
    /// Its listeners in order of dispatch, those in scopes at the end.
    pub listeners: Vec<ListenerInfo>,
}

/// One listener.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerInfo {
    /// Plugin that registered it.
    pub plugin: Arc<str>,
    /// Whether it hears one scope only.
    pub scoped: bool,
}

/// A need that keeps a fiber pending.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The service.
    pub service: &'static str,
    /// Why it is not there.
    pub reason: WaitReason,
}

/// Why a service that is needed is not there.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// Nobody provides it.
    NotProvided,
    /// It is being replaced: calls of the old provider have not ended.
    Draining,
    /// The plugin that provides it is not active.
    ProviderNotActive {
        /// The plugin.
        plugin: Arc<str>,
        /// Its state.
        state: FiberState,
    },
    /// The provider refuses it to this plugin.
    Refused {
        /// The provider.
        plugin: Arc<str>,
    },
    /// Plugins wait for one another in a circle: each needs a service that the next would provide once it runs.
    Cycle {
        /// The plugins, the first repeated at the end.
        plugins: Vec<String>,
    },
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let service = self.service;
        match &self.reason {
            WaitReason::NotProvided => {
                write!(f, "service `{service}` is provided by no plugin; mount one that provides it")
            }
            WaitReason::Draining => {
                write!(f, "service `{service}` is being replaced; calls of the old provider have not ended")
            }
            WaitReason::ProviderNotActive { plugin, state } => {
                write!(f, "service `{service}` is provided by plugin `{plugin}`, which is {state}")
            }
            WaitReason::Refused { plugin } => {
                write!(f, "service `{service}` is refused by its provider, plugin `{plugin}`")
            }
            WaitReason::Cycle { plugins } => write!(
                f,
                "service `{service}` comes from a dependency cycle: {}; make one of these needs a `Lookup`",
                plugins.join(" -> ")
            ),
        }
    }
}

/// Which plugins say that they would provide a service: what a cycle is found by.
pub(crate) fn waits_for(fiber: &Arc<FiberInner>) -> Vec<Waiting> {
    let Some(instance) = &fiber.instance else { return Vec::new() };
    let registry = &fiber.bus.registry;
    let mut waiting = Vec::new();
    for need in instance.needs().iter().filter(|it| it.required) {
        let reason = match registry.find(fiber, &fiber.view, need.slot) {
            Ok(_) => continue,
            Err(Absence::NotProvided) => match cycle(fiber, need.slot) {
                Some(plugins) => WaitReason::Cycle { plugins },
                None => WaitReason::NotProvided,
            },
            Err(Absence::Draining) => WaitReason::Draining,
            Err(Absence::ProviderNotActive(plugin, state)) => WaitReason::ProviderNotActive { plugin, state },
            Err(Absence::Refused(plugin)) => WaitReason::Refused { plugin },
        };
        waiting.push(Waiting { service: need.service.name, reason });
    }
    waiting
}

/// Follows declared provisions from `fiber` through pending plugins back to itself.
fn cycle(fiber: &Arc<FiberInner>, slot: u32) -> Option<Vec<String>> {
    let pending: Vec<_> = fiber.bus.fibers().into_iter().filter(|it| it.state() == FiberState::Pending).collect();
    let mut path = vec![fiber.clone()];
    find_back(fiber, slot, &pending, &mut path, &mut Vec::new()).then(|| {
        path.push(fiber.clone());
        path.iter().map(|it| it.identity.name.to_string()).collect()
    })
}

fn find_back(
    start: &Arc<FiberInner>,
    slot: u32,
    pending: &[Arc<FiberInner>],
    path: &mut Vec<Arc<FiberInner>>,
    asked: &mut Vec<u32>,
) -> bool {
    // Whatever begins at this service was followed already, and did not lead back.
    if asked.contains(&slot) {
        return false;
    }
    asked.push(slot);
    for candidate in pending.iter().filter(|it| it.instance.as_ref().is_some_and(|it| it.provides().contains(slot))) {
        if Arc::ptr_eq(candidate, start) {
            return true;
        }
        if path.iter().any(|it| Arc::ptr_eq(it, candidate)) {
            continue;
        }
        path.push(candidate.clone());
        let needs = candidate.instance.iter().flat_map(|it| it.needs().iter());
        if needs.filter(|it| it.required).any(|it| find_back(start, it.slot, pending, path, asked)) {
            return true;
        }
        path.pop();
    }
    false
}

impl Context {
    /// A look at everything on this bus.
    pub fn inspect(&self) -> Inspection {
        let bus = self.bus();
        let mut fibers: Vec<_> = bus
            .fibers()
            .iter()
            .map(|it| FiberInfo {
                id: it.identity.id,
                name: it.identity.name.clone(),
                place: it.identity.place().as_ref().into(),
                state: it.state(),
                waits_for: if it.state() == FiberState::Pending { waits_for(it) } else { Vec::new() },
                error: it.error(),
                effects: it.activation().map(|it| it.effects()).unwrap_or_default(),
            })
            .collect();
        fibers.sort_by(|a, b| (&a.place, a.id).cmp(&(&b.place, b.id)));
        let services = bus.registry.all();
        let services = services
            .iter()
            .map(|it| ServiceInfo {
                name: it.descriptor.name,
                provider: it.owner.identity.name.clone(),
                realm: it.realm,
            })
            .collect();
        let mut events: Vec<_> = bus
            .cells()
            .map(|cell| EventInfo {
                name: cell.kind.name,
                listeners: cell.heads().into_iter().map(|(plugin, scoped)| ListenerInfo { plugin, scoped }).collect(),
            })
            .filter(|it| !it.listeners.is_empty())
            .collect();
        events.sort_by_key(|it| it.name);
        Inspection { fibers, services, events }
    }
}
