//! The plugin: the tool, what keeps tools from being offered, and what refuses calls of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Fault, ListenerError, Next, Plugin, Svc};
use linn_services::agent::Agent;
use linn_services::events::{SessionDisposed, SystemPromptAssemble, ToolsAmend};
use linn_services::ids::SessionId;
use linn_services::prompt::PromptAssembly;
use linn_services::tools::{AmendDecision, Tool, ToolExecution, ToolFailure, Tools};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::LoadToolsConfig;
use crate::loaded::{Reader, fact};

/// The tool `load_tools`, and the tools that wait for it.
#[derive(Debug)]
pub struct LoadToolsPlugin;

linn_bus::plugin!(LoadToolsPlugin);

impl Plugin for LoadToolsPlugin {
    const NAME: &'static str = "load-tools";
    type Config = LoadToolsConfig;
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, config: LoadToolsConfig, tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let loader = Arc::new(Loader { tools: tools.clone(), config, readers: Mutex::default() });
        ctx.on_with(&loader, Loader::assemble)?;
        ctx.on_with(&loader, Loader::amend)?;
        ctx.on_with(&loader, Loader::forget)?;
        let description = loader.config.description();
        let tool = Tool::new("load_tools", &description, move |wanted: Wanted, call| {
            let loader = loader.clone();
            async move { loader.load(&wanted, &call) }
        });
        tools.register(ctx, tool.read_only().sequential())?;
        Ok(())
    }
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// Groups or tools.
    #[serde(default)]
    tools: Vec<String>,
    /// One group or tool.
    tool: Option<String>,
}

struct Loader {
    tools: Svc<dyn Tools>,
    config: LoadToolsConfig,
    /// How far the log of each session was read.
    readers: Mutex<HashMap<SessionId, Reader>>,
}

impl Loader {
    /// Whether a tool waits still. What stands in the place of another never does: whoever put it there wants it used.
    fn waits(&self, agent: &Agent, tool: &str) -> bool {
        self.config.waits(tool) && !self.has_loaded(agent, tool) && !self.is_in_place(agent, tool)
    }

    fn is_in_place(&self, agent: &Agent, tool: &str) -> bool {
        let found = self.tools.get(Some(agent.key()), &tool.into());
        found.is_ok_and(|it| it.is_some_and(|it| it.is_in_place()))
    }

    fn has_loaded(&self, agent: &Agent, tool: &str) -> bool {
        let session = agent.session();
        if !session.is_live() {
            // Nobody would say when it may be forgotten.
            return Reader::default().read_on(session).contains(tool);
        }
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.entry(session.id().clone()).or_default().read_on(session).contains(tool)
    }

    fn forget(&self, event: &SessionDisposed) {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).remove(event.session.id());
    }

    /// Takes the tools that wait out of a prompt.
    async fn assemble(
        &self,
        event: &SystemPromptAssemble,
        next: Next<'_, SystemPromptAssemble>,
    ) -> Result<PromptAssembly, ListenerError> {
        let mut assembly = next.run().await?;
        if let Some(agent) = &event.context.agent {
            assembly.tools.retain(|it| !self.waits(agent, it.name.as_str()));
        }
        Ok(assembly)
    }

    /// Refuses a call of a tool that waits, before anybody is asked about it. What a tool calls for itself was decided with
    /// the call of that tool.
    async fn amend(&self, event: &ToolsAmend, next: Next<'_, ToolsAmend>) -> Result<AmendDecision, ListenerError> {
        let (call, name) = (&event.execution, event.execution.name());
        let waits = call.parent().is_none() && call.agent().is_some_and(|it| self.waits(it, name.as_str()));
        if !waits {
            return next.run().await;
        }
        let groups = self.config.group_names();
        let reason = format!(
            "tool '{name}' is deferred and not enabled this session. Call load_tools with tools:[\"{name}\"] (or a group: \
             {groups}), then retry the call."
        );
        Ok(AmendDecision::Refuse { reason })
    }

    fn load(&self, wanted: &Wanted, call: &ToolExecution) -> Result<String, ToolFailure> {
        let failed =
            |code: &str, why: String| ToolFailure::coded("LoadError", code, format!("load_tools failed: {why}"));
        let agent = call.agent().ok_or_else(|| {
            failed("LOAD_NO_SESSION", "tools are loaded for a session, and nobody's session makes this call".to_owned())
        })?;
        let visible = self.tools.visible(Some(agent.key())).map_err(|it| failed(it.code(), it.to_string()))?;
        let is_there = |name: &str| visible.iter().any(|it| it.name().as_str() == name);
        let names = || wanted.tools.iter().chain(&wanted.tool).map(|it| it.trim()).filter(|it| !it.is_empty());
        if names().next().is_none() {
            let why = format!("it names nothing; name tools or groups: {}", self.config.group_names());
            return Err(failed("INVALID_ARGUMENTS", why));
        }
        let (mut enabled, mut unknown): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for name in names() {
            let mut found: Vec<&str> = self.config.expand(name).into_iter().filter(|it| is_there(it)).collect();
            // What does not wait needs no loading.
            if found.is_empty() && !self.config.waits(name) && is_there(name) {
                found.push(name);
            }
            if found.is_empty() {
                unknown.push(name);
            }
            enabled.extend(found);
        }
        for names in [&mut enabled, &mut unknown] {
            names.sort_unstable();
            names.dedup();
        }
        let new: Vec<&str> = enabled.iter().copied().filter(|it| self.waits(agent, it)).collect();
        if !new.is_empty() {
            match agent.session().append(fact(&new)) {
                Ok(_) => {}
                // They are loaded; who heard of it and failed is the log's business, not the model's.
                Err(error) if error.is_logged() => {
                    agent.context().logger().error(format_args!("load_tools: {error:#}"));
                }
                Err(error) => return Err(failed(error.code(), format!("{error:#}"))),
            }
        }
        Ok(told(&enabled, &unknown))
    }
}

fn told(enabled: &[&str], unknown: &[&str]) -> String {
    let mut lines = Vec::new();
    if !enabled.is_empty() {
        lines.push(format!("Enabled: {}", enabled.join(", ")));
    }
    if !unknown.is_empty() {
        lines.push(format!("Unknown (skipped): {}", unknown.join(", ")));
    }
    lines.push(match enabled.is_empty() {
        true => "Nothing changed.".to_owned(),
        false => "They are offered from the next answer on, for the rest of the session.".to_owned(),
    });
    lines.join("\n")
}
