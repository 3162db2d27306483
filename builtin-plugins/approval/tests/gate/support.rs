//! A bus with the gate, an agent in a turn, and a human that answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use linn_bus::{BoxFuture, Fault, Mounted, Root, Svc};
use linn_plugin_approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn_services::agent::{Agent, CreateAgent};
use linn_services::approval::{ApprovalConfig, ApprovalMode, ApprovalModes, ApprovalPlugin, PermissionScope};
use linn_services::events::ApprovalRequest;
use linn_services::ids::ToolName;
use linn_services::model::{MessageSource, ToolSchema, text_of};
use linn_services::session::{ApprovalOutcome, TurnStart, TurnTrigger};
use linn_services::tools::{
    Tool, ToolBody, ToolClass, ToolExecution, ToolExecutionInput, ToolFailure, ToolOutput, Tools, ToolsPlugin,
};
use linn_services_test::undriven_agents;
use serde_json::{Value, json};

/// A tool that says its name and counts nothing.
struct Says;

impl ToolBody for Says {
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(std::future::ready(Ok(format!("{} ran", call.name()).into())))
    }
}

/// Runs the calls of its arguments.
struct Bulk(Svc<dyn Tools>);

impl ToolBody for Bulk {
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let mut texts = Vec::new();
            let calls = call.arguments()["run"].as_array().or(call.arguments()["calls"].as_array()).unwrap();
            for (n, part) in calls.iter().enumerate() {
                let name = part["name"].as_str().unwrap();
                let input = ToolExecutionInput {
                    agent: call.agent().cloned(),
                    parent: Some(call.token().clone()),
                    ..ToolExecutionInput::new(format!("inner-{n}"), name, part["args"].clone())
                };
                texts.push(text_of(&self.0.execute(input).await.map_err(Fault::from)?.content));
            }
            Ok(texts.join("\n").into())
        })
    }
}

pub(crate) struct Desk {
    pub(crate) root: linn_bus::Context,
    pub(crate) gate: Mounted<ApprovalGatePlugin>,
    pub(crate) tools: Svc<dyn Tools>,
    pub(crate) modes: Svc<dyn ApprovalModes>,
    pub(crate) agent: Agent,
    /// What the human was asked, the arguments and the reason.
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
    /// The next calls that the human allows, and what is permitted beside them.
    answers: Arc<Mutex<VecDeque<Option<PermissionScope>>>>,
}

impl Desk {
    pub(crate) async fn new(root: &Root, config: ApprovalGateConfig) -> Self {
        let root = root.context().clone();
        undriven_agents(&root).await;
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<ApprovalPlugin>(ApprovalConfig::default()).unwrap().running().await.unwrap();
        let gate = root.mount::<ApprovalGatePlugin>(config).unwrap();
        gate.running().await.unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        let class = |name: &str, class, body: Arc<dyn ToolBody>| {
            let schema = ToolSchema {
                name: ToolName::from(name),
                description: name.to_owned(),
                parameters: json!({ "type": "object" }),
            };
            let mut tool = Tool::from_body(schema, body);
            tool.class = class;
            tools.register(&root, tool).unwrap();
        };
        for name in ["bash", "write_file", "edit", "rename", "spawn"] {
            class(name, ToolClass::Destructive, Arc::new(Says));
        }
        for name in ["read_file", "grep", "finish"] {
            class(name, ToolClass::ReadOnly, Arc::new(Says));
        }
        class("bulk", ToolClass::Destructive, Arc::new(Bulk(tools.clone())));
        let agent = agent(&root, "ada", None).await;
        let modes = root.get::<dyn ApprovalModes>().unwrap();
        let desk = Self { root, gate, tools, modes, agent, asked: Arc::default(), answers: Arc::default() };
        desk.sit_down();
        desk
    }

    /// The human: says no, unless told otherwise.
    fn sit_down(&self) {
        let (asked, answers, modes) = (self.asked.clone(), self.answers.clone(), self.modes.clone());
        let answer = move |it: &ApprovalRequest| {
            asked.lock().unwrap().push(it.clone());
            let Some(permitted) = answers.lock().unwrap().pop_front() else { return ApprovalOutcome::Rejected };
            if let Some(scope) = permitted {
                modes.permit(it, scope).unwrap();
            }
            ApprovalOutcome::AllowedOnce
        };
        self.root.on(answer).unwrap();
    }

    /// Has the human permit this beside the next call asked about.
    pub(crate) fn will_permit(&self, scope: PermissionScope) {
        self.answers.lock().unwrap().push_back(Some(scope));
    }

    /// Has the human allow the next call asked about, and nothing beside it.
    pub(crate) fn will_allow(&self) {
        self.answers.lock().unwrap().push_back(None);
    }

    pub(crate) async fn call_of(&self, agent: &Agent, tool: &str, arguments: Value) -> Outcome {
        let input = ToolExecutionInput { agent: Some(agent.clone()), ..ToolExecutionInput::new("c", tool, arguments) };
        let result = self.tools.execute(input).await.unwrap();
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        Outcome { text: text_of(&result.content), has_run: !result.is_error, asked }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.call_of(&self.agent, tool, arguments).await
    }

    pub(crate) async fn bash(&self, command: &str) -> Outcome {
        self.call("bash", json!({ "command": command })).await
    }

    pub(crate) async fn path(&self, tool: &str, path: &str) -> Outcome {
        self.call(tool, json!({ "path": path })).await
    }
}

/// What became of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) has_run: bool,
    pub(crate) asked: Vec<ApprovalRequest>,
}

impl Outcome {
    pub(crate) fn ran_unasked(&self) -> bool {
        self.has_run && self.asked.is_empty()
    }
    pub(crate) fn was_asked(&self) -> bool {
        !self.asked.is_empty()
    }
    pub(crate) fn was_denied(&self) -> bool {
        !self.has_run && self.asked.is_empty() && self.text.contains("denied by permission rule")
    }
    pub(crate) fn reason(&self) -> &str {
        self.asked[0].reason.as_deref().unwrap_or_default()
    }
}

pub(crate) async fn agent(root: &linn_bus::Context, id: &str, parent: Option<&Agent>) -> Agent {
    let agents = undriven_agents(root).await;
    let parent_session = parent.map(|it| it.session().id().clone());
    let options = CreateAgent { parent_session, ..CreateAgent::new(id, format!("session-of-{id}")) };
    let agent = agents.create(root, options).await.unwrap().agent().clone();
    let trigger = TurnTrigger::Message { source: MessageSource::User };
    agent.session().append(TurnStart { turn: 1, trigger }).unwrap();
    agent
}

pub(crate) fn rules(allow: &[&str], deny: &[&str], ask: &[&str]) -> ApprovalGateConfig {
    let list = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
    ApprovalGateConfig { mode: ApprovalMode::Destructive, allow: list(allow), deny: list(deny), ask: list(ask) }
}
