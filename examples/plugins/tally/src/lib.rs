//! Counts the calls of tools, and tells others by an event and a service of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use linn_sdk::prelude::*;
use linn_sdk::services::events::ToolsResult;
use tally_api::{Tally, TallyCounted};

/// What the plugin is configured with.
#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Names of tools that are not counted.
    ignore: Vec<String>,
}

struct Counts {
    ctx: Context,
    config: Config,
    calls: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    async fn count(&self, event: &ToolsResult) {
        let tool = event.execution.name().as_str().to_owned();
        if self.config.ignore.contains(&tool) {
            return;
        }
        let n_calls = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let n_calls = calls.entry(tool.clone()).or_default();
            *n_calls += 1;
            *n_calls
        };
        self.ctx.emit(&TallyCounted { tool, n_calls });
    }
}

#[provider]
impl Tally for Counts {
    fn calls(&self, tool: &str) -> Result<u64, ServiceError> {
        Ok(self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(tool).copied().unwrap_or_default())
    }
}

struct Counting;

impl Plugin for Counting {
    const NAME: &'static str = "tally";
    type Config = Config;
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Tally>(Demand::Required);
    }

    async fn start(ctx: &Context, config: Config, (): ()) -> Result<(), Fault> {
        let counts = Arc::new(Counts { ctx: ctx.clone(), config, calls: Mutex::default() });
        ctx.on_with(&counts, Counts::count)?;
        ctx.provide::<dyn Tally>(counts)?;
        Ok(())
    }
}

linn_sdk::plugin!(Counting);
