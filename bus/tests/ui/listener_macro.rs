//! `listener!` of closures that it does not take.
use linn_bus::{Context, Event, listener};

#[derive(Event)]
#[event(name = "ui/awaited", mode = Serial, output = String)]
struct Awaited;

fn borrowing(ctx: &Context) {
    let text = String::new();
    let _ = ctx.on(listener!(async |_: &Awaited| Some(text.clone())));
    //~ write `async move`: a listener outlives what is around it, so `listener!(async move |e: &E| ..)` takes it along
}

fn not_async(ctx: &Context) {
    let text = String::new();
    let _ = ctx.on(listener!(move |_: &Awaited| Some(text.clone())));
    //~ `listener!` takes an async closure with the types written out: `listener!(async move |e: &E| ..)`
    //~ a closure that is not async goes to `on` as it is
}

fn main() {}
