//! The two plugins of the demo: one that forbids deletion, and one that answers for the human.

use std::sync::Arc;

use linn::bus::{Context, Fault, ListenerError, Next, Plugin};
use linn::services::events::{ApprovalRequest, ToolsPreExecute};
use linn::services::session::ApprovalOutcome;
use linn::services::tools::PreToolDecision;

use crate::cli::terminal::Terminal;

/// Forbids commands that delete.
#[derive(Debug)]
pub(crate) struct NoDeletion;

impl NoDeletion {
    async fn decide(
        &self,
        event: &ToolsPreExecute,
        next: Next<'_, ToolsPreExecute>,
    ) -> Result<PreToolDecision, ListenerError> {
        let call = &event.execution;
        let command = call.arguments().get("command").and_then(|it| it.as_str()).unwrap_or_default();
        if *call.name() == "delete" || command.split_whitespace().any(|word| word == "rm") {
            let reason = "nothing is deleted in this workspace (plugin `no-deletion`)".to_owned();
            return Ok(PreToolDecision::Deny { reason });
        }
        next.run().await
    }
}

impl Plugin for NoDeletion {
    const NAME: &'static str = "no-deletion";
    type Config = ();
    type Needs = ();

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        ctx.on_with(&Arc::new(Self), Self::decide)?;
        Ok(())
    }
}

/// Says yes to every question, and shows what was asked.
pub(crate) struct SaysYes {
    terminal: Arc<Terminal>,
}

impl SaysYes {
    async fn answer(&self, request: &ApprovalRequest, _: Next<'_, ApprovalRequest>) -> ApprovalOutcome {
        self.terminal.asked(request);
        self.terminal.explain("  yes, says the demo");
        ApprovalOutcome::AllowedOnce
    }
}

impl Plugin for SaysYes {
    const NAME: &'static str = "says-yes";
    type Config = Arc<Terminal>;
    type Needs = ();

    async fn start(ctx: &Context, terminal: Arc<Terminal>, (): ()) -> Result<(), Fault> {
        ctx.on_with(&Arc::new(Self { terminal }), Self::answer)?;
        Ok(())
    }
}
