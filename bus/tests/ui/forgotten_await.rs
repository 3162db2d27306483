//! Futures that nobody awaits: a warning, which this program makes an error.
#![deny(unused_must_use)]
use std::time::Duration;

use linn_bus::{Context, Event, Next};

#[derive(Event)]
#[event(name = "ui/wrapped", mode = Waterfall, output = ())]
struct Wrapped;

fn sleep(ctx: &Context) {
    ctx.sleep(Duration::ZERO); //~ nobody waits until this is awaited: `ctx.sleep(..).await`
}

fn run(next: Next<'_, Wrapped>) {
    next.run(); //~ the inner listeners run when this is awaited
}

fn main() {}
