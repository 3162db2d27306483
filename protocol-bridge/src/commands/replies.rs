//! What a human answers to questions.

use std::sync::Arc;

use linn_services::approval::{ApprovalModes, ModesError, PermissionScope};
use linn_services::events::ApprovalRequest;
use linn_services::session::ApprovalOutcome;

use crate::asks::{answers_of, sudo_answer};
use crate::bridge::Bridge;
use crate::wire::commands::{Approve, AskReply, IntercomReply, Run, SudoReply};

impl Run for Approve {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { request_id: id, decision, pattern } = self;
        let Some((request, answer)) = bridge.desk.take_approval(&id) else {
            return bridge.error(format!("unknown, expired, or already resolved approval request: {id}"));
        };
        let outcome = match decision.as_str() {
            "yes" => ApprovalOutcome::AllowedOnce,
            "always" => bridge.permit(&request, PermissionScope::Class),
            "allow_session" => bridge.permit(&request, PermissionScope::Tool),
            "allow_pattern" => bridge.permit(&request, PermissionScope::Pattern(pattern)),
            _ => ApprovalOutcome::Rejected,
        };
        if answer.send(outcome).is_err() {
            bridge.error(format!("approval {id} is stale and cannot authorize a tool call"));
        }
    }
}

impl Bridge {
    /// Permits others like a call, and says what becomes of the call itself.
    fn permit(&self, request: &ApprovalRequest, scope: PermissionScope) -> ApprovalOutcome {
        let Some(modes) = self.service::<dyn ApprovalModes>() else {
            self.info("only this once: no plugin that is mounted keeps permissions");
            return ApprovalOutcome::AllowedOnce;
        };
        match modes.permit(request, scope) {
            Ok(_) => ApprovalOutcome::AllowedOnce,
            Err(ModesError::Pattern(_)) => {
                self.error("approval pattern exceeds or does not match the requested scope");
                ApprovalOutcome::Rejected
            }
            Err(error) => {
                self.info(format!("only this once: {error}"));
                ApprovalOutcome::AllowedOnce
            }
        }
    }
}

impl Run for AskReply {
    async fn run(self, bridge: &Arc<Bridge>) {
        let answer = bridge.desk.take_ask(&self.request_id);
        if answer.and_then(|it| it.send(answers_of(self.answers)).ok()).is_none() {
            bridge.error(format!("no pending ask for id {}", self.request_id));
        }
    }
}

impl Run for SudoReply {
    async fn run(self, bridge: &Arc<Bridge>) {
        let answer = bridge.desk.take_sudo(&self.request_id);
        if answer.and_then(|it| it.send(sudo_answer(self.approved, self.password)).ok()).is_none() {
            bridge.error(format!("no pending sudo request for id {}", self.request_id));
        }
    }
}

impl Run for IntercomReply {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.error(format!("no pending intercom ask for id {}", self.request_id));
    }
}
