//! The life of a loop: it waits for prompts, makes turns of them, and comes to rest.

use std::collections::VecDeque;
use std::sync::Arc;

use linn_bus::Listener;
use linn_services::agent::{Agent, AgentStatus, Prompt};
use linn_services::events::SessionEvent;
use linn_services::model::Message;
use linn_services::session::{AppendError, Fact, StepEnd, TurnEnd, TurnEndReason, TurnStart, TurnTrigger};
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::halt::{Halt, LoopError, race};
use crate::inbox::{Batch, Ended, News};
use crate::turn::Turn;

/// One loop of one agent, with what it keeps from turn to turn.
pub(crate) struct Loop {
    pub(crate) driver: Arc<Driver>,
    pub(crate) agent: Agent,
    /// What stands in front of the history in each request of this loop.
    pub(crate) prefix: Option<Arc<[Message]>>,
    /// Whether this loop has logged a header in full.
    pub(crate) is_anchored: bool,
}

/// Runs until the agent is disposed.
pub(crate) async fn drive(driver: &Arc<Driver>, agent: Agent) {
    let mut it = Loop { driver: driver.clone(), agent, prefix: None, is_anchored: false };
    let heard = it.hear_ends_of_turns();
    it.close_left_open().await;
    loop {
        match driver.inbox.wake_up().await {
            News::Prompts => it.work().await,
            News::Unflushed(turn) => driver.flush(&it.agent, turn).await,
            News::Over => break,
        }
    }
    // The agent may live on with another loop.
    if let Some(heard) = heard {
        heard.dispose();
    }
}

impl Loop {
    /// Runs turns until nothing waits any more.
    async fn work(&mut self) {
        let driver = self.driver.clone();
        driver.tell_status(&self.agent, AgentStatus::Running);
        // A listener may have cancelled what was queued: then there is no batch.
        while let Some(batch) = driver.inbox.next_batch() {
            self.run_turn(batch).await;
        }
        if driver.inbox.status() != AgentStatus::Disposed {
            driver.tell_status(&self.agent, AgentStatus::Idle);
        }
        driver.inbox.settle();
    }

    /// Hears when somebody else closes a turn, for a prompt that waits for that.
    fn hear_ends_of_turns(&self) -> Option<Listener> {
        let driver = self.driver.clone();
        let heard = self.agent.context().on(move |event: &SessionEvent| {
            if matches!(event.record.fact, Fact::TurnEnd(_)) {
                driver.turn_closed.notify_one();
            }
        });
        heard.inspect_err(|error| self.warn(&format!("ends of turns are not heard: {error}"))).ok()
    }

    /// Closes the turn that the log began with and nobody runs any more.
    async fn close_left_open(&self) {
        if !self.driver.was_left_open {
            return;
        }
        self.driver.gate.enter().await;
        let session = self.agent.session();
        let turns = session.turns();
        if let Some(step) = turns.open_step {
            self.note(session.append(StepEnd { turn: turns.last_turn, step }));
        }
        if turns.is_open {
            self.note(session.append(TurnEnd { turn: turns.last_turn, reason: TurnEndReason::Interrupted }));
        }
        self.driver.leave_gate(&self.agent);
    }

    async fn run_turn(&mut self, batch: Batch) {
        let Batch { mut prompts, token } = batch;
        let driver = self.driver.clone();
        // Cancelled before it began: there is no turn.
        let Ok((number, opened)) = self.open_turn(&prompts, &token).await else { return };
        let mut turn = Turn::new(self, number, token);
        let outcome = match opened {
            Ok(()) => turn.run(prompts).await,
            Err(error) => {
                // One goes, so that a listener that always fails does not see the same turn for ever.
                prompts.pop_front();
                driver.inbox.put_back(prompts);
                Err(error.into())
            }
        };
        let (step, is_terminal) = (turn.step, turn.is_terminal);
        let is_open = self.agent.session().turns().open_turn() == Some(number);
        let reason = match (outcome, driver.inbox.ended()) {
            (Ok(reason), _) => reason,
            (Err(_), Some(Ended::Disposed)) => TurnEndReason::Disposed,
            (Err(_), Some(Ended::Cancelled(reason))) => TurnEndReason::Aborted { reason: Some(reason) },
            (Err(Halt::Cancelled), None) => TurnEndReason::Aborted { reason: None },
            (Err(Halt::Failed(error)), None) => {
                driver.tell_error(&self.agent, number, if is_open { step } else { 0 }, &error);
                TurnEndReason::Error { step, message: error.to_string(), code: error.code() }
            }
        };
        if is_open {
            self.close_turn(number, reason).await;
            driver.flush(&self.agent, number).await;
        }
        if is_terminal {
            drop(driver.inbox.take_steering());
        } else {
            driver.inbox.requeue_steering();
        }
    }

    /// Opens the next turn: its number, and what its listeners said.
    async fn open_turn(
        &self,
        prompts: &VecDeque<Prompt>,
        token: &CancellationToken,
    ) -> Result<(u32, Result<(), AppendError>), Halt> {
        let session = self.agent.session();
        let Some(first) = prompts.front() else { return Err(Halt::Cancelled) };
        loop {
            self.driver.gate.enter().await;
            if !session.turns().is_open {
                break;
            }
            // Somebody else's, such as that of a compaction while the agent was idle.
            self.driver.leave_gate(&self.agent);
            race(token, self.driver.turn_closed.notified()).await?;
        }
        let turn = session.turns().last_turn + 1;
        let trigger = TurnTrigger::Message { source: first.source.clone() };
        let opened = session.append(TurnStart { turn, trigger });
        self.driver.leave_gate(&self.agent);
        Ok((turn, opened.map(drop)))
    }

    async fn close_turn(&self, turn: u32, reason: TurnEndReason) {
        self.driver.gate.enter().await;
        self.note(self.agent.session().append(TurnEnd { turn, reason }));
        self.driver.leave_gate(&self.agent);
    }

    /// Logs a failure where the loop goes on all the same.
    pub(crate) fn note<T>(&self, outcome: Result<T, AppendError>) {
        if let Err(error) = outcome {
            self.warn(&LoopError::from(error).to_string());
        }
    }

    pub(crate) fn warn(&self, message: &str) {
        self.driver.seams.ctx.logger().warn(format_args!("agent `{}`: {message}", self.agent.id()));
    }
}
