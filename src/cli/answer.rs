//! Approval on a terminal: the call is shown, and the human answers.

use std::io::{BufRead, IsTerminal};
use std::sync::Arc;

use linn::bus::{Context, Fault, ListenerError, Next, Plugin};
use linn::services::approval::{ApprovalModes, PermissionScope};
use linn::services::events::ApprovalRequest;
use linn::services::session::ApprovalOutcome;

use crate::cli::terminal::Terminal;

/// Asks whoever sits at the terminal; without a terminal nobody can be asked.
pub(crate) struct Ask {
    ctx: Context,
    terminal: Arc<Terminal>,
}

impl Ask {
    async fn answer(
        &self,
        request: &ApprovalRequest,
        next: Next<'_, ApprovalRequest>,
    ) -> Result<ApprovalOutcome, ListenerError> {
        if !std::io::stdin().is_terminal() {
            self.terminal.warn("  ? nobody can be asked: standard input is no terminal; see --approve");
            return next.run().await;
        }
        self.terminal.asked(request);
        self.terminal.say("  ? may it run — [y]es, [n]o, [a]lways this tool in this session:");
        Ok(match read_line().await.as_deref().map(str::trim) {
            Some("y" | "yes") => ApprovalOutcome::AllowedOnce,
            Some("a" | "always") => self.permit(request),
            _ => ApprovalOutcome::Rejected,
        })
    }

    /// Lets the call run, and those of its tool from now on.
    fn permit(&self, request: &ApprovalRequest) -> ApprovalOutcome {
        let permitted = self.ctx.get::<dyn ApprovalModes>().map(|it| it.permit(request, PermissionScope::Tool));
        match permitted {
            Some(Ok(_)) => {}
            Some(Err(error)) => self.terminal.warn(&format!("  only this once: {error}")),
            None => self.terminal.warn("  only this once: nothing keeps permissions"),
        }
        ApprovalOutcome::AllowedOnce
    }
}

impl Plugin for Ask {
    const NAME: &'static str = "ask-on-terminal";
    type Config = Arc<Terminal>;
    type Needs = ();

    async fn start(ctx: &Context, terminal: Arc<Terminal>, (): ()) -> Result<(), Fault> {
        ctx.on_with(&Arc::new(Self { ctx: ctx.clone(), terminal }), Self::answer)?;
        Ok(())
    }
}

/// One line of the terminal; `None` at its end. A line that nobody waits for any more is lost.
#[expect(clippy::disallowed_methods, reason = "reading a terminal blocks, and ends with the program")]
async fn read_line() -> Option<String> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let n_read = std::io::stdin().lock().read_line(&mut line);
        n_read.is_ok_and(|it| it > 0).then_some(line)
    });
    read.await.ok().flatten()
}
