//! Fibers: one mounted instance of a plugin each, with its state, its effects and its place in the tree.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::bus::{Bus, PanicCount, lock};
use crate::context::{Context, View};
use crate::effect::{Door, EffectInfo, EffectList, Leaf, NOWHERE, Owned, Undoing};
use crate::fault::{BusError, DisposeError, DisposeProblem};
use crate::frames::Gate;
use crate::inject::{NeedList, Resolved};
use crate::latch::Latch;
use crate::plugin::Instance;
use crate::scope::ScopeKey;
use crate::seams::BoxFuture;
use crate::service::ProvidedInner;

/// Where a fiber is in its life.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FiberState {
    /// Waits for a service it needs; [`Fiber::waits_for`] names it.
    Pending,
    /// Its start runs.
    Loading,
    /// It started and runs.
    Active,
    /// Its config is invalid, its start failed, or it was disabled; [`Fiber::error`] says why. Everything is undone.
    Failed,
    /// It is gone for good.
    Disposed,
    /// What it registered is being undone.
    Unloading,
}

impl FiberState {
    /// The name in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Loading => "loading",
            Self::Active => "active",
            Self::Failed => "failed",
            Self::Disposed => "disposed",
            Self::Unloading => "unloading",
        }
    }
}

impl std::fmt::Display for FiberState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What all runs of a fiber have in common, and what outlives it in those that are kept.
pub(crate) struct Identity {
    /// Number of the fiber.
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    place: Mutex<Arc<[u32]>>,
    pub(crate) visible: AtomicBool,
    /// Another version was switched in for it, or for what it is mounted below.
    pub(crate) replaced: AtomicBool,
}

impl Identity {
    /// Its place in the tree.
    pub(crate) fn place(&self) -> Arc<[u32]> {
        lock(&self.place).clone()
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Call it with all cells locked that have listeners of the fiber, and have those put in order.
    pub(crate) fn set_place(&self, place: Arc<[u32]>) {
        *lock(&self.place) = place;
    }
}

/// One run of a fiber, from its start to the end of its unloading. What is registered belongs to it, so a context kept
/// from an earlier run can register nothing in a later one.
#[doc(hidden)]
pub struct Activation {
    pub(crate) identity: Arc<Identity>,
    /// Listeners, tasks and the start go through it.
    pub(crate) gate: Gate,
    pub(crate) panics: PanicCount,
    pub(crate) fiber: Weak<FiberInner>,
    hooks: AtomicU32,
    mounts: AtomicU32,
    effects: Mutex<EffectList>,
    ended: Latch,
}

pub(crate) type FiberCore = Activation;

impl Activation {
    pub(crate) fn new(fiber: &Arc<FiberInner>) -> Arc<Self> {
        Arc::new(Self {
            identity: fiber.identity.clone(),
            gate: Gate::new(),
            panics: PanicCount::default(),
            fiber: Arc::downgrade(fiber),
            hooks: AtomicU32::new(0),
            mounts: AtomicU32::new(0),
            effects: Mutex::default(),
            ended: Latch::default(),
        })
    }

    #[inline]
    pub(crate) fn is_visible(&self) -> bool {
        self.identity.visible.load(Ordering::Acquire)
    }

    pub(crate) fn next_hook(&self) -> u32 {
        self.hooks.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_mount(&self) -> u32 {
        self.mounts.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes ownership of an effect, where the door is at most as far closed as `through`.
    pub(crate) fn adopt(
        &self,
        owned: Arc<dyn Owned>,
        through: Door,
        what: impl FnOnce() -> String,
    ) -> Result<(), BusError> {
        let mut effects = lock(&self.effects);
        if effects.door > through {
            drop(effects);
            return Err(self.inactive(what()));
        }
        effects.push(owned);
        Ok(())
    }

    pub(crate) fn check_open(&self, what: impl FnOnce() -> String) -> Result<(), BusError> {
        if self.is_open() { Ok(()) } else { Err(self.inactive(what())) }
    }

    fn inactive(&self, what: String) -> BusError {
        BusError::Inactive { plugin: self.identity.name.clone(), state: self.state(), what }
    }

    /// State of the fiber, for a run that is going down or over.
    pub(crate) fn state(&self) -> FiberState {
        match self.fiber.upgrade().map_or(FiberState::Disposed, |it| it.state()) {
            // A run that is over while its fiber runs again is over all the same.
            FiberState::Active | FiberState::Loading => FiberState::Unloading,
            state => state,
        }
    }

    /// Whether this is the run its fiber has now, and not an earlier one.
    pub(crate) fn is_current(&self) -> bool {
        let current = self.fiber.upgrade().and_then(|it| it.activation());
        current.is_some_and(|it| std::ptr::eq(&*it, self))
    }

    /// Takes an effect out of the list without undoing it.
    pub(crate) fn release(&self, place: &AtomicU32) -> Option<Arc<dyn Owned>> {
        lock(&self.effects).release(place)
    }

    /// Refuses what does not come through a door this far closed, from now on.
    pub(crate) fn close(&self, door: Door) {
        lock(&self.effects).door = door;
        if door == Door::Shut {
            self.ended.set();
        }
    }

    /// Whether it is neither over nor about to be.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.effects).door == Door::Open
    }

    /// Set when the run is over.
    pub(crate) fn ended(&self) -> &Latch {
        &self.ended
    }

    pub(crate) fn pop(&self) -> Option<Arc<dyn Owned>> {
        lock(&self.effects).pop()
    }

    pub(crate) fn owned(&self) -> Vec<Arc<dyn Owned>> {
        lock(&self.effects).iter().cloned().collect()
    }

    /// All listeners, tasks and services, those in composite effects too, in order of registration.
    pub(crate) fn visit(&self, mut visitor: impl FnMut(Leaf<'_>)) {
        for owned in self.owned() {
            owned.visit(&mut visitor);
        }
    }

    pub(crate) fn effects(&self) -> Vec<EffectInfo> {
        self.owned().iter().map(|it| EffectInfo::of(&**it)).collect()
    }
}

#[doc(hidden)]
pub(crate) struct FiberInner {
    pub(crate) identity: Arc<Identity>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) parent: Option<Arc<FiberInner>>,
    /// Run of the parent that mounted it.
    owner: Option<Arc<Activation>>,
    owned: AtomicU32,
    /// Place among the fibers of the bus.
    pub(crate) listed: AtomicU32,
    /// What contexts of this fiber are derived from.
    pub(crate) view: View,
    pub(crate) instance: Option<Box<dyn Instance>>,
    pub(crate) life: Mutex<Life>,
}

/// What changes about a fiber.
pub(crate) struct Life {
    pub(crate) state: FiberState,
    pub(crate) activation: Option<Arc<Activation>>,
    /// Services captured by this run.
    pub(crate) captured: Option<Arc<Resolved>>,
    /// Raised by restart and update, so that a run that began before is replaced.
    pub(crate) generation: u64,
    /// What the run was started with.
    pub(crate) loaded: Option<Epoch>,
    pub(crate) disposed: bool,
    /// A task drives the fiber to where it should be.
    pub(crate) driving: bool,
    /// Something changed while it was driven.
    pub(crate) again: bool,
    /// The executor dropped that task: nothing will happen any more.
    pub(crate) abandoned: bool,
    pub(crate) rest: Seldom,
}

/// What most fibers never have, made when it is first written: there may be a scope for every little thing that lives.
#[derive(Default)]
pub(crate) struct Seldom(Option<Box<Rest>>);

pub(crate) struct Rest {
    pub(crate) error: Option<BusError>,
    /// Scope of this fiber's own updates.
    update_key: Option<ScopeKey>,
    /// What a failed run was started with: it is not tried again with the same.
    pub(crate) failed: Option<Epoch>,
    /// Fibers whose disposal makes this one go.
    pub(crate) causes: Vec<u64>,
    pub(crate) problems: Vec<DisposeProblem>,
    pub(crate) grace: Option<std::time::Duration>,
    /// Services that a fiber without a plugin may rely on.
    pub(crate) allowed: NeedList,
    /// Calls that the last run was unloaded under, of itself and of what was mounted below it.
    pub(crate) late: Vec<Late>,
}

impl Rest {
    const fn new() -> Self {
        Self {
            error: None,
            update_key: None,
            failed: None,
            causes: Vec::new(),
            problems: Vec::new(),
            grace: None,
            allowed: NeedList::new(),
            late: Vec::new(),
        }
    }
}

static NOTHING: Rest = Rest::new();

impl std::ops::Deref for Seldom {
    type Target = Rest;
    fn deref(&self) -> &Rest {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}
impl std::ops::DerefMut for Seldom {
    fn deref_mut(&mut self) -> &mut Rest {
        self.0.get_or_insert_with(|| Box::new(Rest::new()))
    }
}

/// What code of a run that is over may be in still: the call that disposed its own fiber.
#[derive(Clone)]
pub(crate) enum Late {
    Run(Arc<Activation>),
    Service(Arc<ProvidedInner>),
}

impl Late {
    pub(crate) fn gate(&self) -> &Gate {
        match self {
            Self::Run(run) => &run.gate,
            Self::Service(service) => service.gate(),
        }
    }
}

/// What a run depends on: the generation of the fiber and the providers of its needs, in order; 0 for an absent one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) generation: u64,
    pub(crate) providers: Box<[u64]>,
}

/// Where a fiber is to be.
pub(crate) enum NewPlace {
    /// Below its parent, wherever that is by then.
    Below(Vec<u32>),
    /// Counted from the root.
    At(Arc<[u32]>),
}

impl NewPlace {
    fn below(self, parent: &[u32]) -> Arc<[u32]> {
        match self {
            Self::Below(numbers) => parent.iter().copied().chain(numbers).collect(),
            Self::At(place) => place,
        }
    }
}

pub(crate) struct NewFiber<'a> {
    pub(crate) name: Arc<str>,
    pub(crate) place: NewPlace,
    pub(crate) parent: &'a Context,
    pub(crate) view: View,
    pub(crate) instance: Option<Box<dyn Instance>>,
    /// Mounted in the wings.
    pub(crate) hidden: bool,
}

impl FiberInner {
    pub(crate) fn root(bus: Arc<Bus>) -> Arc<Self> {
        let id = bus.next_fiber_id();
        let fiber = Arc::new(Self {
            identity: Arc::new(Identity {
                id,
                name: "root".into(),
                place: Mutex::new(Arc::default()),
                visible: AtomicBool::new(true),
                replaced: AtomicBool::new(false),
            }),
            parent: None,
            owner: None,
            owned: AtomicU32::new(NOWHERE),
            listed: AtomicU32::new(NOWHERE),
            view: View::default(),
            instance: None,
            life: Mutex::new(Life::new(FiberState::Active)),
            bus,
        });
        fiber.activate_bare();
        fiber.bus.enlist(&fiber);
        fiber
    }

    /// The run of a fiber without a start, which is active from the beginning.
    fn activate_bare(self: &Arc<Self>) {
        let activation = Activation::new(self);
        let mut life = lock(&self.life);
        life.activation = Some(activation);
        life.loaded = Some(Epoch { generation: 0, providers: Box::default() });
    }

    /// A fiber owned by the run of `parent`; without an instance it is active at once.
    pub(crate) fn new(new: NewFiber<'_>, what: impl FnOnce() -> String) -> Result<Arc<Self>, BusError> {
        let bus = new.parent.bus().clone();
        let owner = new.parent.activation().clone();
        let parent = new.parent.fiber_inner().clone();
        let state = if new.instance.is_some() { FiberState::Pending } else { FiberState::Active };
        // What is mounted below something in the wings is there as well. Nothing is switched in meanwhile.
        let tree = lock(&bus.tree);
        let id = bus.next_fiber_id();
        let parent_place = &parent.identity.place();
        let visible = AtomicBool::new(!new.hidden && parent.is_visible());
        let fiber = Arc::new(Self {
            identity: Arc::new(Identity {
                id,
                name: new.name,
                place: Mutex::new(new.place.below(parent_place)),
                visible,
                replaced: AtomicBool::new(false),
            }),
            parent: Some(parent),
            owner: Some(owner.clone()),
            owned: AtomicU32::new(NOWHERE),
            listed: AtomicU32::new(NOWHERE),
            view: new.view,
            instance: new.instance,
            life: Mutex::new(Life::new(state)),
            bus: bus.clone(),
        });
        if fiber.instance.is_none() {
            fiber.activate_bare();
        }
        // Before the owner may dispose it, which takes it off the list.
        bus.enlist(&fiber);
        let adopted = owner.adopt(fiber.clone(), Door::Open, what);
        if adopted.is_err() {
            bus.delist(&fiber);
        }
        // What is refused is dropped with its config, which must find no lock held.
        drop(tree);
        adopted.map(|()| fiber)
    }

    pub(crate) fn state(&self) -> FiberState {
        lock(&self.life).state
    }

    pub(crate) fn error(&self) -> Option<BusError> {
        lock(&self.life).rest.error.clone()
    }

    pub(crate) fn is_visible(&self) -> bool {
        self.identity.visible.load(Ordering::Acquire)
    }

    /// Whether another version was switched in for it.
    pub(crate) fn is_replaced(&self) -> bool {
        self.identity.is_replaced()
    }

    pub(crate) fn update_key(&self) -> ScopeKey {
        if let Some(key) = &lock(&self.life).rest.update_key {
            return key.clone();
        }
        // Numbers are drawn with no lock held: that is code from outside.
        let key = ScopeKey::new(&self.bus);
        lock(&self.life).rest.update_key.get_or_insert(key).clone()
    }

    pub(crate) fn activation(&self) -> Option<Arc<Activation>> {
        lock(&self.life).activation.clone()
    }

    /// Whether `other` is this fiber or above it.
    pub(crate) fn is_within(&self, other: u64) -> bool {
        let mut at = Some(self);
        while let Some(fiber) = at {
            if fiber.identity.id == other {
                return true;
            }
            at = fiber.parent.as_deref();
        }
        false
    }

    pub(crate) fn allow(&self, needs: NeedList) {
        lock(&self.life).rest.allowed = needs;
    }

    /// Whether it names the service as a need.
    pub(crate) fn declares(&self, slot: u32) -> bool {
        let needs = self.instance.as_ref().map(|it| it.needs());
        needs.is_some_and(|it| it.iter().any(|it| it.slot == slot))
            || lock(&self.life).rest.allowed.iter().any(|it| it.slot == slot)
    }

    /// The provider its present run has of a service it declares.
    pub(crate) fn captured(self: &Arc<Self>, slot: u32) -> Option<Arc<ProvidedInner>> {
        {
            let life = lock(&self.life);
            life.activation.as_ref()?;
            if let Some(captured) = &life.captured {
                return captured.find(slot)?.clone();
            }
        }
        self.bus.registry.look_up(self, &self.view, slot)
    }

    /// The run of the parent that mounted it.
    pub(crate) fn owner(&self) -> Option<&Arc<Activation>> {
        self.owner.as_ref()
    }

    pub(crate) fn leave_owner(&self) {
        if let Some(owner) = &self.owner {
            drop(owner.release(&self.owned));
        }
    }
}

impl Life {
    fn new(state: FiberState) -> Self {
        Self {
            state,
            activation: None,
            captured: None,
            generation: 0,
            loaded: None,
            disposed: false,
            driving: false,
            again: false,
            abandoned: false,
            rest: Seldom::default(),
        }
    }

    /// Adds to the fibers whose disposal makes this one go; whether one of them is new.
    pub(crate) fn add_causes(&mut self, causes: &[u64]) -> bool {
        let known = self.rest.causes.len();
        for cause in causes {
            if !self.rest.causes.contains(cause) {
                self.rest.causes.push(*cause);
            }
        }
        self.rest.causes.len() > known
    }
}

impl Owned for FiberInner {
    fn place(&self) -> &AtomicU32 {
        &self.owned
    }
    fn label(&self) -> String {
        "ctx.mount()".to_owned()
    }
    fn title(&self) -> String {
        format!("the fiber of plugin `{}`", self.identity.name)
    }
    fn parts(&self) -> Vec<Arc<dyn Owned>> {
        FiberInner::activation(self).map(|it| it.owned()).unwrap_or_default()
    }
    fn children(&self) -> Vec<EffectInfo> {
        Vec::new()
    }
    fn visit(&self, _: &mut dyn FnMut(Leaf<'_>)) {}
    fn undo<'a>(self: Arc<Self>, undoing: &'a Undoing<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.request_dispose(&undoing.causes(), Some(undoing.grace));
            self.wait_disposed().await;
            let (problems, late) = {
                let mut life = lock(&self.life);
                (std::mem::take(&mut life.rest.problems), life.rest.late.clone())
            };
            lock(&undoing.problems).extend(problems);
            lock(&undoing.late).extend(late);
        })
    }
    fn activation(&self) -> Option<Arc<Activation>> {
        self.owner.clone()
    }
}

/// One mounted instance of a plugin, or a scope, or the root. A cheap handle; dropping it changes nothing.
#[derive(Clone)]
pub struct Fiber(Arc<FiberInner>);

impl Fiber {
    pub(crate) fn new(inner: Arc<FiberInner>) -> Self {
        Self(inner)
    }

    pub(crate) fn inner(&self) -> &Arc<FiberInner> {
        &self.0
    }

    /// Number of the fiber, 0 for the root; none once it is disposed.
    pub fn id(&self) -> Option<u64> {
        (!lock(&self.0.life).disposed).then_some(self.0.identity.id)
    }

    /// Name of its plugin.
    pub fn name(&self) -> &str {
        &self.0.identity.name
    }

    /// Where it is in its life.
    pub fn state(&self) -> FiberState {
        self.0.state()
    }

    /// Why it failed, or what its last run failed with.
    pub fn error(&self) -> Option<BusError> {
        self.0.error()
    }

    /// Whether what it registers is heard and found: not while it is prepared in the wings.
    pub fn is_visible(&self) -> bool {
        self.0.is_visible()
    }

    /// Place in the plugin tree: a number for each level, which decides the order of listeners.
    pub fn place(&self) -> Arc<[u32]> {
        self.0.identity.place()
    }

    /// The context of its present run; none while it does not run.
    pub fn context(&self) -> Option<Context> {
        let activation = self.0.activation()?;
        Some(Context::new(self.0.clone(), activation, self.0.view.clone()))
    }

    /// What it has registered, in order of registration.
    pub fn effects(&self) -> Vec<EffectInfo> {
        self.0.activation().map(|it| it.effects()).unwrap_or_default()
    }

    /// Waits until it is where it should be: running, or waiting for a service, or gone.
    ///
    /// A fiber that lacks a service is settled in [`Pending`](FiberState::Pending): being settled does not mean that it ran.
    /// Awaited from inside the fiber's own code it waits for a restart, but not for that code; in its start it does not wait.
    ///
    /// # Errors
    ///
    /// What it failed with.
    ///
    /// Cancel safe.
    pub async fn settled(&self) -> Result<FiberState, BusError> {
        self.0.wait_settled().await;
        let life = lock(&self.0.life);
        match (&life.rest.error, life.state) {
            (Some(error), FiberState::Failed) => Err(error.clone()),
            (_, state) => Ok(state),
        }
    }

    /// Waits until it is settled and wants it to run.
    ///
    /// # Errors
    ///
    /// As [`settled`](Self::settled); [`BusError::DependencyCycle`] and [`BusError::Waiting`] when it is pending, with what
    /// it waits for; [`BusError::Disposed`] when it is gone. Cancel safe.
    pub async fn running(&self) -> Result<(), BusError> {
        let plugin = || self.0.identity.name.clone();
        match self.settled().await? {
            FiberState::Pending => {}
            FiberState::Disposed => return Err(BusError::Disposed { plugin: plugin() }),
            _ => return Ok(()),
        }
        let waits = self.waits_for();
        for wait in &waits {
            if let crate::inspect::WaitReason::Cycle { plugins } = &wait.reason {
                return Err(BusError::DependencyCycle { cycle: plugins.clone() });
            }
        }
        Err(BusError::Waiting { plugin: plugin(), waits_for: waits })
    }

    /// Unloads it and starts it again with the config it has; a run that is just starting is replaced too.
    ///
    /// # Errors
    ///
    /// What the new run failed with; [`BusError::Disposed`] when it is gone.
    ///
    /// Cancel safe: the restart goes on without the waiter.
    pub async fn restart(&self) -> Result<FiberState, BusError> {
        self.0.request_restart()?;
        self.settled().await
    }

    /// Disposes it and waits until it is quiet: no code of it runs, its tasks are gone, its effects are undone.
    ///
    /// Calls in flight are given the grace period of the root to end by themselves, then their futures are dropped. Awaited
    /// from inside the fiber's own code it does not wait for that code. A start is let run to its end first, however long
    /// that takes. A synchronous listener that blocks its thread on the disposal of its own fiber waits for itself for ever.
    ///
    /// The root is not disposed but emptied: it runs on, and [`context`](Self::context) is its new context.
    ///
    /// # Errors
    ///
    /// [`DisposeError`] names what would not end, or failed to be undone. Everything else is torn down all the same.
    ///
    /// Cancel safe: the disposal goes on without the waiter.
    pub async fn dispose(&self) -> Result<(), DisposeError> {
        self.0.dispose().await
    }

    /// What a pending fiber waits for: its needs that no running plugin provides, with the reason.
    pub fn waits_for(&self) -> Vec<crate::inspect::Waiting> {
        crate::inspect::waits_for(&self.0)
    }
}

impl PartialEq for Fiber {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Fiber {}

impl std::fmt::Debug for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fiber({} #{}, {})", self.0.identity.name, self.0.identity.id, self.state())
    }
}
