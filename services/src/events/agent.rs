//! `agent/*`: the live side of agents; what may step in, and what is told.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::Event;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, AgentStatus, ContinuationDecision, ContinuationStop, PromptDecision, SessionStartSource};
use crate::model::{ContentBlock, LlmCallConfig, Message, MessageSource};
use crate::session::{ErrorInfo, Overlay};

/// An agent was published.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the `agents` service, when agent and session can be found; its verbs are still locked.
/// - On listener error or panic: the agent is taken back, and its creation fails.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/created", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentCreated {
    /// The agent.
    pub agent: Agent,
}

/// An agent is gone.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the `agents` service, after the loop has ended and the agent cannot be found any more; its session still
///   lives, and its own listeners hear this.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/disposed", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentDisposed {
    /// The agent.
    pub agent: Agent,
}

/// A step, a turn or a flush failed.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the loop: after the step was closed and before the turn ends, once a turn; again if the flush behind the
///   turn fails. Not for what was cancelled or disposed.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/error", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentError {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// Number of the step; 0 for what failed outside of one.
    pub step: u32,
    /// What happened, in words.
    pub message: String,
    /// Kind of error and its stable code, where it has one.
    pub error: Option<ErrorInfo>,
}

/// A step is about to begin; what it shows the model may still be changed in the log.
///
/// - Mode: serial; there is no answer, so all are heard.
/// - Scope: the agent.
/// - Emitted by: the loop, once a step, after the prompt is assembled and before the step opens.
/// - On listener error or panic: the turn ends as an error; no step opens.
/// - Cancelled by: `signal`.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/pre-step", mode = Serial, output = std::convert::Infallible, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentPreStep {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// Number of the step that will begin.
    pub step: u32,
    /// The system text of the request; empty if there is none.
    pub full_system_prompt: Arc<str>,
    /// What stands in front of the history in each request.
    pub session_prefix: Arc<[Message]>,
    /// Ends with the step.
    #[serde(skip)]
    pub signal: CancellationToken,
}

/// A prompt may be admitted, rewritten or refused.
///
/// - Mode: waterfall; the default admits it as it is.
/// - Scope: the agent.
/// - Emitted by: the loop, once a prompt, in the order of the inbox, inside of the open turn.
/// - On listener error or panic: the turn ends as an error with step 0; prompts behind it go back to the inbox.
/// - Cancelled by: the turn.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/prompt-submit", mode = Waterfall, output = PromptDecision, subject = self.agent.key(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct AgentPromptSubmit {
    /// The agent.
    pub agent: Agent,
    /// The prompt.
    pub content: Vec<ContentBlock>,
    /// Who sent it.
    pub source: MessageSource,
}

/// A message is in the inbox.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: `send` and `steer`, before they return.
/// - On listener error or panic: logged; the message is in the inbox all the same.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/queued", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentQueued {
    /// The agent.
    pub agent: Agent,
    /// The message.
    pub content: Vec<ContentBlock>,
    /// Who sent it.
    pub source: MessageSource,
    /// Whether it goes to the turn that runs.
    pub is_steering: bool,
}

/// A request is about to be made; model and sampling may be changed.
///
/// - Mode: waterfall; the default leaves them as they are.
/// - Scope: the agent.
/// - Emitted by: the loop, once a step, after the history was taken: what is logged here joins the next request.
/// - On listener error or panic: the step fails.
/// - Cancelled by: the step.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/request", mode = Waterfall, output = LlmCallConfig, subject = self.agent.key(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct AgentRequest {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// Number of the step.
    pub step: u32,
    /// Model and sampling of the request before, or those of the agent.
    pub config: LlmCallConfig,
}

/// What one request shows may be added to or replaced; what is shown is logged first, as `request/overlay`, and the next
/// request does not have it.
///
/// A listener sees the messages as they stand, and changes them with [`add`](AgentOverlay::add) and
/// [`replace`](AgentOverlay::replace), in the order of the listeners.
///
/// - Mode: serial; there is no answer, so all are heard.
/// - Scope: the agent.
/// - Emitted by: the loop, once a step, after model and sampling were decided and before the model is asked.
/// - On listener error or panic: the step fails.
/// - Cancelled by: `signal`.
#[derive(Debug, Event, Serialize)]
#[event(name = "agent/overlay", mode = Serial, output = std::convert::Infallible, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentOverlay {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// Number of the step.
    pub step: u32,
    /// Model and sampling of the request.
    pub config: LlmCallConfig,
    /// Ends with the step.
    #[serde(skip)]
    pub signal: CancellationToken,
    history: Vec<Arc<Message>>,
    overlays: Mutex<Vec<(Overlay, String)>>,
}

impl AgentOverlay {
    /// The question about a request that shows `history`.
    pub fn new(
        agent: Agent,
        (turn, step): (u32, u32),
        config: LlmCallConfig,
        history: Vec<Arc<Message>>,
        signal: CancellationToken,
    ) -> Self {
        Self { agent, turn, step, config, signal, history, overlays: Mutex::default() }
    }

    /// The messages as they stand, without the prefix of the session.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        let mut shown = self.history.clone();
        for (overlay, _) in self.overlays.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            match overlay {
                Overlay::Messages(messages) => shown.extend(messages.iter().cloned().map(Arc::new)),
                Overlay::Replacement(messages) => shown = messages.iter().cloned().map(Arc::new).collect(),
            }
        }
        shown
    }

    /// Adds messages behind those that stand; `by` names the plugin.
    pub fn add(&self, messages: Vec<Message>, by: &str) {
        self.push(Overlay::Messages(messages), by);
    }

    /// Puts messages in place of those that stand; `by` names the plugin.
    pub fn replace(&self, messages: Vec<Message>, by: &str) {
        self.push(Overlay::Replacement(messages), by);
    }

    fn push(&self, overlay: Overlay, by: &str) {
        self.overlays.lock().unwrap_or_else(PoisonError::into_inner).push((overlay, by.to_owned()));
    }

    /// What listeners made of it, in order, each with its plugin.
    pub fn into_overlays(self) -> Vec<(Overlay, String)> {
        self.overlays.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stands in front of the whole history is put together.
///
/// - Mode: waterfall; the default is empty. Put yours before what `next` gives: `[mine, ..next]`.
/// - Scope: the agent.
/// - Emitted by: the loop, once in its life, before its first step.
/// - On listener error or panic: the turn ends as an error; the next turn tries again.
/// - Cancelled by: `signal`; what was put together then is thrown away.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/session-prefix", mode = Waterfall, output = Vec<Message>, subject = self.agent.key(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct AgentSessionPrefix {
    /// The agent.
    pub agent: Agent,
    /// Ends with the step.
    #[serde(skip)]
    pub signal: CancellationToken,
}

/// An agent may be driven from now on.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the `agents` service, once, before the loop runs; what is sent or injected here is what it begins with.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/session-start", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentSessionStart {
    /// The agent.
    pub agent: Agent,
    /// Why its session starts.
    pub source: SessionStartSource,
}

/// An agent began to work, stopped, or is gone.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent.
/// - Emitted by: the loop, with each change. Who waits for `idle` is let go before this is told.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/status", mode = Emit, subject = self.agent.key(), view)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatusChanged {
    /// The agent.
    pub agent: Agent,
    /// What it is now.
    pub status: AgentStatus,
}

/// An answer is complete and may be rewritten before it is logged.
///
/// - Mode: waterfall; the default is the answer as it came.
/// - Scope: the agent.
/// - Emitted by: the loop, once a step, after the stream ended well. Log, history and tool calls go by what comes out.
/// - On listener error or panic: the step fails.
/// - Cancelled by: the step.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/step-result", mode = Waterfall, output = Message, subject = self.agent.key(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct AgentStepResult {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// Number of the step.
    pub step: u32,
    /// The answer.
    pub message: Arc<Message>,
}

/// A step is over; the turn goes on or ends.
///
/// - Mode: waterfall; the default goes on if tools were called or steering arrived.
/// - Scope: the agent.
/// - Emitted by: the loop, after each step that ended well. A reason to go on becomes steering.
/// - On listener error or panic: the turn ends as an error.
/// - Cancelled by: the turn.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/turn-continuation", mode = Waterfall, output = ContinuationDecision, subject = self.agent.key(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct AgentTurnContinuation {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
    /// What the loop would do.
    pub default_decision: ContinuationDecision,
}

/// The last word on whether a turn ends.
///
/// - Mode: serial; the first that says stop is the last asked.
/// - Scope: the agent.
/// - Emitted by: the loop, after the continuation was decided. A stop also drops the steering that waits.
/// - On listener error or panic: the turn ends as an error.
/// - Cancelled by: the turn.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "agent/turn-stop", mode = Serial, output = ContinuationStop, subject = self.agent.key(), view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct AgentTurnStop {
    /// The agent.
    pub agent: Agent,
    /// Number of the turn.
    pub turn: u32,
}
