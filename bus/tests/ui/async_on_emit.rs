//! Asynchronous listeners of events whose dispatch does not wait.
use std::sync::Arc;

use linn_bus::{Context, Event, listener};

#[derive(Event)]
#[event(name = "ui/emitted", mode = Emit)]
struct Emitted;
#[derive(Event)]
#[event(name = "ui/bailed", mode = Bail, output = u32)]
struct Bailed;

fn closures(ctx: &Context) {
    let _ = ctx.on(async |_: &Emitted| {}); //~ `Emitted` is dispatched synchronously: its listeners cannot be `async`
    let _ = ctx.on(async |_: &Bailed| Some(1)); //~ `Bailed` is dispatched synchronously: its listeners cannot be `async`
    //~ to wait for something, start a task with `ctx.spawn(..)`
}

struct Plugin;
#[derive(Event)]
#[event(name = "ui/emitted/2", mode = Emit)]
struct Emitted2;

impl Plugin {
    async fn told(&self, _: &Emitted2) {}
}

fn method(ctx: &Context) {
    let _ = ctx.on_with(&Arc::new(Plugin), Plugin::told);
    //~ `Emitted2` is dispatched synchronously: its listeners cannot be `async`
}

#[derive(Event)]
#[event(name = "ui/emitted/3", mode = Emit)]
struct Emitted3;

fn with_macro(ctx: &Context) {
    let text = String::new();
    let _ = ctx.on(listener!(async move |_: &Emitted3| drop(text.clone())));
    //~ `Emitted3` is dispatched synchronously: its listeners cannot be `async`
}

fn main() {}
