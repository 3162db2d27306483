//! Plugins: what can be mounted.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use crate::bus::lock;
use crate::contain::{Contained, contain, contain_now};
use crate::context::Context;
use crate::dispatch;
use crate::fault::{BusError, Fault};
use crate::fiber::{Fiber, FiberState};
use crate::inject::{Inject, NeedList, Resolved, Resolver};
use crate::internal::InternalUpdate;
use crate::seams::BoxFuture;

/// Something that can be mounted, any number of times: a config type, the services it needs, and a start.
///
/// ```
/// use std::sync::Arc;
/// use linn_bus::{Context, Event, Fault, Plugin};
///
/// #[derive(Event)]
/// #[event(name = "door/open", mode = Bail, output = String)]
/// struct Open { who: String }
///
/// struct Guard { banned: Vec<String> }
///
/// impl Guard {
///     fn check(&self, open: &Open) -> Option<String> {
///         self.banned.contains(&open.who).then(|| format!("{} may not enter", open.who))
///     }
/// }
///
/// impl Plugin for Guard {
///     const NAME: &'static str = "guard";
///     type Config = Vec<String>;
///     type Needs = ();
///     async fn start(ctx: &Context, banned: Vec<String>, (): ()) -> Result<(), Fault> {
///         let guard = Arc::new(Guard { banned });
///         ctx.on_with(&guard, Guard::check)?;
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin",
    note = "implement `Plugin` for it: `NAME`, `type Config`, `type Needs` and `async fn start(ctx: &Context, config: Self::Config, needs: Self::Needs) -> Result<(), Fault>`; for a single closure there is `ctx.mount_fn(\"name\", async |ctx, needs| ..)`"
)]
pub trait Plugin: 'static {
    /// Name, for errors, logs and listings.
    const NAME: &'static str;
    /// What each instance is configured with; `()` for nothing.
    type Config: Clone + Send + Sync + 'static; // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
    /// The services it needs: a struct with `#[derive(Inject)]`, one service, a tuple, or `()`.
    type Needs: Inject;

    /// Looks at a config before it is used; an error says what is wrong and what would be right. The plugin does not start
    /// with a config that fails here, and an update with one is refused.
    fn validate(config: &Self::Config) -> Result<(), Fault> {
        let _ = config;
        Ok(())
    }

    /// Names the services that `start` will provide. Only diagnostics read it: with it a plugin that waits for ever can say
    /// that it waits in a circle.
    fn provides(list: &mut NeedList) {
        let _ = list;
    }

    /// Registers what the plugin does. Everything registered through `ctx` is undone when the instance ends; an error or
    /// panic undoes it at once and the fiber is `Failed`.
    ///
    /// Called again with fresh `needs` when a service it needs was replaced, after a restart, and after an update. It is
    /// never cancelled: a start that waits for something should bound the wait, as with [`Context::within`].
    fn start(ctx: &Context, config: Self::Config, needs: Self::Needs)
    -> impl Future<Output = Result<(), Fault>> + Send; // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
}

/// One instance without its types.
#[doc(hidden)]
pub(crate) trait Instance: Send + Sync {
    fn needs(&self) -> &NeedList;
    fn provides(&self) -> &NeedList;
    fn validate(&self) -> Result<(), Fault>;
    fn start<'a>(&'a self, context: &'a Context, resolved: &'a Resolved) -> BoxFuture<'a, Result<(), Fault>>;
    fn set_config(&self, config: &(dyn Any + Send + Sync)) -> bool;
}

/// What it calls of the plugin is caught here and not only by those who call it, which may be code of another library.
pub(crate) struct InstanceOf<P: Plugin> {
    config: Contained<Mutex<P::Config>>,
    needs: NeedList,
    provides: NeedList,
}

impl<P: Plugin> InstanceOf<P> {
    pub(crate) fn new(config: P::Config) -> Self {
        let mut provides = NeedList::default();
        P::provides(&mut provides);
        Self { config: Contained::new(Mutex::new(config)), needs: NeedList::of::<P::Needs>(), provides }
    }

    /// The same, with more services that it waits for.
    #[cfg(feature = "json")]
    pub(crate) fn with_needs(mut self, more: &NeedList) -> Self {
        self.needs.extend(more);
        self
    }

    fn config(&self) -> Result<P::Config, Fault> {
        contain_now(|| lock(&self.config).clone())
    }
}

impl<P: Plugin> Instance for InstanceOf<P> {
    fn needs(&self) -> &NeedList {
        &self.needs
    }
    fn provides(&self) -> &NeedList {
        &self.provides
    }
    fn validate(&self) -> Result<(), Fault> {
        let config = self.config()?;
        contain_now(|| P::validate(&config)).flatten()
    }
    fn start<'a>(&'a self, context: &'a Context, resolved: &'a Resolved) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(contain(async move {
            let needs = P::Needs::take(&Resolver::new(context, resolved)).map_err(Fault::from)?;
            let config = self.config()?;
            P::start(context, config, needs).await
        }))
    }
    fn set_config(&self, config: &(dyn Any + Send + Sync)) -> bool {
        let Some(config) = config.downcast_ref::<Contained<P::Config>>() else { return false };
        let stored = contain_now(|| {
            let config = P::Config::clone(config);
            std::mem::replace(&mut *lock(&self.config), config)
        });
        // The old one is dropped with no lock held.
        stored.and_then(|old| contain_now(|| drop(old))).is_ok()
    }
}

/// That a function may be called at every start of a plugin: an async closure that captures nothing, or a closure that
/// returns a future.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this cannot start a plugin: `mount_fn` takes a function of a `Context` and the needs, called at every start",
    label = "cannot start a plugin",
    note = "what it captures can be state in an `Arc`: `ctx.mount_with(\"name\", &state, async |state: Arc<S>, ctx: Context, needs: N| ..)`",
    note = "an async closure that captures its surroundings: write `move |ctx: Context, needs: N| {{ let it = it.clone(); async move {{ .. }} }}`, or a type that implements `Plugin`",
    note = "a function without needs takes `(): ()` as its second argument"
)]
pub trait StartsPlugin<N, Fut>: Fn(Context, N) -> Fut {}
// Not recommended, so that the compiler reports the trait itself and not the `Fn` behind it.
#[diagnostic::do_not_recommend]
impl<N, Fut, F: Fn(Context, N) -> Fut> StartsPlugin<N, Fut> for F {}

/// A plugin that is one function.
pub(crate) struct FnInstance<N, F> {
    start: Contained<F>,
    needs: NeedList,
    provides: NeedList,
    marker: PhantomData<fn() -> N>,
}

impl<N: Inject, F> FnInstance<N, F> {
    pub(crate) fn new(start: F) -> Self {
        Self {
            start: Contained::new(start),
            needs: NeedList::of::<N>(),
            provides: NeedList::default(),
            marker: PhantomData,
        }
    }
}

impl<N, F, Fut, R> Instance for FnInstance<N, F>
where
    N: Inject,
    F: Fn(Context, N) -> Fut + Send + Sync,
    Fut: Future<Output = R> + Send,
    R: crate::effect::EffectResult,
{
    fn needs(&self) -> &NeedList {
        &self.needs
    }
    fn provides(&self) -> &NeedList {
        &self.provides
    }
    fn validate(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn start<'a>(&'a self, context: &'a Context, resolved: &'a Resolved) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(contain(async move {
            let needs = N::take(&Resolver::new(context, resolved)).map_err(Fault::from)?;
            (self.start)(context.clone(), needs).await.into_result()
        }))
    }
    fn set_config(&self, _: &(dyn Any + Send + Sync)) -> bool {
        false
    }
}

/// A mounted plugin whose type is known, so that its config can be updated. Everything else is on [`Fiber`].
pub struct Mounted<P> {
    fiber: Fiber,
    plugin: PhantomData<fn() -> P>,
}

impl<P> Clone for Mounted<P> {
    fn clone(&self) -> Self {
        Self::new(self.fiber.clone())
    }
}

impl<P> std::ops::Deref for Mounted<P> {
    type Target = Fiber;
    fn deref(&self) -> &Fiber {
        &self.fiber
    }
}

impl<P> std::fmt::Debug for Mounted<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.fiber.fmt(f)
    }
}

impl<P> Mounted<P> {
    pub(crate) fn new(fiber: Fiber) -> Self {
        Self { fiber, plugin: PhantomData }
    }

    /// The fiber, without the plugin's type.
    pub fn fiber(&self) -> &Fiber {
        &self.fiber
    }
}

/// What became of an update.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updated {
    /// The config was stored and the fiber restarted; its state now.
    Restarted(FiberState),
    /// A listener on `internal/update` kept the old config.
    Kept,
}

impl<P: Plugin> Mounted<P> {
    /// Replaces the config and restarts the fiber, unless a listener on `internal/update` keeps the old one.
    ///
    /// # Errors
    ///
    /// [`BusError::ConfigInvalid`] before anything changes; the error of an `internal/update` listener; what the new run
    /// failed with; [`BusError::Disposed`] when the fiber is gone.
    ///
    /// Cancel safe: once stored, the restart goes on without the waiter.
    pub async fn update(&self, config: P::Config) -> Result<Updated, BusError> {
        self.update_as(config, true).await
    }

    /// [`update`](Self::update) for this run of the program only: listeners that keep configs are told not to.
    pub async fn update_unsaved(&self, config: P::Config) -> Result<Updated, BusError> {
        self.update_as(config, false).await
    }

    async fn update_as(&self, config: P::Config, save: bool) -> Result<Updated, BusError> {
        update::<P>(&self.fiber, config, save).await
    }
}

/// Replaces the config of a fiber that is an instance of `P`.
pub(crate) async fn update<P: Plugin>(fiber: &Fiber, config: P::Config, save: bool) -> Result<Updated, BusError> {
    let inner = fiber.inner();
    if fiber.id().is_none() {
        return Err(BusError::Disposed { plugin: inner.identity.name.clone() });
    }
    let invalid = |issues| BusError::ConfigInvalid { plugin: inner.identity.name.clone(), issues };
    contain_now(|| P::validate(&config)).flatten().map_err(invalid)?;
    update_to(fiber, Arc::new(Contained::new(config)), save).await
}

/// [`update`] with a config that is valid, for all plugins alike.
async fn update_to(fiber: &Fiber, config: Arc<dyn Any + Send + Sync>, save: bool) -> Result<Updated, BusError> {
    let inner = fiber.inner();
    let is_gone = || fiber.id().is_none();
    let gone = || BusError::Disposed { plugin: inner.identity.name.clone() };
    let update = InternalUpdate { fiber: fiber.clone(), save, key: inner.update_key().clone(), config: config.clone() };
    let stored = dispatch::waterfall(inner.emitter(), &update, async || -> Result<bool, Fault> {
        let stored = inner.instance.as_ref().is_some_and(|it| it.set_config(&*config));
        inner.request_restart()?;
        Ok(stored)
    })
    .await
    .map_err(|error| if is_gone() { gone() } else { error.into() })?;
    if !stored {
        return Ok(Updated::Kept);
    }
    fiber.settled().await.map(Updated::Restarted)
}
