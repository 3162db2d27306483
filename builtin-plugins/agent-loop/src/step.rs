//! One step: what the model shall see is put together and logged, the model answers, and the tools it calls run.

use std::sync::Arc;

use linn_services::agent::{Prompt, build_request};
use linn_services::events::{AgentOverlay, AgentPreStep, AgentRequest, AgentSessionPrefix};
use linn_services::model::{EpochHeader, GenerateRequest, LlmCallConfig, Message, MessageSource, ToolSchema};
use linn_services::prompt::AssembleContext;
use linn_services::secrets::secrets_of;
use linn_services::session::{
    AppendError, HeaderReason, Overlay, RequestHeader, RequestOverlay, SteeringMessage, StepEnd, StepStart,
    header_change,
};
use tokio_util::sync::CancellationToken;

use crate::drive::Loop;
use crate::halt::{Halt, LoopError, race};
use crate::turn::Turn;

/// What a step came to.
#[derive(Debug, Default)]
pub(crate) struct StepDone {
    pub(crate) hit_max_tokens: bool,
    pub(crate) had_calls: bool,
    pub(crate) was_steered: bool,
}

/// What stands before the history in the request of a step.
struct Frame {
    system: Option<String>,
    tools: Vec<ToolSchema>,
    prefix: Arc<[Message]>,
}

impl Turn<'_> {
    /// Runs the next step.
    pub(crate) async fn run_step(&mut self) -> Result<StepDone, Halt> {
        self.step += 1;
        let token = self.token.child_token();
        // Whatever a listener started for the step ends with it.
        let _ends_with_step = token.clone().drop_guard();
        self.log_steering()?;
        let frame = self.frame(&token).await?;
        let (history, opened) = self.open_step();
        let done = match opened {
            Ok(()) => self.inside(&token, history, frame).await,
            Err(error) => Err(error.into()),
        };
        let closed = self.agent().session().append(StepEnd { turn: self.number, step: self.step });
        match done {
            Ok(done) => closed.map(|_| done).map_err(Halt::from),
            Err(halt) => {
                self.of.note(closed);
                Err(halt)
            }
        }
    }

    /// Everything before the step opens: the prompt is assembled, the prefix composed, and the log may still be changed.
    async fn frame(&mut self, token: &CancellationToken) -> Result<Frame, Halt> {
        let prompt = self.of.driver.seams.prompt().await?;
        let assembly = race(token, prompt.assemble(AssembleContext::of_agent(self.agent()))).await??;
        let system = prompt.render(&assembly)?;
        let prefix = self.of.prefix(token).await?;
        let event = AgentPreStep {
            agent: self.agent().clone(),
            turn: self.number,
            step: self.step,
            full_system_prompt: system.as_deref().unwrap_or("").into(),
            session_prefix: prefix.clone(),
            signal: token.clone(),
        };
        race(token, self.ctx().serial(&event)).await??;
        Ok(Frame { system, tools: assembly.tools, prefix })
    }

    /// Opens the step: the history as it stood right before, and what the listeners said.
    fn open_step(&self) -> (Vec<Arc<Message>>, Result<(), AppendError>) {
        let session = self.agent().session();
        let (len, history) = (session.len(), session.messages());
        let opened = session.append(StepStart { turn: self.number, step: self.step });
        let seq = match &opened {
            Ok(record) => record.seq,
            Err(AppendError::Listeners { seq, .. }) => *seq,
            Err(_) => len,
        };
        // Another thread may have logged something in between; the request shows what the log has before the step.
        let history = if seq == len { history } else { session.messages_before(seq) };
        (history, opened.map(drop))
    }

    /// Everything inside of the step.
    async fn inside(
        &mut self,
        token: &CancellationToken,
        history: Vec<Arc<Message>>,
        frame: Frame,
    ) -> Result<StepDone, Halt> {
        let request = self.request(token, history, frame).await?;
        let answer = self.answer(token, &request).await?;
        let mut done =
            StepDone { hit_max_tokens: answer.hit_max_tokens, had_calls: !answer.calls.is_empty(), was_steered: false };
        self.run_calls(token, answer.calls).await?;
        done.was_steered = self.log_steering()?;
        Ok(done)
    }

    /// The request of the step, of which everything is logged.
    async fn request(
        &mut self,
        token: &CancellationToken,
        history: Vec<Arc<Message>>,
        frame: Frame,
    ) -> Result<Arc<GenerateRequest>, Halt> {
        let config = self.configure(token).await?;
        let Frame { system, tools, prefix } = frame;
        let header = EpochHeader { config, system, tools: Some(tools), message_prefix: Some(prefix.to_vec()) };
        let header = header.canonical();
        self.of.log_header(&header)?;
        let (place, config) = ((self.number, self.step), header.config.clone());
        let event = AgentOverlay::new(self.agent().clone(), place, config, history.clone(), token.clone());
        race(token, self.ctx().serial(&event)).await??;
        let session = self.agent().session();
        let mut overlays = Vec::new();
        let secrets = secrets_of(self.ctx());
        for (mut overlay, by) in event.into_overlays() {
            let (Overlay::Messages(messages) | Overlay::Replacement(messages)) = &mut overlay;
            secrets.redact_messages(messages);
            overlays.push(overlay.clone());
            session.append(RequestOverlay { turn: self.number, step: self.step, overlay, by })?;
        }
        Ok(Arc::new(build_request(&header, history, &overlays, session.id(), token.clone())))
    }

    /// Model and sampling of the step.
    async fn configure(&self, token: &CancellationToken) -> Result<LlmCallConfig, Halt> {
        let agent = self.agent();
        let logged = agent.session().request_header().filter(|_| self.of.is_anchored);
        let config = match logged {
            Some(header) => header.config.clone(),
            None => LlmCallConfig::of_model(agent.options().model.clone().unwrap_or_default()),
        };
        let event = AgentRequest { agent: agent.clone(), turn: self.number, step: self.step, config };
        let config = race(token, self.ctx().waterfall(&event, async || event.config.clone())).await??;
        if config.model.is_empty() {
            return Err(LoopError::NoModel(agent.id().clone()).into());
        }
        Ok(config)
    }

    /// Logs the messages that came for this turn; whether there were any.
    pub(crate) fn log_steering(&mut self) -> Result<bool, Halt> {
        let mut steering = self.inbox().take_steering();
        let was_steered = !steering.is_empty();
        while let Some(Prompt { content, source }) = steering.pop_front() {
            if source == MessageSource::User {
                self.heard_human();
            }
            let message = SteeringMessage { turn: self.number, content, source };
            if let Err(error) = self.agent().session().say(message) {
                self.inbox().put_back(steering);
                return Err(error.into());
            }
        }
        Ok(was_steered)
    }
}

impl Loop {
    /// What stands in front of the history in every request of this loop; put together once.
    async fn prefix(&mut self, token: &CancellationToken) -> Result<Arc<[Message]>, Halt> {
        if let Some(prefix) = &self.prefix {
            return Ok(prefix.clone());
        }
        let event = AgentSessionPrefix { agent: self.agent.clone(), signal: token.clone() };
        let mut composed = race(token, self.driver.seams.ctx.waterfall(&event, async || Vec::new())).await??;
        secrets_of(&self.driver.seams.ctx).redact_messages(&mut composed);
        Ok(self.prefix.insert(composed.into()).clone())
    }

    /// Logs what changed in the header since it was last logged.
    fn log_header(&mut self, header: &EpochHeader) -> Result<(), AppendError> {
        let session = self.agent.session();
        let in_full = |reason| Some(RequestHeader { header: header.clone(), reason }.into());
        let change = match session.request_header() {
            None => in_full(HeaderReason::Initial),
            Some(_) if !self.is_anchored => in_full(HeaderReason::Resume),
            Some(logged) => header_change(&logged, header),
        };
        let logged = change.map(|it| session.append(it)).transpose();
        self.is_anchored |= logged.as_ref().map_or_else(AppendError::is_logged, |_| true);
        logged.map(drop)
    }
}
