//! What the log of a session tells of hooks.

use std::time::Duration;

use linn_services::agent::Agent;
use linn_services::session::{HookInvoked, HookResult};

use crate::active::Active;
use crate::exchange::Failure;
use crate::fleet::HookCall;
use crate::hooks::{Answer, HookPoint, Policy};

/// The wire format of these hooks: one JSON object in, one out.
const DIALECT: &str = "plugin.json";

/// How much of what a script wrote to standard error is logged, in bytes.
const STDERR_BYTES: usize = 1024;

/// A run of a hook on its way into the log of the session whose turn waits for it.
///
/// A hook that no turn waits for is not in the log: what it belongs to may be over when it answers.
#[derive(Debug)]
pub(crate) struct HookRecord {
    agent: Agent,
    turn: u32,
    point: HookPoint,
    script: String,
}

impl HookRecord {
    /// Logs that a script is run, if a turn waits for it.
    pub(crate) fn begin(active: &Active, call: &HookCall<'_>) -> Option<Self> {
        let agent = call.agent.filter(|_| call.point.is_waited_for())?.clone();
        let turn = agent.session().turns().open_turn()?;
        let script = &active.manifest.hooks.get(&call.point)?.script;
        let script = script.strip_prefix(&active.folder).unwrap_or(script);
        let script = format!("{}/{}", active.name(), script.display());
        let this = Self { agent, turn, point: call.point, script };
        let invoked = HookInvoked {
            turn,
            point: this.point.as_str().to_owned(),
            dialect: DIALECT.to_owned(),
            matcher: None,
            handler_id: this.script.clone(),
        };
        // A session that takes nothing any more is going, and tells that itself.
        this.agent.session().append(invoked).ok()?;
        Some(this)
    }

    /// Logs what came of it, unless its turn is over.
    pub(crate) fn end(self, came: &Result<Answer, (Option<Failure>, String)>, duration: Duration) {
        if self.agent.session().turns().open_turn() != Some(self.turn) {
            return;
        }
        let (exit_code, stderr_summary) = match came {
            Ok(_) | Err((None | Some(Failure::Empty), _)) => (Some(0), None),
            Err((Some(Failure::Exited { code, stderr, .. }), _)) => {
                let from = stderr.ceil_char_boundary(stderr.len().saturating_sub(STDERR_BYTES));
                (*code, Some(stderr[from..].to_owned()).filter(|it| !it.is_empty()))
            }
            Err((Some(_), _)) => (None, None),
        };
        let result = HookResult {
            turn: self.turn,
            point: self.point.as_str().to_owned(),
            handler_id: self.script,
            decision: decision(self.point, came.as_ref().ok()).to_owned(),
            exit_code,
            stderr_summary,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        };
        // See above.
        let _ = self.agent.session().append(result);
    }
}

/// What an answer, or none, comes to.
fn decision(point: HookPoint, answer: Option<&Answer>) -> &'static str {
    let is_blocking = point.policy() == Policy::Blocking;
    match answer {
        None if is_blocking => "deny",
        None => "failed",
        Some(answer) if is_blocking && answer.refusal().is_some() => "deny",
        Some(answer) if answer.modify.is_some() => "modify",
        Some(_) if is_blocking => "allow",
        Some(_) => "none",
    }
}
