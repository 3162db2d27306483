//! The context: the handle through which everything is registered, dispatched and reached.

mod logger;
mod services;

use std::any::Any;
use std::sync::Arc;

use crate::bus::{Bus, Grace};
use crate::dispatch::{self, Emitter, is_internal};
use crate::effect::{Door, EffectResult, Listener};
use crate::event::{Dispatches, Event, Mode, ScopeRule, verb};
use crate::fault::{BusError, ListenerError, ListenerErrors};
use crate::fiber::{Activation, Fiber, FiberInner, NewFiber, NewPlace};
use crate::hook::{HookHead, HookOptions};
use crate::inject::{Inject, NeedList};
use crate::internal::{InternalListener, InternalPlugin};
use crate::listen::{Answers, IntoListener, IntoMethod, ListenerOf, MethodOf, Stored};
use crate::plugin::{FnInstance, Instance, InstanceOf, Mounted, Plugin, StartsPlugin};
use crate::scope::{Scope, ScopeHost, ScopeKey};
use crate::seams::{Clock, Ids, Seams};

pub use logger::Logger;

/// A cheap handle on one fiber of a bus.
///
/// What is registered through a context belongs to its fiber and goes with it; who hears it, and which services it sees,
/// comes from the same context. Clone it freely.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>);

struct ContextInner {
    bus: Arc<Bus>,
    fiber: Arc<FiberInner>,
    activation: Arc<Activation>,
    view: View,
}

/// What a context sees and who it is heard by: handed down to everything made through it.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) scope: Option<ScopeKey>,
    /// What most contexts do not have.
    rest: Option<Arc<ViewRest>>,
}

#[derive(Clone, Default)]
struct ViewRest {
    /// Realms of isolated services, by slot.
    realms: Vec<(u32, u64)>,
    /// Configs for services, the outermost first.
    intercepts: Vec<(u32, Arc<dyn Any + Send + Sync>)>,
    logger: Option<Arc<str>>,
}

impl View {
    /// The realm a service is looked up in; 0 unless it was isolated.
    pub(crate) fn realm(&self, slot: u32) -> u64 {
        let realms = self.rest.iter().flat_map(|it| &it.realms);
        realms.into_iter().find(|(it, _)| *it == slot).map_or(0, |(_, realm)| *realm)
    }

    fn rest(&mut self) -> &mut ViewRest {
        Arc::make_mut(self.rest.get_or_insert_default())
    }
}

/// The owner of a bus: its root context. Dropping it begins the end of everything on the bus without waiting;
/// [`dispose`](Fiber::dispose) waits.
///
/// Disposing of the root empties the bus; the root runs on. Contexts from before register nothing any more, this one
/// included; [`root.fiber().context()`](Fiber::context) is the new one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use linn_bus::{Event, Root, TokioRuntime};
///
/// #[derive(Event)]
/// #[event(name = "doc/tick", mode = Emit)]
/// struct Tick(u32);
///
/// let root = Root::new(TokioRuntime::seams());
/// root.on(|tick: &Tick| println!("tick {}", tick.0)).unwrap();
/// root.emit(&Tick(1));
/// root.fiber().dispose().await.unwrap();
/// # }
/// ```
pub struct Root(Context);

impl Root {
    /// A new, empty bus with the default grace periods.
    pub fn new(seams: Seams) -> Self {
        Self::with_grace(seams, Grace::default())
    }

    /// A new, empty bus.
    pub fn with_grace(seams: Seams, grace: Grace) -> Self {
        let fiber = FiberInner::root(Bus::new(seams, grace));
        let activation = fiber.activation().expect("the root is active");
        let view = fiber.view.clone();
        Self(Context::new(fiber, activation, view))
    }

    /// Has the kernel set up what buses need of it, which the first one does otherwise. On Linux that takes some ten
    /// milliseconds in a process with several threads, and next to nothing in one with a single thread: a program that starts
    /// often calls it before its runtime makes threads.
    pub fn prepare_process() {
        crate::frames::prepare_process();
    }

    /// The root context.
    pub fn context(&self) -> &Context {
        &self.0
    }
}

impl std::ops::Deref for Root {
    type Target = Context;
    fn deref(&self) -> &Context {
        &self.0
    }
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Root")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let fiber = self.0.fiber_inner().clone();
        if fiber.activation().is_some_and(|it| !it.effects().is_empty()) {
            fiber.request_dispose(&[], None);
        }
    }
}

impl Context {
    pub(crate) fn new(fiber: Arc<FiberInner>, activation: Arc<Activation>, view: View) -> Self {
        Self(Arc::new(ContextInner { bus: fiber.bus.clone(), fiber, activation, view }))
    }

    pub(crate) fn bus(&self) -> &Arc<Bus> {
        &self.0.bus
    }

    pub(crate) fn fiber_inner(&self) -> &Arc<FiberInner> {
        &self.0.fiber
    }

    pub(crate) fn activation(&self) -> &Arc<Activation> {
        &self.0.activation
    }

    pub(crate) fn view(&self) -> &View {
        &self.0.view
    }

    #[inline]
    pub(crate) fn emitter(&self) -> Emitter<'_> {
        Emitter { bus: &self.0.bus, plugin: &self.0.activation.identity.name }
    }

    fn with_view(&self, change: impl FnOnce(&mut View)) -> Self {
        let mut view = self.0.view.clone();
        change(&mut view);
        Self::new(self.0.fiber.clone(), self.0.activation.clone(), view)
    }

    /// The fiber this context belongs to.
    pub fn fiber(&self) -> Fiber {
        Fiber::new(self.0.fiber.clone())
    }

    /// Name of the plugin this context belongs to; `root` at the root.
    pub fn plugin(&self) -> &str {
        &self.0.activation.identity.name
    }

    /// Key of the nearest scope around this context.
    pub fn scope_key(&self) -> Option<&ScopeKey> {
        self.0.view.scope.as_ref()
    }

    /// Time of day, time that passes, and sleep, as the root was given them.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.bus.seams.clock
    }

    /// Where numbers are drawn, as the root was given it.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.0.bus.seams.ids
    }
}

/// # Listening
impl Context {
    /// Registers a listener. The event follows from the argument's type, the shape from the event's mode:
    ///
    /// ```
    /// # use linn_bus::{BusError, Context, Event, Next};
    /// # #[derive(Event)] #[event(name = "doc/a", mode = Emit)] struct Changed;
    /// # #[derive(Event)] #[event(name = "doc/b", mode = Bail, output = u32)] struct Ask;
    /// # #[derive(Event)] #[event(name = "doc/c", mode = Waterfall, output = u32)] struct Count;
    /// # fn doc(ctx: &Context) -> Result<(), BusError> {
    /// ctx.on(|_: &Changed| println!("changed"))?;
    /// ctx.on(|_: &Ask| Some(7))?;
    /// ctx.on(async |_: &Count, next: Next<'_, Count>| next.run().await.map(|n| n + 1))?;
    /// # Ok(()) }
    /// ```
    ///
    /// The argument's type has to be written. An async closure that captures goes into [`listener!`](crate::listener), and
    /// listeners that share state are methods for [`on_with`](Self::on_with). A closure that uses `?` names its error:
    /// `Ok::<_, Fault>(..)`.
    ///
    /// It is heard from the next dispatch on, in the scope of this context, until it is disposed or its fiber unloads.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down, [`BusError::EventClash`] when another event has the name.
    pub fn on<L, E, M>(&self, listener: L) -> Result<Listener, BusError>
    where
        L: ListenerOf<E, M>,
        E: Event,
        L: IntoListener<E, M>, // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
    {
        self.register::<E>(HookOptions::default(), |head| listener.store(head))
    }

    /// Registers a method of `state` as a listener: the same call for sync and async methods, in all modes.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use linn_bus::{BusError, Context, Event, Next};
    /// # #[derive(Event)] #[event(name = "doc/d", mode = Waterfall, output = String)] struct Fetch { url: String }
    /// struct Retry { attempts: u32 }
    ///
    /// impl Retry {
    ///     async fn fetch(&self, _: &Fetch, next: Next<'_, Fetch>) -> Result<String, linn_bus::ListenerError> {
    ///         for _ in 1..self.attempts {
    ///             if let Ok(text) = next.run().await { return Ok(text) }
    ///         }
    ///         next.run().await
    ///     }
    /// }
    ///
    /// # fn doc(ctx: &Context) -> Result<(), BusError> {
    /// let retry = Arc::new(Retry { attempts: 3 });
    /// ctx.on_with(&retry, Retry::fetch)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`on`](Self::on).
    pub fn on_with<S, F, E, M>(&self, state: &Arc<S>, method: F) -> Result<Listener, BusError>
    where
        F: MethodOf<S, E, M>,
        E: Event,
        F: IntoMethod<S, E, M>, // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
    {
        self.register::<E>(HookOptions::default(), |head| method.store(state.clone(), head))
    }

    /// Before all listeners of the event that are not marked so: `ctx.first().on(..)`.
    pub fn first(&self) -> On<'_> {
        On { context: self, options: HookOptions { first: true, ..HookOptions::default() } }
    }

    /// At most once, also where dispatches overlap: `ctx.once().on(..)`.
    pub fn once(&self) -> On<'_> {
        On { context: self, options: HookOptions { once: true, ..HookOptions::default() } }
    }

    /// Heard whatever scope the dispatch is about: `ctx.global().on(..)`.
    pub fn global(&self) -> On<'_> {
        On { context: self, options: HookOptions { global: true, ..HookOptions::default() } }
    }

    fn register<E: Event>(
        &self,
        options: HookOptions,
        store: impl FnOnce(HookHead) -> Stored<E>,
    ) -> Result<Listener, BusError> {
        let (bus, activation) = (self.bus(), self.activation());
        let what = || format!("`ctx.on(\"{}\")`", E::NAME);
        activation.check_open(what)?;
        if !is_internal::<E>() {
            let question = InternalListener {
                event: E::descriptor(),
                plugin: activation.identity.name.clone(),
                first: options.first,
                once: options.once,
                global: options.global,
            };
            if let Some(taken_over) = dispatch::bail(self.emitter(), &question)? {
                return Ok(taken_over);
            }
        }
        let slot = E::__slot().number();
        let key = match (<E::Scope as ScopeRule<E>>::SCOPED && !options.global, &self.view().scope) {
            (true, _) if <E::Scope as ScopeRule<E>>::OWN_FIBER => Some(self.fiber_inner().update_key()),
            (true, Some(key)) => Some(key.clone()),
            _ => None,
        };
        let cell = bus.cell_for::<E>(slot, key.as_ref())?;
        let head = HookHead::new(options, activation.next_hook(), activation.clone(), cell.cell().clone());
        let hook = store(head);
        let erased = E::Mode::erase::<E>(hook.clone());
        // Owned before it is heard: a disposal that begins now finds it.
        activation.adopt(erased.clone(), Door::Open, what)?;
        bus.count_watcher(E::NAME, true);
        cell.add(&bus.rows, hook);
        // It may have been disposed between the two steps; then it leaves the list it just came to.
        if erased.head().is_dead() {
            bus.forget(erased.head());
        }
        Ok(Listener::hook(&erased, bus))
    }
}

/// Options of a registration, as a prefix; made by [`Context::first`], [`Context::once`] and [`Context::global`].
#[derive(Clone, Copy)]
pub struct On<'a> {
    context: &'a Context,
    options: HookOptions,
}

impl std::fmt::Debug for On<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.options.fmt(f)
    }
}

impl On<'_> {
    pub(crate) fn context(&self) -> &Context {
        self.context
    }

    /// See [`Context::first`].
    #[must_use]
    pub fn first(mut self) -> Self {
        self.options.first = true;
        self
    }

    /// See [`Context::once`].
    #[must_use]
    pub fn once(mut self) -> Self {
        self.options.once = true;
        self
    }

    /// See [`Context::global`].
    #[must_use]
    pub fn global(mut self) -> Self {
        self.options.global = true;
        self
    }

    /// See [`Context::on`].
    pub fn on<L, E, M>(&self, listener: L) -> Result<Listener, BusError>
    where
        L: ListenerOf<E, M>,
        E: Event,
        L: IntoListener<E, M>, // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
    {
        self.context.register::<E>(self.options, |head| listener.store(head))
    }

    /// See [`Context::on_with`].
    pub fn on_with<S, F, E, M>(&self, state: &Arc<S>, method: F) -> Result<Listener, BusError>
    where
        F: MethodOf<S, E, M>,
        E: Event,
        F: IntoMethod<S, E, M>, // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
    {
        self.context.register::<E>(self.options, |head| method.store(state.clone(), head))
    }
}

/// # Dispatching
impl Context {
    /// Tells every listener, in order, before it returns. One that fails or panics is logged and reported as
    /// `internal/fault`; the others hear the event all the same. So is the refusal of an observer.
    ///
    /// An event declared `ordered` that is emitted while another one of its kind is delivered waits for that one: this
    /// call returns before anybody was told then.
    #[inline]
    pub fn emit<E>(&self, event: &E)
    where
        E: Event,
        E::Mode: Dispatches<verb::emit, E>,
    {
        dispatch::emit(self.emitter(), event);
    }

    /// [`emit`](Self::emit) for a caller that must know: everybody is told, and the failures come back instead of being
    /// logged. Delivers at once, also an ordered event.
    ///
    /// # Errors
    ///
    /// Every failure, in the order of the listeners; an observer's refusal alone, before anybody was told.
    pub fn try_emit<E>(&self, event: &E) -> Result<(), ListenerErrors>
    where
        E: Event,
        E::Mode: Dispatches<verb::emit, E>,
    {
        dispatch::try_emit(self.emitter(), event)
    }

    /// Asks the listeners in order; the first answer stops.
    ///
    /// # Errors
    ///
    /// The first failure; later listeners are not asked.
    pub fn bail<E>(&self, event: &E) -> Result<Option<E::Output>, ListenerError>
    where
        E: Event,
        E::Mode: Dispatches<verb::bail, E>,
    {
        dispatch::bail(self.emitter(), event)
    }

    /// Asks the listeners in order, awaiting each; the first answer stops.
    ///
    /// # Errors
    ///
    /// The first failure; later listeners are not asked. Cancel safe: dropping the future drops the listener that waits.
    pub fn serial<'a, E>(
        &'a self,
        event: &'a E,
    ) -> impl Future<Output = Result<Option<E::Output>, ListenerError>> + Send + 'a
    where
        E: Event,
        E::Mode: Dispatches<verb::serial, E>,
    {
        dispatch::serial(self.emitter(), event)
    }

    /// Starts all listeners in order, then awaits them together. It does not end before every one has.
    ///
    /// # Errors
    ///
    /// Every failure, in the order of the listeners. Cancel safe: dropping the future drops the listeners that wait.
    pub fn parallel<'a, E>(&'a self, event: &'a E) -> impl Future<Output = Result<(), ListenerErrors>> + Send + 'a
    where
        E: Event,
        E::Mode: Dispatches<verb::parallel, E>,
    {
        dispatch::parallel(self.emitter(), event)
    }

    /// Runs the listeners around each other, the first outermost, down to `default`, which may be run more than once.
    ///
    /// ```
    /// # use linn_bus::{Context, Event, ListenerError};
    /// # #[derive(Event)] #[event(name = "doc/e", mode = Waterfall, output = String)] struct Render { name: String }
    /// # async fn doc(ctx: &Context) -> Result<(), ListenerError> {
    /// let render = Render { name: "x".into() };
    /// let text = ctx.waterfall(&render, async || format!("hello {}", render.name)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// What the outermost listener came to: its own failure, or an inner one that it passed on. Cancel safe: dropping the
    /// future drops all layers.
    pub fn waterfall<'a, E, D, Fut, K>(
        &'a self,
        event: &'a E,
        default: D,
    ) -> impl Future<Output = Result<E::Output, ListenerError>> + Send + use<'a, E, D, Fut, K>
    where
        E: Event,
        E::Mode: Dispatches<verb::waterfall, E> + Answers<E, Fut::Output, K>,
        D: Fn() -> Fut + Send + Sync + 'a,
        Fut: Future + Send + 'a,
        K: 'a,
    {
        dispatch::waterfall(self.emitter(), event, default)
    }
}

/// # Plugins
impl Context {
    /// Mounts a plugin under this fiber. It starts in a task of its own, as soon as the services it needs are there:
    /// [`Fiber::running`] waits for that, [`Fiber::settled`] also accepts that it waits for one. Listeners of what is
    /// mounted first come first.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when this plugin is going down. A config that fails its validation and a start that fails
    /// show in the fiber.
    pub fn mount<P: Plugin>(&self, config: P::Config) -> Result<Mounted<P>, BusError> {
        self.mount_at(None, config)
    }

    /// [`mount`](Self::mount) at a given place among what this fiber mounts, for who keeps a list of its own.
    ///
    /// # Errors
    ///
    /// As [`mount`](Self::mount).
    pub fn mount_at<P: Plugin>(
        &self,
        place: impl Into<Option<u32>>,
        config: P::Config,
    ) -> Result<Mounted<P>, BusError> {
        let instance = Box::new(InstanceOf::<P>::new(config));
        let fiber = self.mount_instance(P::NAME.into(), place.into(), instance)?;
        Ok(Mounted::new(fiber))
    }

    /// Mounts a function as a plugin. `start` gets a context of its own and the needs its second argument names, `(): ()`
    /// for none. It may be called again, as [`Plugin::start`] is, so it clones what it captures.
    ///
    /// ```
    /// # use linn_bus::{BusError, Context, Event};
    /// # #[derive(Event)] #[event(name = "doc/f", mode = Emit)] struct Saved;
    /// # fn doc(ctx: &Context) -> Result<(), BusError> {
    /// ctx.mount_fn("log saves", async |ctx: Context, (): ()| -> Result<(), BusError> {
    ///     ctx.on(|_: &Saved| println!("saved"))?;
    ///     Ok(())
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`mount`](Self::mount).
    pub fn mount_fn<N, F, Fut, R>(&self, name: &str, start: F) -> Result<Fiber, BusError>
    where
        N: Inject,
        F: StartsPlugin<N, Fut> + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: EffectResult,
    {
        self.mount_instance(name.into(), None, Box::new(FnInstance::new(start)))
    }

    /// Mounts a function of some state, which it gets at every start: [`mount_fn`](Self::mount_fn) for one that captures.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use linn_bus::{BusError, Context, Event};
    /// # #[derive(Event)] #[event(name = "doc/g", mode = Emit)] struct Saved;
    /// struct Prefix(String);
    ///
    /// impl Prefix {
    ///     async fn start(self: Arc<Self>, ctx: Context, (): ()) -> Result<(), BusError> {
    ///         ctx.on(move |_: &Saved| println!("{} saved", self.0))?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn doc(ctx: &Context) -> Result<(), BusError> {
    /// let prefix = Arc::new(Prefix("backup".into()));
    /// ctx.mount_with("log saves", &prefix, Prefix::start)?;
    /// ctx.mount_with("log more", &prefix, async |prefix: Arc<Prefix>, ctx: Context, (): ()| -> Result<(), BusError> {
    ///     ctx.on(move |_: &Saved| println!("{} again", prefix.0))?;
    ///     Ok(())
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`mount`](Self::mount).
    pub fn mount_with<S, N, F, Fut, R>(&self, name: &str, state: &Arc<S>, start: F) -> Result<Fiber, BusError>
    where
        S: Send + Sync + 'static,
        N: Inject,
        F: Fn(Arc<S>, Context, N) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: EffectResult,
    {
        let state = state.clone();
        self.mount_fn(name, move |ctx, needs| start(state.clone(), ctx, needs))
    }

    pub(crate) fn mount_instance(
        &self,
        name: Arc<str>,
        place: Option<u32>,
        instance: Box<dyn Instance>,
    ) -> Result<Fiber, BusError> {
        let place = NewPlace::Below(vec![place.unwrap_or_else(|| self.activation().next_mount())]);
        let new =
            NewFiber { name, place, parent: self, view: self.0.view.clone(), instance: Some(instance), hidden: false };
        self.start_fiber(new)
    }

    /// Mounts at a place of several numbers below this fiber; the next free one when it is empty.
    #[cfg(feature = "json")]
    pub(crate) fn mount_placed(
        &self,
        name: Arc<str>,
        place: &[u32],
        instance: Box<dyn Instance>,
    ) -> Result<Fiber, BusError> {
        let place = self.new_place(place);
        let new =
            NewFiber { name, place, parent: self, view: self.0.view.clone(), instance: Some(instance), hidden: false };
        self.start_fiber(new)
    }

    /// Mounts in the wings, likewise; in the place of `old` when it names none.
    #[cfg(feature = "json")]
    pub(crate) fn prepare_placed(
        &self,
        name: Arc<str>,
        old: Option<&Fiber>,
        place: &[u32],
        instance: Box<dyn Instance>,
    ) -> Result<crate::prepare::Prepared<crate::descriptor::AnyPlugin>, BusError> {
        if let Some(old) = old.filter(|it| it.id().is_none()) {
            return Err(BusError::Disposed { plugin: old.inner().identity.name.clone() });
        }
        let place = match (place, old) {
            ([], Some(old)) => NewPlace::At(old.place()),
            (place, _) => self.new_place(place),
        };
        self.prepare_instance(name, place, self, old.cloned(), instance)
    }

    #[cfg(feature = "json")]
    fn new_place(&self, below: &[u32]) -> NewPlace {
        NewPlace::Below(if below.is_empty() { vec![self.activation().next_mount()] } else { below.to_vec() })
    }

    pub(crate) fn start_fiber(&self, new: NewFiber<'_>) -> Result<Fiber, BusError> {
        let name = new.name.clone();
        let inner = FiberInner::new(new, || format!("plugin `{name}`"))?;
        self.bus().registry.add_dependant(&inner);
        let fiber = Fiber::new(inner.clone());
        self.emit(&InternalPlugin { fiber: fiber.clone() });
        inner.kick();
        Ok(fiber)
    }

    /// Disposes every instance of `P` on this bus and waits until they are quiet.
    ///
    /// # Errors
    ///
    /// The first [`DisposeError`](crate::DisposeError); all are disposed. Cancel safe: the disposals go on without the waiter.
    pub async fn unmount<P: Plugin>(&self) -> Result<(), crate::DisposeError> {
        let fibers: Vec<_> = self.bus().fibers().into_iter().filter(|it| &*it.identity.name == P::NAME).collect();
        for fiber in &fibers {
            fiber.request_dispose(&[], None);
        }
        let mut outcome = Ok(());
        for fiber in fibers {
            outcome = outcome.and(fiber.dispose().await);
        }
        outcome
    }
}

/// # Scopes
impl Context {
    /// A key for a scope: the identity of something that lives, to be carried by events about it.
    pub fn new_scope_key(&self) -> ScopeKey {
        ScopeKey::new(self.bus())
    }

    /// A scope with a key of its own.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down.
    pub fn scope(&self) -> Result<Scope, BusError> {
        self.scope_for(&self.new_scope_key())
    }

    /// A scope for a key that exists; several scopes may share one.
    ///
    /// ```
    /// use linn_bus::{BusError, Context, Event, ScopeKey};
    ///
    /// #[derive(Event)]
    /// #[event(name = "doc/may-stop", mode = Bail, output = String, subject = job)]
    /// struct MayStop { job: ScopeKey }
    ///
    /// fn keep_running(ctx: &Context, job: &ScopeKey) -> Result<(), BusError> {
    ///     let scope = ctx.scope_for(job)?;
    ///     scope.context().on(|_: &MayStop| Some("it is needed still".to_owned()))?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Dropping the [`Scope`] changes nothing: it ends with [`Scope::dispose`], or with this plugin.
    ///
    /// # Errors
    ///
    /// [`BusError::Inactive`] when the plugin is going down.
    pub fn scope_for(&self, key: &ScopeKey) -> Result<Scope, BusError> {
        let view = View { scope: Some(key.clone()), ..self.0.view.clone() };
        let (context, fiber) = self.bare_fiber(&self.bus().scope_name, view)?;
        Ok(Scope::new(context, key.clone(), fiber))
    }

    /// A host for many scopes that all see the services `N` names.
    ///
    /// # Errors
    ///
    /// [`BusError::ServicesMissing`] names the services that nobody provides now.
    pub fn scope_host<N: Inject>(&self) -> Result<ScopeHost, BusError> {
        let needs = NeedList::of::<N>();
        let absent = |slot| self.bus().registry.look_up(self.fiber_inner(), self.view(), slot).is_none();
        let services: Vec<_> =
            needs.iter().filter(|it| it.required && absent(it.slot)).map(|it| it.service.name).collect();
        if !services.is_empty() {
            return Err(BusError::ServicesMissing { services });
        }
        let (context, fiber) = self.bare_fiber(&self.bus().scope_host_name, self.0.view.clone())?;
        fiber.inner().allow(needs);
        Ok(ScopeHost::new(context, fiber))
    }

    /// A fiber without a start, active at once.
    fn bare_fiber(&self, name: &Arc<str>, view: View) -> Result<(Context, Fiber), BusError> {
        let place = NewPlace::Below(vec![self.activation().next_mount()]);
        let new = NewFiber { name: name.clone(), place, parent: self, view, instance: None, hidden: false };
        let inner = FiberInner::new(new, || name.to_string())?;
        let fiber = Fiber::new(inner.clone());
        self.emit(&InternalPlugin { fiber: fiber.clone() });
        let activation = inner.activation().ok_or_else(|| BusError::Disposed { plugin: name.clone() })?;
        let view = inner.view.clone();
        Ok((Context::new(inner, activation, view), fiber))
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({} #{})", self.plugin(), self.0.fiber.identity.id)
    }
}
