//! Conformance of dispatch and of scopes, through the public interface.
//!
//! Names of tests begin with the id of the case they hold, or with the rule. What is common to the five modes is tested by
//! one body for all of them: [`listen`] and [`dispatch`] take the mode as a value.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod decisions;
mod errors;
mod events;
mod gone;
mod internal;
mod nesting;
mod once;
mod order;
mod ordered;
mod panics;
mod parallel;
mod queue;
mod scope_life;
mod scopes;
mod waterfall;

use std::sync::{Arc, Mutex};

use linn_bus::{
    BusError, Context, Event, Fault, IntoListener, Listener, ListenerErrors, ModeName, Next, On, ScopeKey, listener,
};

#[derive(Debug, Clone, Event)]
#[event(name = "plain/emit", mode = Emit)]
struct Ping(u32);

#[derive(Debug, Event)]
#[event(name = "plain/bail", mode = Bail, output = u32)]
struct Ask(u32);

#[derive(Debug, Event)]
#[event(name = "plain/serial", mode = Serial, output = u32)]
struct Step(u32);

#[derive(Debug, Event)]
#[event(name = "plain/parallel", mode = Parallel)]
struct Fan(u32);

#[derive(Debug, Event)]
#[event(name = "plain/waterfall", mode = Waterfall, output = u32)]
struct Wrap(u32);

#[derive(Debug, Clone, Event)]
#[event(name = "scoped/emit", mode = Emit, subject = about)]
struct ScopedPing {
    about: Option<ScopeKey>,
}

#[derive(Debug, Event)]
#[event(name = "scoped/bail", mode = Bail, output = u32, subject = about)]
struct ScopedAsk {
    about: Option<ScopeKey>,
}

#[derive(Debug, Event)]
#[event(name = "scoped/serial", mode = Serial, output = u32, subject = about)]
struct ScopedStep {
    about: Option<ScopeKey>,
}

#[derive(Debug, Event)]
#[event(name = "scoped/parallel", mode = Parallel, subject = about)]
struct ScopedFan {
    about: Option<ScopeKey>,
}

#[derive(Debug, Event)]
#[event(name = "scoped/waterfall", mode = Waterfall, output = u32, subject = about)]
struct ScopedWrap {
    about: Option<ScopeKey>,
}

const MODES: [ModeName; 5] =
    [ModeName::Emit, ModeName::Bail, ModeName::Serial, ModeName::Parallel, ModeName::Waterfall];

/// The plain event of a mode.
fn name_of(mode: ModeName) -> String {
    format!("plain/{mode}")
}

/// What listeners noted, in order.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().expect("no listener panics while it notes").push(text.into());
    }

    /// A listener that notes `text` and abstains.
    fn noting(&self, text: impl Into<String>) -> impl Fn() -> Result<(), Fault> + Send + Sync + 'static {
        let (log, text) = (self.clone(), text.into());
        move || {
            log.note(text.clone());
            Ok(())
        }
    }

    /// What was noted since the last call.
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().expect("no listener panics while it notes")).join(" ")
    }
}

/// Where listeners are registered: a context, or a context with options.
trait Registers {
    fn register<E: Event, M>(&self, listener: impl IntoListener<E, M>) -> Result<Listener, BusError>;
}

impl Registers for Context {
    fn register<E: Event, M>(&self, listener: impl IntoListener<E, M>) -> Result<Listener, BusError> {
        self.on(listener)
    }
}

impl Registers for On<'_> {
    fn register<E: Event, M>(&self, listener: impl IntoListener<E, M>) -> Result<Listener, BusError> {
        self.on(listener)
    }
}

/// Registers a listener of the plain event of `mode` that acts and abstains, or delegates.
fn listen(
    on: &impl Registers,
    mode: ModeName,
    act: impl Fn() -> Result<(), Fault> + Send + Sync + 'static,
) -> Listener {
    let listener = match mode {
        ModeName::Emit => on.register(move |_: &Ping| act()),
        ModeName::Bail => on.register(move |_: &Ask| act().map(|()| None::<u32>)),
        ModeName::Serial => on.register(move |_: &Step| act().map(|()| None::<u32>)),
        ModeName::Parallel => on.register(move |_: &Fan| act()),
        ModeName::Waterfall => on.register(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            act()?;
            Ok::<_, Fault>(next.run().await?)
        })),
        other => panic!("a new mode: {other}"),
    };
    listener.expect("the context is active")
}

/// As [`listen`], for the event of `mode` that scopes filter.
fn listen_scoped(
    on: &impl Registers,
    mode: ModeName,
    act: impl Fn() -> Result<(), Fault> + Send + Sync + 'static,
) -> Listener {
    let listener = match mode {
        ModeName::Emit => on.register(move |_: &ScopedPing| act()),
        ModeName::Bail => on.register(move |_: &ScopedAsk| act().map(|()| None::<u32>)),
        ModeName::Serial => on.register(move |_: &ScopedStep| act().map(|()| None::<u32>)),
        ModeName::Parallel => on.register(move |_: &ScopedFan| act()),
        ModeName::Waterfall => on.register(listener!(async move |_: &ScopedWrap, next: Next<'_, ScopedWrap>| {
            act()?;
            Ok::<_, Fault>(next.run().await?)
        })),
        other => panic!("a new mode: {other}"),
    };
    listener.expect("the context is active")
}

/// Dispatches the plain event of `mode`; the default of the waterfall is 0.
async fn dispatch(ctx: &Context, mode: ModeName) -> Result<Option<u32>, ListenerErrors> {
    match mode {
        ModeName::Emit => ctx.try_emit(&Ping(0)).map(|()| None),
        ModeName::Bail => Ok(ctx.bail(&Ask(0))?),
        ModeName::Serial => Ok(ctx.serial(&Step(0)).await?),
        ModeName::Parallel => ctx.parallel(&Fan(0)).await.map(|()| None),
        ModeName::Waterfall => Ok(Some(ctx.waterfall(&Wrap(0), async || 0).await?)),
        other => panic!("a new mode: {other}"),
    }
}

/// As [`dispatch`], for the event of `mode` that scopes filter.
async fn dispatch_about(ctx: &Context, mode: ModeName, about: Option<&ScopeKey>) -> Result<(), ListenerErrors> {
    let about = about.cloned();
    match mode {
        ModeName::Emit => ctx.try_emit(&ScopedPing { about })?,
        ModeName::Bail => drop(ctx.bail(&ScopedAsk { about })?),
        ModeName::Serial => drop(ctx.serial(&ScopedStep { about }).await?),
        ModeName::Parallel => ctx.parallel(&ScopedFan { about }).await?,
        ModeName::Waterfall => drop(ctx.waterfall(&ScopedWrap { about }, async || 0_u32).await?),
        other => panic!("a new mode: {other}"),
    }
    Ok(())
}

/// Polls once and no more.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    use futures::FutureExt as _;
    future.now_or_never()
}
