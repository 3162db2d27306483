//! The forms that the messages name, and every shape of a listener beside.
//~ compiles
use std::sync::Arc;

use linn_bus::{
    BusError, Context, Event, Fault, Inject, ListenerError, Lookup, Next, Plugin, Run, ScopeKey, ServiceError, Svc, listener,
    provider, service,
};

#[derive(Event)]
#[event(name = "ui/emitted", mode = Emit)]
struct Emitted;
#[derive(Event)]
#[event(name = "ui/bailed", mode = Bail, output = u32, subject = agent)]
struct Bailed {
    agent: Option<ScopeKey>,
}
#[derive(Event)]
#[event(name = "ui/awaited", mode = Serial, output = u32)]
struct Awaited;
#[derive(Event)]
#[event(name = "ui/together", mode = Parallel)]
struct Together;
#[derive(Event)]
#[event(name = "ui/wrapped", mode = Waterfall, output = u32)]
struct Wrapped;
#[derive(Event)]
#[event(name = "ui/fallible", mode = Waterfall, output = Result<u32, String>)]
struct FallibleOutput;

async fn verbs(ctx: &Context) -> Result<(), Box<dyn std::error::Error>> {
    ctx.emit(&Emitted);
    ctx.try_emit(&Emitted)?;
    ctx.bail(&Bailed { agent: None })?;
    ctx.serial(&Awaited).await?;
    ctx.parallel(&Together).await?;
    ctx.waterfall(&Wrapped, async || 1).await?;
    ctx.waterfall(&Wrapped, async || Err(Fault::msg("no"))).await?;
    let text = String::new();
    ctx.waterfall(&FallibleOutput, async || Err(text.clone())).await??;
    Ok(())
}

async fn item(_: &Awaited) -> Option<u32> {
    None
}

async fn layer(_: &Wrapped, next: Next<'_, Wrapped>) -> Result<u32, ListenerError> {
    next.run().await
}

fn forwarding<'a>(_: &Wrapped, next: Next<'a, Wrapped>) -> Run<'a, Wrapped> {
    next.run()
}

fn closures(ctx: &Context) -> Result<(), BusError> {
    let text = String::new();
    let copied = text.clone();
    ctx.on(move |_: &Emitted| drop(copied.clone()))?;
    ctx.on(|_: &Emitted| -> Result<(), Fault> { Err(Fault::msg("no")) })?;
    ctx.on(|_: &Bailed| Some(1))?;
    ctx.on(|e: &Bailed| e.agent.is_some().then_some(2))?;
    ctx.on(|_: &Bailed| None)?;
    ctx.on(|_: &Bailed| Err(Fault::msg("no")))?;
    ctx.on(|_: &Bailed| Ok::<_, std::fmt::Error>(Some(3)))?;
    ctx.on(|_: &Awaited| Some(4))?;
    ctx.on(async |_: &Awaited| Some(5))?;
    ctx.on(async |_: &Awaited| Ok::<_, Fault>(Some(6)))?;
    ctx.on(item)?;
    let copied = text.clone();
    ctx.on(move |_: &Awaited| {
        let copied = copied.clone();
        async move { u32::try_from(copied.len()).ok() }
    })?;
    ctx.on(|_: &Together| {})?;
    ctx.on(async |_: &Together| {})?;
    ctx.on(|_: &Wrapped| 7)?;
    ctx.on(async |_: &Wrapped| 8)?;
    ctx.on(async |_: &Wrapped, next: Next<'_, Wrapped>| next.run().await)?;
    ctx.on(layer)?;
    ctx.on(forwarding)?;
    ctx.on(async |_: &FallibleOutput| Ok(1))?;
    let copied = text.clone();
    ctx.on(listener!(async move |_: &Awaited| u32::try_from(copied.len()).ok()))?;
    ctx.first().once().on(listener!(async move |_: &Wrapped, next: Next<'_, Wrapped>| {
        drop(text.clone());
        next.run().await
    }))?;
    Ok(())
}

struct Guard;

impl Guard {
    fn told(&self, _: &Emitted) {}
    fn asked(&self, _: &Bailed) -> Option<u32> {
        None
    }
    async fn awaited(&self, _: &Awaited) -> Result<Option<u32>, Fault> {
        Ok(None)
    }
    async fn wrapped(&self, _: &Wrapped, next: Next<'_, Wrapped>) -> Result<u32, ListenerError> {
        next.run().await
    }
}

#[service("ui/tools")]
trait Tools {
    async fn run(&self, name: &str) -> Result<String, ServiceError>;
}

struct Shell;

#[provider]
impl Tools for Shell {
    async fn run(&self, name: &str) -> Result<String, ServiceError> {
        Ok(name.to_owned())
    }
}

#[derive(Inject)]
struct Needs {
    tools: Svc<dyn Tools>,
    more: Option<Svc<dyn Tools>>,
    later: Lookup<dyn Tools>,
}

impl Plugin for Guard {
    const NAME: &'static str = "guard";
    type Config = ();
    type Needs = Needs;
    async fn start(ctx: &Context, (): (), needs: Needs) -> Result<(), Fault> {
        needs.tools.run("a").await?;
        drop((needs.more, needs.later));
        let guard = Arc::new(Guard);
        ctx.on_with(&guard, Guard::told)?;
        ctx.on_with(&guard, Guard::asked)?;
        ctx.on_with(&guard, Guard::awaited)?;
        ctx.global().on_with(&guard, Guard::wrapped)?;
        Ok(())
    }
}

fn mount(ctx: &Context) -> Result<(), BusError> {
    ctx.provide::<dyn Tools>(Arc::new(Shell))?;
    ctx.mount::<Guard>(())?;
    ctx.mount_fn("ui", async |_: Context, _: Svc<dyn Tools>| {})?;
    ctx.scope_for(&ctx.new_scope_key())?;
    Ok(())
}

fn main() {}
