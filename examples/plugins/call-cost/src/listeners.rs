//! Listeners that do next to nothing. The program that measures them has this very file as one of its modules.

use std::hint::black_box;
use std::sync::Arc;

use linn_bus::{Context, Fault, Next, Plugin};
use linn_services::events::{HmrChange, LoaderPatchContext};

/// What the plugin is configured with.
#[derive(Debug, Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many synchronous listeners there are.
    pub sync: u64,
    /// How many asynchronous ones, each of which wraps the next.
    pub layers: u64,
}

struct Listens(u64);

impl Listens {
    fn hear(&self, event: &HmrChange) {
        black_box(event.path.as_os_str().len() as u64 ^ self.0);
    }

    async fn wrap(&self, _: &LoaderPatchContext, next: Next<'_, LoaderPatchContext>) -> Result<bool, Fault> {
        black_box(self.0);
        Ok(next.run().await?)
    }
}

/// The plugin.
#[derive(Debug)]
pub struct CallCost;

impl Plugin for CallCost {
    const NAME: &'static str = "call-cost";
    type Config = Config;
    type Needs = ();

    async fn start(ctx: &Context, config: Config, (): ()) -> Result<(), Fault> {
        for n in 0..config.sync {
            ctx.on_with(&Arc::new(Listens(n)), Listens::hear)?;
        }
        for n in 0..config.layers {
            ctx.on_with(&Arc::new(Listens(n)), Listens::wrap)?;
        }
        Ok(())
    }
}
