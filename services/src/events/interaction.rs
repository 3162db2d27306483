//! `interaction/*`: other questions to a human.

use linn_bus::Event;
use serde::Serialize;

use crate::agent::Agent;
use crate::interaction::{Answers, Questions, SudoAnswer, SudoQuestion};

/// A human is asked questions.
///
/// - Mode: waterfall; whoever can answer does so without `next`. The default is that nobody can.
/// - Scope: the agent that asks.
/// - Emitted by: the `interaction` service alone; ask through it.
/// - On listener error or panic: whoever asked gets the error.
/// - Cancelled by: the signal of the questions.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "interaction/ask", mode = Waterfall, output = Answers, subject = self.questions.agent.as_ref().map(|it: &Agent| it.key()), view)]
#[serde(rename_all = "camelCase")]
pub struct InteractionAsk {
    /// The questions.
    pub questions: Questions,
}

/// A human is asked for more rights.
///
/// - Mode: waterfall; whoever can answer does so without `next`. The default is that nobody can.
/// - Scope: the agent that asks.
/// - Emitted by: the `interaction` service alone; ask through it.
/// - On listener error or panic: whoever asked gets the error.
/// - Cancelled by: the signal of the question.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "interaction/sudo", mode = Waterfall, output = SudoAnswer, subject = self.question.agent.as_ref().map(|it: &Agent| it.key()), view)]
#[serde(rename_all = "camelCase")]
pub struct InteractionSudo {
    /// The question.
    pub question: SudoQuestion,
}
