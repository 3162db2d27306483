//! Questions that wait for the human: whether a call may run, what to choose, whether a command gets more rights.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linn_bus::{ListenerError, Next};
use linn_services::agent::Agent;
use linn_services::events::{ApprovalRequest, InteractionAsk, InteractionSudo};
use linn_services::interaction::{Answers, Password, Question, QuestionKind, SudoAnswer};
use linn_services::session::ApprovalOutcome;
use linn_services::tools::ToolClass;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::body::redact;
use crate::bridge::Bridge;
use crate::sink::Origin;
use crate::wire::events;

/// How long a call waits for the human.
const APPROVAL_TIME: Duration = Duration::from_secs(15 * 60);

/// How much of the arguments of a call is shown, in characters.
const ARGUMENTS_CHARS: usize = 2_000;

/// The questions that wait.
#[derive(Default)]
pub(crate) struct Desk(Mutex<Open>);

#[derive(Default)]
struct Open {
    n_asked: u64,
    approvals: BTreeMap<String, (Arc<ApprovalRequest>, oneshot::Sender<ApprovalOutcome>)>,
    asks: HashMap<String, oneshot::Sender<Answers>>,
    sudos: HashMap<String, oneshot::Sender<SudoAnswer>>,
}

impl Desk {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        let mut open = self.open();
        open.n_asked += 1;
        open.n_asked
    }

    /// Takes up questions whose answer goes to `answer`; their id.
    pub(crate) fn open_ask(&self, answer: oneshot::Sender<Answers>) -> String {
        let id = format!("ask-{}", self.number());
        self.open().asks.insert(id.clone(), answer);
        id
    }

    /// Takes all questions back: nobody wants their answers any more.
    pub(crate) fn clear(&self) {
        let mut open = self.open();
        let fresh = Open { n_asked: open.n_asked, ..Open::default() };
        let before = std::mem::replace(&mut *open, fresh);
        drop(open);
        drop(before);
    }

    /// How many calls, questions and commands wait.
    pub(crate) fn n_waiting(&self) -> (usize, usize, usize) {
        let open = self.open();
        (open.approvals.len(), open.asks.len(), open.sudos.len())
    }

    /// Takes a call off that waits, with who waits for the answer.
    pub(crate) fn take_approval(&self, id: &str) -> Option<(Arc<ApprovalRequest>, oneshot::Sender<ApprovalOutcome>)> {
        self.open().approvals.remove(id)
    }

    pub(crate) fn take_ask(&self, id: &str) -> Option<oneshot::Sender<Answers>> {
        self.open().asks.remove(id)
    }

    pub(crate) fn take_sudo(&self, id: &str) -> Option<oneshot::Sender<SudoAnswer>> {
        self.open().sudos.remove(id)
    }
}

/// Takes a question off when nobody waits for its answer any more.
pub(crate) struct Asked<'a> {
    desk: &'a Desk,
    id: String,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(desk: &'a Desk, id: &str) -> Self {
        Self { desk, id: id.to_owned() }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut open = self.desk.open();
        let approval = open.approvals.remove(&self.id);
        open.asks.remove(&self.id);
        open.sudos.remove(&self.id);
        drop(open);
        drop(approval);
    }
}

/// Who asks, as the front end knows it.
struct Asker {
    session_id: Arc<str>,
    /// The run in the foreground; `None` for an agent that has none.
    run: Option<Arc<str>>,
    /// How it is named.
    run_id: String,
}

impl Asker {
    fn origin(&self) -> Origin<'_> {
        self.run.as_ref().map_or(Origin::Loop, Origin::Run)
    }
}

impl Bridge {
    /// Who asks on behalf of an agent; `None` if nobody is wanted to answer it any more.
    fn asker(&self, agent: Option<&Agent>) -> Option<Asker> {
        let state = self.state();
        let current = state.current.as_ref()?;
        let session_id = current.wire_id.clone();
        match agent {
            Some(agent) if agent != current.handle.agent() => {
                Some(Asker { session_id, run: None, run_id: agent.id().to_string() })
            }
            _ => {
                let run = state.run.as_ref()?;
                Some(Asker { session_id, run: Some(run.id.clone()), run_id: run.id.to_string() })
            }
        }
    }

    fn is_reachable(&self) -> bool {
        !self.is_over.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Asks the human whether a call may run.
    pub(crate) async fn ask_approval(
        &self,
        request: &ApprovalRequest,
        next: Next<'_, ApprovalRequest>,
    ) -> Result<ApprovalOutcome, ListenerError> {
        if !self.is_reachable() {
            return next.run().await;
        }
        let Some(asker) = self.asker(Some(&request.agent)) else { return Ok(ApprovalOutcome::Cancelled) };
        let call_id = request.call_id.as_ref().map_or("", |it| it.as_str());
        let id = format!("apv-{}-{call_id}", self.desk.number());
        let (answer, answered) = oneshot::channel();
        self.desk.open().approvals.insert(id.clone(), (Arc::new(request.clone()), answer));
        let _asked = Asked::new(&self.desk, &id);
        let risk = match request.class {
            Some(ToolClass::ReadOnly) => "readonly",
            _ => "destructive",
        };
        let is_wanted = self.sink.emit(
            asker.origin(),
            &events::ApprovalRequest {
                request_id: &id,
                session_id: &asker.session_id,
                run_id: &asker.run_id,
                tool_call_id: call_id,
                tool: request.tool_name.as_str(),
                risk,
                requested_permission: risk,
                created_at: self.now_ms(),
                args: &shown_arguments(request.arguments.as_deref()),
                diff: request.preview.as_ref().and_then(|it| it.diff.as_deref()),
                reason: request.reason.as_deref(),
            },
        );
        if !is_wanted {
            return Ok(ApprovalOutcome::Cancelled);
        }
        match self.ctx.within(APPROVAL_TIME, answered).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => Ok(ApprovalOutcome::Cancelled),
            Err(_) => {
                let expired = events::ApprovalExpired { request_id: &id, tool_call_id: call_id };
                self.sink.emit(asker.origin(), &expired);
                Ok(ApprovalOutcome::Rejected)
            }
        }
    }

    /// Asks the human questions.
    pub(crate) async fn ask_questions(
        &self,
        event: &InteractionAsk,
        next: Next<'_, InteractionAsk>,
    ) -> Result<Answers, ListenerError> {
        if !self.is_reachable() {
            return next.run().await;
        }
        let questions = &event.questions;
        let Some(asker) = self.asker(questions.agent.as_ref()) else { return Ok(Answers::Unavailable) };
        let (answer, answered) = oneshot::channel();
        let id = self.desk.open_ask(answer);
        let _asked = Asked::new(&self.desk, &id);
        let shown: Vec<Value> = questions.questions.iter().map(shown_question).collect();
        self.sink.emit(asker.origin(), &events::AskRequest { request_id: &id, questions: &shown });
        match answered.await {
            Ok(answers) => Ok(answers),
            // It was taken back with its run, whose end takes this call along; an answer would look like one of the human.
            Err(_) if asker.run.is_some() => std::future::pending().await,
            Err(_) => Ok(Answers::Skipped),
        }
    }

    /// Asks the human whether a command gets more rights.
    pub(crate) async fn ask_sudo(
        &self,
        event: &InteractionSudo,
        next: Next<'_, InteractionSudo>,
    ) -> Result<SudoAnswer, ListenerError> {
        if !self.is_reachable() {
            return next.run().await;
        }
        let asker = self.asker(event.question.agent.as_ref());
        let origin = asker.as_ref().map_or(Origin::Loop, Asker::origin);
        Ok(self.ask_password(&event.question.command, origin).await)
    }

    /// Asks whether a command gets more rights, and for the password.
    pub(crate) async fn ask_password(&self, command: &str, origin: Origin<'_>) -> SudoAnswer {
        let id = format!("sudo-{}", self.desk.number());
        let (answer, answered) = oneshot::channel();
        self.desk.open().sudos.insert(id.clone(), answer);
        let _asked = Asked::new(&self.desk, &id);
        self.sink.emit(origin, &events::SudoRequest { request_id: &id, command });
        answered.await.unwrap_or(SudoAnswer::Declined)
    }
}

/// The arguments of a call as they are shown: without secrets, and not too long.
fn shown_arguments(arguments: Option<&Value>) -> String {
    let Some(arguments) = arguments else { return "{}".to_owned() };
    let mut arguments = arguments.clone();
    redact(&mut arguments);
    let text = arguments.to_string();
    match text.char_indices().nth(ARGUMENTS_CHARS) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

/// A question as front ends read it.
pub(crate) fn shown_question(question: &Question) -> Value {
    let is_select = question.kind == QuestionKind::Select;
    json!({
        "id": question.id,
        "prompt": question.prompt,
        "type": if is_select { "select" } else { "text" },
        "options": if question.options.is_empty() { Value::Null } else { json!(question.options) },
        "allowCustom": question.allow_custom.unwrap_or(false),
        "required": question.required.unwrap_or(false),
        "placeholder": question.placeholder.as_deref().unwrap_or_default(),
    })
}

/// What a front end answered to questions: an object with texts, or anything else to skip them.
pub(crate) fn answers_of(reply: Value) -> Answers {
    let Value::Object(given) = reply else { return Answers::Skipped };
    let text = |value: Value| match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    Answers::Given(given.into_iter().map(|(id, value)| (id, text(value))).collect())
}

/// What a front end answered to a command that wants more rights.
pub(crate) fn sudo_answer(approved: bool, password: Option<String>) -> SudoAnswer {
    match password {
        Some(password) if approved => SudoAnswer::Approved(Password::new(password)),
        _ => SudoAnswer::Declined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_without_secrets_and_cut() {
        assert_eq!(
            shown_arguments(Some(&json!({"password": "x", "path": "a"}))),
            r#"{"password":"[REDACTED]","path":"a"}"#
        );
        let long = shown_arguments(Some(&json!({"content": "é".repeat(5_000)})));
        assert_eq!(long.chars().count(), 2_000);
        assert_eq!(shown_arguments(None), "{}");
    }

    #[test]
    fn answers_that_are_no_object_skip_the_questions() {
        assert_eq!(answers_of(Value::Null), Answers::Skipped);
        assert_eq!(answers_of(json!(["a"])), Answers::Skipped);
        let given =
            Answers::Given(BTreeMap::from([("a".to_owned(), "x".to_owned()), ("b".to_owned(), "2".to_owned())]));
        assert_eq!(answers_of(json!({"a": "x", "b": 2})), given);
    }

    #[test]
    fn more_rights_need_a_password() {
        assert_eq!(sudo_answer(true, None), SudoAnswer::Declined);
        assert_eq!(sudo_answer(false, Some("x".into())), SudoAnswer::Declined);
        assert_eq!(sudo_answer(true, Some("x".into())), SudoAnswer::Approved(Password::new("x".into())));
    }
}
