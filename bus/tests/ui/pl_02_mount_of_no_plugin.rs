//! PL-02: something that is no plugin, given to `mount`.
use linn_bus::Context;

struct Nothing;

fn mount(ctx: &Context) {
    let _ = ctx.mount::<()>(()); //~ `()` is not a plugin
    let _ = ctx.mount::<Nothing>(()); //~ `Nothing` is not a plugin
    let _ = ctx.prepare::<String>(()); //~ `String` is not a plugin
    //~ `async fn start(ctx: &Context, config: Self::Config, needs: Self::Needs) -> Result<(), Fault>`
    //~ for a single closure there is `ctx.mount_fn("name", async |ctx, needs| ..)`
}

fn main() {}
