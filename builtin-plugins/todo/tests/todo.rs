//! The tools `todo_write` and `todo_read`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use linn_bus::{Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_plugin_todo::{TodoPlugin, todos_of};
use linn_services::agent::Agent;
use linn_services::model::text_of;
use linn_services::session::{RewindCause, SessionRewind};
use linn_services::tools::{ToolExecutionInput, ToolExecutionResult, Tools, ToolsPlugin};
use linn_services_test::{log_of, undriven_agent};
use serde_json::{Value, json};

async fn tools(root: &Root) -> Svc<dyn Tools> {
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<TodoPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Tools>().unwrap()
}

async fn call(tools: &Svc<dyn Tools>, agent: Option<&Agent>, name: &str, arguments: Value) -> ToolExecutionResult {
    let input = ToolExecutionInput { agent: agent.cloned(), ..ToolExecutionInput::new("c1", name, arguments) };
    tools.execute(input).await.unwrap()
}

async fn write(tools: &Svc<dyn Tools>, agent: &Agent, todos: Value) -> String {
    text_of(&call(tools, Some(agent), "todo_write", json!({ "todos": todos })).await.content)
}

async fn read(tools: &Svc<dyn Tools>, agent: &Agent) -> String {
    text_of(&call(tools, Some(agent), "todo_read", json!({})).await.content)
}

#[test]
fn what_is_written_is_read_again() {
    run(async |root| {
        let tools = tools(&root).await;
        let ada = undriven_agent(&root, "ada").await;
        assert_eq!(read(&tools, ada.agent()).await, "[]");
        let todos = json!([
            { "subject": "look", "status": "completed" },
            { "subject": "think", "status": "in_progress", "content": "about all of it" },
            { "subject": "write", "status": "pending" },
        ]);
        assert_eq!(write(&tools, ada.agent(), todos.clone()).await, "wrote 3 todo(s)");
        let told: Value = serde_json::from_str(&read(&tools, ada.agent()).await).unwrap();
        assert_eq!(told, todos);
        assert_eq!(log_of(ada.agent().session()), ["todo/write"]);
        assert_eq!(write(&tools, ada.agent(), json!([])).await, "wrote 0 todo(s)");
        assert_eq!(read(&tools, ada.agent()).await, "[]");
    });
}

#[test]
fn each_session_has_a_list_of_its_own() {
    run(async |root| {
        let tools = tools(&root).await;
        let (ada, bob) = (undriven_agent(&root, "ada").await, undriven_agent(&root, "bob").await);
        write(&tools, ada.agent(), json!([{ "subject": "of ada", "status": "pending" }])).await;
        assert_eq!(read(&tools, bob.agent()).await, "[]");
        assert!(read(&tools, ada.agent()).await.contains("of ada"));
    });
}

#[test]
fn a_rewind_brings_back_the_list_of_before() {
    run(async |root| {
        let tools = tools(&root).await;
        let ada = undriven_agent(&root, "ada").await;
        let session = ada.agent().session();
        let list = async |subject: &str| {
            write(&tools, ada.agent(), json!([{ "subject": subject, "status": "pending" }])).await;
        };
        let now = || todos_of(session).into_iter().map(|it| it.content).collect::<Vec<_>>();
        let rewind = |to| session.append(SessionRewind { to, cause: RewindCause::Undo }).unwrap();
        list("0").await;
        list("1").await;
        list("2").await;
        rewind(2);
        assert_eq!(now(), ["1"]);
        list("4").await;
        assert_eq!(now(), ["4"]);
        rewind(4);
        assert_eq!(now(), ["1"], "the rewind at 3 holds still");
        rewind(1);
        assert_eq!(now(), ["0"]);
        rewind(3);
        assert_eq!(now(), ["2"], "what was taken back is there again where the log goes back to it");
        rewind(0);
        assert_eq!(now(), [""; 0]);
    });
}

#[test]
fn what_is_no_list_is_refused_with_words() {
    run(async |root| {
        let tools = tools(&root).await;
        let ada = undriven_agent(&root, "ada").await;
        let empty =
            json!({ "todos": [{ "subject": "a", "status": "pending" }, { "subject": " ", "status": "pending" }] });
        let refused = call(&tools, Some(ada.agent()), "todo_write", empty).await;
        assert!(refused.is_error && text_of(&refused.content).contains("todo 2 has an empty subject"));
        let unknown = json!({ "todos": [{ "subject": "a", "status": "maybe" }] });
        assert!(call(&tools, Some(ada.agent()), "todo_write", unknown).await.is_error);
        assert!(log_of(ada.agent().session()).is_empty());

        let nobody = call(&tools, None, "todo_read", json!({})).await;
        assert_eq!(nobody.error.unwrap().code, "TODO_NO_SESSION");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        leak_check(&root, async |ctx| {
            let todo = ctx.mount::<TodoPlugin>(()).unwrap();
            todo.running().await.unwrap();
            let names = tools.visible(None).unwrap().iter().map(|it| it.name().to_string()).collect::<Vec<_>>();
            assert_eq!(names, ["todo_read", "todo_write"]);
            todo.dispose().await.unwrap();
        })
        .await;
        assert!(tools.visible(None).unwrap().is_empty());
    });
}
