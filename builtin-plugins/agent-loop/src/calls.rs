//! The tool calls of a step: each is logged, run and answered, in the order in which the model made them.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesOrdered;
use linn_bus::Svc;
use linn_services::ids::{CallId, ToolName};
use linn_services::model::{ContentBlock, HookContext};
use linn_services::session::{AppendError, ContextMessage, ToolCall, ToolResult};
use linn_services::tools::{ToolExecutionInput, ToolExecutionResult, Tools};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::halt::Halt;
use crate::turn::Turn;

/// A call as the model made it.
#[derive(Debug)]
pub(crate) struct Call {
    id: CallId,
    name: ToolName,
    /// What the model wrote; JSON if it did right.
    arguments: String,
}

impl Call {
    pub(crate) fn of(block: &ContentBlock) -> Option<Self> {
        match block {
            ContentBlock::ToolCall { id, name, arguments } => {
                Some(Self { id: id.clone(), name: name.clone(), arguments: arguments.clone() })
            }
            _ => None,
        }
    }

    /// The arguments as JSON: none are an empty object, and what is not JSON is the text itself.
    fn parsed(&self) -> Value {
        if self.arguments.trim().is_empty() {
            return Value::Object(Map::new());
        }
        serde_json::from_str(&self.arguments).unwrap_or_else(|_| Value::String(self.arguments.clone()))
    }
}

impl Turn<'_> {
    /// Runs the calls. Whatever happens meanwhile, each has a result in the log when this returns.
    pub(crate) async fn run_calls(&mut self, token: &CancellationToken, calls: Vec<Call>) -> Result<(), Halt> {
        if calls.is_empty() {
            return Ok(());
        }
        let mut rest = VecDeque::from(calls);
        let mut contexts = Vec::new();
        let outcome = self.dispatch(token, &mut rest, &mut contexts).await;
        self.skip_calls(rest);
        let mut said = Ok(());
        for HookContext { content, source } in contexts {
            let logged = self.agent().session().say(ContextMessage { content, source });
            said = said.and(logged.map(drop));
        }
        outcome?;
        said?;
        Ok(())
    }

    /// Takes calls off `rest` and runs them, those that may run side by side together.
    async fn dispatch(
        &self,
        token: &CancellationToken,
        rest: &mut VecDeque<Call>,
        contexts: &mut Vec<HookContext>,
    ) -> Result<(), Halt> {
        let tools = self.of.driver.seams.tools().await?;
        while !rest.is_empty() {
            if token.is_cancelled() {
                return Err(Halt::Cancelled);
            }
            let wave: Vec<Call> = rest.drain(..self.wave_len(&tools, rest)).collect();
            self.run_wave(&tools, token, &wave, contexts).await?;
        }
        if token.is_cancelled() { Err(Halt::Cancelled) } else { Ok(()) }
    }

    /// How many calls at the front run together: all up to the first that has to run alone, at least one.
    fn wave_len(&self, tools: &Svc<dyn Tools>, rest: &VecDeque<Call>) -> usize {
        // What cannot be looked up now runs alone, and its execution says why it fails.
        let is_parallel = |call: &&Call| {
            let tool = tools.get(Some(self.agent().key()), &call.name);
            tool.ok().flatten().is_some_and(|it| it.is_parallel)
        };
        rest.iter().take_while(is_parallel).count().max(1)
    }

    /// Runs calls side by side and logs their results in order. All of them have one when this returns.
    async fn run_wave(
        &self,
        tools: &Svc<dyn Tools>,
        token: &CancellationToken,
        wave: &[Call],
        contexts: &mut Vec<HookContext>,
    ) -> Result<(), Halt> {
        let mut logged = Ok(());
        for call in wave {
            logged = logged.and(self.log_call(call));
        }
        if let Err(error) = logged {
            wave.iter().for_each(|it| self.of.note(self.log_result(it, skipped(it))));
            return Err(error.into());
        }
        let mut running: FuturesOrdered<_> = wave.iter().map(|it| self.execute(tools, token, it)).collect();
        let mut logged = Ok(());
        for call in wave {
            let Some(mut result) = running.next().await else { break };
            contexts.extend(result.additional_context.take());
            logged = logged.and(self.log_result(call, result));
        }
        logged.map_err(Halt::from)
    }

    /// Runs one call. Aborted, it has a while to say how it ended; then it is dropped where it waits and answered for.
    async fn execute(&self, tools: &Svc<dyn Tools>, token: &CancellationToken, call: &Call) -> ToolExecutionResult {
        let signal = token.child_token();
        let mut input = ToolExecutionInput::new(call.id.clone(), call.name.clone(), call.parsed());
        input.agent = Some(self.agent().clone());
        input.signal = signal;
        let patience = async {
            token.cancelled().await;
            self.ctx().clock().sleep(self.of.driver.seams.config.abort_grace()).await;
        };
        match select(std::pin::pin!(tools.execute(input)), std::pin::pin!(patience)).await {
            Either::Left((Ok(result), _)) => result,
            Either::Left((Err(error), _)) => ToolExecutionResult::failed(call.id.clone(), error),
            Either::Right(_) => ToolExecutionResult::failed(call.id.clone(), "the call was aborted"),
        }
    }

    /// Answers for calls that were never run.
    pub(crate) fn skip_calls(&self, calls: impl IntoIterator<Item = Call>) {
        for call in calls {
            self.of.note(self.log_call(&call));
            self.of.note(self.log_result(&call, skipped(&call)));
        }
    }

    fn log_call(&self, call: &Call) -> Result<(), AppendError> {
        let Call { id, name, arguments } = call;
        let (call_id, name, arguments) = (id.clone(), name.clone(), arguments.clone());
        let fact = ToolCall { turn: self.number, step: self.step, call_id, name, arguments };
        self.agent().session().append(fact).map(drop)
    }

    fn log_result(&self, call: &Call, result: ToolExecutionResult) -> Result<(), AppendError> {
        let ToolExecutionResult { content, is_error, error, meta, .. } = result;
        let (turn, step, call_id) = (self.number, self.step, call.id.clone());
        let fact = ToolResult { turn, step, call_id, content, is_error, error, meta };
        self.agent().session().say(fact).map(drop)
    }
}

fn skipped(call: &Call) -> ToolExecutionResult {
    ToolExecutionResult::failed(call.id.clone(), "the call was aborted before dispatch")
}
