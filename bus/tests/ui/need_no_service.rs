//! Needs that are no services.
use std::sync::Arc;

use linn_bus::{Context, Inject, Lookup, Svc, service};

#[service("ui/tools")]
trait Tools {}

trait Undeclared: Send + Sync {}
struct Plain;

#[derive(Inject)]
struct Needs {
    tools: Arc<dyn Tools>, //~ cannot be injected
    plain: Plain, //~ `Plain` cannot be injected
    //~ write `Svc<dyn Trait>` for a service the plugin needs, `Option<Svc<dyn Trait>>` for one it can do without
}

#[derive(Inject)]
struct Others {
    undeclared: Svc<dyn Undeclared>, //~ `dyn Undeclared` is not a service
    concrete: Lookup<Plain>, //~ `Plain` is not a service
    //~ services are traits: declare `#[service("name")] pub trait Name { .. }` and write `dyn Name`
}

fn mount(ctx: &Context) {
    let _ = ctx.mount_fn("ui", async |_: Context, _: u8| {}); //~ `u8` cannot be injected
}

fn reach(ctx: &Context) {
    let _ = ctx.get::<u16>(); //~ `u16` is not a service
    let _ = ctx.provide(Arc::new(1_u32)); //~ `u32` is not a service
}

fn main() {}
