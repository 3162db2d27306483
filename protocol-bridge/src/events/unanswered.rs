//! Questions of a model that a restart cut off: they are asked again with the next prompt.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linn_services::interaction::{Answers, Question};
use linn_services::model::{ContentBlock, HookContext, MessageSource};
use linn_services::session::{Fact, Session, TurnEndReason};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::asks::{Asked, shown_question};
use crate::bridge::Bridge;
use crate::run::Reason;
use crate::sink::Origin;
use crate::wire::events::AskRequest;

/// The arguments of a call that asks.
#[derive(Deserialize)]
struct Arguments {
    questions: Vec<Question>,
}

/// The questions that a session ends with because the program ended before somebody answered; none of them if what the
/// model wrote cannot be asked.
pub(crate) fn unanswered(session: &Session) -> Option<Vec<Question>> {
    if session.turns().open_turn().is_some() {
        return None;
    }
    let (id, arguments) = session.find_last(|it| match &it.fact {
        Fact::ToolCall(call) if call.name.as_str() == "ask" => {
            Some(Some((call.call_id.clone(), call.arguments.clone())))
        }
        Fact::ToolCall(_) | Fact::UserMessage(_) | Fact::AssistantMessage(_) | Fact::SessionRewind(_) => Some(None),
        _ => None,
    })??;
    // A repair of the log answers what was cut off with an error.
    let is_answered = session.find_last(|it| match &it.fact {
        Fact::ToolResult(result) if result.call_id == id => Some(!result.is_error),
        _ => None,
    });
    let end = session.find_last(|it| match &it.fact {
        Fact::TurnEnd(it) => Some(it.reason.clone()),
        _ => None,
    });
    let by_restart = match end {
        Some(TurnEndReason::Aborted { reason }) => reason.as_deref() == Some(Reason::Shutdown.as_str()),
        Some(TurnEndReason::Interrupted | TurnEndReason::Disposed) | None => true,
        Some(_) => false,
    };
    let questions = || serde_json::from_str(&arguments).map_or_else(|_| Vec::new(), |it: Arguments| it.questions);
    (is_answered != Some(true) && by_restart).then(questions)
}

impl Bridge {
    /// Asks again what was cut off, and gives what the model learns of the answer.
    pub(crate) async fn ask_again(&self) -> Option<HookContext> {
        let questions = self.state().unanswered.take().filter(|it| !it.is_empty())?;
        let (answer, answered) = oneshot::channel();
        let id = self.desk.open_ask(answer);
        let _asked = Asked::new(&self.desk, &id);
        let shown: Vec<Value> = questions.iter().map(shown_question).collect();
        {
            let state = self.state();
            let origin = state.run.as_ref().map_or(Origin::Loop, |it| Origin::Run(&it.id));
            self.sink.emit(origin, &AskRequest { request_id: &id, questions: &shown });
        }
        let Ok(Answers::Given(given)) = answered.await else { return None };
        let content = vec![ContentBlock::text(told(&questions, &given))];
        Some(HookContext { content, source: MessageSource::User })
    }
}

fn told(questions: &[Question], given: &BTreeMap<String, String>) -> String {
    let mut text = "I answer the questions that a restart cut off:".to_owned();
    for question in questions {
        let answer = given.get(&question.id).map_or("(skipped)", String::as_str);
        write!(text, "\n- {} ({}): {answer}", question.id, question.prompt)
            .expect("a string takes all that is written");
    }
    text
}
