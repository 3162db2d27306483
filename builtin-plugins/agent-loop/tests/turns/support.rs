//! A harness with a loop, a scripted model and a few tools.

use std::sync::{Arc, Mutex};

use linn_bus::{Fault, Mounted, Root, Svc};
use linn_plugin_agent_loop::{AgentLoopPlugin, LoopConfig};
use linn_services::agent::{Agent, AgentHandle, AgentOptions, Agents, AgentsPlugin, CreateAgent};
use linn_services::llm::{Llm, LlmPlugin};
use linn_services::model::{ContentBlock, HookContext, MessageSource, text_of};
use linn_services::prompt::{SystemPrompt, SystemPromptConfig, SystemPromptPlugin};
use linn_services::session::invariants::LogChecker;
use linn_services::session::{Fact, Sessions, SessionsPlugin};
use linn_services::tools::{Tool, ToolExecution, ToolFailure, ToolOutput, Tools};
use linn_services_test::{Gate, Reply, ScriptedModel, log_of, request_of};

/// A harness in a test.
pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) model: ScriptedModel,
    pub(crate) agents: Svc<dyn Agents>,
    pub(crate) sessions: Svc<dyn Sessions>,
    pub(crate) tools: Svc<dyn Tools>,
    pub(crate) prompt: Svc<dyn SystemPrompt>,
    pub(crate) the_loop: Mounted<AgentLoopPlugin>,
}

impl World {
    /// A harness whose model answers with `script`.
    pub(crate) async fn new(root: Root, script: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(root, LoopConfig::default(), script).await
    }

    pub(crate) async fn with(root: Root, config: LoopConfig, script: impl IntoIterator<Item = Reply>) -> Self {
        root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<AgentsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let quiet = SystemPromptConfig { identity: String::new(), ..SystemPromptConfig::default() };
        root.mount::<SystemPromptPlugin>(quiet).unwrap().running().await.unwrap();
        root.mount::<linn_services::tools::ToolsPlugin>(()).unwrap().running().await.unwrap();
        let the_loop = root.mount::<AgentLoopPlugin>(config).unwrap();
        the_loop.running().await.unwrap();
        let model = ScriptedModel::new(script);
        let llm = root.get::<dyn Llm>().unwrap();
        llm.register(&root, vec!["m1".into(), "m2".into()], Arc::new(model.clone())).unwrap();
        let (agents, sessions) = (root.get().unwrap(), root.get().unwrap());
        let (tools, prompt) = (root.get().unwrap(), root.get().unwrap());
        Self { model, agents, sessions, tools, prompt, the_loop, root }
    }

    /// An agent `a` with the session `s` and the model `m1`.
    pub(crate) async fn agent(&self) -> Agent {
        self.make("a").await.agent().clone()
    }

    /// An agent of this id with the session `s-<id>`.
    pub(crate) async fn make(&self, id: &str) -> AgentHandle {
        self.agents.create(&self.root, options(id)).await.unwrap()
    }

    /// What the model was shown, request by request.
    pub(crate) fn requests(&self) -> Vec<Vec<String>> {
        self.model.requests().iter().map(|it| request_of(it)).collect()
    }
}

pub(crate) fn options(id: &str) -> CreateAgent {
    let mut options = CreateAgent::new(id, format!("s-{id}"));
    options.options = AgentOptions { model: Some("m1".into()), ..AgentOptions::default() };
    options
}

/// Sends a prompt and waits until the agent rests.
pub(crate) async fn say(agent: &Agent, text: &str) {
    agent.send(text).unwrap();
    agent.when_idle().await;
}

/// The log of an agent in short, which has to be a sound one.
pub(crate) fn log(agent: &Agent) -> Vec<String> {
    let mut checker = LogChecker::default();
    for record in agent.session().records_from(0) {
        checker.take(&record).unwrap();
    }
    log_of(agent.session())
}

/// A list that listeners write to.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn boom() -> Fault {
    Fault::msg("boom")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Echo {
    #[serde(default)]
    pub(crate) text: String,
}

/// A tool that does what `body` does with the text it is given.
pub(crate) fn tool<F, Fut>(name: &str, body: F) -> Tool
where
    F: Fn(String, ToolExecution) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    Tool::new(name, "A tool of a test.", move |echo: Echo, call| body(echo.text, call))
}

/// A tool that answers with the text it is given.
pub(crate) fn echo() -> Tool {
    tool("echo", async |text, _| Ok(text.into()))
}

/// A tool that waits at a gate, then answers with its name.
pub(crate) fn waiting(name: &'static str, gate: &Gate) -> Tool {
    let gate = gate.clone();
    tool(name, move |_, _| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            Ok(name.into())
        }
    })
}

/// The arguments of a call of such a tool.
pub(crate) fn text(text: &str) -> serde_json::Value {
    serde_json::json!({ "text": text })
}

pub(crate) fn from_plugin(words: &str) -> HookContext {
    HookContext { content: vec![ContentBlock::text(words)], source: MessageSource::plugin("test") }
}

/// The facts of a kind, in order.
pub(crate) fn facts<T>(agent: &Agent, pick: impl Fn(&Fact) -> Option<T>) -> Vec<T> {
    agent.session().records_from(0).iter().filter_map(|it| pick(&it.fact)).collect()
}

/// The results of calls in short, in the order of the log.
pub(crate) fn results(agent: &Agent) -> Vec<String> {
    facts(agent, |it| match it {
        Fact::ToolResult(it) => {
            let failed = if it.is_error { "failed " } else { "" };
            Some(format!("{} {failed}{}", it.call_id, text_of(&it.content)))
        }
        _ => None,
    })
}
