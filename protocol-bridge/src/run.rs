//! Runs: a prompt of the front end, and the turn of the agent that answers it.
//!
//! There is one run at a time, and one prompt may wait. A run that is cancelled is over for the front end at once; the next
//! one begins when the turn of it has ended as well.

mod state;

pub(crate) use state::{Call, Run, Unsettled, Wanted};

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::select;
use linn_services::agent::Agent;
use linn_services::model::ContentBlock;
use serde_json::json;

use crate::bridge::{Bridge, State};
use crate::journal::Note;
use crate::sink::Origin;
use crate::wire::events::{Aborted, Done, Error, RunCancelled, WorkState};

/// How long is waited for a turn that was cancelled.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

/// Why a run was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Abort,
    Reset,
    Clear,
    NewSession,
    LoadSession,
    Steering,
    Shutdown,
}

impl Reason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Reset => "reset",
            Self::Clear => "clear",
            Self::NewSession => "new_session",
            Self::LoadSession => "load_session",
            Self::Steering => "steering",
            Self::Shutdown => "shutdown",
        }
    }
}

impl State {
    /// Puts a run in the foreground.
    fn open_run(&mut self, bridge: &Bridge, wanted: &Wanted) -> Option<Opened> {
        let current = self.current.as_ref()?;
        let agent = current.handle.agent().clone();
        let id = bridge.new_id("run");
        let now = bridge.ctx.clock().monotonic();
        let context = self.context_tokens.unwrap_or_else(|| estimate(&agent));
        let run = Run::new(id.clone(), current.wire_id.clone(), wanted.choice.clone(), now, context);
        bridge.sink.open_run(id.clone());
        if self.work.want(&wanted.text()) {
            bridge.sink.emit(Origin::Run(&id), &WorkState { state: &self.work.as_value() });
        }
        let note = run.note(agent.session().id(), bridge.now_ms(), "started", None);
        self.last_model = wanted.choice.clone().or(self.last_model.take());
        self.run = Some(run);
        self.is_unsaved_told = false;
        Some(Opened { agent, run_id: id, note, unsettled: self.unsettled.clone() })
    }
}

/// A run in the foreground whose prompt the agent does not have yet.
struct Opened {
    agent: Agent,
    run_id: Arc<str>,
    note: Note,
    unsettled: Option<Unsettled>,
}

/// What became of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is answered.
    Began,
    /// It waits.
    Queued,
    /// Another one waits already.
    Full,
}

/// Tokens of a history, where nobody has counted them.
pub(crate) fn estimate(agent: &Agent) -> u64 {
    let chars = |block: &ContentBlock| match block {
        ContentBlock::Text { text } | ContentBlock::Reasoning { text, .. } => text.len(),
        ContentBlock::ToolCall { arguments, .. } => arguments.len(),
        ContentBlock::ToolResult { content, .. } => linn_services::model::text_of(content).len(),
        _ => 0,
    };
    let messages = agent.session().messages();
    let n_chars: usize = messages.iter().flat_map(|it| &it.content).map(chars).sum();
    (n_chars / 4 + 8 * messages.len()) as u64
}

impl Bridge {
    /// Begins a run, or has the prompt wait for the end of the one there is.
    pub(crate) fn offer(&self, wanted: Wanted) -> Offer {
        let opened = {
            let mut state = self.state();
            let is_steered = state.unsettled.is_some() && state.queued.is_some();
            match (state.run.is_some() || is_steered, state.queued.is_some()) {
                (true, true) => return Offer::Full,
                (true, false) => {
                    state.queued = Some(wanted);
                    self.info("prompt queued; will run after the current turn");
                    return Offer::Queued;
                }
                (false, _) => state.open_run(self, &wanted),
            }
        };
        self.launch(opened, wanted);
        Offer::Began
    }

    /// Begins the run of the prompt that waits, if one does and none runs.
    pub(crate) fn begin_queued(&self) {
        let (opened, wanted) = {
            let mut state = self.state();
            if state.run.is_some() {
                return;
            }
            let Some(wanted) = state.queued.take() else { return };
            (state.open_run(self, &wanted), wanted)
        };
        self.launch(opened, wanted);
    }

    /// Has the agent answer the prompt of a run, when it is done with the turn before.
    fn launch(&self, opened: Option<Opened>, wanted: Wanted) {
        let Some(Opened { agent, run_id, note, unsettled }) = opened else {
            self.error("there is no session that the prompt could belong to");
            return self.say(&Done {});
        };
        self.journal.note(note);
        match unsettled {
            None => self.hand_over(&agent, &run_id, wanted),
            Some(unsettled) => self.spawn(move |bridge| async move {
                bridge.settled(&agent, &unsettled).await;
                bridge.hand_over(&agent, &run_id, wanted);
            }),
        }
    }

    /// Gives the prompt of a run to the agent.
    fn hand_over(&self, agent: &Agent, run_id: &Arc<str>, wanted: Wanted) {
        let handing = self.handing.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut state = self.state();
            let Some(run) = state.run.as_mut().filter(|it| it.id == *run_id) else { return };
            run.is_sent = true;
        }
        let sent = agent.send(wanted.content);
        drop(handing);
        if let Err(error) = sent {
            self.fail_run(run_id, &error.to_string());
        }
    }

    /// Ends a run that the agent does not know of.
    fn fail_run(&self, run_id: &Arc<str>, message: &str) {
        let mut state = self.state();
        let Some(run) = state.run.take_if(|it| it.id == *run_id) else { return };
        let hold = self.sink.hold();
        self.sink.emit(Origin::Run(run_id), &Error { message, code: None });
        self.sink.emit(Origin::Run(run_id), &Done {});
        self.sink.stop_run();
        let session = state.agent().map(|it| it.session().clone());
        drop(state);
        if let Some(session) = session {
            self.journal.note(run.note(session.id(), self.now_ms(), "failed", Some(message)));
            self.journal.settle(&session, hold);
        }
    }

    /// Waits until a turn that was cancelled is over.
    async fn settled(&self, agent: &Agent, unsettled: &Unsettled) {
        match unsettled.turn {
            Some(_) => {
                let (over, idle) = (unsettled.over.cancelled(), agent.when_idle());
                let _ = select(std::pin::pin!(over), std::pin::pin!(idle)).await;
            }
            None => agent.when_idle().await,
        }
        let mut state = self.state();
        state.unsettled.take_if(|it| it.is(unsettled));
    }

    /// Ends the run there is, and forgets the prompt that waits. Returns when its turn is over, or it has taken too long.
    pub(crate) async fn cancel(&self, reason: Reason) -> bool {
        let began = self.ctx.clock().monotonic();
        let Some((run, agent, unsettled)) = self.stop_run(reason) else { return false };
        let is_over = self.ctx.within(SETTLE, self.settled(&agent, &unsettled)).await.is_ok();
        let Some(run) = run else { return false };
        let took = self.ctx.clock().monotonic().saturating_sub(began);
        self.tell_cancelled(&run, &agent, reason, Some((took, is_over)));
        true
    }

    /// Ends the run there is for the sake of another prompt, which begins when its turn is over. Does not wait for that.
    pub(crate) fn steer_away(&self, wanted: Wanted) {
        let Some((run, agent, unsettled)) = self.stop_run(Reason::Steering) else { return };
        self.state().queued = Some(wanted);
        if let Some(run) = run {
            self.tell_cancelled(&run, &agent, Reason::Steering, None);
        }
        self.say(&Aborted {});
        self.spawn(move |bridge| async move {
            bridge.settled(&agent, &unsettled).await;
            bridge.begin_queued();
        });
    }

    /// From now on nothing of the run is told; questions it asked are taken back.
    fn stop_run(&self, reason: Reason) -> Option<(Option<Run>, Agent, Unsettled)> {
        let handing = self.handing.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = {
            let mut state = self.state();
            state.queued = None;
            let agent = state.agent()?.clone();
            let run = state.run.take();
            self.sink.stop_run();
            if let Some(run) = &run
                && run.is_sent
            {
                state.unsettled = Some(Unsettled::new(run.turn));
            }
            let unsettled = state.unsettled.clone().unwrap_or_else(|| Unsettled::new(None));
            (run, agent, unsettled)
        };
        if let Err(error) = stopped.1.cancel(Some(reason.as_str())) {
            self.ctx.logger().debug(format_args!("nothing to cancel: {error}"));
        }
        drop(handing);
        self.desk.clear();
        Some(stopped)
    }

    fn tell_cancelled(&self, run: &Run, agent: &Agent, reason: Reason, took: Option<(Duration, bool)>) {
        let (session_id, run_id, reason) = (&*run.session_id, &*run.id, reason.as_str());
        let hold = self.sink.hold();
        self.say(&RunCancelled {
            session_id,
            run_id,
            reason,
            duration_ms: took.map(|(took, _)| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            forced_abort: took.map(|(_, is_over)| !is_over),
            cleanup_failures: took.map(|(_, is_over)| u64::from(!is_over)),
        });
        self.state().last_cancellation = Some(json!({ "session_id": session_id, "run_id": run_id, "reason": reason }));
        for note in run.closing_notes(agent.session().id(), self.now_ms(), "cancelled", Some(reason)) {
            self.journal.note(note);
        }
        self.journal.settle(agent.session(), hold);
    }

    /// The plugin goes without a word from the front end: the run is told as cancelled, and nobody waits.
    pub(crate) fn leave_run(&self) {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        self.end_jobs();
        if let Some((Some(run), agent, _)) = self.stop_run(Reason::Shutdown) {
            self.tell_cancelled(&run, &agent, Reason::Shutdown, None);
        }
    }

    /// Ends all work beside the run.
    pub(crate) fn end_jobs(&self) -> bool {
        let state = self.state();
        state.jobs.iter().for_each(|it| it.signal.cancel());
        !state.jobs.is_empty()
    }
}
