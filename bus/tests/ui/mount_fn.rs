//! Functions that cannot start a plugin.
use linn_bus::Context;

fn captures(ctx: &Context) {
    let text = String::new();
    let _ = ctx.mount_fn("ui", async move |_: Context, (): ()| drop(text.clone()));
    //~ this cannot start a plugin: `mount_fn` takes a function of a `Context` and the needs, called at every start
    //~ what it captures can be state in an `Arc`: `ctx.mount_with("name", &state, async |state: Arc<S>, ctx: Context, needs: N| ..)`
    //~ a function without needs takes `(): ()` as its second argument
    //~ write `move |ctx: Context, needs: N| { let it = it.clone(); async move { .. } }`
}

fn not_async(ctx: &Context) {
    let _ = ctx.mount_fn("ui", |_: Context, (): ()| {}); //~ is not a future
}

fn no_needs(ctx: &Context) {
    let _ = ctx.mount_fn("ui", async |_: Context| {}); //~ takes 2 arguments
}

fn main() {}
