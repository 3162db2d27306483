//! Approval on a terminal: the call is shown whole, and the human answers. One question at a time.

use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::sync::Arc;

use linn::bus::{Context, Fault, ListenerError, Next, Plugin};
use linn::services::approval::{ApprovalModes, PermissionScope};
use linn::services::events::ApprovalRequest;
use linn::services::ids::ToolName;
use linn::services::session::ApprovalOutcome;
use tokio::sync::Mutex;

use crate::cli::lines::Lines;
use crate::cli::terminal::Terminal;

/// Asks whoever sits at the terminal; without a terminal nobody can be asked.
pub(crate) struct Ask {
    ctx: Context,
    desk: Desk,
    /// Held by whoever asks; the tools that need no question any more.
    permitted: Mutex<HashSet<ToolName>>,
}

/// Where the human sits.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) terminal: Arc<Terminal>,
    pub(crate) lines: Arc<Lines>,
}

impl Ask {
    async fn answer(
        &self,
        request: &ApprovalRequest,
        next: Next<'_, ApprovalRequest>,
    ) -> Result<ApprovalOutcome, ListenerError> {
        let Desk { terminal, lines } = &self.desk;
        if !std::io::stdin().is_terminal() {
            terminal.warn("  ? nobody can be asked: standard input is no terminal; see --approve");
            return next.run().await;
        }
        let mut permitted = self.permitted.lock().await;
        if permitted.contains(&request.tool_name) {
            return Ok(ApprovalOutcome::AllowedOnce);
        }
        // What was typed before the question was shown is no answer to it.
        lines.forget().await;
        terminal.asked(request);
        let answer = lines.next().await.ok().flatten();
        Ok(match answer.as_deref().map(str::trim) {
            Some("y" | "yes") => ApprovalOutcome::AllowedOnce,
            Some("a" | "always") => {
                self.permit(request);
                permitted.insert(request.tool_name.clone());
                ApprovalOutcome::AllowedOnce
            }
            _ => ApprovalOutcome::Rejected,
        })
    }

    /// Lets the calls of the tool run from now on, also when the session is resumed.
    fn permit(&self, request: &ApprovalRequest) {
        let permitted = self.ctx.get::<dyn ApprovalModes>().map(|it| it.permit(request, PermissionScope::Tool));
        if let Some(Err(error)) = permitted {
            self.desk.terminal.warn(&format!("  only until the program ends: {error}"));
        }
    }
}

impl Plugin for Ask {
    const NAME: &'static str = "ask-on-terminal";
    type Config = Desk;
    type Needs = ();

    async fn start(ctx: &Context, desk: Desk, (): ()) -> Result<(), Fault> {
        ctx.on_with(&Arc::new(Self { ctx: ctx.clone(), desk, permitted: Mutex::default() }), Self::answer)?;
        Ok(())
    }
}
