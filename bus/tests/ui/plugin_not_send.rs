//! A plugin whose start holds what may not leave its thread.
use std::rc::Rc;

use linn_bus::{Context, Fault, Plugin};

struct Stuck;

impl Plugin for Stuck {
    const NAME: &'static str = "stuck";
    type Config = ();
    type Needs = ();
    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        let held = Rc::new(1_u8);
        let _ = ctx.sleep(std::time::Duration::from_secs(1)).await;
        drop(held);
        Ok(())
    }
}
//~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`

struct BadConfig;

impl Plugin for BadConfig {
    const NAME: &'static str = "bad-config";
    type Config = Rc<u16>;
    type Needs = ();
    async fn start(_: &Context, _: Rc<u16>, (): ()) -> Result<(), Fault> {
        Ok(())
    }
}
//~ crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`

fn main() {}
