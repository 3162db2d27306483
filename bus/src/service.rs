//! Services: values reached by the trait they implement, behind a guard that outlives a bad provider.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::task::{Context as TaskContext, Poll};

use pin_project_lite::pin_project;

use crate::bus::{Bus, Parked};
use crate::context::Context;
use crate::dispatch;
use crate::effect::{Leaf, NOWHERE, Owned, Undoing, undo_now};
use crate::fault::ListenerError;
use crate::fiber::{Activation, FiberInner};
use crate::frames::{Gate, SERVICE};
use crate::intern::{self, Slot};
use crate::internal::InternalGet;
use crate::latch::Latch;
use crate::lifecycle::{SelfWaiting, is_awaited_by_a_start, quiet, quiet_in};
use crate::pool;
use crate::seams::BoxFuture;

/// A trait that plugins provide and use: `dyn Tools`, declared with [`#[service("tools")]`](macro@crate::service).
///
/// Methods take `&self` and return a `Result` whose error is `From<ServiceError>`, since the provider may have panicked or
/// gone. Providers are written with [`#[provider]`](macro@crate::provider).
///
/// ```
/// use std::sync::Arc;
/// use linn_bus::{BusError, Context, ServiceError, Svc, provider, service};
///
/// /// Knows the weather.
/// #[service("weather")]
/// trait Weather {
///     async fn degrees(&self, place: &str) -> Result<i32, ServiceError>;
/// }
///
/// struct AlwaysMild;
///
/// #[provider]
/// impl Weather for AlwaysMild {
///     async fn degrees(&self, _: &str) -> Result<i32, ServiceError> {
///         Ok(20)
///     }
/// }
///
/// linn_bus_test::run(async |root| {
///     root.provide::<dyn Weather>(Arc::new(AlwaysMild)).unwrap();
///     let user = root.mount_fn("walk", async |_: Context, weather: Svc<dyn Weather>| -> Result<(), ServiceError> {
///         assert_eq!(weather.degrees("here").await?, 20);
///         Ok(())
///     });
///     user.unwrap().running().await.unwrap();
/// });
/// ```
///
/// # Safety
///
/// The descriptor must belong to this trait alone: the bus turns stored services back into typed ones on the strength of
/// it. The attribute guarantees that; do not implement this trait by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a service",
    label = "not a service",
    note = "services are traits: declare `#[service(\"name\")] pub trait Name {{ .. }}` and write `dyn Name`"
)]
pub unsafe trait Service: Send + Sync + 'static {
    /// Name, for errors, listings and other processes.
    const NAME: &'static str;
    #[doc(hidden)]
    type Guard: Send + Sync + 'static;
    #[doc(hidden)]
    fn __descriptor() -> &'static ServiceDescriptor;
    #[doc(hidden)]
    fn __guard(cell: ServiceCell<Self>) -> Self::Guard;
    #[doc(hidden)]
    fn __as_dyn(guard: &Self::Guard) -> &Self;
}

/// What a service is, for catalogues and errors.
#[non_exhaustive]
#[derive(Debug)]
pub struct ServiceDescriptor {
    /// Name.
    pub name: &'static str,
    /// Doc comment of the trait.
    pub docs: &'static str,
    /// Path of the trait.
    pub type_path: &'static str,
    /// Crate that declares it.
    pub krate: &'static str,
    /// Version of that crate.
    pub version: &'static str,
    /// Names of its methods.
    pub methods: &'static [&'static str],
    /// Digest of the declaration.
    pub digest: u64,
    slot: ServiceSlot,
}

#[derive(Debug)]
struct ServiceSlot(Slot);

impl ServiceDescriptor {
    pub(crate) fn slot(&self) -> u32 {
        self.slot.0.get(self.name, self.digest)
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct ServiceParts {
    pub name: &'static str,
    pub docs: &'static str,
    pub type_path: &'static str,
    pub krate: &'static str,
    pub version: &'static str,
    pub tokens: u64,
    pub line: u32,
    pub column: u32,
    pub methods: &'static [&'static str],
}

#[doc(hidden)]
pub const fn service_descriptor<T: Service + ?Sized>(parts: ServiceParts) -> ServiceDescriptor {
    let place = ((parts.line as u64) << 32) | parts.column as u64;
    let digest = intern::digest(parts.tokens, [parts.name, parts.type_path, parts.version], place);
    ServiceDescriptor {
        name: parts.name,
        docs: parts.docs,
        type_path: parts.type_path,
        krate: parts.krate,
        version: parts.version,
        methods: parts.methods,
        digest,
        slot: ServiceSlot(Slot::of::<T>()),
    }
}

/// One link-time registration of a service.
#[doc(hidden)]
#[derive(Debug)]
pub struct ServiceRegistration(pub fn() -> &'static ServiceDescriptor);
inventory::collect!(ServiceRegistration);

/// Every service linked into this program, sorted by name.
pub fn service_catalogue() -> Vec<&'static ServiceDescriptor> {
    let mut all: Vec<_> = inventory::iter::<ServiceRegistration>.into_iter().map(|it| it.0()).collect();
    all.sort_by_key(|it| (it.name, it.type_path));
    all.dedup_by_key(|it| (it.name, it.digest));
    all
}

/// Why a call of a service did not come back with the provider's own answer.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// The provider panicked in this call; it may well answer the next one.
    #[error("service `{service}` of plugin `{plugin}` panicked in `{method}`: {text}")]
    Panicked {
        /// The service.
        service: &'static str,
        /// The method called.
        method: &'static str,
        /// Plugin that provides it.
        plugin: Arc<str>,
        /// What the panic said.
        text: String,
    },
    /// The provider is gone, or went while the call waited.
    #[error("service `{service}` of plugin `{plugin}` is gone; `{method}` has no answer")]
    Gone {
        /// The service.
        service: &'static str,
        /// The method called.
        method: &'static str,
        /// Plugin that provided it.
        plugin: Arc<str>,
    },
}

impl ServiceError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Panicked { .. } => "SERVICE_PANICKED",
            Self::Gone { .. } => "SERVICE_GONE",
        }
    }
}

/// Where the value of a service is, and the gate its calls go through.
pub(crate) struct Shared<T: ?Sized> {
    value: RwLock<Arc<T>>,
    pub(crate) gate: Gate,
    bus: Arc<Bus>,
    plugin: Arc<str>,
    service: &'static str,
}

/// What the guard of a service calls through. Made by the bus, held by the guard that the attribute writes.
#[doc(hidden)]
pub struct ServiceCell<T: ?Sized>(Arc<Shared<T>>);

/// One call of a service.
#[doc(hidden)]
pub struct ServiceCall<T: ?Sized> {
    value: Arc<T>,
    shared: Arc<Shared<T>>,
    method: &'static str,
}

impl<T: ?Sized> ServiceCell<T> {
    /// Begins a call, if the provider is there.
    pub fn enter(&self, method: &'static str) -> Result<ServiceCall<T>, ServiceError> {
        let shared = self.0.clone();
        let value = shared.value.read().unwrap_or_else(PoisonError::into_inner).clone();
        let call = ServiceCall { value, shared, method };
        if call.shared.gate.is_closed() { Err(call.gone()) } else { Ok(call) }
    }
}

impl<T: ?Sized> ServiceCall<T> {
    pub fn target(&self) -> &T {
        &self.value
    }

    fn gone(&self) -> ServiceError {
        let Shared { service, plugin, .. } = &*self.shared;
        ServiceError::Gone { service, method: self.method, plugin: plugin.clone() }
    }

    fn panicked(&self, text: String) -> ServiceError {
        let Shared { service, plugin, .. } = &*self.shared;
        tracing::error!(plugin = &**plugin, service, method = self.method, "service panicked: {text}");
        ServiceError::Panicked { service, method: self.method, plugin: plugin.clone(), text }
    }

    /// Runs a synchronous method.
    pub fn run<R, X: From<ServiceError>>(&self, method: impl FnOnce() -> Result<R, X>) -> Result<R, X> {
        let rows = &self.shared.bus.rows;
        let row = rows.row();
        let Some(depth) = row.enter(rows, &self.shared.gate, SERVICE) else { return Err(self.gone().into()) };
        let outcome = pool::guarded(method);
        row.leave(rows, depth);
        outcome.unwrap_or_else(|text| Err(self.panicked(text.0).into()))
    }

    /// Runs an asynchronous method.
    pub fn guard<'c, R, X, F>(&'c self, method: F) -> GuardedCall<'c, T, F>
    where
        F: Future<Output = Result<R, X>>,
        X: From<ServiceError>,
    {
        GuardedCall { call: self, future: Some(method), pending: false, parked: None }
    }
}

pin_project! {
    /// A call that may wait. While it does it is counted on the provider's gate.
    #[doc(hidden)]
    pub struct GuardedCall<'c, T: ?Sized, F> {
        call: &'c ServiceCall<T>,
        #[pin]
        future: Option<F>,
        pending: bool,
        parked: Option<Parked<'c>>,
    }

    impl<T: ?Sized, F> PinnedDrop for GuardedCall<'_, T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if *this.pending {
                let Shared { bus, gate, .. } = &*this.call.shared;
                let row = bus.rows.row();
                let depth = row.enter_closed(gate, SERVICE);
                // Its text has nobody to go to but the panic hook, which has seen it.
                drop(pool::guarded(|| this.future.set(None)));
                gate.sub_pending();
                row.leave_ended(&bus.rows, depth);
            }
        }
    }
}

impl<T: ?Sized, F, R, X> Future for GuardedCall<'_, T, F>
where
    F: Future<Output = Result<R, X>>,
    X: From<ServiceError>,
{
    type Output = Result<R, X>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let call: &ServiceCall<T> = this.call;
        let Shared { bus, gate, service, .. } = &*call.shared;
        let row = bus.rows.row();
        let depth = if *this.pending {
            row.enter_closed(gate, SERVICE)
        } else {
            match row.enter(&bus.rows, gate, SERVICE) {
                Some(depth) => depth,
                None => return Poll::Ready(Err(call.gone().into())),
            }
        };
        let polled = match this.future.as_mut().as_pin_mut() {
            Some(_) if *this.pending && gate.is_cancelled() => Poll::Ready(Err(call.gone())),
            Some(future) => match pool::guarded(|| future.poll(cx)) {
                Ok(polled) => polled.map(Ok),
                Err(text) => Poll::Ready(Err(call.panicked(text.0))),
            },
            None => Poll::Pending,
        };
        let was_pending = *this.pending;
        match (&polled, was_pending) {
            (Poll::Pending, false) => {
                gate.add_pending();
                *this.pending = true;
            }
            (Poll::Ready(_), _) => {
                // The drop of a future may panic as well as its poll; the answer stands.
                drop(pool::guarded(|| this.future.set(None)));
                if was_pending {
                    *this.pending = false;
                    gate.sub_pending();
                }
            }
            (Poll::Pending, true) => {}
        }
        if was_pending && polled.is_ready() {
            row.leave_ended(&bus.rows, depth);
        } else {
            row.leave(&bus.rows, depth);
        }
        if polled.is_pending() {
            this.parked.get_or_insert_with(|| Parked::new(bus, gate, service)).set(cx.waker());
        } else {
            *this.parked = None;
        }
        // Outside the frame, for the conversion is code of the service and may panic.
        polled.map(|answer| answer.unwrap_or_else(|error| Err(error.into())))
    }
}

/// Whether a context may have a service.
pub(crate) type Check = Box<dyn Fn(&Context) -> bool + Send + Sync>;

/// A value without its type; what it is follows from the slot of its service.
trait Erased: Send + Sync {
    fn gate(&self) -> Option<&Gate> {
        None
    }
}
impl<T: Service + ?Sized> Erased for Shared<T> {
    fn gate(&self) -> Option<&Gate> {
        Some(&self.gate)
    }
}
struct Guard<G>(G);
impl<G: Send + Sync> Erased for Guard<G> {}

/// A guard as the trait it implements, with the methods of the copy of the bus that made it: what a provider in a library
/// does, and its panics, stay in that library.
#[derive(Clone, Copy)]
struct Target([*const (); 2]);

// SAFETY: points to a guard, which is `Send` and `Sync`.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    fn of<T: Service + ?Sized>(guard: &Guard<T::Guard>) -> Self {
        const { assert!(size_of::<*const T>() == size_of::<[*const (); 2]>(), "a service is a `dyn Trait`") };
        let target: *const T = T::__as_dyn(&guard.0);
        // SAFETY: of the same size, and every word of a pointer to a `dyn Trait` is a pointer.
        Self(unsafe { std::mem::transmute_copy(&target) })
    }

    /// The guard; of the same `T` as was given to `of`.
    fn get<T: Service + ?Sized>(self) -> *const T {
        const { assert!(size_of::<*const T>() == size_of::<[*const (); 2]>(), "a service is a `dyn Trait`") };
        // SAFETY: `of` took it apart from a `*const T`.
        unsafe { std::mem::transmute_copy(&self.0) }
    }
}

/// A service as it is provided by one fiber.
#[doc(hidden)]
pub struct ProvidedInner {
    me: Weak<ProvidedInner>,
    place: AtomicU32,
    /// Number of this provision; a dependant that captured it keeps running as long as it stays.
    pub(crate) id: u64,
    pub(crate) descriptor: &'static ServiceDescriptor,
    pub(crate) slot: u32,
    pub(crate) realm: u64,
    pub(crate) owner: Arc<Activation>,
    pub(crate) fiber: Weak<FiberInner>,
    pub(crate) bus: Arc<Bus>,
    shared: Arc<dyn Erased>,
    guard: Arc<dyn Erased>,
    target: Target,
    pub(crate) check: Option<Check>,
    /// Threads that run the check now.
    pub(crate) asking: Mutex<Vec<std::thread::ThreadId>>,
    pub(crate) withdrawing: AtomicBool,
    /// Replaced by a version that was switched in, and counted as draining since then.
    pub(crate) replaced: AtomicBool,
    /// Provided again by the same run before anybody let go of it.
    pub(crate) revived: AtomicBool,
    pub(crate) withdrawn: Latch,
    /// It is withdrawn, and a call that waited for that runs on.
    late: AtomicBool,
}

/// Mark on the number of a provision, where it stands beside numbers of fibers.
const TAKEN_BACK: u64 = 1 << 63;

impl ProvidedInner {
    /// The provision, and the value it took the place of.
    pub(crate) fn new<T: Service + ?Sized>(
        context: &Context,
        value: Arc<T>,
        check: Option<Check>,
        again: Option<&ProvidedInner>,
        id: u64,
    ) -> (Arc<Self>, Option<Arc<T>>) {
        let descriptor = T::__descriptor();
        let bus = context.bus().clone();
        let mut replaced = None;
        let (shared, guard, target): (Arc<dyn Erased>, Arc<dyn Erased>, Target) = match again {
            Some(before) => {
                replaced = Some(before.replace::<T>(value));
                (before.shared.clone(), before.guard.clone(), before.target)
            }
            None => {
                let shared = Arc::new(Shared {
                    value: RwLock::new(value),
                    gate: Gate::new(),
                    bus: bus.clone(),
                    plugin: context.activation().identity.name.clone(),
                    service: T::NAME,
                });
                let guard = Arc::new(Guard(T::__guard(ServiceCell(shared.clone()))));
                let target = Target::of::<T>(&guard);
                (shared, guard, target)
            }
        };
        let provided = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            place: AtomicU32::new(NOWHERE),
            id,
            descriptor,
            slot: descriptor.slot(),
            realm: context.view().realm(descriptor.slot()),
            owner: context.activation().clone(),
            fiber: Arc::downgrade(context.fiber_inner()),
            bus,
            shared,
            guard,
            target,
            check,
            asking: Mutex::default(),
            withdrawing: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            revived: AtomicBool::new(false),
            withdrawn: Latch::default(),
            late: AtomicBool::new(false),
        });
        (provided, replaced)
    }

    fn shared<T: Service + ?Sized>(&self) -> &Shared<T> {
        debug_assert_eq!(self.slot, T::__descriptor().slot());
        // SAFETY: a slot stands for one service trait (see `Service`), callers find this value by the slot of `T`, and `new`
        // made it for that slot. Copies of the trait in other libraries are the same declaration built by the same compiler.
        unsafe { &*Arc::as_ptr(&self.shared).cast::<Shared<T>>() }
    }

    /// Service and realm.
    pub(crate) fn key(&self) -> (u32, u64) {
        (self.slot, self.realm)
    }

    pub(crate) fn set<T: Service + ?Sized>(&self, value: Arc<T>) {
        drop(self.replace::<T>(value));
    }

    /// Stores a value; the caller drops the one before, where its code finds no lock held.
    fn replace<T: Service + ?Sized>(&self, value: Arc<T>) -> Arc<T> {
        std::mem::replace(&mut *self.shared::<T>().value.write().unwrap_or_else(PoisonError::into_inner), value)
    }

    pub(crate) fn gate(&self) -> &Gate {
        self.shared.gate().expect("the shared part of a service has a gate")
    }

    /// What is caused by taking the service back: no number of a fiber.
    fn cause(&self) -> u64 {
        TAKEN_BACK | self.id
    }

    /// Takes the service back: those who captured it unload first, then its calls drain. Calls that wait for that
    /// themselves are not waited for.
    pub(crate) async fn withdraw(&self, undoing: &Undoing<'_>) {
        let bus = &self.bus;
        if self.withdrawing.swap(true, Ordering::AcqRel) {
            self.withdrawn.wait().await;
            if self.late.load(Ordering::Acquire) {
                quiet(undoing, self.gate()).await;
            }
            return;
        }
        let causes: Vec<_> = undoing.causes().into_iter().chain([self.cause()]).collect();
        let users = bus.registry.withdraw(self, &causes);
        let is_kept = || self.revived.load(Ordering::Acquire);
        for user in users {
            bus.rows.wait_for(user.identity.id, || is_kept() || !user.uses(self.id)).await;
        }
        if !is_kept() {
            self.gate().close();
            let quiet = quiet_in(undoing, self.gate(), undoing.grace, Some(self.cause())).await;
            self.late.store(quiet && self.is_called(), Ordering::Release);
            bus.registry.drained(self);
        }
        self.withdrawn.set();
        if undoing.fiber.is_none() && self.late.load(Ordering::Acquire) {
            // The fiber has it until the call that took it back has ended: it would not be quiet before.
            bus.rows.wait_until(|| !self.is_called()).await;
        }
        drop(self.owner.release(&self.place));
    }

    /// Whether a call of it runs or waits, also on this thread.
    fn is_called(&self) -> bool {
        let (gate, rows) = (self.gate(), &self.bus.rows);
        let address = std::ptr::from_ref(gate) as usize;
        gate.pending() > 0 || rows.own_frames().iter().any(|(it, _)| *it == address) || !rows.is_off_cpu(gate)
    }

    /// Waits until it was taken back. Awaited from inside a call of it, or code of a plugin that unloads for it, this does not
    /// wait for that code; everybody else waits for that too.
    async fn wait_withdrawn(&self) {
        let mut waiting = SelfWaiting::new(&self.bus, self.cause());
        let mut withdrawn = self.withdrawn.wait();
        poll_fn(|cx| {
            let calls = self.bus.rows.own_frames();
            let starts = is_awaited_by_a_start(&self.bus, &calls, self.cause());
            waiting.set(calls);
            if starts { Poll::Ready(()) } else { Pin::new(&mut withdrawn).poll(cx) }
        })
        .await;
        let address = std::ptr::from_ref(self.gate()) as usize;
        let is_inside = self.bus.rows.own_frames().iter().any(|(it, _)| *it == address);
        if self.late.load(Ordering::Acquire) && !is_inside {
            let undoing = Undoing::new(&self.bus, &self.owner.identity.name, self.bus.grace.dispose);
            quiet(&undoing, self.gate()).await;
        }
    }
}

impl Owned for ProvidedInner {
    fn place(&self) -> &AtomicU32 {
        &self.place
    }
    fn label(&self) -> String {
        format!("ctx.provide(\"{}\")", self.descriptor.name)
    }
    fn visit(&self, visitor: &mut dyn FnMut(Leaf<'_>)) {
        if let Some(me) = self.me.upgrade() {
            visitor(Leaf::Service(&me));
        }
    }
    fn undo<'a>(self: Arc<Self>, undoing: &'a Undoing<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.withdraw(undoing).await })
    }
    fn activation(&self) -> Option<Arc<Activation>> {
        Some(self.owner.clone())
    }
}

/// A service this plugin provides. Dropping the handle changes nothing: the service goes with its fiber.
pub struct Provided<T: ?Sized> {
    inner: Arc<ProvidedInner>,
    service: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized> Clone for Provided<T> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T: ?Sized> std::fmt::Debug for Provided<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Provided({})", self.inner.descriptor.name)
    }
}

impl<T: ?Sized> Provided<T> {
    pub(crate) fn new(inner: Arc<ProvidedInner>) -> Self {
        Self { inner, service: PhantomData }
    }

    pub(crate) fn inner(&self) -> &Arc<ProvidedInner> {
        &self.inner
    }

    /// Takes the service back: plugins that need it unload, calls in flight drain, then it is gone. The work begins with
    /// the call and goes on whether or not the result is awaited.
    ///
    /// Awaited from inside a method of the service, or a listener of a plugin that needs it, the result does not wait for
    /// that call; in the start of such a plugin it does not wait at all, for a start runs to its end.
    pub fn dispose(&self) -> Withdrawing {
        undo_now(&self.inner.bus, self.inner.clone());
        Withdrawing(self.inner.clone())
    }

    /// The service without its type, for a listener on [`InternalGet`](crate::InternalGet) to answer with.
    pub fn any(&self) -> AnyService {
        AnyService::new(self.inner.clone())
    }

    /// Asks the check of [`provide_if`](Context::provide_if) again for every plugin that needs the service.
    pub fn notify(&self) {
        self.inner.bus.registry.notify(self.inner.key());
    }
}

/// Ends when a service is withdrawn and its calls have drained. Dropping it changes nothing.
pub struct Withdrawing(Arc<ProvidedInner>);

impl IntoFuture for Withdrawing {
    type Output = ();
    type IntoFuture = BoxFuture<'static, ()>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.wait_withdrawn().await })
    }
}

impl std::fmt::Debug for Withdrawing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Withdrawing({})", self.0.descriptor.name)
    }
}

/// A service one can call. Derefs to the trait; a call that the provider cannot answer is a [`ServiceError`].
///
/// A handle kept longer than its provider lives is harmless: its calls are [`ServiceError::Gone`]. Keep it in the state
/// that a plugin's start makes, which is made anew when the service is replaced.
pub struct Svc<T: ?Sized> {
    // Without its type, so that a future that holds a handle is `Send` whatever the compiler knows of `T` there.
    guard: Arc<dyn Erased>,
    target: Target,
    plugin: Arc<str>,
    service: PhantomData<fn() -> Box<T>>,
}

impl<T: Service + ?Sized> Svc<T> {
    pub(crate) fn new(provided: &ProvidedInner) -> Self {
        debug_assert_eq!(provided.slot, T::__descriptor().slot());
        Self {
            guard: provided.guard.clone(),
            target: provided.target,
            plugin: provided.owner.identity.name.clone(),
            service: PhantomData,
        }
    }
}

impl<T: ?Sized> Svc<T> {
    /// Name of the plugin that provides it.
    pub fn provider(&self) -> &str {
        &self.plugin
    }
}

impl<T: ?Sized> Clone for Svc<T> {
    fn clone(&self) -> Self {
        Self { guard: self.guard.clone(), target: self.target, plugin: self.plugin.clone(), service: PhantomData }
    }
}

impl<T: Service + ?Sized> Deref for Svc<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: handles are made by `new` from what was provided under the slot of `T`, which stands for one service trait
        // (see `Service`); `ProvidedInner::new` made the target for that slot, and `guard` keeps what it points to alive.
        unsafe { &*self.target.get::<T>() }
    }
}

impl<T: Service + ?Sized> std::fmt::Debug for Svc<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Svc({} of {})", T::NAME, self.plugin)
    }
}

/// A service whose trait is named at run time: what `internal/get` hands about.
#[derive(Clone)]
pub struct AnyService(Arc<ProvidedInner>);

impl AnyService {
    pub(crate) fn new(provided: Arc<ProvidedInner>) -> Self {
        Self(provided)
    }

    /// What it is.
    pub fn descriptor(&self) -> &'static ServiceDescriptor {
        self.0.descriptor
    }

    /// The service, if it is a `T`.
    pub fn get<T: Service + ?Sized>(&self) -> Option<Svc<T>> {
        (self.0.slot == T::__descriptor().slot()).then(|| Svc::new(&self.0))
    }
}

impl std::fmt::Debug for AnyService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AnyService({} of {})", self.0.descriptor.name, self.0.owner.identity.name)
    }
}

/// A service that is looked up when it is used. A plugin that needs one this way neither waits nor reloads for it.
pub struct Lookup<T: ?Sized> {
    context: Context,
    service: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized> Clone for Lookup<T> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone(), service: PhantomData }
    }
}

impl<T: Service + ?Sized> std::fmt::Debug for Lookup<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lookup({})", T::NAME)
    }
}

impl<T: Service + ?Sized> Lookup<T> {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, service: PhantomData }
    }

    /// The service of the moment, after listeners on `internal/get` had their say; none when nobody provides it.
    ///
    /// # Errors
    ///
    /// What such a listener failed with. Cancel safe.
    pub async fn get(&self) -> Result<Option<Svc<T>>, ListenerError> {
        let descriptor = T::__descriptor();
        let name = &self.context.activation().identity.name;
        let question = InternalGet { service: descriptor, plugin: name.clone() };
        let found = dispatch::waterfall(self.context.emitter(), &question, async || {
            self.context
                .bus()
                .registry
                .look_up(self.context.fiber_inner(), self.context.view(), descriptor.slot())
                .map(AnyService::new)
        })
        .await?;
        Ok(found.and_then(|it| it.get::<T>()))
    }
}
