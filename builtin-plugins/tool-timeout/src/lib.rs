//! Holds tool calls to the time limit of their tool.
//!
//! The time counts from when the call runs; waiting for a decision is not part of it.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linn_bus::{Context, Fault, Lookup, Next, Plugin};
use linn_services::events::ToolsExecute;
use linn_services::session::ErrorInfo;
use linn_services::tools::{ToolExecutionResult, Tools};

/// The policy.
#[derive(Debug)]
pub struct ToolTimeoutPlugin;

linn_bus::plugin!(ToolTimeoutPlugin);

impl Plugin for ToolTimeoutPlugin {
    const NAME: &'static str = "tool-timeout";
    type Config = ();
    type Needs = Lookup<dyn Tools>;

    async fn start(ctx: &Context, (): (), tools: Self::Needs) -> Result<(), Fault> {
        ctx.on_with(&Arc::new(Policy { ctx: ctx.clone(), tools }), Policy::hold)?;
        Ok(())
    }
}

struct Policy {
    ctx: Context,
    tools: Lookup<dyn Tools>,
}

impl Policy {
    async fn hold(&self, event: &ToolsExecute, next: Next<'_, ToolsExecute>) -> Result<ToolExecutionResult, Fault> {
        let call = &event.execution;
        let Some(tools) = self.tools.get().await? else { return Ok(next.run().await?) };
        let limit = tools.get(call.scope(), call.name())?.and_then(|it| it.timeout);
        let Some(limit) = limit else { return Ok(next.run().await?) };

        let outer = call.signal();
        let inner = outer.child_token();
        let has_fired = Arc::new(AtomicBool::new(false));
        let (fires, cancelled) = (has_fired.clone(), inner.clone());
        let timer = self.ctx.timeout(limit, move || {
            // Whoever ended the call before has the last word.
            fires.store(!cancelled.is_cancelled(), Ordering::Relaxed);
            cancelled.cancel();
        })?;
        call.replace_signal(inner);
        let result = next.run().await;
        call.replace_signal(outer);
        timer.dispose();
        if !has_fired.load(Ordering::Relaxed) {
            return Ok(result?);
        }
        let message = format!("tool call timed out after {}ms", limit.as_millis());
        let error = ErrorInfo { name: "ToolTimeoutError".to_owned(), code: "TOOL_TIMEOUT".to_owned() };
        Ok(ToolExecutionResult { error: Some(error), ..ToolExecutionResult::failed(call.call_id().clone(), message) })
    }
}
