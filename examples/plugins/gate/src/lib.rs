//! A permission gate: refuses calls of tools by name.

use std::sync::Arc;

use linn_sdk::prelude::*;
use linn_sdk::services::events::ToolsPreExecute;
use linn_sdk::services::tools::PreToolDecision;

/// What the plugin is configured with.
#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Names of tools whose calls are refused.
    deny: Vec<String>,
}

struct Gate {
    config: Config,
}

impl Gate {
    async fn check(&self, event: &ToolsPreExecute, next: Next<'_, ToolsPreExecute>) -> Result<PreToolDecision, Fault> {
        let name = event.execution.name().as_str();
        if self.config.deny.iter().any(|it| it == name) {
            let reason = format!("the gate lets no call of `{name}` pass");
            linn_sdk::tracing::info!(tool = name, "refused");
            return Ok(PreToolDecision::Deny { reason });
        }
        Ok(next.run().await?)
    }
}

impl Plugin for Gate {
    const NAME: &'static str = "gate";
    type Config = Config;
    type Needs = ();

    async fn start(ctx: &Context, config: Config, (): ()) -> Result<(), Fault> {
        ctx.first().on_with(&Arc::new(Gate { config }), Gate::check)?;
        Ok(())
    }
}

linn_sdk::plugin!(Gate);
