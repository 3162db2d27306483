//! The way of a tool call: amended, checked, decided, run, looked at, told.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};

use linn_bus::{BoxFuture, Cause, Context, ListenerError, Lookup};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::approval::Approval;
use crate::events::{ApprovalRequest, ToolsAmend, ToolsExecute, ToolsPostExecute, ToolsPreExecute, ToolsResult};
use crate::ids::CallId;
use crate::secrets::secrets_of;
use crate::session::{ApprovalOutcome, ErrorInfo, ToolAmended};
use crate::tools::entries::{Entries, ToolEntry, names_of};
use crate::tools::execution::Mint;
use crate::tools::schema::{check_is_object, unfit};
use crate::tools::{
    AmendDecision, PostToolDecision, PreToolDecision, RESULT_LIMIT_BYTES, ToolExecution, ToolExecutionInput,
    ToolExecutionResult, ToolFailure, ToolToken, limit_content,
};

/// What every call goes through.
pub(crate) struct Pipeline {
    pub(crate) entries: Arc<Entries>,
    pub(crate) approval: Lookup<dyn Approval>,
    pub(crate) mint: Arc<Mint>,
}

/// Whether a call runs.
enum Verdict {
    Run,
    Refuse(String),
}

impl Pipeline {
    fn ctx(&self) -> &Context {
        &self.entries.ctx
    }

    /// Brings a call to its result, and tells it.
    pub(crate) async fn run(&self, input: &ToolExecutionInput) -> ToolExecutionResult {
        let flight = Flight::begin(self, input);
        // First what the signal may have let end by itself, then the signal: a body that heeds it has the last word.
        let came_to = until(&input.signal, self.stages(&flight, input)).await;
        let result = match came_to {
            Some(Ok(result)) => result,
            Some(Err(failure)) => failed(flight.call_id(), failure),
            None => failed(flight.call_id(), aborted(&flight.execution())),
        };
        flight.land(result).await
    }

    /// All stages but the last. An error skips those that are left.
    async fn stages(
        &self,
        flight: &Flight<'_>,
        input: &ToolExecutionInput,
    ) -> Result<ToolExecutionResult, ToolFailure> {
        if input.signal.is_cancelled() {
            return Err(aborted(&flight.execution()));
        }
        if input.parent.as_ref().is_some_and(|it| !it.is_of(&self.mint)) {
            return Err(ToolFailure::coded(
                "TokenError",
                "FOREIGN_PARENT",
                "the call names a parent that this registry did not begin; name the token of a call on its way, or none",
            ));
        }
        check_is_object(&input.name, &input.arguments)?;
        flight.set_arguments(Arc::new(input.arguments.clone()));

        let mut verdict = self.amend(flight).await?;
        let execution = flight.execution();
        let mut entry = None;
        if matches!(verdict, Verdict::Run) {
            entry = self.find(&execution);
            if let Some(entry) = &entry {
                entry.arguments.check(&entry.tool, execution.arguments())?;
            }
            verdict = self.decide(&execution, entry.as_ref()).await?;
        }
        let result = match verdict {
            Verdict::Refuse(reason) => {
                let error = ErrorInfo { name: "ToolDenied".to_owned(), code: "DENIED".to_owned() };
                ToolExecutionResult::failed_with(execution.call_id().clone(), reason, Some(error))
            }
            Verdict::Run => self.execute(&execution, entry.as_ref()).await?,
        };
        let result = self.without_secrets(result);
        self.review(&execution, result).await
    }

    fn find(&self, execution: &ToolExecution) -> Option<Arc<ToolEntry>> {
        self.entries.visible(execution.scope()).remove(execution.name())
    }

    /// Lets listeners change the arguments or refuse the call, and logs the change.
    async fn amend(&self, flight: &Flight<'_>) -> Result<Verdict, ToolFailure> {
        let event = ToolsAmend::new(flight.execution());
        let decision = self.ctx().waterfall(&event, async || AmendDecision::Proceed).await.map_err(failure_of)?;
        if let AmendDecision::Refuse { reason } = decision {
            return Ok(Verdict::Refuse(reason));
        }
        let original = event.execution.arguments().clone();
        if let Some((arguments, by)) = event.amended().filter(|(arguments, _)| *arguments != original) {
            if !arguments.is_object() {
                let name = event.execution.name();
                return Err(unfit(format!("plugin `{by}` changed the arguments of `{name}` to what is no object")));
            }
            flight.set_arguments(arguments.clone());
            self.log_amended(&flight.execution(), &arguments, by)?;
        }
        Ok(Verdict::Run)
    }

    fn log_amended(&self, execution: &ToolExecution, arguments: &Value, by: String) -> Result<(), ToolFailure> {
        let Some(agent) = execution.agent() else { return Ok(()) };
        let fact = ToolAmended { call_id: execution.call_id().clone(), arguments: arguments.clone(), by };
        match agent.session().append(fact) {
            Ok(_) => Ok(()),
            Err(error) if error.is_logged() => {
                self.ctx().logger().warn(format_args!("session `{}`: {error}", agent.session().id()));
                Ok(())
            }
            Err(error) => {
                let message = format!("the amended arguments of `{}` could not be logged: {error}", execution.name());
                Err(ToolFailure::coded("AppendError", error.code(), message))
            }
        }
    }

    /// Listeners first, then a human if they want one, then the guards.
    async fn decide(&self, execution: &ToolExecution, entry: Option<&Arc<ToolEntry>>) -> Result<Verdict, ToolFailure> {
        let event = ToolsPreExecute { execution: execution.clone() };
        let decision = self.ctx().waterfall(&event, async || PreToolDecision::Allow).await.map_err(failure_of)?;
        let refusal = match decision {
            PreToolDecision::Allow => None,
            PreToolDecision::Deny { reason } => Some(reason),
            PreToolDecision::Ask { reason } => self.ask(execution, entry, reason).await?,
        };
        let refusal = match refusal {
            None => self.entries.refusal(execution).map_err(failure_of)?,
            refused => refused,
        };
        Ok(refusal.map_or(Verdict::Run, Verdict::Refuse))
    }

    /// Asks a human; gives the reason if the answer is no.
    async fn ask(
        &self,
        execution: &ToolExecution,
        entry: Option<&Arc<ToolEntry>>,
        reason: Option<String>,
    ) -> Result<Option<String>, ToolFailure> {
        let name = execution.name();
        let Some(approval) = self.approval.get().await.map_err(failure_of)? else {
            return Ok(Some(
                reason.unwrap_or_else(|| format!("tool \"{name}\" requires approval (not yet supported)")),
            ));
        };
        let Some(agent) = execution.agent() else {
            return Ok(Some(format!("tool \"{name}\" requires approval, and the call is of no agent to ask for")));
        };
        let preview = match entry {
            Some(entry) => self.entries.preview(entry, execution).await,
            None => None,
        };
        let request = ApprovalRequest {
            call_id: Some(execution.call_id().clone()),
            token: Some(execution.token().clone()),
            arguments: Some(execution.arguments().clone()),
            class: entry.map(|it| it.tool.class),
            preview,
            reason,
            signal: execution.signal(),
            ..ApprovalRequest::new(agent.clone(), name.clone())
        };
        let outcome = approval.request(request).await.map_err(|error| {
            let message = format!("nobody was asked whether tool \"{name}\" may run: {error}");
            ToolFailure::coded("ApprovalError", error.code(), message)
        })?;
        Ok(match outcome {
            ApprovalOutcome::AllowedOnce => None,
            ApprovalOutcome::Rejected => Some(format!("the user rejected tool \"{name}\"")),
            ApprovalOutcome::Cancelled => Some(format!("approval for tool \"{name}\" was cancelled")),
            ApprovalOutcome::Unavailable => {
                Some(format!("tool \"{name}\" requires approval, but no approval channel is available"))
            }
        })
    }

    /// Runs the call through the listeners around it.
    async fn execute(
        &self,
        execution: &ToolExecution,
        entry: Option<&Arc<ToolEntry>>,
    ) -> Result<ToolExecutionResult, ToolFailure> {
        let event = ToolsExecute { execution: execution.clone() };
        let dispatch = async || match self.dispatch(execution, entry).await {
            Ok(result) => result,
            Err(failure) => failed(execution.call_id(), failure),
        };
        let result = self.ctx().waterfall(&event, dispatch).await.map_err(failure_of)?;
        if result.call_id != *execution.call_id() {
            return Err(ToolFailure::coded(
                "ToolResultError",
                "FOREIGN_RESULT",
                format!(
                    "a listener of `tools/execute` answered call `{}` with the result of call `{}`",
                    execution.call_id(),
                    result.call_id
                ),
            ));
        }
        Ok(result)
    }

    /// Runs the tool itself, until the signal of the moment ends it.
    async fn dispatch(
        &self,
        execution: &ToolExecution,
        entry: Option<&Arc<ToolEntry>>,
    ) -> Result<ToolExecutionResult, ToolFailure> {
        let signal = execution.signal();
        if signal.is_cancelled() {
            return Err(aborted(execution));
        }
        let running = async {
            let mut entry = entry.cloned().ok_or_else(|| self.unknown(execution))?;
            loop {
                if let Some(output) = self.entries.run(&entry, execution).await.map_err(failure_of)? {
                    return output;
                }
                entry = self.successor(&entry, execution)?;
            }
        };
        let output = until(&signal, running).await.unwrap_or_else(|| Err(aborted(execution)))?;
        Ok(ToolExecutionResult {
            call_id: execution.call_id().clone(),
            content: output.content,
            is_error: output.is_error,
            error: None,
            additional_context: None,
            meta: output.meta,
        })
    }

    /// What took the place of a tool that went while the call was decided. It has to be the same for whoever decided.
    fn successor(&self, gone: &ToolEntry, execution: &ToolExecution) -> Result<Arc<ToolEntry>, ToolFailure> {
        let entry = self.find(execution).ok_or_else(|| self.unknown(execution))?;
        if entry.tool.class == gone.tool.class && entry.tool.schema == gone.tool.schema {
            return Ok(entry);
        }
        let message =
            format!("tool `{}` was replaced by another while the call was decided; call it again", gone.tool.name());
        Err(ToolFailure::coded("ToolReplacedError", "TOOL_REPLACED", message))
    }

    fn unknown(&self, execution: &ToolExecution) -> ToolFailure {
        let visible = self.entries.visible(execution.scope());
        let (name, known) = (execution.name(), names_of(visible.keys()));
        let message = format!("unknown tool: `{name}`; there are: {known}");
        ToolFailure::coded("ToolNotFoundError", "UNKNOWN_TOOL", message)
    }

    /// The result as everybody may see it.
    fn without_secrets(&self, mut result: ToolExecutionResult) -> ToolExecutionResult {
        let secrets = secrets_of(self.ctx());
        if !secrets.is_empty() {
            result.content.iter_mut().for_each(|it| secrets.redact_block(it));
            result.meta.iter_mut().for_each(|it| secrets.redact_value(it));
        }
        result
    }

    /// Lets listeners look at the result and change it.
    async fn review(
        &self,
        execution: &ToolExecution,
        result: ToolExecutionResult,
    ) -> Result<ToolExecutionResult, ToolFailure> {
        let event = ToolsPostExecute { execution: execution.clone(), result: Arc::new(result) };
        let decision = self.ctx().waterfall(&event, async || PostToolDecision::accept()).await.map_err(failure_of)?;
        let result = Arc::unwrap_or_clone(event.result);
        Ok(match decision {
            PostToolDecision::Accept { content, is_error, meta, additional_context } => {
                let is_error = is_error.unwrap_or(result.is_error);
                ToolExecutionResult {
                    call_id: result.call_id,
                    content: content.unwrap_or(result.content),
                    is_error,
                    error: result.error.filter(|_| is_error),
                    additional_context: additional_context.or(result.additional_context),
                    meta: meta.or(result.meta),
                }
            }
            PostToolDecision::Block { feedback, additional_context } => ToolExecutionResult {
                call_id: result.call_id,
                content: feedback,
                is_error: true,
                error: None,
                additional_context: additional_context.or(result.additional_context),
                meta: None,
            },
        })
    }
}

/// A call on its way. However it ends, its result is told once: also when it is dropped before it has one.
struct Flight<'a> {
    pipeline: &'a Pipeline,
    execution: Mutex<ToolExecution>,
    call_id: CallId,
    has_landed: bool,
}

impl<'a> Flight<'a> {
    /// The call has no arguments until they proved to be some.
    fn begin(pipeline: &'a Pipeline, input: &ToolExecutionInput) -> Self {
        let token = ToolToken::mint(&pipeline.mint);
        let execution = ToolExecution::new(token, input, Arc::new(Value::Null));
        let call_id = input.call_id.clone();
        Self { pipeline, execution: Mutex::new(execution), call_id, has_landed: false }
    }

    fn current(&self) -> MutexGuard<'_, ToolExecution> {
        self.execution.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execution(&self) -> ToolExecution {
        self.current().clone()
    }

    fn call_id(&self) -> &CallId {
        &self.call_id
    }

    fn set_arguments(&self, arguments: Arc<Value>) {
        let mut current = self.current();
        *current = current.with_arguments(arguments);
    }

    async fn land(mut self, result: ToolExecutionResult) -> ToolExecutionResult {
        self.has_landed = true;
        // Before anything is cut, so that no cut leaves half a secret.
        let result = self.pipeline.without_secrets(result);
        let content = limit_content(result.content, RESULT_LIMIT_BYTES);
        let result = Arc::new(ToolExecutionResult { content, ..result });
        Telling::of(self.pipeline.ctx(), self.execution(), result.clone()).await;
        Arc::unwrap_or_clone(result)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.has_landed {
            let execution = self.execution();
            let result = failed(execution.call_id(), aborted(&execution));
            // A telling that is dropped goes on as a task.
            drop(Telling::of(self.pipeline.ctx(), execution, Arc::new(result)));
        }
    }
}

/// Tells a result to everybody. When it is dropped before all have heard, a task goes on with it.
struct Telling {
    ctx: Context,
    rest: Option<BoxFuture<'static, ()>>,
}

impl Telling {
    fn of(ctx: &Context, execution: ToolExecution, result: Arc<ToolExecutionResult>) -> Self {
        let teller = ctx.clone();
        let rest = Box::pin(async move {
            if let Err(errors) = teller.parallel(&ToolsResult { execution, result }).await {
                teller.logger().error(format_args!("{errors}"));
            }
        });
        Self { ctx: ctx.clone(), rest: Some(rest) }
    }
}

impl Future for Telling {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(()) };
        let polled = rest.as_mut().poll(cx);
        if polled.is_ready() {
            self.rest = None;
        }
        polled
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take()
            && self.ctx.spawn(rest).is_err()
        {
            self.ctx
                .logger()
                .warn("a tool call ended together with the registry of tools; its result was told to nobody");
        }
    }
}

/// What `work` comes to, or `None` if the signal ended it first. What is ready together with the signal counts.
async fn until<T>(signal: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut cancelled) = (pin!(work), pin!(signal.cancelled()));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => cancelled.as_mut().poll(cx).map(|()| None),
    })
    .await
}

fn aborted(execution: &ToolExecution) -> ToolFailure {
    ToolFailure::coded("AbortError", "ABORTED", format!("{} aborted", execution.name()))
}

fn failed(call_id: &CallId, failure: ToolFailure) -> ToolExecutionResult {
    ToolExecutionResult::failed_with(call_id.clone(), failure.message, failure.info)
}

/// The failure of a call through whoever listens; it keeps the code of the fault.
fn failure_of(error: ListenerError) -> ToolFailure {
    let (name, code) = match error.cause() {
        Cause::Failed(fault) | Cause::Refused(fault) => ("Fault", fault.code()),
        _ => ("ListenerError", None),
    };
    ToolFailure::coded(name, code.unwrap_or_else(|| error.code()), format!("{error:#}"))
}
