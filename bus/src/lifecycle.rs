//! How a fiber gets from where it is to where it should be.
//!
//! What a fiber should be is recorded at once; a task of its own brings it there, one whole transition after another. A
//! start is never cancelled half way: what changed meanwhile is looked at when it has ended.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::bus::{Bus, SelfWait, lock};
use crate::context::Context;
use crate::dispatch::{self, Emitter};
use crate::effect::{Door, Leaf, Undoing};
use crate::fault::{BusError, DisposeError, DisposeProblem, Fault};
use crate::fiber::{Activation, Epoch, Fiber, FiberInner, FiberState, Late};
use crate::frames::{Gate, TASK};
use crate::internal::{InternalPlugin, InternalStatus};
use crate::pool;
use crate::seams::BoxFuture;

enum Step {
    Load(Epoch),
    Unload(Arc<Activation>),
    Vanish,
    Rest,
}

/// The task that drives a fiber. When its executor drops it, nobody waits for the fiber in vain.
struct Driver {
    fiber: Arc<FiberInner>,
    done: bool,
}

impl Driver {
    async fn drive(mut self) {
        self.fiber.drive().await;
        self.done = true;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let fiber = &self.fiber;
        {
            let mut life = lock(&fiber.life);
            life.driving = false;
            life.abandoned = true;
            life.rest.problems = vec![DisposeProblem::ExecutorEnded { plugin: fiber.identity.name.clone() }];
        }
        fiber.bus.rows.wake_fiber(fiber.identity.id);
    }
}

impl FiberInner {
    /// Sees to it that somebody looks at where the fiber should be.
    pub(crate) fn kick(self: &Arc<Self>) {
        {
            let mut life = lock(&self.life);
            if life.driving {
                life.again = true;
                return;
            }
            if life.state == FiberState::Disposed {
                return;
            }
            life.driving = true;
        }
        let driver = Driver { fiber: self.clone(), done: false };
        self.bus.seams.executor.spawn(Box::pin(driver.drive()));
    }

    pub(crate) fn request_restart(self: &Arc<Self>) -> Result<(), BusError> {
        {
            let mut life = lock(&self.life);
            if life.disposed {
                return Err(BusError::Disposed { plugin: self.identity.name.clone() });
            }
            life.generation += 1;
            life.rest.failed = None;
            life.rest.error = None;
        }
        self.kick();
        Ok(())
    }

    /// Asks the fiber to go. `causes` are the fibers whose disposal makes it.
    pub(crate) fn request_dispose(self: &Arc<Self>, causes: &[u64], grace: Option<Duration>) {
        let (first, tell) = {
            let mut life = lock(&self.life);
            let more = life.add_causes(causes);
            life.rest.grace = life.rest.grace.max(grace);
            let first = !life.disposed;
            if self.parent.is_some() {
                life.disposed = true;
            } else {
                life.generation += 1;
            }
            if !first && !more && self.parent.is_some() {
                return;
            }
            (first, more && life.driving)
        };
        if first && self.parent.is_some() {
            dispatch::emit(self.emitter(), &InternalPlugin { fiber: Fiber::new(self.clone()) });
        }
        self.kick();
        if tell {
            self.tell_causes(causes);
        }
    }

    /// Adds to the fibers whose disposal this one's unloading is part of; also while it unloads already.
    pub(crate) fn add_causes(&self, causes: &[u64]) {
        let tell = {
            let mut life = lock(&self.life);
            life.add_causes(causes) && life.driving
        };
        if tell {
            self.tell_causes(causes);
        }
    }

    /// There are more causes while the fiber starts or unloads: calls may wait for it that its unloading waits for, and
    /// its start may wait for what it holds up itself.
    fn tell_causes(&self, causes: &[u64]) {
        self.bus.rows.wake();
        for cause in causes {
            self.bus.rows.wake_fiber(*cause);
        }
    }

    /// The fibers whose disposal makes this one unload, itself among them.
    pub(crate) fn unload_causes(&self) -> Vec<u64> {
        let mut causes = lock(&self.life).rest.causes.clone();
        causes.push(self.identity.id);
        causes
    }

    /// A listener of a run panicked once too often.
    #[cold]
    pub(crate) fn disable(self: &Arc<Self>, run: &Activation, event: &'static str) {
        if self.instance.is_none() {
            return;
        }
        let error = BusError::Disabled { plugin: self.identity.name.clone(), panics: crate::MAX_PANICS, event };
        {
            let mut life = lock(&self.life);
            // Late calls of a run that is over say nothing about the one that replaced it.
            if !life.activation.as_ref().is_some_and(|it| ptr::eq(&**it, run)) {
                return;
            }
            life.rest.failed = life.loaded.take();
            life.rest.error = Some(error.clone());
        }
        tracing::error!(plugin = &*self.identity.name, code = error.code(), "{error}");
        self.kick();
    }

    pub(crate) fn emitter(&self) -> Emitter<'_> {
        Emitter { bus: &self.bus, plugin: &self.identity.name }
    }

    fn set_state(self: &Arc<Self>, state: FiberState) {
        let previous = std::mem::replace(&mut lock(&self.life).state, state);
        if previous == state {
            return;
        }
        // The root is always active; it has no transitions to tell.
        if self.parent.is_some() {
            dispatch::emit(self.emitter(), &InternalStatus { fiber: Fiber::new(self.clone()), previous, state });
        }
        if (previous == FiberState::Active) != (state == FiberState::Active) {
            self.bus.registry.provider_changed(self);
        }
        self.bus.rows.wake_fiber(self.identity.id);
    }

    /// What the fiber should run with; none when it should not run.
    fn wanted(self: &Arc<Self>) -> Option<Epoch> {
        let generation = {
            let life = lock(&self.life);
            if life.disposed {
                return None;
            }
            life.generation
        };
        let providers = match &self.instance {
            Some(instance) => self.bus.registry.providers(self, instance.needs())?.into(),
            None => Box::default(),
        };
        Some(Epoch { generation, providers })
    }

    async fn drive(self: &Arc<Self>) {
        lock(&self.life).abandoned = false;
        loop {
            lock(&self.life).again = false;
            let wanted = self.wanted();
            let step = {
                let mut life = lock(&self.life);
                match (life.activation.clone(), wanted) {
                    (Some(activation), wanted) if life.disposed || life.loaded != wanted => Step::Unload(activation),
                    (Some(_), _) => Step::Rest,
                    (None, _) if life.disposed => Step::Vanish,
                    (None, Some(epoch)) if life.rest.failed.as_ref() != Some(&epoch) => Step::Load(epoch),
                    (None, Some(_)) => Step::Rest,
                    (None, None) => {
                        // What failed may be tried again once what it needs was gone and is back.
                        life.rest.failed = None;
                        Step::Rest
                    }
                }
            };
            match step {
                Step::Load(epoch) => self.load(epoch).await,
                Step::Unload(activation) => self.unload(activation).await,
                Step::Vanish => {
                    self.set_state(FiberState::Disposed);
                    self.leave_owner();
                    self.bus.registry.forget_dependant(self);
                    self.bus.delist(self);
                    lock(&self.life).driving = false;
                    self.bus.rows.wake_fiber(self.identity.id);
                    return;
                }
                Step::Rest => {
                    let resting = {
                        let life = lock(&self.life);
                        match (&life.activation, &life.rest.error) {
                            (Some(_), _) => FiberState::Active,
                            (None, Some(_)) => FiberState::Failed,
                            (None, None) => FiberState::Pending,
                        }
                    };
                    self.set_state(resting);
                    let mut life = lock(&self.life);
                    if !life.again {
                        life.driving = false;
                        drop(life);
                        self.bus.rows.wake_fiber(self.identity.id);
                        return;
                    }
                }
            }
        }
    }

    async fn load(self: &Arc<Self>, epoch: Epoch) {
        let Some(instance) = &self.instance else {
            let activation = Activation::new(self);
            let mut life = lock(&self.life);
            life.activation = Some(activation);
            life.loaded = Some(epoch);
            return;
        };
        let Some(resolved) = self.bus.registry.capture(self, instance.needs(), &epoch.providers) else { return };
        let resolved = Arc::new(resolved);
        let activation = Activation::new(self);
        {
            let mut life = lock(&self.life);
            life.activation = Some(activation.clone());
            life.captured = Some(resolved.clone());
            life.loaded = Some(epoch.clone());
            if !life.disposed {
                life.rest.causes.clear();
            }
        }
        if self.bus.registry.providers(self, instance.needs()).as_deref() != Some(&*epoch.providers) {
            // A provider that went in this very moment may not have met this run among its users.
            self.forget_run(None);
            self.bus.rows.wake_fiber(self.identity.id);
            return;
        }
        self.set_state(FiberState::Loading);
        let context = Context::new(self.clone(), activation.clone(), self.view.clone());
        let outcome = match pool::guarded(|| instance.validate()) {
            Ok(Ok(())) => {
                let start = Starting {
                    fiber: self,
                    activation: &activation,
                    future: Some(instance.start(&context, &resolved)),
                };
                start.await.map_err(|cause| BusError::StartFailed { plugin: self.identity.name.clone(), cause })
            }
            Ok(Err(issues)) => Err(BusError::ConfigInvalid { plugin: self.identity.name.clone(), issues }),
            Err(panic) => {
                Err(BusError::ConfigInvalid { plugin: self.identity.name.clone(), issues: Fault::panicked(panic) })
            }
        };
        match outcome {
            Ok(()) => {
                let wanted = self.wanted();
                let mut life = lock(&self.life);
                // A run that was disabled while it started has failed with that.
                if life.loaded.is_some() {
                    life.rest.error = None;
                }
                let is_wanted = wanted.as_ref() == Some(&epoch) && life.loaded == wanted;
                drop(life);
                if is_wanted {
                    self.set_state(FiberState::Active);
                }
            }
            Err(error) => {
                tracing::error!(plugin = &*self.identity.name, code = error.code(), "{error}");
                let mut life = lock(&self.life);
                life.rest.error = Some(error);
                life.rest.failed = Some(epoch);
                life.loaded = None;
            }
        }
    }

    async fn unload(self: &Arc<Self>, activation: Arc<Activation>) {
        // Calls in flight on a version that was switched out go on as if it had not been: they may sleep, and start tasks.
        activation.close(if self.is_replaced() { Door::Tasks } else { Door::Shut });
        if self.parent.is_some() {
            self.set_state(FiberState::Unloading);
        }
        let usual = if self.is_replaced() { self.bus.grace.reload } else { self.bus.grace.dispose };
        let grace = lock(&self.life).rest.grace.unwrap_or(usual);
        let undoing = Undoing { fiber: Some(self), ..Undoing::new(&self.bus, &self.identity.name, grace) };

        // A dispatch that began before another version was switched in ends on this one, whole.
        if !self.is_visible() {
            let rows = &self.bus.rows;
            undoing.in_grace(rows.wait_until(|| !rows.is_walked(&activation.gate))).await;
        }

        // Whoever uses this one's services goes first, while it is whole.
        let mut services = Vec::new();
        activation.visit(|leaf| {
            if let Leaf::Service(service) = leaf {
                services.push(service.clone());
            }
        });
        for service in services.iter().rev() {
            service.withdraw(&undoing).await;
        }

        // So does one that waits, and has listeners of this version ahead of it. By now whoever needs a service has the new one.
        let patience = if self.is_replaced() { self.let_pass(&undoing, &activation).await } else { grace };

        self.close_listeners(&activation);
        activation.gate.close();
        quiet_in(&undoing, &activation.gate, patience, None).await;
        activation.close(Door::Shut);

        let mut tasks = Vec::new();
        activation.visit(|leaf| {
            if let Leaf::Task(task) = leaf {
                tasks.push(task.cancel());
            }
        });
        for done in tasks {
            if undoing.in_grace(done.wait()).await.is_none() {
                undoing.problem(DisposeProblem::Stuck {
                    plugin: self.identity.name.clone(),
                    what: done.label().to_owned(),
                });
            }
        }

        while let Some(owned) = activation.pop() {
            if !owned.is_hook() {
                owned.undo(&undoing).await;
            }
        }

        let runs = |gate: &Gate| gate.pending() > 0 || !self.bus.rows.is_off_cpu(gate);
        let mut late = std::mem::take(&mut *lock(&undoing.late));
        late.extend(services.into_iter().map(Late::Service).chain([Late::Run(activation)]));
        late.retain(|it| runs(it.gate()));
        lock(&self.life).rest.problems = std::mem::take(&mut *lock(&undoing.problems));
        self.forget_run(Some(late));
    }

    /// Waits until no dispatch that waits can come to a listener of a version that was switched out; what is left of the
    /// grace period then.
    async fn let_pass(&self, undoing: &Undoing<'_>, activation: &Activation) -> Duration {
        let mut cells = BTreeMap::new();
        activation.visit(|leaf| {
            if let Leaf::Hook(head) = leaf {
                let event = head.cell.event();
                cells.insert(Arc::as_ptr(event) as usize, event.clone());
            }
        });
        if cells.is_empty() {
            return undoing.grace;
        }
        let (bus, gate) = (&self.bus, &activation.gate);
        let is_passed = || {
            let waiting = waiting_calls(bus, &undoing.causes());
            !bus.rows.is_walked(gate) && !cells.values().any(|it| it.is_held(gate, &waiting, &bus.rows))
        };
        let began = bus.seams.clock.monotonic();
        undoing.in_grace(bus.rows.wait_until(is_passed)).await;
        undoing.grace.saturating_sub(bus.seams.clock.monotonic().saturating_sub(began))
    }

    /// Lets go of a run that is over.
    fn forget_run(&self, late: Option<Vec<Late>>) {
        let over = {
            let mut life = lock(&self.life);
            life.loaded = None;
            let last = late.map(|it| std::mem::replace(&mut life.rest.late, it));
            (life.activation.take(), life.captured.take(), last)
        };
        // A captured service may be dropped with it, which is code of its provider and must find no lock held.
        drop(over);
    }

    /// No listener of the run starts any more, on any event.
    fn close_listeners(&self, activation: &Activation) {
        let mut gone = Vec::new();
        activation.visit(|leaf| {
            if let Leaf::Hook(head) = leaf {
                if self.is_replaced() {
                    head.end();
                } else {
                    head.kill();
                }
                if let Some(hook) = head.cell.remove(head, &self.bus.rows) {
                    self.bus.count_watcher(head.cell.name(), false);
                    gone.push(hook);
                }
            }
        });
        self.bus.rows.reclaim();
    }

    pub(crate) async fn wait_settled(self: &Arc<Self>) {
        let fiber = self.clone();
        let mut waiting = SelfWaiting::new(&self.bus, self.identity.id);
        self.bus
            .rows
            .wait_for(self.identity.id, move || {
                let calls = fiber.bus.rows.own_frames();
                // A start runs to its end, so it cannot wait for what comes after it.
                let ends_first = fiber.is_awaited_by_a_start(&calls)
                    && matches!(fiber.state(), FiberState::Loading | FiberState::Unloading);
                // What waits for a restart from inside of it does not hold it up.
                waiting.set(calls);
                ends_first || !lock(&fiber.life).driving
            })
            .await;
    }

    fn is_down(&self, generation: u64) -> bool {
        let life = lock(&self.life);
        if life.abandoned {
            return true;
        }
        if self.parent.is_some() {
            life.state == FiberState::Disposed && !life.driving
        } else {
            life.loaded.as_ref().is_some_and(|it| it.generation >= generation)
        }
    }

    pub(crate) async fn wait_disposed(self: &Arc<Self>) {
        let generation = lock(&self.life).generation;
        let fiber = self.clone();
        self.bus.rows.wait_for(self.identity.id, move || fiber.is_down(generation)).await;
    }

    pub(crate) async fn dispose(self: &Arc<Self>) -> Result<(), DisposeError> {
        self.request_dispose(&[], None);
        let generation = lock(&self.life).generation;
        let fiber = self.clone();
        let mut waiting = SelfWaiting::new(&self.bus, self.identity.id);
        let mut starts = false;
        self.bus
            .rows
            .wait_for(self.identity.id, || {
                let calls = fiber.bus.rows.own_frames();
                starts = fiber.is_awaited_by_a_start(&calls);
                waiting.set(calls);
                starts || fiber.is_down(generation)
            })
            .await;
        if starts {
            // A start runs to its end, so it cannot wait for what comes after it.
            return Ok(());
        }
        let (late, mut problems) = {
            let life = lock(&self.life);
            (life.rest.late.clone(), life.rest.problems.clone())
        };
        // The call that disposed its own fiber may run on; everybody else waits for it.
        if problems.is_empty() {
            let undoing = Undoing::new(&self.bus, &self.identity.name, self.bus.grace.dispose);
            let calls = self.bus.rows.own_frames();
            let is_ours = |gate: &Gate| calls.iter().any(|(it, _)| *it == ptr::from_ref(gate) as usize);
            for late in late.iter().filter(|it| !is_ours(it.gate())) {
                quiet(&undoing, late.gate()).await;
            }
            problems.append(&mut lock(&undoing.problems));
        }
        if problems.is_empty() { Ok(()) } else { Err(DisposeError { plugin: self.identity.name.clone(), problems }) }
    }

    fn is_awaited_by_a_start(&self, calls: &[(usize, usize)]) -> bool {
        is_awaited_by_a_start(&self.bus, calls, self.identity.id)
    }
}

/// Waits until no code behind a closed gate runs or waits: for the grace period as it is, then with its futures cancelled.
pub(crate) async fn quiet(undoing: &Undoing<'_>, gate: &Gate) {
    quiet_in(undoing, gate, undoing.grace, None).await;
}

/// [`quiet`] with another time for the futures to end by themselves. Calls that wait for `cause` are not waited for, beside
/// those that wait for the causes of the teardown; whether it became quiet.
pub(crate) async fn quiet_in(undoing: &Undoing<'_>, gate: &Gate, patience: Duration, cause: Option<u64>) -> bool {
    let bus = undoing.bus;
    let address = ptr::from_ref(gate) as usize;
    let is_quiet = || {
        let causes: Vec<_> = undoing.causes().into_iter().chain(cause).collect();
        bus.rows.is_off_cpu(gate) && gate.pending() <= calls_that_wait(bus, address, &causes)
    };
    if undoing.within(patience, bus.rows.wait_until(is_quiet)).await.is_some() {
        return true;
    }
    gate.cancel();
    bus.wake_parked();
    if undoing.in_grace(bus.rows.wait_until(is_quiet)).await.is_some() {
        return true;
    }
    let running = bus.rows.running(gate).into_iter().map(|slot| bus.slot_name(slot));
    let mut stuck: Vec<_> = running.chain(bus.parked_behind(gate)).collect();
    stuck.dedup();
    if stuck.is_empty() {
        stuck.push("a call that nobody polls");
    }
    for what in stuck {
        let what = format!("listener or call on `{what}`");
        undoing.problem(DisposeProblem::Stuck { plugin: undoing.plugin.clone(), what });
    }
    false
}

/// How many calls behind the gate wait for a disposal that this one is part of.
fn calls_that_wait(bus: &Bus, gate: usize, causes: &[u64]) -> usize {
    let waits = lock(&bus.self_waits);
    let ours = waits.iter().filter(|it| causes.contains(&it.target));
    ours.flat_map(|it| &it.calls).filter(|(it, _)| *it == gate).map(|(_, count)| count).sum()
}

/// Gates of the calls that wait for a disposal that this one is part of.
fn waiting_calls(bus: &Bus, causes: &[u64]) -> Vec<usize> {
    let waits = lock(&bus.self_waits);
    let ours = waits.iter().filter(|it| causes.contains(&it.target));
    ours.flat_map(|it| &it.calls).filter(|(_, count)| *count > 0).map(|(gate, _)| *gate).collect()
}

/// Whether the running thread is inside the start of a fiber that has to unload before `cause` is done with, or of one below
/// the fiber of that number: a start runs to its end, so it cannot wait for what comes after it.
pub(crate) fn is_awaited_by_a_start(bus: &Bus, calls: &[(usize, usize)], cause: u64) -> bool {
    let starting: Vec<_> = {
        let starting = lock(&bus.starting);
        let ours = starting.iter().filter(|(gate, _)| calls.iter().any(|(it, _)| it == gate));
        ours.filter_map(|(_, fiber)| fiber.upgrade()).collect()
    };
    starting.iter().any(|it| it.is_within(cause) || lock(&it.life).rest.causes.contains(&cause))
}

/// Keeps the calls around a waiting disposal known to those who would wait for them.
pub(crate) struct SelfWaiting {
    bus: Arc<Bus>,
    target: u64,
    place: Option<usize>,
}

impl SelfWaiting {
    /// Somebody is going to wait for what `target` causes.
    pub(crate) fn new(bus: &Arc<Bus>, target: u64) -> Self {
        Self { bus: bus.clone(), target, place: None }
    }

    pub(crate) fn set(&mut self, calls: Vec<(usize, usize)>) {
        let mut waits = lock(&self.bus.self_waits);
        let changed = match self.place {
            None if calls.is_empty() => false,
            None => {
                self.place = Some(waits.add(SelfWait { target: self.target, calls }));
                true
            }
            Some(place) => {
                let before = waits.get(place).is_some_and(|it| it.calls == calls);
                waits.replace(place, SelfWait { target: self.target, calls });
                !before
            }
        };
        drop(waits);
        if changed {
            self.bus.rows.wake();
        }
    }
}

impl Drop for SelfWaiting {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            drop(lock(&self.bus.self_waits).take(place));
            self.bus.rows.wake();
        }
    }
}

/// The start of a plugin, polled in frames of its run.
struct Starting<'a> {
    fiber: &'a Arc<FiberInner>,
    activation: &'a Arc<Activation>,
    future: Option<BoxFuture<'a, Result<(), Fault>>>,
}

impl Future for Starting<'_> {
    type Output = Result<(), Fault>;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Fault>> {
        let this = &mut *self;
        let Some(future) = &mut this.future else { return std::task::Poll::Pending };
        let bus = &this.fiber.bus;
        let gate = &this.activation.gate;
        let address = ptr::from_ref(gate) as usize;
        lock(&bus.starting).push((address, Arc::downgrade(this.fiber)));
        let row = bus.rows.row();
        let depth = row.enter_closed(gate, TASK);
        let mut polled = pool::guarded(|| future.as_mut().poll(cx));
        if !matches!(polled, Ok(std::task::Poll::Pending)) {
            // What the start held is dropped here, where a panic of it is a panic of the start.
            let dropped = pool::guarded(|| this.future = None);
            polled = polled.and_then(|outcome| dropped.map(|()| outcome));
        }
        row.leave(&bus.rows, depth);
        lock(&bus.starting).retain(|(gate, _)| *gate != address);
        match polled {
            Ok(polled) => polled,
            Err(text) => std::task::Poll::Ready(Err(Fault::panicked(text))),
        }
    }
}
