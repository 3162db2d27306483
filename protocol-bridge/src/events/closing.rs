//! A model is asked to say more before its turn ends, or told that it gets nowhere.

use linn_services::agent::Agent;
use linn_services::events::{AgentReflecting, AgentStuck, AgentSummaryRequired};

use crate::body::WireEvent;
use crate::bridge::Bridge;
use crate::sink::Origin;
use crate::wire::events::{Reflecting, StuckNudge, SummaryRequired};

impl Bridge {
    pub(crate) fn reflecting(&self, event: &AgentReflecting) {
        self.tell_of_turn(&event.agent, event.turn, &Reflecting { recurrence: event.recurrence });
    }

    pub(crate) fn summary_required(&self, event: &AgentSummaryRequired) {
        let AgentSummaryRequired { attempt, max_attempts, .. } = *event;
        self.tell_of_turn(&event.agent, event.turn, &SummaryRequired { attempt, max_attempts });
    }

    pub(crate) fn stuck(&self, event: &AgentStuck) {
        self.tell_of_turn(&event.agent, event.turn, &StuckNudge { message: &event.message });
    }

    /// Tells something of a turn, if it is that of the run in the foreground.
    fn tell_of_turn<E: WireEvent>(&self, agent: &Agent, turn: u32, event: &E) {
        let state = self.state();
        let run = state.run.as_ref().filter(|it| it.turn == Some(turn) && state.agent() == Some(agent));
        if let Some(run) = run {
            self.sink.emit(Origin::Run(&run.id), event);
        }
    }
}
