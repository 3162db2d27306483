//! The inbox of an agent: what waits for it, whether it works, and what was cancelled.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use linn_services::agent::{AgentStatus, Prompt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What waits for an agent, and where its loop stands. Verbs come from any thread; the loop is one task.
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Wakes the loop where it is parked.
    news: Notify,
    /// Ends with the agent.
    life: CancellationToken,
}

struct State {
    /// Prompts, each the beginning of a turn or a part of one.
    queued: VecDeque<Prompt>,
    /// Messages for the turn that runs.
    steering: VecDeque<Prompt>,
    /// Between two idle moments.
    is_busy: bool,
    is_disposed: bool,
    /// Why what runs was cancelled.
    cancelled: Option<String>,
    /// Ends the turn that runs.
    turn: CancellationToken,
    /// Cancelled when the loop comes to rest, then another one.
    settled: CancellationToken,
    /// At rest, which is yet to be told; cancelled when it is.
    untold: Option<CancellationToken>,
    /// The last turn that was logged outside of the loop and not flushed.
    unflushed: Option<u32>,
}

/// What the loop wakes up for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Prompts wait, and the loop is busy from now on.
    Prompts,
    /// This turn was logged outside of the loop and shall be flushed.
    Unflushed(u32),
    /// The agent is disposed.
    Over,
}

/// What a turn begins with.
pub(crate) struct Batch {
    pub(crate) prompts: VecDeque<Prompt>,
    /// Ends the turn.
    pub(crate) token: CancellationToken,
}

/// Where a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Queued,
    Steering,
}

/// Why a turn was ended from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Disposed,
    Cancelled(String),
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let life = CancellationToken::new();
        let state = State {
            queued: VecDeque::new(),
            steering: VecDeque::new(),
            is_busy: false,
            is_disposed: false,
            cancelled: None,
            turn: life.child_token(),
            settled: CancellationToken::new(),
            untold: None,
            unflushed: None,
        };
        Self { state: Mutex::new(state), news: Notify::new(), life }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> AgentStatus {
        let state = self.state();
        match (state.is_disposed, state.is_busy) {
            (true, _) => AgentStatus::Disposed,
            (false, true) => AgentStatus::Running,
            (false, false) => AgentStatus::Idle,
        }
    }

    pub(crate) fn send(&self, prompt: Prompt) {
        self.state().queued.push_back(prompt);
        self.news.notify_one();
    }

    /// Takes a message for the turn that runs; while idle it is a prompt.
    pub(crate) fn steer(&self, prompt: Prompt) -> Taken {
        let mut state = self.state();
        if state.is_busy {
            state.steering.push_back(prompt);
            return Taken::Steering;
        }
        drop(state);
        self.send(prompt);
        Taken::Queued
    }

    /// Ends what runs and empties the inbox; while idle with nothing queued it does nothing.
    pub(crate) fn cancel(&self, reason: &str) {
        let mut state = self.state();
        let had_queued = !state.queued.is_empty();
        state.queued.clear();
        state.steering.clear();
        let ended = if state.is_busy {
            state.cancelled = Some(reason.to_owned());
            state.turn.clone()
        } else if had_queued {
            // The loop was not awake yet: nothing is left to do, and who waits for that may go.
            std::mem::take(&mut state.settled)
        } else {
            return;
        };
        drop(state);
        ended.cancel();
    }

    /// Ends everything; whether it is the first time.
    pub(crate) fn dispose(&self) -> bool {
        let is_first = !std::mem::replace(&mut self.state().is_disposed, true);
        self.news.notify_one();
        self.life.cancel();
        is_first
    }

    /// Why the turn that runs was ended from outside; `None` if it was not.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let state = self.state();
        if state.is_disposed {
            return Some(Ended::Disposed);
        }
        state.cancelled.clone().map(Ended::Cancelled)
    }

    /// Waits for something to do. A turn flushes what was logged before it too, so prompts come first.
    pub(crate) async fn wake_up(&self) -> News {
        loop {
            {
                let mut state = self.state();
                if !state.is_disposed && !state.queued.is_empty() {
                    state.is_busy = true;
                    return News::Prompts;
                }
                if let Some(turn) = state.unflushed.take() {
                    return News::Unflushed(turn);
                }
                if state.is_disposed {
                    return News::Over;
                }
            }
            self.news.notified().await;
        }
    }

    /// Has the loop flush a turn that was logged outside of it, as soon as it has nothing else to do.
    pub(crate) fn note_unflushed(&self, turn: u32) {
        self.state().unflushed = Some(turn);
        self.news.notify_one();
    }

    /// Everything that was logged so far is being flushed.
    pub(crate) fn forget_unflushed(&self) {
        self.state().unflushed = None;
    }

    /// All prompts that wait, for the next turn. With none the loop is at rest again, and who waits for that is let go by
    /// [`settle`](Self::settle). What was cancelled before is over.
    pub(crate) fn next_batch(&self) -> Option<Batch> {
        let mut state = self.state();
        state.cancelled = None;
        if state.is_disposed {
            return None;
        }
        if state.queued.is_empty() {
            state.is_busy = false;
            state.untold = Some(std::mem::take(&mut state.settled));
            return None;
        }
        state.turn = self.life.child_token();
        Some(Batch { prompts: std::mem::take(&mut state.queued), token: state.turn.clone() })
    }

    /// That the loop is at rest was told: lets go who waited for it.
    pub(crate) fn settle(&self) {
        let untold = self.state().untold.take();
        if let Some(untold) = untold {
            untold.cancel();
        }
    }

    /// Puts prompts back in front of those that wait; not if they were cancelled.
    pub(crate) fn put_back(&self, prompts: VecDeque<Prompt>) {
        let mut state = self.state();
        if state.cancelled.is_none() {
            for prompt in prompts.into_iter().rev() {
                state.queued.push_front(prompt);
            }
        }
    }

    pub(crate) fn take_steering(&self) -> VecDeque<Prompt> {
        std::mem::take(&mut self.state().steering)
    }

    /// What waits in the inbox of a loop that is over.
    pub(crate) fn take_queued(&self) -> Vec<Prompt> {
        std::mem::take(&mut self.state().queued).into()
    }

    /// Adds a message to the steering of the turn, unless it was cancelled.
    pub(crate) fn push_steering(&self, prompt: Prompt) {
        let mut state = self.state();
        if state.cancelled.is_none() {
            state.steering.push_back(prompt);
        }
    }

    pub(crate) fn has_steering(&self) -> bool {
        !self.state().steering.is_empty()
    }

    /// What steering is left becomes prompts, before those that wait.
    pub(crate) fn requeue_steering(&self) {
        let steering = self.take_steering();
        let mut state = self.state();
        for prompt in steering.into_iter().rev() {
            state.queued.push_front(prompt);
        }
    }

    /// The loop is over: who waits for rest is let go.
    pub(crate) fn close(&self) {
        let settled = std::mem::take(&mut self.state().settled);
        settled.cancel();
        self.settle();
    }

    /// What to wait for until nothing runs and nothing waits; `None` if that is so now.
    pub(crate) fn until_settled(&self) -> Option<CancellationToken> {
        let state = self.state();
        if state.is_busy || !state.queued.is_empty() || state.is_disposed {
            return Some(state.settled.clone());
        }
        state.untold.clone()
    }
}
