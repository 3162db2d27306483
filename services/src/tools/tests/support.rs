//! A bus with the services that a tool call meets, and small tools.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use linn_bus::{Context, Root, Svc};
use serde_json::{Value, json};

use crate::agent::{Agent, AgentOptions};
use crate::events::ToolsResult;
use crate::model::{ContentBlock, MessageSource, ToolSchema, text_of};
use crate::session::{CreateSession, Record, Session, Sessions, SessionsPlugin, TurnStart, TurnTrigger};
use crate::tools::{
    Tool, ToolBody, ToolExecution, ToolExecutionInput, ToolExecutionResult, ToolFailure, ToolOutput, Tools, ToolsPlugin,
};

/// Tools and sessions on a bus, and everything that was told of results.
pub(crate) struct Kit {
    pub(crate) root: Context,
    pub(crate) tools: Svc<dyn Tools>,
    told: Arc<Mutex<Vec<Told>>>,
}

/// A result as it was told.
pub(crate) type Told = (ToolExecution, Arc<ToolExecutionResult>);

impl Kit {
    pub(crate) async fn new(root: &Root) -> Self {
        let root = root.context().clone();
        root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        root.on(move |it: &ToolsResult| log.lock().unwrap().push((it.execution.clone(), it.result.clone()))).unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        Self { root, tools, told }
    }

    pub(crate) fn register(&self, tool: Tool) {
        self.tools.register(&self.root, tool).unwrap();
    }

    /// An agent with a session in which a turn is open.
    pub(crate) fn agent(&self, id: &str) -> Agent {
        let scope = self.root.scope().unwrap();
        let options = CreateSession { id: Some(format!("session-of-{id}").into()), ..CreateSession::default() };
        let sessions = self.root.get::<dyn Sessions>().unwrap();
        let session = sessions.create(scope.context(), options).unwrap();
        let trigger = TurnTrigger::Message { source: MessageSource::User };
        session.append(TurnStart { turn: 1, trigger }).unwrap();
        Agent::new(id.into(), AgentOptions::default(), session, scope)
    }

    pub(crate) async fn execute(&self, input: ToolExecutionInput) -> ToolExecutionResult {
        self.tools.execute(input).await.unwrap()
    }

    /// Runs a call of nobody.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolExecutionResult {
        self.execute(ToolExecutionInput::new("c", name, arguments)).await
    }

    /// What was told of results since the last look.
    pub(crate) fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

/// A call of an agent.
pub(crate) fn call_of(agent: &Agent, name: &str, arguments: Value) -> ToolExecutionInput {
    ToolExecutionInput { agent: Some(agent.clone()), ..ToolExecutionInput::new("c", name, arguments) }
}

pub(crate) fn text(result: &ToolExecutionResult) -> String {
    text_of(&result.content)
}

/// Kinds of a log with their data, from the second record on.
pub(crate) fn facts(session: &Session) -> Vec<Value> {
    session.records_from(1).iter().map(|it: &Arc<Record>| serde_json::to_value(&**it).unwrap()).collect()
}

/// A tool without a schema to speak of.
pub(crate) fn tool<F>(name: &str, body: F) -> Tool
where
    F: Fn(&ToolExecution) -> Result<ToolOutput, ToolFailure> + Send + Sync + 'static,
{
    struct Sync<F>(F);
    impl<F> ToolBody for Sync<F>
    where
        F: Fn(&ToolExecution) -> Result<ToolOutput, ToolFailure> + Send + std::marker::Sync + 'static,
    {
        fn execute<'a>(&'a self, call: &'a ToolExecution) -> linn_bus::BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
            Box::pin(async move { (self.0)(call) })
        }
    }
    let schema =
        ToolSchema { name: name.into(), description: name.to_owned(), parameters: json!({ "type": "object" }) };
    Tool::from_body(schema, Arc::new(Sync(body)))
}

/// A tool that says its arguments.
pub(crate) fn echo(name: &str) -> Tool {
    tool(name, |call| Ok(call.arguments().to_string().into()))
}

/// A tool that always answers the same.
pub(crate) fn says(name: &str, text: &'static str) -> Tool {
    tool(name, move |_| Ok(text.into()))
}

/// A tool that counts its calls.
pub(crate) fn counting(name: &str) -> (Tool, Arc<AtomicU32>) {
    let n_calls = Arc::new(AtomicU32::new(0));
    let count = n_calls.clone();
    let counted = tool(name, move |_| Ok(format!("call {}", count.fetch_add(1, Ordering::Relaxed) + 1).into()));
    (counted, n_calls)
}

/// Set while it lives.
#[derive(Clone, Default)]
pub(crate) struct Alive(Arc<AtomicU32>);

impl Alive {
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
    fn enter(&self) -> impl Drop + use<> {
        struct Guard(Arc<AtomicU32>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Guard(self.0.clone())
    }
}

/// A tool that never ends by itself.
pub(crate) fn endless(name: &str) -> (Tool, Alive) {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}

    let alive = Alive::default();
    let shared = alive.clone();
    let body = move |_: Nothing, _| {
        let alive = shared.clone();
        async move {
            let _alive = alive.enter();
            pending::<Result<String, ToolFailure>>().await
        }
    };
    (Tool::new(name, name, body), alive)
}

/// Lines that were noted, in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

pub(crate) fn content(text: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::text(text)]
}
