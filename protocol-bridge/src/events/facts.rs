//! What the agent logs, told as the events of its run.

use std::sync::MutexGuard;

use linn_services::events::SessionEvent;
use linn_services::model::{ContentBlock, FinishReason, StreamChunk};
use linn_services::session::{
    ApprovalAsked, ApprovalDecided, AssistantMessage, Fact, ToolCall, TurnEnd, TurnEndReason, TurnStart, TurnTrigger,
};

use crate::bridge::{Bridge, State};
use crate::run::{Call, Run};
use crate::sink::Origin;
use crate::wire::events::{
    Aborted, Delta, Done, Error, RunCancelled, Thinking, ToolCall as ToolCallEvent, ToolCallArgs, ToolCallName,
    ToolCallStart,
};

impl Bridge {
    /// Tells a fact, if it belongs to the run in the foreground.
    pub(crate) fn heard(&self, event: &SessionEvent) {
        let mut state = self.state();
        if !state.is_current(&event.session) {
            return;
        }
        if let Fact::TurnEnd(it) = &event.record.fact {
            return self.turn_ended(state, it, event);
        }
        let state = &mut *state;
        match &event.record.fact {
            Fact::AssistantChunk(it) => self.with_run(state, it.turn, |run| self.piece(run, &it.chunk)),
            Fact::StepStart(it) => self.with_run(state, it.turn, |run| {
                run.answer = Default::default();
                run.tally.ask(self.ctx.clock().monotonic());
            }),
            Fact::AssistantMessage(it) => self.with_run(state, it.turn, |run| self.answered(run, it)),
            Fact::ToolCall(it) => self.with_run(state, it.turn, |run| self.called(run, it, event)),
            Fact::ToolResult(it) => {
                let belongs = state.run.as_ref().is_some_and(|run| run.turn == Some(it.turn));
                if belongs {
                    self.call_answered(state, &it.call_id, &event.record);
                } else {
                    self.stale(state, it.turn);
                }
            }
            Fact::ApprovalAsked(it) => asked(state, it),
            Fact::ApprovalDecided(it) => decided(state, it),
            Fact::TodoWrite(it) => {
                state.work.plan(&it.todos);
                let call = state.run.as_mut().and_then(|run| run.calls.values_mut().find(|it| it.is_planning()));
                if let Some(call) = call {
                    call.has_planned = true;
                }
            }
            Fact::TurnStart(it) => self.turn_began(state, it),
            _ => {}
        }
    }

    fn with_run(&self, state: &mut State, turn: u32, tell: impl FnOnce(&mut Run)) {
        match state.run.as_mut().filter(|run| run.turn == Some(turn)) {
            Some(run) => tell(run),
            None => self.stale(state, turn),
        }
    }

    /// Counts what comes of a turn that was cancelled.
    fn stale(&self, state: &State, turn: u32) {
        if state.unsettled.as_ref().is_some_and(|it| it.turn == Some(turn)) {
            self.sink.discard();
        }
    }

    /// The turn of a run begins. One that no front end asked for gets a run of its own.
    fn turn_began(&self, state: &mut State, start: &TurnStart) {
        let TurnTrigger::Message { .. } = &start.trigger else { return };
        if let Some(run) = state.run.as_mut() {
            if run.is_sent && run.turn.is_none() {
                run.turn = Some(start.turn);
            }
            return;
        }
        if state.unsettled.is_some() {
            return;
        }
        let Some(current) = &state.current else { return };
        let (id, now) = (self.new_id("run"), self.ctx.clock().monotonic());
        let context = state.context_tokens.unwrap_or(0);
        let mut run = Run::new(id.clone(), current.wire_id.clone(), state.last_model.clone(), now, context);
        (run.turn, run.is_sent) = (Some(start.turn), true);
        self.sink.open_run(id);
        self.journal.note(run.note(current.handle.agent().session().id(), self.now_ms(), "started", None));
        state.run = Some(run);
        state.is_unsaved_told = false;
    }

    /// A piece of the answer.
    fn piece(&self, run: &mut Run, chunk: &StreamChunk) {
        match chunk {
            StreamChunk::TextDelta { index, text } => {
                run.answer.told.insert(*index);
                self.text(run, text);
            }
            StreamChunk::ReasoningDelta { index, text } => {
                run.answer.told.insert(*index);
                self.thoughts(run, text);
            }
            StreamChunk::ToolCallDelta { index, id, name, arguments_delta } => {
                self.call_piece(run, *index, id.as_str(), name.as_deref(), arguments_delta);
            }
            StreamChunk::BlockEnd { index, block } if !run.answer.told.contains(index) => match block {
                ContentBlock::Text { text } => self.text(run, text),
                ContentBlock::Reasoning { text, .. } => self.thoughts(run, text),
                ContentBlock::ToolCall { id, name, arguments } => {
                    self.call_piece(run, *index, id.as_str(), Some(name.as_str()), arguments);
                }
                _ => {}
            },
            StreamChunk::Finish { reason } => run.cut_by = cut_by(reason),
            StreamChunk::Discard => {
                run.answer = Default::default();
                run.tally.discard();
            }
            _ => {}
        }
        let len = match chunk {
            StreamChunk::TextDelta { text, .. } | StreamChunk::ReasoningDelta { text, .. } => text.len(),
            StreamChunk::ToolCallDelta { arguments_delta, .. } => arguments_delta.len(),
            _ => return,
        };
        if let Some(metrics) = run.tally.piece(self.ctx.clock().monotonic(), len) {
            self.sink.emit(Origin::Run(&run.id), &metrics);
        }
    }

    fn text(&self, run: &Run, text: &str) {
        if !text.is_empty() {
            self.sink.emit(Origin::Run(&run.id), &Delta { text });
        }
    }

    fn thoughts(&self, run: &Run, text: &str) {
        if !text.is_empty() {
            self.sink.emit(Origin::Run(&run.id), &Thinking { text });
        }
    }

    fn call_piece(&self, run: &mut Run, block: u32, id: &str, name: Option<&str>, arguments: &str) {
        let origin = Origin::Run(&run.id);
        run.answer.told.insert(block);
        let (call, is_new) = run.answer.call(block);
        let index = call.index;
        if is_new {
            self.sink.emit(origin, &ToolCallStart { id, index });
        }
        if let Some(name) = name.filter(|_| !call.is_named) {
            call.is_named = true;
            self.sink.emit(origin, &ToolCallName { index, name });
        }
        if !arguments.is_empty() {
            self.sink.emit(origin, &ToolCallArgs { index, args: arguments });
        }
    }

    fn answered(&self, run: &mut Run, message: &AssistantMessage) {
        let n_chars = message.content.iter().map(|it| match it {
            ContentBlock::Text { text } | ContentBlock::Reasoning { text, .. } => text.len(),
            ContentBlock::ToolCall { arguments, .. } => arguments.len(),
            _ => 0,
        });
        run.tally.answered(self.ctx.clock().monotonic(), message.usage.as_ref(), n_chars.sum());
        run.n_open = 0;
    }

    fn called(&self, run: &mut Run, call: &ToolCall, event: &SessionEvent) {
        let (id, name, args) = (call.call_id.as_str(), call.name.as_str(), call.arguments.as_str());
        run.n_open += 1;
        run.calls.insert(call.call_id.clone(), Call::new(name));
        self.sink.emit(Origin::Run(&run.id), &ToolCallEvent { id, name, args });
        self.journal.note(run.call_note(event.session.id(), &call.call_id, self.now_ms(), "started"));
    }

    /// The turn of a run ends: the run ends with it, and the prompt that waits begins.
    fn turn_ended(&self, mut state: MutexGuard<'_, State>, end: &TurnEnd, event: &SessionEvent) {
        if let Some(unsettled) = state.unsettled.take_if(|it| it.turn == Some(end.turn)) {
            unsettled.over.cancel();
        }
        let Some(run) = state.run.take_if(|it| it.turn == Some(end.turn)) else { return };
        state.context_tokens = Some(run.tally.context()).filter(|it| *it > 0);
        self.tell_unsaved(&mut state, &event.session);
        // What the front end reads of the end is on the medium.
        let hold = self.sink.hold();
        let failure = self.last_words(&run, &end.reason);
        if !matches!(end.reason, TurnEndReason::Aborted { .. }) {
            self.sink.emit(Origin::Run(&run.id), &Done {});
        }
        self.sink.stop_run();
        let deferred = std::mem::take(&mut state.deferred);
        let agent = state.agent().cloned();
        drop(state);
        let state = if failure.is_some() { "failed" } else { "completed" };
        for note in run.closing_notes(event.session.id(), self.now_ms(), state, failure.as_deref()) {
            self.journal.note(note);
        }
        self.journal.settle(&event.session, hold);
        if let Some(agent) = agent {
            deferred.into_iter().for_each(|it| self.tell_model(&agent, it));
        }
        self.begin_queued();
    }

    /// What is told of a run before it is done; gives why it failed, if it did.
    fn last_words(&self, run: &Run, reason: &TurnEndReason) -> Option<String> {
        let origin = Origin::Run(&run.id);
        let failed = |message: &str| {
            self.sink.emit(origin, &Error { message, code: None });
            Some(message.to_owned())
        };
        match reason {
            TurnEndReason::Completed | TurnEndReason::MaxTokens => {
                if let Some(why) = run.cut_by.as_deref() {
                    self.info(format!("the answer was cut off: {why}"));
                }
                let model = run.model();
                self.sink.emit(origin, &run.tally.metrics(self.ctx.clock().monotonic(), model));
                self.sink.emit(origin, &run.tally.cost(model));
                None
            }
            TurnEndReason::Error { message, .. } => failed(message),
            TurnEndReason::Rejected { reason } => failed(reason),
            TurnEndReason::Aborted { reason } => {
                // Somebody inside of the harness ended it.
                let (session_id, run_id) = (&*run.session_id, &*run.id);
                self.say(&RunCancelled {
                    session_id,
                    run_id,
                    reason: "abort",
                    duration_ms: None,
                    forced_abort: None,
                    cleanup_failures: None,
                });
                self.say(&Aborted {});
                Some(reason.clone().unwrap_or_else(|| "aborted".to_owned()))
            }
            TurnEndReason::Disposed => failed("the turn was ended: what drives the agent was taken away"),
            TurnEndReason::Interrupted => failed("the turn was interrupted"),
            other => failed(&format!("the turn ended in an unknown way: {other:?}")),
        }
    }
}

/// Why an answer may lack its end, though the endpoint calls it finished.
fn cut_by(reason: &FinishReason) -> Option<String> {
    match reason {
        FinishReason::MaxTokens => Some("it reached the most tokens that the model may write".to_owned()),
        FinishReason::Other(reason) => {
            let kind = reason.get("kind").and_then(serde_json::Value::as_str).unwrap_or("a reason it did not name");
            Some(format!("the endpoint ended it with \"{kind}\""))
        }
        _ => None,
    }
}

/// A human is asked about a call.
fn asked(state: &mut State, asked: &ApprovalAsked) {
    let call = asked.call_id.as_ref().and_then(|it| state.run.as_mut()?.calls.get_mut(it));
    if let Some(call) = call {
        call.question = Some(asked.id.to_string());
    }
}

/// A human has answered.
fn decided(state: &mut State, decided: &ApprovalDecided) {
    let calls = state.run.as_mut().map(|it| it.calls.values_mut());
    let call = calls.into_iter().flatten().find(|it| it.question.as_deref() == Some(decided.id.as_str()));
    if let Some(call) = call {
        call.outcome = Some(decided.outcome);
    }
}
