//! A harness with a bridge, and the front end on the other side of it.

use std::path::PathBuf;
use std::sync::Arc;

use linn_bridge::{BridgeConfig, BridgeHandle, BridgePlugin};
use linn_bus::Root;
use linn_plugin_agent_loop::{AgentLoopPlugin, LoopConfig};
use linn_plugin_approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn_plugin_compaction::{CompactionConfig, CompactionPlugin};
use linn_plugin_interaction::InteractionToolsPlugin;
use linn_plugin_todo::TodoPlugin;
use linn_services::agent::{Agent, Agents, AgentsPlugin};
use linn_services::approval::{ApprovalConfig, ApprovalMode, ApprovalPlugin};
use linn_services::commands::CommandsPlugin;
use linn_services::interaction::InteractionPlugin;
use linn_services::llm::{Llm, LlmPlugin};
use linn_services::prompt::{SystemPromptConfig, SystemPromptPlugin};
use linn_services::session::SessionsPlugin;
use linn_services::skills::SkillsPlugin;
use linn_services::tools::{Tool, ToolFailure, Tools, ToolsPlugin};
use linn_services_test::{Gate, Reply, ScriptedModel};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// How much each stream holds.
const PIPE_BYTES: usize = 1 << 20;

/// A harness with a bridge, and its front end.
pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) model: ScriptedModel,
    pub(crate) front: Front,
    pub(crate) handle: BridgeHandle,
}

/// How a world is made.
pub(crate) struct Setup {
    pub(crate) mode: ApprovalMode,
    pub(crate) session: Option<PathBuf>,
    pub(crate) workspace: PathBuf,
}

impl Default for Setup {
    fn default() -> Self {
        Self { mode: ApprovalMode::Destructive, session: None, workspace: "/".into() }
    }
}

impl World {
    pub(crate) async fn new(root: Root, script: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(root, script, Setup::default()).await
    }

    pub(crate) async fn with(root: Root, script: impl IntoIterator<Item = Reply>, setup: Setup) -> Self {
        mount_harness(&root, setup.mode).await;
        let model = ScriptedModel::new(script);
        let llm = root.get::<dyn Llm>().unwrap();
        llm.register(&root, vec!["mock-model".into(), "other-model".into()], Arc::new(model.clone())).unwrap();
        let (front, handle) = mount_bridge(&root, &setup).await;
        Self { root, model, front, handle }
    }

    pub(crate) async fn send(&mut self, command: Value) {
        self.front.send(command).await;
    }

    /// Sends a prompt for the scripted model.
    pub(crate) async fn prompt(&mut self, text: &str) {
        self.send(json!({ "type": "send", "prompt": text, "model": "mock-model" })).await;
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Value {
        self.front.next().await.expect("there are more events")
    }

    /// The events up to the next one of this type, with it.
    pub(crate) async fn until(&mut self, last: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let is_last = event["type"] == last;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// The next event of this type; others before it are passed over.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        self.until(name).await.pop().unwrap()
    }

    /// What the program says when it is asked what runs; all that is left before the answer goes.
    pub(crate) async fn status(&mut self) -> Value {
        self.send(json!({ "type": "runtime_status" })).await;
        self.event("runtime_status").await
    }

    pub(crate) fn agent(&self) -> Agent {
        self.root.get::<dyn Agents>().unwrap().get(&"main".into()).unwrap().unwrap()
    }

    /// A tool that adds `echo: ` to its text, and one that writes and so asks first.
    pub(crate) fn add_tools(&self) {
        let echo = Tool::new("echo", "Echoes.", async |it: Text, _| Ok::<_, ToolFailure>(format!("echo: {}", it.text)));
        let write =
            Tool::new("write", "Writes.", async |it: Text, _| Ok::<_, ToolFailure>(format!("wrote {}", it.text)));
        let fail = Tool::new("fail", "Fails.", async |_: Text, _| Err::<String, _>(ToolFailure::msg("it broke")));
        let tools = self.root.get::<dyn Tools>().unwrap();
        for tool in [echo.read_only(), write, fail.read_only()] {
            tools.register(&self.root, tool).unwrap();
        }
    }

    /// A tool that waits at a gate.
    pub(crate) fn add_gated_tool(&self, name: &str, gate: &Gate) {
        let gate = gate.clone();
        let tool = Tool::new(name, "Waits.", move |_: Text, _| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok::<_, ToolFailure>("done".to_owned())
            }
        });
        self.root.get::<dyn Tools>().unwrap().register(&self.root, tool.read_only()).unwrap();
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Text {
    pub(crate) text: String,
}

/// Mounts what a turn takes.
pub(crate) async fn mount_harness(root: &Root, mode: ApprovalMode) {
    let fibers = [
        (*root.mount::<SessionsPlugin>(()).unwrap()).clone(),
        (*root.mount::<SystemPromptPlugin>(SystemPromptConfig::default()).unwrap()).clone(),
        (*root.mount::<ToolsPlugin>(()).unwrap()).clone(),
        (*root.mount::<LlmPlugin>(()).unwrap()).clone(),
        (*root.mount::<ApprovalPlugin>(ApprovalConfig::default()).unwrap()).clone(),
        (*root.mount::<InteractionPlugin>(()).unwrap()).clone(),
        (*root.mount::<CommandsPlugin>(()).unwrap()).clone(),
        (*root.mount::<SkillsPlugin>(()).unwrap()).clone(),
        (*root.mount::<AgentsPlugin>(()).unwrap()).clone(),
        (*root.mount::<ApprovalGatePlugin>(ApprovalGateConfig { mode, ..ApprovalGateConfig::default() }).unwrap())
            .clone(),
        (*root.mount::<AgentLoopPlugin>(LoopConfig::default()).unwrap()).clone(),
        (*root.mount::<CompactionPlugin>(CompactionConfig::default()).unwrap()).clone(),
        (*root.mount::<InteractionToolsPlugin>(()).unwrap()).clone(),
        (*root.mount::<TodoPlugin>(()).unwrap()).clone(),
    ];
    for fiber in fibers {
        fiber.running().await.unwrap();
    }
}

/// Mounts the bridge, and gives the front end of it.
pub(crate) async fn mount_bridge(root: &Root, setup: &Setup) -> (Front, BridgeHandle) {
    let (commands, input) = tokio::io::duplex(PIPE_BYTES);
    let (output, events) = tokio::io::duplex(PIPE_BYTES);
    let mut config = BridgeConfig::new(input, output, &setup.workspace);
    config.session.clone_from(&setup.session);
    let handle = config.handle();
    root.mount::<BridgePlugin>(config).unwrap().running().await.unwrap();
    (Front { commands: Some(commands), events: Some(events), buffer: Vec::new() }, handle)
}

/// A front end.
pub(crate) struct Front {
    pub(crate) commands: Option<DuplexStream>,
    pub(crate) events: Option<DuplexStream>,
    buffer: Vec<u8>,
}

impl Front {
    pub(crate) async fn send(&mut self, command: Value) {
        self.write(format!("{command}\n").as_bytes()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.commands.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    /// The next event; `None` when there are no more.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("each line is one JSON object"));
            }
            if self.events.as_mut()?.read_buf(&mut self.buffer).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// No commands follow.
    pub(crate) fn hang_up(&mut self) {
        self.commands = None;
    }
}

/// Types of events, one after the other, without those that only estimate.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|it| it["type"].as_str().unwrap()).collect()
}

/// The texts of `delta` events, put together.
pub(crate) fn text_of(events: &[Value]) -> String {
    events.iter().filter(|it| it["type"] == "delta").map(|it| it["text"].as_str().unwrap()).collect()
}

/// The first event of a type.
pub(crate) fn first<'a>(events: &'a [Value], name: &str) -> &'a Value {
    events.iter().find(|it| it["type"] == name).unwrap_or_else(|| panic!("no `{name}` in {:?}", types(events)))
}

/// All events of a type.
pub(crate) fn all<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|it| it["type"] == name).collect()
}
