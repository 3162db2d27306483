//! One turn: prompts are admitted, then steps follow until nothing asks for another one.

use std::collections::VecDeque;

use linn_bus::Context;
use linn_services::agent::{Agent, ContinuationDecision, Prompt, PromptDecision};
use linn_services::compaction::{CompactRequest, CompactTrigger, CompactionError};
use linn_services::events::{AgentPromptSubmit, AgentTurnContinuation, AgentTurnStop};
use linn_services::llm::LlmError;
use linn_services::model::HookContext;
use linn_services::session::{ContextMessage, PromptBlocked, TurnEndReason, UserMessage};
use tokio_util::sync::CancellationToken;

use crate::drive::Loop;
use crate::halt::{Halt, LoopError, race};
use crate::inbox::Inbox;
use crate::step::StepDone;

/// A turn that is open.
pub(crate) struct Turn<'a> {
    pub(crate) of: &'a mut Loop,
    pub(crate) number: u32,
    /// Ends the turn.
    pub(crate) token: CancellationToken,
    /// Number of the last step that was begun; 0 before the first.
    pub(crate) step: u32,
    /// A listener of `agent/turn-stop` had the last word: steering is dropped.
    pub(crate) is_terminal: bool,
    /// How often listeners kept the turn going since the human last spoke.
    n_forced: u32,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(of: &'a mut Loop, number: u32, token: CancellationToken) -> Self {
        Self { of, number, token, step: 0, is_terminal: false, n_forced: 0 }
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.of.agent
    }

    pub(crate) fn ctx(&self) -> &Context {
        &self.of.driver.seams.ctx
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.of.driver.inbox
    }

    /// Runs the turn up to its end, and says how it ends. Every step that it opened is closed when this returns.
    pub(crate) async fn run(&mut self, prompts: VecDeque<Prompt>) -> Result<TurnEndReason, Halt> {
        if let Some(reason) = self.admit(prompts).await? {
            return Ok(TurnEndReason::Rejected { reason });
        }
        let mut hit_max_tokens = false;
        let mut made_room = false;
        loop {
            let done = match self.run_step().await {
                Ok(done) => done,
                Err(Halt::Failed(LoopError::Llm(error))) if error.is_context_length() => {
                    self.make_room(error, made_room).await?;
                    made_room = true;
                    continue;
                }
                Err(halt) => return Err(halt),
            };
            made_room = false;
            hit_max_tokens |= done.hit_max_tokens;
            if !self.goes_on(&done).await? {
                break;
            }
        }
        Ok(if hit_max_tokens { TurnEndReason::MaxTokens } else { TurnEndReason::Completed })
    }

    /// Has the history compacted because a request was longer than its model takes. It fails, as the request did, if that
    /// gives no room, or has just been done.
    async fn make_room(&self, mut error: LlmError, was_done: bool) -> Result<(), Halt> {
        let Some(compaction) = self.of.driver.seams.compaction().await? else { return Err(error.into()) };
        let request = CompactRequest {
            agent: self.agent().clone(),
            trigger: CompactTrigger::ContextLength,
            instructions: None,
            signal: self.token.clone(),
        };
        let why = if was_done {
            error.message.clone()
        } else {
            match race(&self.token, compaction.compact(request)).await? {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => error.message.clone(),
                Err(CompactionError::Off) => return Err(error.into()),
                Err(failed) => failed.to_string(),
            }
        };
        error.message =
            format!("provider rejected the context and forced compaction could not reclaim enough space ({why})");
        Err(error.into())
    }

    /// Has each prompt admitted, rewritten or refused. If all were refused: why the last one was.
    async fn admit(&mut self, mut prompts: VecDeque<Prompt>) -> Result<Option<String>, Halt> {
        let mut is_admitted = false;
        let mut last_reason = None;
        while let Some(prompt) = prompts.pop_front() {
            match self.submit(prompt).await {
                Ok(None) => is_admitted = true,
                Ok(refused) => last_reason = refused,
                Err(halt) => {
                    self.inbox().put_back(prompts);
                    return Err(halt);
                }
            }
        }
        Ok(last_reason.filter(|_| !is_admitted))
    }

    /// Why the prompt was refused; `None` if it was not.
    async fn submit(&self, prompt: Prompt) -> Result<Option<String>, Halt> {
        let session = self.agent().session();
        let Prompt { content, source } = prompt;
        let event = AgentPromptSubmit { agent: self.agent().clone(), content, source };
        let asked = self.ctx().waterfall(&event, async || PromptDecision::allow());
        let decision = race(&self.token, asked).await??;
        let AgentPromptSubmit { content: original, source, .. } = event;
        match decision {
            PromptDecision::Block { reason } => {
                session.append(PromptBlocked { content: original, source, reason: reason.clone() })?;
                Ok(Some(reason))
            }
            PromptDecision::Allow { content, additional_context } => {
                session.say(UserMessage { content: content.unwrap_or(original), source })?;
                if let Some(HookContext { content, source }) = additional_context {
                    session.say(ContextMessage { content, source })?;
                }
                Ok(None)
            }
        }
    }

    /// Whether another step follows.
    async fn goes_on(&mut self, done: &StepDone) -> Result<bool, Halt> {
        let wants_more = done.had_calls || done.was_steered;
        let default_decision =
            if wants_more { ContinuationDecision::Continue { reason: None } } else { ContinuationDecision::Stop };
        let (agent, turn) = (self.agent().clone(), self.number);
        let event = AgentTurnContinuation { agent: agent.clone(), turn, default_decision };
        let asked = self.ctx().waterfall(&event, async || event.default_decision.clone());
        let mut goes_on = match race(&self.token, asked).await?? {
            ContinuationDecision::Stop => false,
            ContinuationDecision::Continue { reason } => {
                self.count_forced(wants_more)?;
                if let Some(HookContext { content, source }) = reason {
                    self.inbox().push_steering(Prompt { content, source });
                }
                true
            }
        };
        goes_on |= self.inbox().has_steering();
        let stop = race(&self.token, self.ctx().serial(&AgentTurnStop { agent, turn })).await??;
        if stop.is_some() {
            drop(self.inbox().take_steering());
            self.is_terminal = true;
            goes_on = false;
        }
        Ok(goes_on)
    }

    /// Counts how often the turn went on only because a listener said so.
    fn count_forced(&mut self, wanted_more: bool) -> Result<(), LoopError> {
        if wanted_more || self.inbox().has_steering() {
            return Ok(());
        }
        let limit = self.of.driver.seams.config.max_forced_continues;
        if self.n_forced >= limit {
            return Err(LoopError::ContinuationLimit { limit });
        }
        self.n_forced += 1;
        Ok(())
    }

    /// The human spoke: whoever keeps the turn going has a new reason to.
    pub(crate) fn heard_human(&mut self) {
        self.n_forced = 0;
    }
}
