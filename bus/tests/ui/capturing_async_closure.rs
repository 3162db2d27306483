//! An async closure that captures, given to `on` as it is.
use linn_bus::{Context, Event, Next};

#[derive(Event)]
#[event(name = "ui/awaited", mode = Serial, output = String)]
struct Awaited;
#[derive(Event)]
#[event(name = "ui/wrapped", mode = Waterfall, output = String)]
struct Wrapped;

fn moved(ctx: &Context) {
    let text = String::new();
    let _ = ctx.on(async move |_: &Awaited| Some(text.clone()));
    //~ this is no listener
    //~ an async closure that captures its surroundings goes into `listener!(async move |e: &E| ..)`
    //~ or becomes a method: `ctx.on_with(&state, State::method)`
}

fn wrapped(ctx: &Context) {
    let text = String::new();
    let _ = ctx.on(async move |_: &Wrapped, _: Next<'_, Wrapped>| text.clone()); //~ this is no listener
}

fn main() {}
