//! Questions on a terminal: whether a call may run, which is shown whole, and what the model asks. One at a time.

use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal as _;
use std::sync::Arc;

use linn::bus::{Context, Fault, ListenerError, Next, Plugin};
use linn::services::approval::{ApprovalModes, PermissionScope};
use linn::services::events::{ApprovalRequest, InteractionAsk};
use linn::services::ids::ToolName;
use linn::services::interaction::{Answers, Question};
use linn::services::session::ApprovalOutcome;
use tokio::sync::Mutex;

use crate::cli::lines::Lines;
use crate::cli::terminal::Terminal;

/// Asks whoever sits at the terminal; without a terminal nobody can be asked.
pub(crate) struct Ask {
    ctx: Context,
    desk: Desk,
    /// Held by whoever asks; the tools that need no question any more.
    permitted: Mutex<HashSet<ToolName>>,
}

/// Where the human sits.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) terminal: Arc<Terminal>,
    pub(crate) lines: Arc<Lines>,
}

impl Ask {
    async fn answer(
        &self,
        request: &ApprovalRequest,
        next: Next<'_, ApprovalRequest>,
    ) -> Result<ApprovalOutcome, ListenerError> {
        let Desk { terminal, lines } = &self.desk;
        if !std::io::stdin().is_terminal() {
            terminal.warn("  ? nobody can be asked: standard input is no terminal; see --approve");
            return next.run().await;
        }
        let mut permitted = self.permitted.lock().await;
        if permitted.contains(&request.tool_name) {
            return Ok(ApprovalOutcome::AllowedOnce);
        }
        // What was typed before the question was shown is no answer to it.
        lines.forget().await;
        terminal.asked(request);
        let answer = lines.next().await.ok().flatten();
        Ok(match answer.as_deref().map(str::trim) {
            Some("y" | "yes") => ApprovalOutcome::AllowedOnce,
            Some("a" | "always") => {
                self.permit(request);
                permitted.insert(request.tool_name.clone());
                ApprovalOutcome::AllowedOnce
            }
            _ => ApprovalOutcome::Rejected,
        })
    }

    /// Asks the questions of a model, one after the other.
    async fn ask(&self, event: &InteractionAsk, next: Next<'_, InteractionAsk>) -> Result<Answers, ListenerError> {
        if !std::io::stdin().is_terminal() {
            return next.run().await;
        }
        let _one_at_a_time = self.permitted.lock().await;
        self.desk.lines.forget().await;
        let mut given = BTreeMap::new();
        for question in &event.questions.questions {
            self.desk.terminal.questioned(question);
            let answer = loop {
                let Some(line) = self.desk.lines.next().await.ok().flatten() else { return Ok(Answers::Skipped) };
                match chosen(question, &line) {
                    Ok(answer) => break answer,
                    Err(why) => self.desk.terminal.warn(&format!("  {why}")),
                }
            };
            given.extend(answer.map(|it| (question.id.clone(), it)));
        }
        Ok(if given.is_empty() { Answers::Skipped } else { Answers::Given(given) })
    }

    /// Lets the calls of the tool run from now on, also when the session is resumed.
    fn permit(&self, request: &ApprovalRequest) {
        let permitted = self.ctx.get::<dyn ApprovalModes>().map(|it| it.permit(request, PermissionScope::Tool));
        if let Some(Err(error)) = permitted {
            self.desk.terminal.warn(&format!("  only until the program ends: {error}"));
        }
    }
}

impl Plugin for Ask {
    const NAME: &'static str = "ask-on-terminal";
    type Config = Desk;
    type Needs = ();

    async fn start(ctx: &Context, desk: Desk, (): ()) -> Result<(), Fault> {
        let ask = Arc::new(Self { ctx: ctx.clone(), desk, permitted: Mutex::default() });
        ctx.on_with(&ask, Self::answer)?;
        ctx.on_with(&ask, Self::ask)?;
        Ok(())
    }
}

/// What a line says to a question; none if it skips it.
fn chosen(question: &Question, line: &str) -> Result<Option<String>, &'static str> {
    let line = line.trim();
    if line.is_empty() {
        let is_required = question.required == Some(true);
        return if is_required { Err("this one has to be answered") } else { Ok(None) };
    }
    let by_number = line.parse::<usize>().ok().and_then(|it| question.options.get(it.checked_sub(1)?));
    let by_name = || question.options.iter().find(|it| it.eq_ignore_ascii_case(line));
    match by_number.or_else(by_name) {
        Some(option) => Ok(Some(option.clone())),
        None if !question.options.is_empty() && question.allow_custom == Some(false) => Err("choose one of them"),
        None => Ok(Some(line.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use linn::services::interaction::{Question, QuestionKind};

    use super::chosen;

    #[test]
    fn an_option_is_chosen_by_number_or_name_and_other_answers_where_they_will_do() {
        let mut question = Question {
            id: "a".to_owned(),
            prompt: "Which?".to_owned(),
            kind: QuestionKind::Select,
            options: vec!["red".to_owned(), "blue".to_owned()],
            allow_custom: None,
            placeholder: None,
            required: None,
        };
        assert_eq!(chosen(&question, " 2 "), Ok(Some("blue".to_owned())));
        assert_eq!(chosen(&question, "RED"), Ok(Some("red".to_owned())));
        assert_eq!(chosen(&question, "3"), Ok(Some("3".to_owned())));
        assert_eq!(chosen(&question, ""), Ok(None));
        question.allow_custom = Some(false);
        question.required = Some(true);
        assert_eq!(chosen(&question, "green"), Err("choose one of them"));
        assert_eq!(chosen(&question, "0"), Err("choose one of them"));
        assert_eq!(chosen(&question, " "), Err("this one has to be answered"));
    }
}
