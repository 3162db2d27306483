//! Answers that do not fit the mode of the event.
use std::sync::Arc;

use linn_bus::{Context, Event, Next, listener};

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

fn closures(ctx: &Context) {
    let _ = ctx.on(|_: &Emitted| 1_u8); //~ a listener of `Emitted` cannot answer `u8`: answer `()`, or a `Result` of it
    let _ = ctx.on(|_: &Bailed| 1_u32); //~ a listener of `Bailed` cannot answer `u32`: answer `Option<u32>`, or a `Result` of it
    let _ = ctx.on(|_: &Bailed| false); //~ a listener of `Bailed` cannot answer `bool`: answer `Option<u32>`, or a `Result` of it
    let _ = ctx.on(async |_: &Awaited| "text"); //~ a listener of `Awaited` cannot answer `&str`: answer `Option<u32>`, or a `Result` of it
    let _ = ctx.on(async |_: &Together| Some(1_u8)); //~ a listener of `Together` cannot answer `Option<u8>`: answer `()`, or a `Result` of it
    //~ a listener of `Wrapped` cannot answer `Option<u32>`: answer `u32`, or a `Result` of it
    let _ = ctx.on(async |_: &Wrapped, next: Next<'_, Wrapped>| next.run().await.ok());
    //~ listeners answer by mode: Emit and Parallel => `()` or `Result<(), _>`; Bail and Serial => `Option<Output>`
}

struct Plugin;

impl Plugin {
    fn bail(&self, _: &Bailed) -> u16 {
        1
    }
    async fn serial(&self, _: &Awaited) -> u64 {
        1
    }
    async fn layer(&self, _: &Wrapped, _: Next<'_, Wrapped>) -> String {
        String::new()
    }
}

fn methods(ctx: &Context) {
    let plugin = Arc::new(Plugin);
    let _ = ctx.on_with(&plugin, Plugin::bail); //~ a listener of `Bailed` cannot answer `u16`: answer `Option<u32>`, or a `Result` of it
    let _ = ctx.on_with(&plugin, Plugin::serial); //~ a listener of `Awaited` cannot answer `u64`: answer `Option<u32>`, or a `Result` of it
    let _ = ctx.on_with(&plugin, Plugin::layer); //~ a listener of `Wrapped` cannot answer `String`: answer `u32`, or a `Result` of it
}

fn with_macro(ctx: &Context) {
    let n = 1_i8;
    let _ = ctx.on(listener!(async move |_: &Awaited| n)); //~ a listener of `Awaited` cannot answer `i8`: answer `Option<u32>`, or a `Result` of it
}

async fn default(ctx: &Context) {
    let _ = ctx.waterfall(&Wrapped, async || 1_i64).await; //~ a listener of `Wrapped` cannot answer `i64`: answer `u32`, or a `Result` of it
}

fn main() {}
