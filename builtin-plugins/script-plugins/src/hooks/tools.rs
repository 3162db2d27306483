//! Hooks around the calls of tools.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{ListenerError, Next};
use linn_services::events::{ToolsAmend, ToolsPostExecute, ToolsResult};
use linn_services::model::ContentBlock;
use linn_services::tools::{AmendDecision, PostToolDecision, ToolExecution, ToolExecutionResult, ToolToken};
use serde_json::{Value, json};

use crate::fleet::{Fleet, HookCall, HookOutcome};
use crate::hooks::HookPoint;

/// Hooks around the calls of tools.
#[derive(Debug)]
pub(crate) struct ToolHooks {
    fleet: Arc<Fleet>,
    /// Calls whose arguments were let pass, with what scripts wrote for the model.
    passed: Mutex<HashMap<ToolToken, Vec<String>>>,
}

/// The points before and after a call of this tool, its own before those of every tool.
fn points(tool: &str) -> (Vec<HookPoint>, Vec<HookPoint>) {
    let own = match tool {
        "bash" => Some((HookPoint::PreBash, HookPoint::PostBash)),
        "write_file" | "edit" | "patch" | "bulk_write" | "bulk_edit" | "delete" | "rename" | "mkdir" => {
            Some((HookPoint::PreWrite, HookPoint::PostWrite))
        }
        "read_file" | "grep" | "glob" | "bulk_read" => Some((HookPoint::PreRead, HookPoint::PostRead)),
        _ => None,
    };
    let (pre, post): (Vec<_>, Vec<_>) = own.into_iter().chain([(HookPoint::PreTool, HookPoint::PostTool)]).unzip();
    (pre, post)
}

impl ToolHooks {
    pub(crate) fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, passed: Mutex::default() }
    }

    fn passed(&self) -> MutexGuard<'_, HashMap<ToolToken, Vec<String>>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the scripts before a call, one after the other; each sees the arguments as those before it left them.
    pub(crate) async fn amend(
        &self,
        it: &ToolsAmend,
        next: Next<'_, ToolsAmend>,
    ) -> Result<AmendDecision, ListenerError> {
        let execution = &it.execution;
        if self.is_offered(execution).await {
            let (pre, _) = points(execution.name().as_str());
            let mut notes = Vec::new();
            for point in pre {
                if let Some(reason) = self.ask_before(it, point, &mut notes).await {
                    return Ok(AmendDecision::Refuse { reason });
                }
            }
            self.passed().insert(execution.token().clone(), notes);
        }
        next.run().await
    }

    /// A call of what is not there is answered without anybody being asked.
    async fn is_offered(&self, execution: &ToolExecution) -> bool {
        let Ok(Some(tools)) = self.fleet.tools.get().await else { return true };
        !matches!(tools.get(execution.scope(), execution.name()), Ok(None))
    }

    /// Asks the scripts of one point; gives why the call is refused, if it is.
    async fn ask_before(&self, it: &ToolsAmend, point: HookPoint, notes: &mut Vec<String>) -> Option<String> {
        let execution = &it.execution;
        let tool = execution.name().as_str();
        for active in self.fleet.hooked(point) {
            let plugin = active.name();
            let call = HookCall {
                tool,
                args: Some((*it.arguments()).clone()),
                signal: execution.signal(),
                ..HookCall::new(point, execution.agent())
            };
            let answer = match self.fleet.hook(&active, &call).await {
                HookOutcome::Answered(answer) => answer,
                HookOutcome::Failed(why) => return Some(refused(tool, plugin, point, &why)),
                HookOutcome::Gone => continue,
            };
            if let Some(reason) = answer.refusal() {
                return Some(refused(tool, plugin, point, reason));
            }
            if let Some(modify) = &answer.modify
                && let Value::Object(mut arguments) = (*it.arguments()).clone()
            {
                arguments.extend(modify.clone());
                it.replace(Value::Object(arguments), plugin);
            }
            notes.extend(answer.note().map(|note| format!("{plugin}/{}: {note}", point.as_str())));
        }
        None
    }

    /// Asks the scripts after a call, one after the other; each sees the result as those before it left it.
    pub(crate) async fn post(
        &self,
        it: &ToolsPostExecute,
        next: Next<'_, ToolsPostExecute>,
    ) -> Result<PostToolDecision, ListenerError> {
        let decision = next.run().await?;
        let execution = &it.execution;
        let Some(mut notes) = self.passed().remove(execution.token()) else { return Ok(decision) };
        // Whoever refused the call after its arguments were let pass: it did not run.
        if it.result.error.as_ref().is_some_and(|it| it.code == "DENIED") {
            return Ok(decision);
        }
        let mut outcome = Outcome::of(&it.result, &decision);
        let (_, post) = points(execution.name().as_str());
        for point in post {
            for active in self.fleet.hooked(point) {
                let call = HookCall {
                    tool: execution.name().as_str(),
                    args: Some((**execution.arguments()).clone()),
                    result: Some(outcome.shown()),
                    signal: execution.signal(),
                    ..HookCall::new(point, execution.agent())
                };
                let HookOutcome::Answered(answer) = self.fleet.hook(&active, &call).await else { continue };
                if let Some(modify) = &answer.modify {
                    outcome.modify(modify);
                }
                let (plugin, point) = (active.name(), point.as_str());
                notes.extend(answer.note().map(|note| format!("{plugin}/{point}: [{plugin}] {note}")));
            }
        }
        outcome.append(&notes);
        Ok(outcome.into_decision(decision))
    }

    /// Forgets a call that is over.
    pub(crate) async fn over(&self, it: &ToolsResult) {
        self.passed().remove(it.execution.token());
    }
}

fn refused(tool: &str, plugin: &str, point: HookPoint, reason: &str) -> String {
    format!("tool call '{tool}' denied by plugin '{plugin}' hook '{}': {reason}", point.as_str())
}

/// A result as scripts see it.
struct Outcome {
    is_ok: bool,
    text: String,
    diff: Option<String>,
    /// What is no text.
    others: Vec<ContentBlock>,
    meta: Option<Value>,
    has_new_text: bool,
    has_new_ok: bool,
    has_new_diff: bool,
}

impl Outcome {
    /// The result with what was decided about it already.
    fn of(result: &ToolExecutionResult, decision: &PostToolDecision) -> Self {
        let (content, is_error, meta) = match decision {
            PostToolDecision::Accept { content, is_error, meta, .. } => (
                content.as_ref().unwrap_or(&result.content),
                is_error.unwrap_or(result.is_error),
                meta.clone().or_else(|| result.meta.clone()),
            ),
            PostToolDecision::Block { feedback, .. } => (feedback, true, None),
        };
        let texts: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
        Self {
            is_ok: !is_error,
            text: texts.join("\n"),
            diff: meta.as_ref().and_then(|it| it.get("diff")?.as_str()).map(str::to_owned),
            others: content.iter().filter(|it| it.as_text().is_none()).cloned().collect(),
            meta,
            has_new_text: false,
            has_new_ok: false,
            has_new_diff: false,
        }
    }

    fn shown(&self) -> Value {
        json!({ "ok": self.is_ok, "output": self.text, "diff": self.diff })
    }

    fn modify(&mut self, modify: &serde_json::Map<String, Value>) {
        if let Some(output) = modify.get("output").and_then(Value::as_str) {
            output.clone_into(&mut self.text);
            self.has_new_text = true;
        }
        if let Some(is_ok) = modify.get("ok").and_then(Value::as_bool) {
            self.is_ok = is_ok;
            self.has_new_ok = true;
        }
        if let Some(diff) = modify.get("diff") {
            self.diff = diff.as_str().map(str::to_owned);
            self.has_new_diff = true;
        }
    }

    fn append(&mut self, notes: &[String]) {
        if !notes.is_empty() {
            self.text.push_str("\n\nPlugin hooks:\n- ");
            self.text.push_str(&notes.join("\n- "));
            self.has_new_text = true;
        }
    }

    /// The decision with what scripts changed.
    fn into_decision(self, decision: PostToolDecision) -> PostToolDecision {
        let text = ContentBlock::text(self.text);
        let changed = self.has_new_text.then(|| std::iter::once(text).chain(self.others).collect::<Vec<_>>());
        match decision {
            PostToolDecision::Accept { content, is_error, meta, additional_context } => {
                let new_meta = self.has_new_diff.then(|| {
                    let mut meta = self.meta.filter(Value::is_object).unwrap_or_else(|| json!({}));
                    meta["diff"] = self.diff.into();
                    meta
                });
                PostToolDecision::Accept {
                    content: changed.or(content),
                    is_error: if self.has_new_ok { Some(!self.is_ok) } else { is_error },
                    meta: new_meta.or(meta),
                    additional_context,
                }
            }
            PostToolDecision::Block { feedback, additional_context } => {
                PostToolDecision::Block { feedback: changed.unwrap_or(feedback), additional_context }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_20_1_every_tool_that_writes_or_reads_has_its_own_point() {
        let names = |tool: &str| {
            let (pre, post) = points(tool);
            (pre[0].as_str(), post[0].as_str(), pre.len(), post.len())
        };
        assert_eq!(names("bash"), ("pre_bash", "post_bash", 2, 2));
        for tool in ["write_file", "edit", "patch", "bulk_write", "bulk_edit", "delete", "rename", "mkdir"] {
            assert_eq!(names(tool), ("pre_write", "post_write", 2, 2), "{tool}");
        }
        for tool in ["read_file", "grep", "glob", "bulk_read"] {
            assert_eq!(names(tool), ("pre_read", "post_read", 2, 2), "{tool}");
        }
        assert_eq!(names("todo_write"), ("pre_tool", "post_tool", 1, 1));
    }
}
