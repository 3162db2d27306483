//! The verbs of an agent, and the life of its loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, select};
use linn_bus::BoxFuture;
use linn_services::agent::{Agent, AgentDriver, AgentStatus, AgentsError, Prompt, WeakAgent};
use linn_services::events::{AgentError, AgentQueued, AgentStatusChanged};
use linn_services::model::HookContext;
use linn_services::secrets::secrets_of;
use linn_services::session::{AppendError, ContextMessage, TurnEnd, TurnEndReason, TurnStart, TurnTrigger};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::drive::drive;
use crate::gate::TurnGate;
use crate::halt::LoopError;
use crate::inbox::{Inbox, Taken};
use crate::plugin::Seams;

/// What the verbs of one agent and its loop share. It does not keep the agent, which keeps it.
pub(crate) struct Driver {
    pub(crate) seams: Arc<Seams>,
    pub(crate) inbox: Inbox,
    pub(crate) gate: TurnGate,
    /// A turn was closed, maybe by somebody else.
    pub(crate) turn_closed: Notify,
    /// The log began with a turn that nobody runs any more.
    pub(crate) was_left_open: bool,
    agent: WeakAgent,
    is_started: AtomicBool,
    exited: CancellationToken,
}

impl Driver {
    pub(crate) fn new(seams: Arc<Seams>, agent: &Agent) -> Self {
        Self {
            seams,
            inbox: Inbox::new(),
            gate: TurnGate::default(),
            turn_closed: Notify::new(),
            was_left_open: agent.session().turns().is_open,
            agent: agent.downgrade(),
            is_started: AtomicBool::new(false),
            exited: CancellationToken::new(),
        }
    }

    pub(crate) fn tell_status(&self, agent: &Agent, status: AgentStatus) {
        self.seams.ctx.emit(&AgentStatusChanged { agent: agent.clone(), status });
    }

    pub(crate) fn tell_error(&self, agent: &Agent, turn: u32, step: u32, error: &LoopError) {
        let message = secrets_of(&self.seams.ctx).redact(error.to_string()).into_owned();
        let info = error.info();
        self.seams.ctx.logger().debug(format_args!("agent `{}`, turn {turn}, step {step}: {message}", agent.id()));
        self.seams.ctx.emit(&AgentError { agent: agent.clone(), turn, step, message, error: info });
    }

    fn tell_queued(&self, prompt: Prompt, taken: Taken) {
        let Some(agent) = self.agent.upgrade() else { return };
        let Prompt { content, source } = prompt;
        let is_steering = taken == Taken::Steering;
        self.seams.ctx.emit(&AgentQueued { agent, content, source, is_steering });
    }

    /// Has the session written down. What fails is told, and so is what takes too long; the turn stands.
    pub(crate) async fn flush(&self, agent: &Agent, turn: u32) {
        self.inbox.forget_unflushed();
        let limit = self.seams.config.flush_limit();
        let flush = async {
            let sessions = self.seams.sessions().await?;
            sessions.flush(agent.session()).await.map_err(LoopError::Flush)
        };
        let patience = self.seams.ctx.clock().sleep(limit);
        let flushed = match select(std::pin::pin!(flush), std::pin::pin!(patience)).await {
            Either::Left((flushed, _)) => flushed,
            Either::Right(_) => Err(LoopError::FlushStuck { limit_ms: limit.as_millis() }),
        };
        if let Err(error) = flushed {
            // Unlike an error of the turn this is in no record of the session, which is what could not be kept.
            let why = secrets_of(&self.seams.ctx).redact(error.to_string()).into_owned();
            self.seams.ctx.logger().warn(format_args!("agent `{}`, turn {turn}: {why}", agent.id()));
            self.tell_error(agent, turn, 0, &error);
        }
    }

    /// Logs context: into the turn that is open, or in a turn of its own. The gate is held.
    fn log_context(&self, agent: &Agent, context: HookContext) -> Result<(), AppendError> {
        let session = agent.session();
        let HookContext { content, source } = context;
        if session.turns().is_open {
            return session.say(ContextMessage { content, source }).map(drop);
        }
        let turn = session.turns().last_turn + 1;
        let opened = session.append(TurnStart { turn, trigger: TurnTrigger::Injection { source: source.clone() } });
        let said = opened.and_then(|_| session.say(ContextMessage { content, source }));
        let closed = session.append(TurnEnd { turn, reason: TurnEndReason::Completed });
        self.inbox.note_unflushed(turn);
        said.and(closed).map(drop)
    }

    /// Gives the gate free.
    pub(crate) fn leave_gate(&self, agent: &Agent) {
        self.gate.leave(|context| {
            if let Err(error) = self.log_context(agent, context) {
                self.seams.ctx.logger().error(format_args!("context for agent `{}`: {error}", agent.id()));
            }
        });
    }

    /// The loop is over: whoever waits for rest or for the end is let go.
    fn exit(&self) {
        self.inbox.close();
        self.exited.cancel();
    }
}

/// A driver as the agent holds it.
pub(crate) struct DriverHandle(pub(crate) Arc<Driver>);

impl AgentDriver for DriverHandle {
    fn send(&self, prompt: Prompt) -> Result<(), AgentsError> {
        self.0.inbox.send(prompt.clone());
        self.0.tell_queued(prompt, Taken::Queued);
        Ok(())
    }

    fn steer(&self, prompt: Prompt) -> Result<(), AgentsError> {
        let taken = self.0.inbox.steer(prompt.clone());
        self.0.tell_queued(prompt, taken);
        Ok(())
    }

    fn inject(&self, context: HookContext) -> Result<(), AgentsError> {
        let Some(agent) = self.0.agent.upgrade() else { return Ok(()) };
        let Some(context) = self.0.gate.enter_with(context) else { return Ok(()) };
        let logged = self.0.log_context(&agent, context);
        self.0.leave_gate(&agent);
        logged.map_err(|source| AgentsError::Inject { id: agent.id().clone(), source })
    }

    fn cancel(&self, reason: &str) {
        self.0.inbox.cancel(reason);
    }

    fn status(&self) -> AgentStatus {
        self.0.inbox.status()
    }

    fn when_idle(&self) -> BoxFuture<'static, ()> {
        let until = match self.status() {
            AgentStatus::Disposed => Some(self.0.exited.clone()),
            AgentStatus::Idle | AgentStatus::Running => self.0.inbox.until_settled(),
        };
        Box::pin(async move {
            if let Some(until) = until {
                until.cancelled().await;
            }
        })
    }

    fn start(&self) {
        let Some(agent) = self.0.agent.upgrade() else { return };
        self.0.is_started.store(true, Ordering::Release);
        let exit = ExitGuard(self.0.clone());
        let of_agent = agent.context().clone();
        let task = of_agent.spawn(async move {
            let exit = exit;
            drive(&exit.0, agent).await;
        });
        if let Err(error) = task {
            self.0.seams.ctx.logger().error(format_args!("a loop was not started: {error}"));
        }
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        if self.0.inbox.dispose() {
            if let Some(agent) = self.0.agent.upgrade() {
                self.0.tell_status(&agent, AgentStatus::Disposed);
            }
            if !self.0.is_started.load(Ordering::Acquire) {
                self.0.exit();
            }
        }
        let exited = self.0.exited.clone();
        Box::pin(async move { exited.cancelled().await })
    }

    fn leftover(&self) -> Vec<Prompt> {
        self.0.inbox.take_queued()
    }
}

/// Says that the loop is over, however it ended.
struct ExitGuard(Arc<Driver>);

impl Drop for ExitGuard {
    fn drop(&mut self) {
        self.0.exit();
    }
}
