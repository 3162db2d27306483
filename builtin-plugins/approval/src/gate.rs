//! The gate at work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, Fault, ListenerError, Lookup, Next, ServiceError, provider};
use linn_services::approval::{
    ApprovalMode, ApprovalModes, ApprovalRuleReport, ModesError, Permission, PermissionScope,
};
use linn_services::events::{ApprovalChanged, ApprovalRequest, ToolsPreExecute, ToolsResult};
use linn_services::fs::Fs;
use linn_services::ids::ToolName;
use linn_services::session::{ApprovalOutcome, Session};
use linn_services::tools::{PreToolDecision, ToolClass, ToolExecution, ToolToken, Tools};
use serde_json::Value;

use crate::judge::{Verdict, judge};
use crate::permissions::{Permissions, family_of, permits};
use crate::rule::Rules;
use crate::subject::Subject;

/// Rules, mode and permissions, and who looks after them.
pub(crate) struct Gate {
    pub(crate) ctx: Context,
    pub(crate) rules: Rules,
    pub(crate) mode: Mutex<ApprovalMode>,
    pub(crate) permissions: Permissions,
    /// Arguments of the calls on their way that were shown to a human, or are part of one that was.
    pub(crate) shown: Mutex<HashMap<ToolToken, Arc<Value>>>,
    pub(crate) tools: Lookup<dyn Tools>,
    pub(crate) fs: Lookup<dyn Fs>,
}

impl Gate {
    fn mode(&self) -> ApprovalMode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> MutexGuard<'_, HashMap<ToolToken, Arc<Value>>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn subject(
        &self,
        tool: &ToolName,
        class: Option<ToolClass>,
        arguments: &Value,
    ) -> Result<Subject, ListenerError> {
        let mut subject = Subject::of(tool.as_str(), class, arguments);
        if subject.paths().next().is_some()
            && let Some(fs) = self.fs.get().await?
        {
            subject.resolve(&fs).await;
        }
        Ok(subject)
    }

    /// Judges a call before it runs. Whoever else has a stronger opinion is heard: deny before ask before allow.
    pub(crate) async fn pre_execute(
        &self,
        event: &ToolsPreExecute,
        next: Next<'_, ToolsPreExecute>,
    ) -> Result<PreToolDecision, Fault> {
        let call = &event.execution;
        let class = match self.tools.get().await? {
            Some(tools) => tools.get(call.scope(), call.name())?.map(|it| it.class),
            None => Some(ToolClass::Destructive),
        };
        let subject = self.subject(call.name(), class, call.arguments()).await?;
        let verdict = judge(&subject, &self.rules, self.mode());
        if let Verdict::Deny(reason) = verdict {
            return Ok(PreToolDecision::Deny { reason });
        }
        let inner = next.run().await?;
        Ok(match (verdict, inner) {
            (Verdict::Ask { is_suspicion: false, .. }, PreToolDecision::Allow) if self.is_shown_part(call) => {
                self.shown().insert(call.token().clone(), call.arguments().clone());
                PreToolDecision::Allow
            }
            (Verdict::Ask { reason, .. }, PreToolDecision::Allow) => PreToolDecision::Ask { reason },
            (Verdict::Ask { reason: own, .. }, PreToolDecision::Ask { reason }) => {
                PreToolDecision::Ask { reason: reason.or(own) }
            }
            (_, inner) => inner,
        })
    }

    /// Whether a call is part of one that a human was shown with this part in it, as the calls of `bulk` are.
    fn is_shown_part(&self, call: &ToolExecution) -> bool {
        let Some(parent) = call.parent().and_then(|it| self.shown().get(it).cloned()) else { return false };
        let parts = parent.get("calls").and_then(Value::as_array).into_iter().flatten();
        let is_call = |part: &Value| {
            let arguments = part.get("args").or_else(|| part.get("arguments"));
            part.get("name").and_then(Value::as_str) == Some(call.name().as_str())
                && arguments == Some(&**call.arguments())
        };
        parts.into_iter().any(is_call)
    }

    /// Answers for the human where the human has permitted the like.
    pub(crate) async fn answer(
        &self,
        request: &ApprovalRequest,
        next: Next<'_, ApprovalRequest>,
    ) -> Result<ApprovalOutcome, ListenerError> {
        let outcome = if self.is_permitted(request).await? { ApprovalOutcome::AllowedOnce } else { next.run().await? };
        if outcome == ApprovalOutcome::AllowedOnce
            && let (Some(token), Some(arguments)) = (&request.token, &request.arguments)
        {
            self.shown().insert(token.clone(), arguments.clone());
        }
        Ok(outcome)
    }

    async fn is_permitted(&self, request: &ApprovalRequest) -> Result<bool, ListenerError> {
        let permissions = self.permissions.of(&family_of(&self.ctx, request.agent.session()));
        let (false, Some(arguments)) = (permissions.is_empty(), &request.arguments) else { return Ok(false) };
        let subject = self.subject(&request.tool_name, request.class, arguments).await?;
        let verdict = judge(&subject, &self.rules, self.mode());
        let is_suspicion = matches!(verdict, Verdict::Ask { is_suspicion: true, .. });
        Ok(permits(&permissions, &self.rules.allow, &subject, is_suspicion))
    }

    /// Forgets a call that is over.
    pub(crate) fn result(&self, event: &ToolsResult) {
        self.shown().remove(event.execution.token());
    }
}

/// Provides [`ApprovalModes`].
pub(crate) struct Modes(pub(crate) Arc<Gate>);

#[provider]
impl ApprovalModes for Modes {
    fn mode(&self) -> Result<ApprovalMode, ServiceError> {
        Ok(self.0.mode())
    }

    fn set_mode(&self, mode: ApprovalMode) -> Result<(), ServiceError> {
        *self.0.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        self.0.ctx.emit(&ApprovalChanged::Mode { mode });
        Ok(())
    }

    fn permit(&self, request: &ApprovalRequest, scope: PermissionScope) -> Result<Permission, ModesError> {
        let permission = scope.permission(request)?;
        let family = family_of(&self.0.ctx, request.agent.session());
        self.0.permissions.add(family.clone(), permission.clone());
        self.0.ctx.emit(&ApprovalChanged::Permitted { session: family, permission: permission.clone() });
        Ok(permission)
    }

    fn restore(&self, session: &Session, permissions: Vec<Permission>) -> Result<(), ServiceError> {
        let family = family_of(&self.0.ctx, session);
        permissions.into_iter().for_each(|it| self.0.permissions.add(family.clone(), it));
        Ok(())
    }

    fn permissions(&self, session: &Session) -> Result<Vec<Permission>, ServiceError> {
        Ok(self.0.permissions.of(&family_of(&self.0.ctx, session)))
    }

    fn clear(&self, session: &Session) -> Result<(), ServiceError> {
        let family = family_of(&self.0.ctx, session);
        if self.0.permissions.clear(&family) {
            self.0.ctx.emit(&ApprovalChanged::Cleared { session: family });
        }
        Ok(())
    }

    fn rules(&self) -> Result<Vec<ApprovalRuleReport>, ServiceError> {
        Ok(self.0.rules.reports.clone())
    }
}
