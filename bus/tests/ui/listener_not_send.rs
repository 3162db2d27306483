//! Listeners that hold what may not leave its thread.
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use linn_bus::{Context, Event, Next, listener};

#[derive(Event)]
#[event(name = "ui/emitted", mode = Emit)]
struct Emitted;
#[derive(Event)]
#[event(name = "ui/awaited", mode = Serial, output = u32)]
struct Awaited;
#[derive(Event)]
#[event(name = "ui/wrapped", mode = Waterfall, output = u32)]
struct Wrapped;

async fn pause() {}

fn closure(ctx: &Context) {
    let rc = Rc::new(1);
    let _ = ctx.on(move |_: &Emitted| drop(rc.clone()));
    //~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
}

fn async_closure(ctx: &Context) {
    let _ = ctx.on(async |_: &Awaited| {
        let held = Rc::new(2_u8);
        pause().await;
        drop(held);
        Some(1)
    });
    //~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
}

fn with_macro(ctx: &Context) {
    let n = 4;
    let _ = ctx.on(listener!(async move |_: &Awaited| {
        let held = Rc::new(3_u16);
        pause().await;
        drop(held);
        Some(n)
    }));
    //~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
}

struct Plugin;

impl Plugin {
    async fn serial(&self, _: &Awaited) -> Option<u32> {
        let held = Rc::new(4_u32);
        pause().await;
        drop(held);
        None
    }
    async fn layer(&self, _: &Wrapped, next: Next<'_, Wrapped>) -> u32 {
        let held = Rc::new(5_u64);
        let inner = next.run().await.unwrap_or(0);
        drop(held);
        inner
    }
}

fn methods(ctx: &Context) {
    let plugin = Arc::new(Plugin);
    let _ = ctx.on_with(&plugin, Plugin::serial); //~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
    let _ = ctx.on_with(&plugin, Plugin::layer); //~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
}

struct State(Cell<u32>);

impl State {
    fn count(&self, _: &Emitted) {
        self.0.set(1);
    }
}

fn state(ctx: &Context) {
    let _ = ctx.on_with(&Arc::new(State(Cell::new(0))), State::count);
    //~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
}

fn main() {}
