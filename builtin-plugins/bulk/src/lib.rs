//! The tool `bulk`: several calls of tools in one.
//!
//! Each goes the way of every call, on behalf of the one that names it.

#![forbid(unsafe_code)]

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use linn_bus::{Context, Fault, Plugin, Svc};
use linn_services::ids::CallId;
use linn_services::model::{ContentBlock, text_of};
use linn_services::tools::{
    RESULT_LIMIT_BYTES, Tool, ToolExecution, ToolExecutionInput, ToolFailure, ToolOutput, Tools, limit_text,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How many calls run side by side.
const MAX_AT_ONCE: usize = 4;

/// How many calls there may be.
const MAX_CALLS: usize = 50;

/// Room for the headers of all blocks.
const HEADERS_BYTES: usize = 2 * 1024;

/// What [`BulkPlugin`] is configured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BulkConfig {
    /// The tools that may be called.
    pub tools: Vec<String>,
}

impl Default for BulkConfig {
    fn default() -> Self {
        let tools = [
            "read_file",
            "write_file",
            "edit",
            "list_dir",
            "grep",
            "glob",
            "bash",
            "fetch",
            "web_search",
            "delete",
            "rename",
            "mkdir",
        ];
        Self { tools: tools.map(str::to_owned).to_vec() }
    }
}

/// The tool `bulk`.
#[derive(Debug)]
pub struct BulkPlugin;

linn_bus::plugin!(BulkPlugin);

impl Plugin for BulkPlugin {
    const NAME: &'static str = "bulk";
    type Config = BulkConfig;
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, config: BulkConfig, tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let description = format!(
            "Makes several calls of tools in one. Those that only look run side by side, the others one after another, in \
             their order. One that fails does not keep the others from running. Tools: {}.",
            config.tools.join(", ")
        );
        let bulk = Arc::new(Bulk { tools: tools.clone(), config });
        let tool = Tool::new("bulk", &description, move |calls: Calls, call| {
            let bulk = bulk.clone();
            async move { bulk.run(calls, &call).await }
        });
        tools.register(ctx, tool)?;
        Ok(())
    }
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Calls {
    /// The calls.
    #[schemars(length(min = 1, max = 50))]
    calls: Vec<Part>,
}

/// One call.
#[derive(Clone, Deserialize, JsonSchema)]
struct Part {
    /// The tool.
    name: String,
    /// Its arguments.
    args: Map<String, Value>,
}

struct Bulk {
    tools: Svc<dyn Tools>,
    config: BulkConfig,
}

/// What a call came to.
struct Done {
    content: Vec<ContentBlock>,
    is_error: bool,
}

impl Bulk {
    async fn run(&self, calls: Calls, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let n_calls = calls.calls.len();
        if n_calls == 0 || n_calls > MAX_CALLS {
            let message =
                format!("bulk failed: it names {n_calls} calls, and names 1 to {MAX_CALLS}; make several of it");
            return Err(ToolFailure::coded("ArgumentError", "INVALID_ARGUMENTS", message));
        }
        let parts: Vec<(usize, Part)> = calls.calls.into_iter().enumerate().collect();
        let mut done: Vec<Done> = Vec::with_capacity(n_calls);
        let mut rest = &parts[..];
        while !rest.is_empty() {
            let n_beside = rest.iter().take_while(|(_, it)| self.is_parallel(call, &it.name)).count().max(1);
            let (wave, behind) = rest.split_at(n_beside);
            let parts: Vec<_> = wave.iter().map(|(at, part)| self.part(call, *at, part)).collect();
            let running = stream::iter(parts).buffered(MAX_AT_ONCE);
            done.extend(running.collect::<Vec<_>>().await);
            rest = behind;
        }
        Ok(told(&parts, done))
    }

    fn is_parallel(&self, call: &ToolExecution, name: &str) -> bool {
        // What cannot be looked up now runs alone, and its execution says why it fails.
        let tool = self.tools.get(call.scope(), &name.into());
        tool.ok().flatten().is_some_and(|it| it.is_parallel)
    }

    async fn part(&self, call: &ToolExecution, at: usize, part: &Part) -> Done {
        let failed = |why: String| Done { content: vec![why.into()], is_error: true };
        if !self.config.tools.contains(&part.name) {
            let known = self.config.tools.join(", ");
            return failed(format!("tool '{}' may not be called by bulk; these may: {known}", part.name));
        }
        let id = CallId::from(format!("{}/{at}", call.call_id()));
        let input = ToolExecutionInput {
            agent: call.agent().cloned(),
            parent: Some(call.token().clone()),
            signal: call.signal(),
            ..ToolExecutionInput::new(id, &*part.name, Value::Object(part.args.clone()))
        };
        match self.tools.execute(input).await {
            Ok(result) => Done { content: result.content, is_error: result.is_error },
            Err(error) => failed(error.to_string()),
        }
    }
}

/// One block of text for each call, then what is no text; a failure if all failed.
fn told(parts: &[(usize, Part)], done: Vec<Done>) -> ToolOutput {
    let is_error = done.iter().all(|it| it.is_error);
    let mut room = RESULT_LIMIT_BYTES - HEADERS_BYTES;
    let mut blocks = Vec::new();
    let mut others = Vec::new();
    for (behind, ((at, part), done)) in parts.iter().zip(done).enumerate() {
        // What a short result leaves over is for those behind it.
        let text = text_of(&done.content);
        let text = limit_text(&text, room / (parts.len() - behind)).into_owned();
        room = room.saturating_sub(text.len());
        let failed = if done.is_error { " (failed)" } else { "" };
        blocks.push(format!("### [{at}] {}{failed}\n{text}", part.name));
        others.extend(done.content.into_iter().filter(|it| it.as_text().is_none()));
    }
    let content = std::iter::once(ContentBlock::text(blocks.join("\n\n"))).chain(others).collect();
    ToolOutput { content, meta: None, is_error }
}
