//! The conversation begins anew, or goes back.

use std::sync::Arc;

use linn_services::agent::Agent;
use linn_services::model::MessageSource;
use linn_services::session::{AppendError, Fact, RewindCause, Session, SessionRewind};

use crate::bridge::Bridge;
use crate::run::{Reason, SETTLE};
use crate::wire::commands::{Clear, Reset, Run, Undo};
use crate::wire::events::{Reset as ResetEvent, WorkState};

/// How often it is tried to find the conversation between two turns.
const REWINDS: usize = 4;

impl Run for Reset {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.begin_anew(Reason::Reset, RewindCause::Reset).await;
    }
}

impl Run for Clear {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.begin_anew(Reason::Clear, RewindCause::Clear).await;
    }
}

impl Run for Undo {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Some(agent) = bridge.agent() else { return };
        let session = agent.session();
        if session.turns().is_open {
            return bridge.info("a turn runs, and what it logs cannot be taken back; send abort first");
        }
        if let Some(to) = before_last_prompt(session)
            && let Err(error) = bridge.rewind(&agent, to, RewindCause::Undo)
        {
            return bridge.error(format!("undo failed: {error}"));
        }
        bridge.tell_work();
        bridge.tell_history();
    }
}

impl Bridge {
    async fn begin_anew(self: &Arc<Self>, reason: Reason, cause: RewindCause) {
        self.cancel(reason).await;
        let Some(agent) = self.agent() else { return };
        if let Err(error) = self.rewind_when_idle(&agent, cause).await {
            return self.error(format!("{} failed: {error}", reason.as_str()));
        }
        {
            let mut state = self.state();
            state.work.clear();
            state.unanswered = None;
            state.deferred.clear();
        }
        self.tell_work();
        self.say(&ResetEvent {});
    }

    /// Has the conversation begin anew, between two turns: what a human did beside it may be on its way into the conversation.
    async fn rewind_when_idle(&self, agent: &Agent, cause: RewindCause) -> Result<(), AppendError> {
        for _ in 1..REWINDS {
            // What does not end within that time is told by the last attempt.
            let _ = self.ctx.within(SETTLE, agent.when_idle()).await;
            match self.rewind(agent, 0, cause) {
                Err(_) if agent.session().turns().is_open => {}
                done => return done,
            }
        }
        self.rewind(agent, 0, cause)
    }

    /// Has the conversation go back. A rewind that is logged counts, also if somebody who heard of it failed.
    pub(crate) fn rewind(&self, agent: &Agent, to: u64, cause: RewindCause) -> Result<(), AppendError> {
        match agent.session().append(SessionRewind { to, cause }) {
            Err(error) if !error.is_logged() => return Err(error),
            Err(error) => self.ctx.logger().warn(format_args!("{error}")),
            Ok(_) => {}
        }
        self.state().context_tokens = None;
        Ok(())
    }

    /// Tells where the work stands.
    pub(crate) fn tell_work(&self) {
        let state = self.state().work.as_value();
        self.say(&WorkState { state: &state });
    }
}

/// Where the turn begins that the last prompt of the human belongs to; `None` if there is no prompt.
fn before_last_prompt(session: &Session) -> Option<u64> {
    let is_prompt = |seq: &u64| match session.record(*seq).map(|it| it.fact.clone()) {
        Some(Fact::UserMessage(it)) => it.source == MessageSource::User,
        _ => false,
    };
    let prompt = session.surface().into_iter().rev().find(is_prompt)?;
    let turn = session.find_last(|it| (it.seq < prompt && matches!(it.fact, Fact::TurnStart(_))).then_some(it.seq));
    // What was taken over from an older file has no turns.
    Some(turn.unwrap_or(prompt))
}
