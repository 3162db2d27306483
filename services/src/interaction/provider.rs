//! How a human is asked: through whoever listens.

use std::collections::HashSet;
use std::sync::Arc;

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, provider};
use tokio_util::future::FutureExt;

use crate::events::{InteractionAsk, InteractionSudo};
use crate::interaction::{
    Answers, Interaction, InteractionError, Question, QuestionKind, Questions, SudoAnswer, SudoQuestion,
};

/// Provides [`Interaction`].
#[derive(Debug)]
pub struct InteractionPlugin;

linn_bus::register_plugin!(InteractionPlugin);

impl Plugin for InteractionPlugin {
    const NAME: &'static str = "interaction-service";
    type Config = ();
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Interaction>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Interaction>(Arc::new(Asker { ctx: ctx.clone() }))?;
        Ok(())
    }
}

struct Asker {
    ctx: Context,
}

/// Whether questions can be asked together.
fn check(questions: &[Question]) -> Result<(), InteractionError> {
    let invalid = |why: String| Err(InteractionError::Invalid(why));
    if questions.is_empty() {
        return invalid("there is no question".into());
    }
    let mut ids = HashSet::new();
    for question in questions {
        let id = &question.id;
        if id.trim().is_empty() {
            return invalid(format!("the question \"{}\" has no id", question.prompt));
        }
        if !ids.insert(id) {
            return invalid(format!("two questions have the id \"{id}\""));
        }
        if question.prompt.trim().is_empty() {
            return invalid(format!("question \"{id}\" asks nothing"));
        }
        if question.kind == QuestionKind::Select && question.options.is_empty() && question.allow_custom != Some(true) {
            return invalid(format!(
                "question \"{id}\" is a select without options; give some, or allow custom answers"
            ));
        }
    }
    Ok(())
}

/// Keeps what a human answered to what was asked.
fn tidy(answers: Answers, questions: &[Question]) -> Answers {
    match answers {
        Answers::Given(mut given) => {
            given.retain(|id, answer| !answer.is_empty() && questions.iter().any(|it| it.id == *id));
            Answers::Given(given)
        }
        other => other,
    }
}

#[provider]
impl Interaction for Asker {
    async fn ask(&self, questions: Questions) -> Result<Answers, InteractionError> {
        check(&questions.questions)?;
        let signal = questions.signal.clone();
        let event = InteractionAsk { questions };
        let asked = self.ctx.waterfall(&event, async || Answers::Unavailable).with_cancellation_token(&signal);
        match asked.await {
            None => Err(InteractionError::Cancelled),
            Some(answers) => Ok(tidy(answers?, &event.questions.questions)),
        }
    }

    async fn sudo(&self, question: SudoQuestion) -> Result<SudoAnswer, InteractionError> {
        let signal = question.signal.clone();
        let event = InteractionSudo { question };
        let asked = self.ctx.waterfall(&event, async || SudoAnswer::Unavailable).with_cancellation_token(&signal);
        asked.await.ok_or(InteractionError::Cancelled)?.map_err(Into::into)
    }
}
