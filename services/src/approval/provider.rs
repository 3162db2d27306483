//! Asks, and writes down that it asked and what was decided.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, ServiceError, Svc, provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::notice::{self, policy_of};
use crate::approval::{Approval, ApprovalError};
use crate::events::{AgentPreStep, ApprovalRequest};
use crate::ids::ApprovalRequestId;
use crate::prompt::SystemPrompt;
use crate::session::{
    ApprovalAsked, ApprovalDecided, ApprovalOutcome, ApprovalPolicy, ApprovalPolicyChanged, Fact, Session,
};

/// Config of [`ApprovalPlugin`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalConfig {
    /// Whether anybody can be asked in sessions whose log does not say.
    pub policy: ApprovalPolicy,
}

/// Provides [`Approval`].
///
/// Where there is a [`SystemPrompt`], its section `approval:policy` tells the model whether anybody can be asked. When that
/// changes between two steps, the model is told once before the next step.
#[derive(Debug)]
pub struct ApprovalPlugin;

linn_bus::register_plugin!(ApprovalPlugin);

impl Plugin for ApprovalPlugin {
    const NAME: &'static str = "approval-service";
    type Config = ApprovalConfig;
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Approval>(Demand::Required);
    }

    async fn start(ctx: &Context, config: ApprovalConfig, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Approval>(Arc::new(Provider { ctx: ctx.clone(), config }))?;
        ctx.on(move |step: &AgentPreStep| notice::tell_change(step.agent.session(), config.policy))?;
        ctx.mount_fn("approval/prompt", move |ctx: Context, prompt: Svc<dyn SystemPrompt>| async move {
            prompt.section(&ctx, notice::section(config.policy)).map(drop)
        })?;
        Ok(())
    }
}

struct Provider {
    ctx: Context,
    config: ApprovalConfig,
}

#[provider]
impl Approval for Provider {
    async fn request(&self, request: ApprovalRequest) -> Result<ApprovalOutcome, ApprovalError> {
        let session = request.agent.session().clone();
        if !session.turns().is_open {
            return Err(ApprovalError::NoTurn(session.id().clone()));
        }
        let id = ApprovalRequestId::from(format!("approval-{:016x}", self.ctx.ids().next_u64()));
        let asked = ApprovalAsked {
            id: id.clone(),
            tool_name: request.tool_name.clone(),
            call_id: request.call_id.clone(),
            reason: request.reason.clone(),
        };
        self.log(&session, asked)?;
        let question = Question { provider: self, session: &session, id: id.clone(), is_decided: false };
        let outcome = self.decide(&ApprovalRequest { id: Some(id), ..request }).await;
        question.decided(outcome)
    }

    fn policy(&self, session: &Session) -> Result<ApprovalPolicy, ServiceError> {
        Ok(policy_of(session, self.config.policy))
    }

    fn set_policy(&self, session: &Session, policy: ApprovalPolicy) -> Result<(), ApprovalError> {
        if policy_of(session, self.config.policy) == policy {
            return Ok(());
        }
        self.log(session, ApprovalPolicyChanged { policy })
    }
}

impl Provider {
    /// Logs a fact. Listeners that fail do not undo it.
    fn log(&self, session: &Session, fact: impl Into<Fact>) -> Result<(), ApprovalError> {
        match session.append(fact) {
            Ok(_) => Ok(()),
            Err(error) if error.is_logged() => {
                self.ctx.logger().warn(format_args!("session `{}`: {error}", session.id()));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn decide(&self, request: &ApprovalRequest) -> ApprovalOutcome {
        if request.signal.is_cancelled() {
            return ApprovalOutcome::Cancelled;
        }
        if policy_of(request.agent.session(), self.config.policy) == ApprovalPolicy::Never {
            return ApprovalOutcome::Rejected;
        }
        let mut answer = pin!(self.ctx.waterfall(request, async || ApprovalOutcome::Unavailable));
        let mut cancelled = pin!(request.signal.cancelled());
        // The signal first: an answer that comes with it comes too late.
        let answer = poll_fn(|cx| match cancelled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => answer.as_mut().poll(cx).map(Some),
        })
        .await;
        match answer {
            None => ApprovalOutcome::Cancelled,
            Some(Ok(_)) if request.signal.is_cancelled() => ApprovalOutcome::Cancelled,
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => {
                self.ctx.logger().error(format_args!("nobody could answer: {error:#}"));
                ApprovalOutcome::Unavailable
            }
        }
    }
}

/// A question that is in the log. When it is dropped before it is decided, the log says that it was taken back.
struct Question<'a> {
    provider: &'a Provider,
    session: &'a Session,
    id: ApprovalRequestId,
    is_decided: bool,
}

impl Question<'_> {
    fn decided(mut self, outcome: ApprovalOutcome) -> Result<ApprovalOutcome, ApprovalError> {
        self.is_decided = true;
        self.log(outcome)?;
        Ok(outcome)
    }

    fn log(&self, outcome: ApprovalOutcome) -> Result<(), ApprovalError> {
        self.provider.log(self.session, ApprovalDecided { id: self.id.clone(), outcome })
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.is_decided
            && let Err(error) = self.log(ApprovalOutcome::Cancelled)
        {
            self.provider.ctx.logger().error(format_args!("question `{}` stays open in the log: {error}", self.id));
        }
    }
}
