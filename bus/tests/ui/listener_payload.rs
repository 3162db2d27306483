//! Listeners whose arguments are not those of a listener.
use linn_bus::{Context, Event, Next};

#[derive(Event)]
#[event(name = "ui/emitted", mode = Emit)]
struct Emitted;
#[derive(Event)]
#[event(name = "ui/wrapped", mode = Waterfall, output = u32)]
struct Wrapped;
struct Plain;

fn no_event(ctx: &Context) {
    let _ = ctx.on(|_: &Plain| {});
    //~ `Plain` is not an event
    //~ declare it with `#[derive(Event)] #[event(name = "area/name", mode = Emit)]`
}

fn by_value(ctx: &Context) {
    let _ = ctx.on(|_: Emitted| {});
    //~ write the payload's type at the argument, as a reference: `|e: &E| ..`
}

fn second_argument(ctx: &Context) {
    let _ = ctx.on(async |_: &Wrapped, _: u32| 1_u32);
    //~ Waterfall `async |e: &E, next: Next<'_, E>| next.run().await`
}

fn next_of_another(ctx: &Context) {
    let _ = ctx.on(async |_: &Wrapped, _: Next<'_, Emitted>| 1_u32); //~ this is no listener
}

fn too_many(ctx: &Context) {
    let _ = ctx.on(|_: &Emitted, _: &Emitted| {}); //~ this is no listener
}

fn main() {}
