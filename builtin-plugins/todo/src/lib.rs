//! The list of things to do that a model keeps: the tools `todo_write` and `todo_read`.
//!
//! The list is in the log of the session, as `todo/write` facts, and nowhere else.

#![forbid(unsafe_code)]

use linn_bus::{Context, Fault, Plugin, Svc};
use linn_services::session::{Fact, Session, Todo, TodoStatus, TodoWrite};
use linn_services::tools::{Tool, ToolExecution, ToolFailure, Tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tools `todo_write` and `todo_read`.
#[derive(Debug)]
pub struct TodoPlugin;

linn_bus::plugin!(TodoPlugin);

impl Plugin for TodoPlugin {
    const NAME: &'static str = "todo";
    type Config = ();
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, (): (), tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let write = "Replaces the list of things to do. Give the whole list each time.";
        // It changes nothing but the log, but its calls have an order.
        tools.register(ctx, Tool::new("todo_write", write, async |list: List, call| list.write(&call)))?;
        let read = "Gives the list of things to do as JSON.";
        tools.register(ctx, Tool::new("todo_read", read, async |_: Nothing, call| read_list(&call)).read_only())?;
        Ok(())
    }
}

/// The list of a session as it stands: the last one written, of what was not taken back.
pub fn todos_of(session: &Session) -> Vec<Todo> {
    // What lies between a rewind and the record it goes back to was taken back, rewinds among it.
    let mut end = u64::MAX;
    let last = session.find_last(|record| {
        if record.seq >= end {
            return None;
        }
        match &record.fact {
            Fact::SessionRewind(rewind) => {
                end = rewind.to;
                None
            }
            Fact::TodoWrite(it) => Some(it.todos.clone()),
            _ => None,
        }
    });
    last.unwrap_or_default()
}

/// Arguments of `todo_write`.
#[derive(Deserialize, JsonSchema)]
struct List {
    /// The list, in order.
    todos: Vec<Item>,
}

/// Arguments of `todo_read`.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A thing to do, as the model writes and reads it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Item {
    /// What is to be done, in a few words.
    subject: String,
    /// How far it is.
    status: TodoStatus,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl List {
    fn write(self, call: &ToolExecution) -> Result<String, ToolFailure> {
        let session = session_of(call)?;
        if let Some(at) = self.todos.iter().position(|it| it.subject.trim().is_empty()) {
            let message = format!("todo_write: todo {} has an empty subject; say what is to be done", at + 1);
            return Err(ToolFailure::coded("TodoError", "TODO_EMPTY", message));
        }
        let todos: Vec<Todo> = self.todos.into_iter().map(Todo::from).collect();
        let n_todos = todos.len();
        match session.append(TodoWrite { todos }) {
            Ok(_) => {}
            Err(error) if error.is_logged() => {
                // The list is written; who heard of it and failed is the log's business, not the model's.
                call.agent().inspect(|it| it.context().logger().error(format_args!("todo_write: {error:#}")));
            }
            Err(error) => {
                return Err(ToolFailure::coded("TodoError", error.code(), format!("todo_write failed: {error:#}")));
            }
        }
        Ok(format!("wrote {n_todos} todo(s)"))
    }
}

fn read_list(call: &ToolExecution) -> Result<String, ToolFailure> {
    let items: Vec<Item> = todos_of(session_of(call)?).into_iter().map(Item::from).collect();
    serde_json::to_string(&items).map_err(|error| ToolFailure::msg(format!("todo_read failed: {error}")))
}

fn session_of(call: &ToolExecution) -> Result<&Session, ToolFailure> {
    let missing = || {
        let message = format!("{}: the list belongs to a session, and nobody's session makes this call", call.name());
        ToolFailure::coded("TodoError", "TODO_NO_SESSION", message)
    };
    call.agent().map(|it| it.session()).ok_or_else(missing)
}

impl From<Item> for Todo {
    fn from(item: Item) -> Self {
        Self { content: item.subject, details: item.content, status: item.status }
    }
}

impl From<Todo> for Item {
    fn from(todo: Todo) -> Self {
        Self { subject: todo.content, status: todo.status, content: todo.details }
    }
}
