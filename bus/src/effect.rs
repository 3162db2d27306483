//! Effects: what was registered and can be undone, each owned by one fiber.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context as TaskContext, Poll, Waker};

use crate::bus::{Bus, lock};
use crate::context::Context;
use crate::fault::{BusError, DisposeProblem, Fault};
use crate::fiber::{Activation, Fiber, FiberInner, Late};
use crate::hook::{HookControl, HookHead};
use crate::latch::Latch;
use crate::pool;
use crate::seams::BoxFuture;
use crate::service::Provided;
use crate::task::{Task, TaskState};

/// Place in a fiber's list of effects: nowhere yet, or not any more.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Something a fiber owns.
#[doc(hidden)]
pub trait Owned: Send + Sync {
    fn place(&self) -> &AtomicU32;
    fn label(&self) -> String;
    fn children(&self) -> Vec<EffectInfo> {
        Vec::new()
    }
    /// What it is and whose, for a message.
    fn title(&self) -> String {
        self.label()
    }
    /// What is undone with it, one level down.
    fn parts(&self) -> Vec<Arc<dyn Owned>> {
        Vec::new()
    }
    fn is_hook(&self) -> bool {
        false
    }
    /// The listeners, tasks and services in it.
    fn visit(&self, visitor: &mut dyn FnMut(Leaf<'_>));
    /// Undoes it, at most once; who comes later waits for the same end.
    fn undo<'a>(self: Arc<Self>, undoing: &'a Undoing<'a>) -> BoxFuture<'a, ()>;
    fn activation(&self) -> Option<Arc<Activation>>;
}

#[doc(hidden)]
#[non_exhaustive]
pub enum Leaf<'a> {
    Hook(&'a HookHead),
    Task(&'a TaskState),
    Service(&'a Arc<crate::service::ProvidedInner>),
}

/// One teardown: on whose behalf, how patient, and what would not end.
#[doc(hidden)]
pub struct Undoing<'a> {
    pub(crate) bus: &'a Arc<Bus>,
    pub(crate) plugin: &'a Arc<str>,
    pub(crate) grace: std::time::Duration,
    /// The fiber that unloads, if one does.
    pub(crate) fiber: Option<&'a FiberInner>,
    pub(crate) problems: Mutex<Vec<DisposeProblem>>,
    /// Calls of what is below the fiber that go on.
    pub(crate) late: Mutex<Vec<Late>>,
}

impl<'a> Undoing<'a> {
    /// A teardown that is part of no fiber's.
    pub(crate) fn new(bus: &'a Arc<Bus>, plugin: &'a Arc<str>, grace: std::time::Duration) -> Self {
        Self { bus, plugin, grace, fiber: None, problems: Mutex::default(), late: Mutex::default() }
    }

    /// Fibers whose disposal this is part of; there may be more of them later.
    pub(crate) fn causes(&self) -> Vec<u64> {
        self.fiber.map(FiberInner::unload_causes).unwrap_or_default()
    }

    pub(crate) fn problem(&self, problem: DisposeProblem) {
        tracing::error!(plugin = &**self.plugin, "{problem}");
        lock(&self.problems).push(problem);
    }

    /// Waits for `future` as long as the grace period lasts; whether it ended.
    pub(crate) async fn in_grace<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.within(self.grace, future).await
    }

    /// [`in_grace`](Self::in_grace) with another time.
    pub(crate) async fn within<T>(&self, time: std::time::Duration, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        let mut sleep = self.bus.seams.clock.sleep(time);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
        })
        .await
    }
}

/// One effect in the list of its owner.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectInfo {
    /// What it is: `ctx.on("area/name")`, `ctx.provide("name")`, or the label it was given.
    pub label: String,
    /// The effects that a composite one owns.
    pub children: Vec<EffectInfo>,
}

impl EffectInfo {
    pub(crate) fn of(owned: &dyn Owned) -> Self {
        Self { label: owned.label(), children: owned.children() }
    }
}

impl<L: Send + Sync + 'static> Owned for crate::hook::Hook<L> {
    fn place(&self) -> &AtomicU32 {
        &self.head.owned
    }
    fn label(&self) -> String {
        format!("ctx.on(\"{}\")", self.head.cell.name())
    }
    fn is_hook(&self) -> bool {
        true
    }
    fn visit(&self, visitor: &mut dyn FnMut(Leaf<'_>)) {
        visitor(Leaf::Hook(&self.head));
    }
    fn undo<'a>(self: Arc<Self>, undoing: &'a Undoing<'a>) -> BoxFuture<'a, ()> {
        if self.head.kill() {
            undoing.bus.forget(&self.head);
        }
        Box::pin(std::future::ready(()))
    }
    fn activation(&self) -> Option<Arc<Activation>> {
        Some(self.head.core.clone())
    }
}

/// A registered listener. Dropping the handle changes nothing: the listener lives as long as its fiber.
/// Keeping it keeps nothing of the listener alive.
#[derive(Clone)]
pub struct Listener(Handle);

type Undo = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
enum Handle {
    Hook { hook: Weak<dyn HookControl>, bus: Weak<Bus>, event: &'static str },
    Custom(Arc<Mutex<Option<Undo>>>),
}

impl Listener {
    pub(crate) fn hook(hook: &Arc<dyn HookControl>, bus: &Arc<Bus>) -> Self {
        let event = hook.head().cell.name();
        Self(Handle::Hook { hook: Arc::downgrade(hook), bus: Arc::downgrade(bus), event })
    }

    /// A handle for a listener that is kept elsewhere: what an `internal/listener` listener answers to take a registration
    /// over. `undo` runs at the first [`dispose`](Self::dispose).
    pub fn elsewhere(undo: impl FnOnce() + Send + 'static) -> Self {
        Self(Handle::Custom(Arc::new(Mutex::new(Some(Box::new(undo))))))
    }

    /// Takes the listener out. Whether it was there still: `false` when it was disposed before, with its fiber, or ran once
    /// already.
    ///
    /// A dispatch that is under way does not start it any more; one that is inside it is let finish.
    pub fn dispose(&self) -> bool {
        match &self.0 {
            Handle::Hook { hook, bus, .. } => {
                let Some(hook) = hook.upgrade() else { return false };
                let was_there = hook.head().kill();
                if was_there && let Some(bus) = bus.upgrade() {
                    bus.forget(hook.head());
                }
                was_there
            }
            Handle::Custom(undo) => {
                let undo = lock(undo).take();
                undo.map(|undo| undo()).is_some()
            }
        }
    }

    pub(crate) fn owned(&self) -> Option<Arc<dyn Owned>> {
        match &self.0 {
            Handle::Hook { hook, .. } => Some(hook.upgrade()?),
            Handle::Custom(_) => None,
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Handle::Hook { event, .. } => write!(f, "Listener({event})"),
            Handle::Custom(_) => f.write_str("Listener(elsewhere)"),
        }
    }
}

enum Item {
    Now(Box<dyn FnOnce() -> Result<(), Fault> + Send>),
    Later(BoxFuture<'static, Result<(), Fault>>),
    Owned(Arc<dyn Owned>),
}

pub(crate) struct EffectState {
    place: AtomicU32,
    label: Arc<str>,
    activation: Arc<Activation>,
    inner: Mutex<EffectInner>,
    /// The body has ended or was stopped: nothing is collected any more.
    set_up: Latch,
    undone: Latch,
}

#[derive(Default)]
struct EffectInner {
    items: Vec<Item>,
    /// The one of them that is being undone.
    undoing: Option<Arc<dyn Owned>>,
    /// Disposed: the body stops at its next checkpoint.
    stopping: bool,
    /// It stopped there.
    stopped: bool,
    taken: bool,
    /// What was collected is being undone: what comes now comes late.
    over: bool,
    /// The grace period is over: the body is dropped where it waits.
    abandoned: bool,
    body: Option<Waker>,
    error: Option<BusError>,
}

impl EffectState {
    fn new(label: &str, activation: &Arc<Activation>) -> Arc<Self> {
        Arc::new(Self {
            place: AtomicU32::new(NOWHERE),
            label: label.into(),
            activation: activation.clone(),
            inner: Mutex::default(),
            set_up: Latch::default(),
            undone: Latch::default(),
        })
    }

    async fn run(self: Arc<Self>, undoing: &Undoing<'_>) {
        let first = {
            let mut inner = lock(&self.inner);
            inner.stopping = true;
            !std::mem::replace(&mut inner.taken, true)
        };
        if !first {
            self.undone.wait().await;
            return;
        }
        if undoing.in_grace(self.set_up.wait()).await.is_none() {
            undoing
                .problem(DisposeProblem::DisposerTimeout { plugin: undoing.plugin.clone(), label: self.label.clone() });
            lock(&self.inner).abandoned = true;
            let waker = lock(&self.inner).body.take();
            if let Some(waker) = waker {
                waker.wake();
            }
            // Once more, for the body to be dropped.
            if undoing.in_grace(self.set_up.wait()).await.is_none() {
                undoing.problem(DisposeProblem::Stuck { plugin: undoing.plugin.clone(), what: self.label.to_string() });
            }
        }
        lock(&self.inner).over = true;
        while let Some(item) = self.next_to_undo() {
            self.undo_item(item, undoing).await;
        }
        drop(self.activation.release(&self.place));
        self.undone.set();
    }

    fn next_to_undo(&self) -> Option<Item> {
        let mut inner = lock(&self.inner);
        let item = inner.items.pop();
        let next = match &item {
            Some(Item::Owned(owned)) => Some(owned.clone()),
            _ => None,
        };
        let done = std::mem::replace(&mut inner.undoing, next);
        drop(inner);
        drop(done);
        item
    }

    /// Adds to `met`, which begins with what the effect would own, all that is undone with it, until it comes to the effect
    /// or to a fiber `around` it; whether it does. Nothing of `met` is dropped here.
    fn is_undone_with(&self, met: &mut Vec<Arc<dyn Owned>>, around: &[Arc<FiberInner>]) -> bool {
        let address = |it: &Arc<dyn Owned>| Arc::as_ptr(it).cast::<()>();
        let around = around.iter().map(|it| Arc::as_ptr(it).cast());
        let ends: Vec<_> = std::iter::once(std::ptr::from_ref(self).cast()).chain(around).collect();
        let mut known: HashSet<_> = met.iter().map(address).collect();
        let mut at = 0;
        while let Some(owned) = met.get(at) {
            if ends.contains(&address(owned)) {
                return true;
            }
            // A part met before is in `met` already, so that none is dropped for the last time here.
            for part in owned.parts() {
                if known.insert(address(&part)) {
                    met.push(part);
                }
            }
            at += 1;
        }
        false
    }

    async fn undo_item(&self, item: Item, undoing: &Undoing<'_>) {
        let (plugin, label) = (undoing.plugin.clone(), self.label.clone());
        let outcome = match item {
            Item::Now(undo) => pool::guarded(undo).unwrap_or_else(|text| Err(Fault::panicked(text))),
            Item::Later(undo) => match undoing.in_grace(CatchPanic(undo)).await {
                Some(outcome) => outcome,
                None => return undoing.problem(DisposeProblem::DisposerTimeout { plugin, label }),
            },
            Item::Owned(owned) => return owned.undo(undoing).await,
        };
        if let Err(cause) = outcome {
            undoing.problem(DisposeProblem::Disposer { plugin, label, cause });
        }
    }

    /// Keeps `item` until the effect is undone; when it was, `item` is undone at once.
    fn collect(self: &Arc<Self>, bus: &Arc<Bus>, item: Item) {
        if let Some(late) = self.keep(item) {
            self.undo_late(bus, late);
        }
    }

    /// Gives `item` back when it comes too late to be kept.
    fn keep(&self, item: Item) -> Option<Item> {
        let mut inner = lock(&self.inner);
        if inner.over {
            return Some(item);
        }
        inner.items.push(item);
        None
    }

    fn undo_late(self: &Arc<Self>, bus: &Arc<Bus>, late: Item) {
        let (state, task_bus) = (self.clone(), bus.clone());
        run_or_spawn(bus, async move {
            let undoing = Undoing::new(&task_bus, &state.activation.identity.name, task_bus.grace.dispose);
            state.undo_item(late, &undoing).await;
        });
    }
}

impl Owned for EffectState {
    fn place(&self) -> &AtomicU32 {
        &self.place
    }
    fn label(&self) -> String {
        self.label.to_string()
    }
    fn title(&self) -> String {
        format!("effect `{}` of plugin `{}`", self.label, self.activation.identity.name)
    }
    fn parts(&self) -> Vec<Arc<dyn Owned>> {
        let inner = lock(&self.inner);
        let owned = inner.items.iter().filter_map(|it| match it {
            Item::Owned(owned) => Some(owned),
            _ => None,
        });
        owned.chain(&inner.undoing).cloned().collect()
    }
    fn children(&self) -> Vec<EffectInfo> {
        let inner = lock(&self.inner);
        let owned = inner.items.iter().filter_map(|it| match it {
            Item::Owned(owned) => Some(EffectInfo::of(&**owned)),
            _ => None,
        });
        owned.collect()
    }
    fn visit(&self, visitor: &mut dyn FnMut(Leaf<'_>)) {
        for item in &lock(&self.inner).items {
            if let Item::Owned(owned) = item {
                owned.visit(visitor);
            }
        }
    }
    fn undo<'a>(self: Arc<Self>, undoing: &'a Undoing<'a>) -> BoxFuture<'a, ()> {
        Box::pin(self.run(undoing))
    }
    fn activation(&self) -> Option<Arc<Activation>> {
        Some(self.activation.clone())
    }
}

/// A future whose panic is a fault.
pub(crate) struct CatchPanic<F>(pub(crate) F);

impl<F: Future<Output = Result<T, Fault>> + Unpin, T> Future for CatchPanic<F> {
    type Output = Result<T, Fault>;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match pool::guarded(|| std::pin::Pin::new(&mut self.0).poll(cx)) {
            Ok(polled) => polled,
            Err(text) => Poll::Ready(Err(Fault::panicked(text))),
        }
    }
}

/// What a body or a disposer may return: nothing, or a `Result`.
pub trait EffectResult: Send + 'static {
    #[doc(hidden)]
    fn into_result(self) -> Result<(), Fault>;
}
impl EffectResult for () {
    fn into_result(self) -> Result<(), Fault> {
        Ok(())
    }
}
impl<X: Into<Fault> + Send + 'static> EffectResult for Result<(), X> {
    fn into_result(self) -> Result<(), Fault> {
        self.map_err(Into::into)
    }
}

/// Collects what belongs to one composite effect. It is undone as a whole: the last first, each waited for before the next.
/// What is given to it after that is undone at once.
#[derive(Clone)]
pub struct Composite {
    state: Arc<EffectState>,
    context: Context,
}

impl std::fmt::Debug for Composite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Composite({})", self.state.label)
    }
}

impl Composite {
    /// The context the effect belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Runs `undo` when the effect is undone.
    pub fn defer<R: EffectResult>(&self, undo: impl FnOnce() -> R + Send + 'static) {
        self.collect(Item::Now(Box::new(|| undo().into_result())));
    }

    /// Awaits `undo` when the effect is undone; it is not polled before.
    pub fn defer_async<R: EffectResult>(&self, undo: impl Future<Output = R> + Send + 'static) {
        self.collect(Item::Later(Box::pin(async move { undo.await.into_result() })));
    }

    /// Takes over something the fiber owns: a listener, an effect, a fiber (so also a scope), a service, a task. It leaves
    /// the fiber's own list and is undone at this place of the composite. What another fiber owns stays in the list of that
    /// one too, and is undone by whichever comes first.
    ///
    /// What would come to own itself is refused, for it could never be undone: this effect, one that owns this effect, also
    /// through others, the fiber this effect belongs to, and every fiber around that one. It stays where it is, and a
    /// warning that names both is logged.
    pub fn own(&self, owned: impl Ownable) {
        let Some(owned) = owned.into_owned() else { return };
        let bus = self.context.bus();
        let activation = owned.activation();
        let fiber = self.state.activation.fiber.upgrade();
        let around: Vec<_> = std::iter::successors(fiber, |it| it.parent.clone()).collect();
        let mut met = vec![owned.clone()];
        let late = {
            // One at a time, so that two effects cannot come to own each other.
            let _tree = lock(&bus.tree);
            if self.state.is_undone_with(&mut met, &around) {
                None
            } else {
                if let Some(activation) = &activation
                    && Arc::ptr_eq(activation, &self.state.activation)
                {
                    drop(activation.release(owned.place()));
                }
                Some(self.state.keep(Item::Owned(owned.clone())))
            }
        };
        // It may be the last of what was met, whose drop is code of a plugin.
        drop(met);
        match late {
            None => {
                let (effect, owned) = (self.state.title(), owned.title());
                tracing::warn!("{effect} cannot own {owned}, with which it is undone itself; it is left where it is");
            }
            Some(Some(late)) => self.state.undo_late(bus, late),
            Some(None) => {}
        }
    }

    fn collect(&self, item: Item) {
        self.state.collect(self.context.bus(), item);
    }

    /// The end of a step of an asynchronous body. When the effect was disposed meanwhile the body goes no further: the
    /// future never returns and the body is dropped.
    pub async fn checkpoint(&self) {
        let stopped = {
            let mut inner = lock(&self.state.inner);
            inner.stopped = inner.stopping;
            inner.stopped
        };
        if stopped {
            std::future::pending::<()>().await;
        }
    }
}

/// What [`Composite::own`] can take over.
pub trait Ownable: sealed::Sealed {
    #[doc(hidden)]
    fn into_owned(self) -> Option<Arc<dyn Owned>>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! ownable {
    ($($(<$($p:ident),*>)? $ty:ty: |$it:ident| $owned:expr;)*) => {$(
        impl$(<$($p),*>)? sealed::Sealed for $ty {}
        impl$(<$($p),*>)? Ownable for $ty {
            fn into_owned(self) -> Option<Arc<dyn Owned>> {
                let $it = self;
                $owned
            }
        }
    )*};
}
ownable! {
    Listener: |it| it.owned();
    EffectHandle: |it| Some(it.state.clone());
    Fiber: |it| Some(it.inner().clone());
    crate::Scope: |it| Some(it.fiber().inner().clone());
}
impl<T: crate::Service + ?Sized> sealed::Sealed for Provided<T> {}
impl<T: crate::Service + ?Sized> Ownable for Provided<T> {
    fn into_owned(self) -> Option<Arc<dyn Owned>> {
        Some(self.inner().clone())
    }
}
impl<T> sealed::Sealed for Task<T> {}
impl<T> Ownable for Task<T> {
    fn into_owned(self) -> Option<Arc<dyn Owned>> {
        Some(self.state().clone())
    }
}

/// A registered effect. Dropping the handle changes nothing: the effect is undone with its fiber.
#[derive(Clone)]
pub struct EffectHandle {
    state: Arc<EffectState>,
    bus: Arc<Bus>,
}

impl std::fmt::Debug for EffectHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EffectHandle({})", self.state.label)
    }
}

impl EffectHandle {
    /// Waits until the body has ended.
    ///
    /// # Errors
    ///
    /// [`BusError::EffectFailed`] when it failed; what it had collected is undone then.
    ///
    /// Cancel safe.
    pub async fn ready(&self) -> Result<(), BusError> {
        self.state.set_up.wait().await;
        let error = lock(&self.state.inner).error.clone();
        match error {
            Some(error) => {
                self.state.undone.wait().await;
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Undoes the effect, once. The work begins with the call and goes on whether or not the result is awaited.
    pub fn dispose(&self) -> Disposing {
        undo_now(&self.bus, self.state.clone());
        Disposing(self.state.clone())
    }
}

/// Ends when an effect is undone. Dropping it changes nothing.
pub struct Disposing(Arc<EffectState>);

impl IntoFuture for Disposing {
    type Output = ();
    type IntoFuture = BoxFuture<'static, ()>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.undone.wait().await })
    }
}

impl std::fmt::Debug for Disposing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Disposing({})", self.0.label)
    }
}

/// Undoes `owned`: at once as far as nothing has to be waited for, and then in a task.
pub(crate) fn undo_now(bus: &Arc<Bus>, owned: Arc<dyn Owned>) {
    let task_bus = bus.clone();
    run_or_spawn(bus, async move {
        let plugin = owned.activation().map_or_else(|| "root".into(), |it| it.identity.name.clone());
        let undoing = Undoing::new(&task_bus, &plugin, task_bus.grace.dispose);
        owned.undo(&undoing).await;
    });
}

/// Polls `future` once and leaves the rest of it to a task.
pub(crate) fn run_or_spawn(bus: &Bus, future: impl Future<Output = ()> + Send + 'static) {
    let mut future: BoxFuture<'static, ()> = Box::pin(future);
    if future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending() {
        bus.seams.executor.spawn(future);
    }
}

impl Context {
    /// Registers an effect: `body` runs now and collects what undoes it. An error or panic of the body undoes what was
    /// collected, the last first, and is returned.
    ///
    /// ```
    /// # fn doc(ctx: &linn_bus::Context) -> Result<(), linn_bus::BusError> {
    /// ctx.effect("status line", |fx| {
    ///     fx.defer(|| println!("cleared"));
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down, [`BusError::EffectFailed`] when the body failed.
    pub fn effect<R: EffectResult>(
        &self,
        label: &str,
        body: impl FnOnce(&Composite) -> R,
    ) -> Result<EffectHandle, BusError> {
        let (handle, composite) = self.new_effect(label)?;
        let outcome = pool::guarded(|| body(&composite).into_result());
        let outcome = outcome.unwrap_or_else(|text| Err(Fault::panicked(text)));
        handle.state.set_up.set();
        match outcome {
            Ok(()) => Ok(handle),
            Err(cause) => {
                undo_now(&handle.bus, handle.state.clone());
                Err(handle.failed(cause))
            }
        }
    }

    /// Registers an effect whose body is asynchronous; it runs as a task. Disposed while it runs, it goes on to its next
    /// [`checkpoint`](Composite::checkpoint), or to its end, and then everything it collected is undone.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down. A failure of the body comes from [`EffectHandle::ready`].
    pub fn effect_async<R, Fut>(
        &self,
        label: &str,
        body: impl FnOnce(Composite) -> Fut + Send + 'static,
    ) -> Result<EffectHandle, BusError>
    where
        R: EffectResult,
        Fut: Future<Output = R> + Send + 'static,
    {
        let (handle, composite) = self.new_effect(label)?;
        let (state, bus) = (handle.state.clone(), handle.bus.clone());
        run_or_spawn(&handle.bus, async move {
            let mut body: BoxFuture<'static, Result<(), Fault>> =
                Box::pin(async move { body(composite).await.into_result() });
            let outcome = std::future::poll_fn(|cx| {
                let old = {
                    let mut inner = lock(&state.inner);
                    if inner.abandoned {
                        return Poll::Ready(Ok(()));
                    }
                    inner.body.replace(cx.waker().clone())
                };
                drop(old);
                match pool::guarded(|| body.as_mut().poll(cx)) {
                    Ok(Poll::Pending) if lock(&state.inner).stopped => Poll::Ready(Ok(())),
                    Ok(polled) => polled,
                    Err(text) => Poll::Ready(Err(Fault::panicked(text))),
                }
            })
            .await;
            // The text of a panic in the drop has nobody to go to but the panic hook, which has seen it.
            drop(pool::guarded(|| drop(body)));
            if let Err(cause) = outcome {
                let handle = EffectHandle { state: state.clone(), bus: bus.clone() };
                lock(&state.inner).error = Some(handle.failed(cause));
                state.set_up.set();
                undo_now(&bus, state);
            } else {
                state.set_up.set();
            }
        });
        Ok(handle)
    }

    fn new_effect(&self, label: &str) -> Result<(EffectHandle, Composite), BusError> {
        let state = EffectState::new(label, self.activation());
        self.activation().adopt(state.clone(), Door::Open, || format!("effect `{label}`"))?;
        let composite = Composite { state: state.clone(), context: self.clone() };
        Ok((EffectHandle { state, bus: self.bus().clone() }, composite))
    }
}

impl EffectHandle {
    fn failed(&self, cause: Fault) -> BusError {
        BusError::EffectFailed {
            label: self.state.label.clone(),
            plugin: self.state.activation.identity.name.clone(),
            cause,
        }
    }
}

/// A fiber's effects in order of registration, with holes.
#[derive(Default)]
pub(crate) struct EffectList {
    list: Vec<Option<Arc<dyn Owned>>>,
    holes: u32,
    pub(crate) door: Door,
}

/// What a run still takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Door {
    #[default]
    Open,
    /// Another version stands in its place: calls in flight have their tasks, and nothing else comes.
    Tasks,
    Shut,
}

impl EffectList {
    pub(crate) fn push(&mut self, owned: Arc<dyn Owned>) {
        if self.holes as usize > self.list.len() / 2 + 8 {
            self.list.retain(Option::is_some);
            self.holes = 0;
            for (place, owned) in self.list.iter().flatten().enumerate() {
                owned.place().store(place as u32, Ordering::Relaxed);
            }
        }
        let place = u32::try_from(self.list.len()).expect("fewer than 2^32 effects");
        owned.place().store(place, Ordering::Relaxed);
        self.list.push(Some(owned));
    }

    /// Takes the effect out whose place this is; the place is read under the lock of the list.
    pub(crate) fn release(&mut self, place: &AtomicU32) -> Option<Arc<dyn Owned>> {
        let at = place.load(Ordering::Relaxed) as usize;
        let owned = self.list.get_mut(at)?.take_if(|it| std::ptr::eq(it.place(), place))?;
        place.store(NOWHERE, Ordering::Relaxed);
        self.holes += 1;
        // The last place is never a hole.
        while self.list.pop_if(|it| it.is_none()).is_some() {
            self.holes -= 1;
        }
        Some(owned)
    }

    pub(crate) fn pop(&mut self) -> Option<Arc<dyn Owned>> {
        while let Some(last) = self.list.pop() {
            match last {
                Some(owned) => {
                    owned.place().store(NOWHERE, Ordering::Relaxed);
                    return Some(owned);
                }
                None => self.holes -= 1,
            }
        }
        None
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<dyn Owned>> {
        self.list.iter().flatten()
    }
}
