//! `next` where nothing comes next.
use std::sync::Arc;

use linn_bus::{Context, Event, Next};

#[derive(Event)]
#[event(name = "ui/awaited", mode = Serial, output = u32)]
struct Awaited;
#[derive(Event)]
#[event(name = "ui/together", mode = Parallel)]
struct Together;
#[derive(Event)]
#[event(name = "ui/bailed", mode = Bail, output = u32)]
struct Bailed;

struct Plugin;

impl Plugin {
    async fn layer(&self, _: &Together, _: Next<'_, Together>) {}
}

fn listeners(ctx: &Context) {
    let _ = ctx.on(async |_: &Awaited, _: Next<'_, Awaited>| Some(1)); //~ listeners of `Awaited` get no `next`: its mode is
    let _ = ctx.on(|_: &Bailed, _: Next<'_, Bailed>| Some(1));
    let _ = ctx.on_with(&Arc::new(Plugin), Plugin::layer); //~ listeners of `Together` get no `next`: its mode is
    //~ only listeners of Waterfall events take `next`
}

fn main() {}
