//! A tool that says how often tools were called. It knows what counts them by their common crate alone.

use std::sync::{Arc, Mutex, PoisonError};

use linn_sdk::prelude::*;
use tally_api::{Tally, TallyCounted};

/// What the plugin is configured with.
#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Which {
    /// Name of a tool.
    tool: String,
}

struct Report;

impl Plugin for Report {
    const NAME: &'static str = "tally-report";
    type Config = Config;
    type Needs = (Svc<dyn Tools>, Svc<dyn Tally>);

    async fn start(ctx: &Context, _: Config, (tools, tally): Self::Needs) -> Result<(), Fault> {
        let last = Arc::new(Mutex::new(String::from("nothing yet")));
        let heard = last.clone();
        ctx.on(move |it: &TallyCounted| {
            *heard.lock().unwrap_or_else(PoisonError::into_inner) =
                format!("`{}` for the {}. time", it.tool, it.n_calls);
        })?;
        let report = Tool::new("tally", "Says how often a tool was called.", move |it: Which, _call| {
            let calls = tally.calls(&it.tool);
            let last = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                let n_calls = calls.map_err(|error| ToolFailure::msg(error.to_string()))?;
                Ok::<_, ToolFailure>(format!("{n_calls} calls; the last of all was {last}"))
            }
        });
        tools.register(ctx, report.read_only())?;
        Ok(())
    }
}

linn_sdk::plugin!(Report);
