//! A verb that does not fit the mode of the event.
use linn_bus::{Context, Event};

#[derive(Event)]
#[event(name = "ui/emitted", mode = Emit)]
struct Emitted;
#[derive(Event)]
#[event(name = "ui/bailed", mode = Bail, output = u32)]
struct Bailed;
#[derive(Event)]
#[event(name = "ui/awaited", mode = Serial, output = u32)]
struct Awaited;
#[derive(Event)]
#[event(name = "ui/together", mode = Parallel)]
struct Together;
#[derive(Event)]
#[event(name = "ui/wrapped", mode = Waterfall, output = u32)]
struct Wrapped;

fn emit(ctx: &Context) {
    ctx.emit(&Bailed); //~ `Bailed` cannot be dispatched with `ctx.emit(..)`: its mode is
    ctx.emit(&Awaited); //~ `Awaited` cannot be dispatched with `ctx.emit(..)`: its mode is
    ctx.emit(&Together); //~ `Together` cannot be dispatched with `ctx.emit(..)`: its mode is
    ctx.emit(&Wrapped); //~ `Wrapped` cannot be dispatched with `ctx.emit(..)`: its mode is
    let _ = ctx.try_emit(&Wrapped); //~ `Wrapped` cannot be dispatched with `ctx.emit(..)`: its mode is
    //~ the verb follows the mode: Emit => `ctx.emit(&e)`, Bail => `ctx.bail(&e)?`, Serial => `ctx.serial(&e).await?`
}

fn bail(ctx: &Context) {
    let _ = ctx.bail(&Emitted); //~ `Emitted` cannot be dispatched with `ctx.bail(..)`: its mode is
}

async fn serial(ctx: &Context) {
    let _ = ctx.serial(&Bailed).await; //~ `Bailed` cannot be dispatched with `ctx.serial(..)`: its mode is
}

async fn parallel(ctx: &Context) {
    let _ = ctx.parallel(&Awaited).await; //~ `Awaited` cannot be dispatched with `ctx.parallel(..)`: its mode is
}

async fn waterfall(ctx: &Context) {
    //~ `Emitted` cannot be dispatched with `ctx.waterfall(..)`: its mode is
    let _ = ctx.waterfall(&Emitted, async || ()).await;
}

fn main() {}
