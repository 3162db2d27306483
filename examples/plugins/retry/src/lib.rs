//! A wrapper around calls of tools: what fails or takes too long is run again after a pause.
//!
//! It waits through its context, so it needs no runtime of its own, and nothing of it waits on when it is unloaded.

use std::sync::Arc;
use std::time::Duration;

use linn_sdk::prelude::*;
use linn_sdk::services::events::ToolsExecute;
use linn_sdk::services::tools::ToolExecutionResult;

/// What the plugin is configured with.
#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Names of tools whose calls are tried again; those of all if there are none.
    tools: Vec<String>,
    /// How often a call is tried.
    attempts: u32,
    /// How long to wait between two attempts.
    pause_ms: u64,
    /// How long one attempt may take; as long as it likes if it is 0.
    limit_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { tools: Vec::new(), attempts: 3, pause_ms: 100, limit_ms: 0 }
    }
}

struct Retry {
    ctx: Context,
    config: Config,
}

impl Retry {
    async fn wrap(&self, event: &ToolsExecute, next: Next<'_, ToolsExecute>) -> Result<ToolExecutionResult, Fault> {
        let name = event.execution.name().as_str().to_owned();
        let Config { tools, attempts, pause_ms, .. } = &self.config;
        if !tools.is_empty() && !tools.contains(&name) {
            return Ok(next.run().await?);
        }
        let mut attempt = 1;
        loop {
            let result = self.attempt(event, &next).await?;
            if !result.is_error || attempt >= *attempts {
                return Ok(result);
            }
            // What is told need not hold up the call.
            let log = self.ctx.clone();
            let words = format!("attempt {attempt} of a call of `{name}` failed");
            self.ctx.spawn(async move { log.logger().info(words) })?;
            self.ctx.sleep(Duration::from_millis(*pause_ms)).await?;
            attempt += 1;
        }
    }

    /// One run of everything inside. One that takes too long is dropped where it waits.
    async fn attempt(&self, event: &ToolsExecute, next: &Next<'_, ToolsExecute>) -> Result<ToolExecutionResult, Fault> {
        let limit = Duration::from_millis(self.config.limit_ms);
        if limit.is_zero() {
            return Ok(next.run().await?);
        }
        match self.ctx.within(limit, next.run()).await {
            Ok(result) => Ok(result?),
            Err(elapsed) => Ok(ToolExecutionResult::failed(event.execution.call_id().clone(), elapsed)),
        }
    }
}

impl Plugin for Retry {
    const NAME: &'static str = "retry";
    type Config = Config;
    type Needs = ();

    async fn start(ctx: &Context, config: Config, (): ()) -> Result<(), Fault> {
        ctx.on_with(&Arc::new(Retry { ctx: ctx.clone(), config }), Retry::wrap)?;
        Ok(())
    }
}

linn_sdk::plugin!(Retry);
