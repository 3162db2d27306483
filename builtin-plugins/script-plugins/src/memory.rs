//! Plugins that keep memories in place of the harness.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BoxFuture, BusError, Context, Fault, Svc, provider};
use linn_services::agent::Agent;
use linn_services::events::CompactionEnd;
use linn_services::memory_provider::{MemoryAnswer, MemoryProvider, MemoryProviderError, NewMemory};
use linn_services::model::ToolSchema;
use linn_services::prompt::{AssembleContext, Section, SystemPrompt, TextOf, Variable};
use linn_services::tools::{Tool, ToolBody, ToolExecution, ToolFailure, ToolOutput};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::active::{Active, ask};
use crate::exchange::{Failure, Question};
use crate::fleet::{Fleet, is_main, session_text};
use crate::manifest::MemoryEntry;

/// What the extract of a compaction may come to.
const EXTRACT_CAP_BYTES: u64 = 16_384;

/// Actions of the model's tool that change what is remembered.
const WRITES: &[&str] = &["save", "append", "forget", "consolidate", "write"];

/// The name of the section and of the variable that holds its text: so braces in it stay what they are.
const SECTION: &str = "script-plugins:memory";
const VARIABLE: &str = "script_plugins_memory";

/// The plugin that keeps memories, if one does, and what it adds to the prompt.
pub(crate) struct Memory {
    fleet: Arc<Fleet>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Who was asked last.
    active: Option<Arc<Active>>,
    injection: String,
    /// It knows the names of the document, and not the others.
    speaks_document: bool,
}

/// An action under the two names that plugins know it by.
#[derive(Debug, Clone, Copy)]
struct Action {
    name: &'static str,
    in_document: &'static str,
}

const INJECT: Action = Action { name: "inject", in_document: "standing_prompt" };
const SAVE: Action = Action { name: "save", in_document: "write" };
const LIST: Action = Action { name: "list", in_document: "list" };
const FORGET: Action = Action { name: "forget", in_document: "forget" };
const SEARCH: Action = Action { name: "search", in_document: "search" };
const COMPACT: Action = Action { name: "compact_append", in_document: "write" };

impl Memory {
    pub(crate) fn new(fleet: Arc<Fleet>) -> Arc<Self> {
        Arc::new(Self { fleet, known: Mutex::default() })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a compaction found worth keeping is handed over.
    pub(crate) fn listen(self: &Arc<Self>, ctx: &Context) -> Result<(), BusError> {
        let memory = self.clone();
        ctx.on(move |it: &CompactionEnd| {
            let Ok(compacted) = &it.outcome else { return };
            if compacted.facts.is_empty() || memory.provider().is_none() {
                return;
            }
            let content = compacted.facts.join("\n");
            let (memory, ctx) = (memory.clone(), memory.fleet.ctx.clone());
            let handing_over = async move {
                let args = json!({
                    "name": "session-extract", "content": content, "type": "session", "cap_bytes": EXTRACT_CAP_BYTES,
                    "description": "auto-extracted durable facts (accumulated on compaction)",
                });
                if let Err(error) = memory.act(COMPACT, args, "").await {
                    memory.fleet.ctx.logger().warn(format_args!("the extract of a compaction was not kept: {error}"));
                }
                drop(memory.refresh().await);
            };
            // When the plugin is going there is nobody to hand it over to.
            drop(ctx.spawn(handing_over));
        })?;
        Ok(())
    }

    /// Has what the plugin adds to the prompt be part of it.
    pub(crate) async fn bring_prompt(
        self: Arc<Self>,
        ctx: Context,
        prompt: Svc<dyn SystemPrompt>,
    ) -> Result<(), Fault> {
        let (of_section, of_variable) = (self.clone(), self);
        let is_shown = |memory: &Self, it: &AssembleContext| {
            it.agent.as_ref().is_none_or(is_main) && !memory.known().injection.is_empty()
        };
        let text = TextOf::new(
            move |it: &AssembleContext| {
                if is_shown(&of_section, it) { format!("{{{{{VARIABLE}}}}}") } else { String::new() }
            },
        );
        let value = Variable::new(move |it: &AssembleContext| {
            is_shown(&of_variable, it).then(|| of_variable.known().injection.clone())
        });
        prompt.variable(&ctx, VARIABLE, value)?;
        prompt.section(&ctx, Section { name: SECTION.to_owned(), order: 901, text })?;
        Ok(())
    }

    fn provider(&self) -> Option<(Arc<Active>, MemoryEntry)> {
        self.fleet.active().into_iter().find_map(|it| {
            let entry = it.manifest.memory_provider.clone()?;
            Some((it, entry))
        })
    }

    /// Plugins came or went: if another one keeps memories now, it is asked what it adds to the prompt.
    pub(crate) fn provider_changed(self: &Arc<Self>) {
        let now = self.provider().map(|it| it.0);
        {
            let mut known = self.known();
            let is_same = match (&known.active, &now) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                (None, None) => true,
                _ => false,
            };
            if is_same {
                return;
            }
            *known = Known { active: now.clone(), ..Known::default() };
        }
        if now.is_some() {
            let memory = self.clone();
            drop(self.fleet.ctx.spawn(async move { drop(memory.refresh().await) }));
        }
    }

    pub(crate) async fn refresh(&self) -> Result<(), MemoryProviderError> {
        // Without an answer there is nothing to add; nobody else is asked in its place.
        let answered = self.act(INJECT, json!({}), "").await;
        self.known().injection = answered.as_ref().map(injection_of).unwrap_or_default();
        match answered {
            Ok(_) => Ok(()),
            Err(MemoryProviderError::None) => Ok(()),
            Err(error) => {
                self.fleet.ctx.logger().warn(format_args!("no memories in the prompt: {error}"));
                Err(error)
            }
        }
    }

    /// Asks the plugin; under the other name if it does not know the first.
    async fn act(&self, action: Action, args: Value, session: &str) -> Result<Map<String, Value>, MemoryProviderError> {
        let (names, may_learn) = if self.known().speaks_document {
            ([action.in_document, action.name], false)
        } else {
            ([action.name, action.in_document], true)
        };
        match self.ask(names[0], args.clone(), session).await {
            Err(MemoryProviderError::Failed(why)) if names[0] != names[1] && is_unknown_action(&why) => {
                let answered = self.ask(names[1], args, session).await?;
                self.known().speaks_document = may_learn;
                Ok(answered)
            }
            answered => answered,
        }
    }

    async fn ask(&self, action: &str, args: Value, session: &str) -> Result<Map<String, Value>, MemoryProviderError> {
        let (active, entry) = self.provider().ok_or(MemoryProviderError::None)?;
        let question = Question {
            label: "memory provider",
            script: entry.script,
            input: json!({
                "action": action,
                "args": args,
                "workspace": self.fleet.setting.workspace_text(),
                "session_id": session,
                "timestamp": self.fleet.scripts.now(),
            }),
            timeout: entry.timeout,
            environment: Vec::new(),
            signal: CancellationToken::new(),
        };
        let who = format!("memory_provider '{}'", active.name());
        let text = ask(&active, question).await.map_err(|it: Failure| MemoryProviderError::Failed(it.text(&who)))?;
        read(&text)
    }
}

/// Reads an answer; one that says that it failed is an error.
fn read(text: &str) -> Result<Map<String, Value>, MemoryProviderError> {
    let failed = |what: String| Err(MemoryProviderError::Failed(what));
    let Ok(Value::Object(answer)) = serde_json::from_str::<Value>(text) else {
        let begin: String = text.chars().take(200).collect();
        return failed(format!("memory_provider returned non-JSON stdout: {begin}"));
    };
    if let Some(error) = answer.get("error").and_then(Value::as_str).filter(|it| !it.is_empty()) {
        return failed(error.to_owned());
    }
    if answer.get("ok").and_then(Value::as_bool) == Some(false) {
        let output = output_of(&answer);
        return failed(if output.is_empty() {
            "memory_provider failed (action response had ok=false)".to_owned()
        } else {
            output
        });
    }
    Ok(answer)
}

fn output_of(answer: &Map<String, Value>) -> String {
    answer.get("output").or_else(|| answer.get("result")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn entries_of(answer: &Map<String, Value>) -> Vec<Value> {
    answer.get("entries").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What goes to the prompt: the text itself, or the entries as a list.
fn injection_of(answer: &Map<String, Value>) -> String {
    if let Some(text) = answer.get("injection").and_then(Value::as_str) {
        return text.trim().to_owned();
    }
    let line = |entry: &Value| {
        if let Some(text) = entry.as_str() {
            return Some(format!("- {text}"));
        }
        let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|it| !it.is_empty());
        let what = text("content").or_else(|| text("description")).or_else(|| text("text"))?;
        let kind = text("type").map(|it| format!(" ({it})")).unwrap_or_default();
        Some(text("name").map_or_else(|| format!("- {what}"), |name| format!("- **{name}**{kind}: {what}")))
    };
    entries_of(answer).iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

fn is_unknown_action(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    let says_unknown = ["unknown", "unsupported", "unrecognized", "unrecognised", "not supported", "invalid"];
    why.contains("action") && says_unknown.iter().any(|it| why.contains(it))
}

fn answer(answer: &Map<String, Value>) -> MemoryAnswer {
    let id = answer.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    MemoryAnswer { output: output_of(answer), id, entries: entries_of(answer) }
}

/// Provides [`MemoryProvider`].
pub(crate) struct MemoryService(pub(crate) Arc<Memory>);

#[provider]
impl MemoryProvider for MemoryService {
    fn active(&self) -> Result<Option<String>, MemoryProviderError> {
        Ok(self.0.provider().map(|it| it.0.name().to_owned()))
    }

    fn injection(&self) -> Result<String, MemoryProviderError> {
        Ok(self.0.known().injection.clone())
    }

    async fn refresh(&self) -> Result<(), MemoryProviderError> {
        self.0.refresh().await
    }

    async fn save(&self, memory: NewMemory) -> Result<MemoryAnswer, MemoryProviderError> {
        let NewMemory { name, content, kind, description, scope } = memory;
        let mut args = json!({ "name": name, "content": content, "type": kind, "description": description });
        if let Some(scope) = scope {
            args["scope"] = scope.into();
        }
        let answered = self.0.act(SAVE, args, "").await?;
        // What it adds to the prompt is another matter than what it was asked.
        drop(self.0.refresh().await);
        Ok(answer(&answered))
    }

    async fn list(&self) -> Result<MemoryAnswer, MemoryProviderError> {
        Ok(answer(&self.0.act(LIST, json!({}), "").await?))
    }

    async fn forget(&self, id: &str, scope: Option<&str>) -> Result<MemoryAnswer, MemoryProviderError> {
        let mut args = json!({ "id": id });
        if let Some(scope) = scope {
            args["scope"] = scope.into();
        }
        let answered = self.0.act(FORGET, args, "").await?;
        drop(self.0.refresh().await);
        Ok(answer(&answered))
    }

    async fn search(&self, query: &str) -> Result<MemoryAnswer, MemoryProviderError> {
        Ok(answer(&self.0.act(SEARCH, json!({ "query": query }), "").await?))
    }

    async fn call(
        &self,
        arguments: Map<String, Value>,
        agent: Option<&Agent>,
    ) -> Result<MemoryAnswer, MemoryProviderError> {
        let action = arguments.get("action").and_then(Value::as_str).unwrap_or_default().to_owned();
        let known = [INJECT, SAVE, LIST, FORGET, SEARCH].into_iter().find(|it| it.name == action);
        let session = session_text(agent);
        let answered = match known {
            Some(known) => self.0.act(known, Value::Object(arguments), &session).await,
            None => self.0.ask(&action, Value::Object(arguments), &session).await,
        };
        if WRITES.contains(&action.as_str()) {
            drop(self.0.refresh().await);
        }
        Ok(answer(&answered?))
    }
}

/// The body of the model's tool `memory`, while a plugin keeps memories: every call goes to the one that does.
struct MemoryTool {
    ctx: Context,
}

/// The model's tool `memory`.
pub(crate) fn memory_tool(ctx: &Context) -> Tool {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let parameters = json!({
        "type": "object",
        "properties": {
            "action": text("save, append, list, get, forget, consolidate, stats, deprecate or migrate, as far as they are known"),
            "scope": text("Where it holds, such as workspace or global."),
            "name": text("What it is called."),
            "content": text("What to remember."),
            "type": text("Its kind, such as note."),
            "description": text("In a line."),
            "importance": {},
            "force": { "type": "boolean" },
            "id": text("The memory it is about."),
            "replaces": {},
            "superseded_by": {},
        },
        "required": ["action"],
    });
    let description = "Keeps and finds what shall be remembered beyond this conversation.".to_owned();
    let schema = ToolSchema { name: "memory".into(), description, parameters };
    Tool::from_body(schema, Arc::new(MemoryTool { ctx: ctx.clone() })).read_only().sequential()
}

impl MemoryTool {
    async fn run(&self, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let failed = |error: &MemoryProviderError| ToolFailure::coded("MemoryError", error.code(), error.to_string());
        let memories = self.ctx.get::<dyn MemoryProvider>().ok_or_else(|| failed(&MemoryProviderError::None))?;
        let arguments = call.arguments().as_object().cloned().unwrap_or_default();
        let answer = memories.call(arguments, call.agent()).await.map_err(|error| failed(&error))?;
        // Who answers with memories alone shows them.
        let is_list = answer.output.is_empty() && !answer.entries.is_empty();
        Ok(ToolOutput::from(if is_list { Value::from(answer.entries).to_string() } else { answer.output }))
    }
}

impl ToolBody for MemoryTool {
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(self.run(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_10_what_a_provider_answers() {
        let text = |answered: Result<Map<String, Value>, MemoryProviderError>| match answered {
            Ok(answered) => format!("ok {}", output_of(&answered)),
            Err(error) => error.to_string(),
        };
        for (answer, expected) in [
            (r#"{"output":"o"}"#, "ok o".to_owned()),
            (r#"{"result":"r"}"#, "ok r".to_owned()),
            (r#"{"ok":false,"output":"unknown action: get"}"#, "unknown action: get".to_owned()),
            (r#"{"ok":false}"#, "memory_provider failed (action response had ok=false)".to_owned()),
            (r#"{"ok":true,"error":"e"}"#, "e".to_owned()),
            ("[]", "memory_provider returned non-JSON stdout: []".to_owned()),
            // A cut falls between characters.
            (&"é".repeat(300), format!("memory_provider returned non-JSON stdout: {}", "é".repeat(200))),
        ] {
            assert_eq!(text(read(answer)), expected, "{answer}");
        }
    }

    #[test]
    fn script_10_what_goes_to_the_prompt() {
        for (answered, expected) in [
            (json!({ "injection": " text \n" }), "text"),
            (
                json!({ "entries": [{ "name": "n", "type": "t", "content": "c" }, "plain", 7] }),
                "- **n** (t): c\n- plain",
            ),
            (json!({}), ""),
        ] {
            assert_eq!(injection_of(answered.as_object().unwrap()), expected);
        }
        assert!(is_unknown_action("Unknown action: inject") && !is_unknown_action("unknown memory"));
    }
}
