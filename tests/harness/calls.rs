//! Calls of tools through all that stands around them.

use std::sync::{Arc, Mutex};

use linn::bus::{Next, listener};
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::services::approval::ApprovalMode;
use linn::services::events::{ApprovalRequest, ToolsAmend};
use linn::services::model::text_of;
use linn::services::session::{ApprovalOutcome, Fact};
use linn::services::tools::{AmendDecision, ToolExecutionInput, Tools};
use serde_json::{Value, json};

use crate::stage::{Stage, say};

/// Reads a file, then edits it.
const EDITS: &str = r#"{"linn_recording":1}
{"request":{}}
{"chunk":{"type":"tool-call-delta","index":0,"id":"c1","name":"read_file","argumentsDelta":"{\"path\":\"a.txt\"}"}}
{"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}
{"request":{}}
{"chunk":{"type":"tool-call-delta","index":0,"id":"c2","name":"edit","argumentsDelta":"{\"path\":\"a.txt\",\"edits\":[{\"search\":\"old\",\"replace\":\"of the model\"}]}"}}
{"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}
{"request":{}}
{"chunk":{"type":"text-delta","index":0,"text":"Done."}}
{"chunk":{"type":"finish","reason":{"kind":"stop"}}}
"#;

#[tokio::test]
async fn r043_amended_arguments_are_what_is_shown_diffed_approved_and_run() {
    let stage = Stage::new();
    std::fs::write(stage.path("work/a.txt"), "old\n").unwrap();
    let gate = ApprovalGateConfig { mode: ApprovalMode::Destructive, ..ApprovalGateConfig::default() };
    let harness = stage.builder(EDITS).plugin::<ApprovalGatePlugin>(gate).build().await.unwrap();
    let amending = listener!(async move |it: &ToolsAmend, next: Next<'_, ToolsAmend>| {
        if *it.execution.name() == "edit" {
            let amended = json!({ "path": "a.txt", "edits": [{ "search": "old", "replace": "of the plugin" }] });
            it.replace(amended, "my-plugin");
        }
        next.run().await
    });
    harness.context().on(amending).unwrap();
    let asked = Arc::new(Mutex::new(Vec::<ApprovalRequest>::new()));
    let noting = asked.clone();
    let answering = listener!(async move |it: &ApprovalRequest, _: Next<'_, ApprovalRequest>| {
        noting.lock().unwrap().push(it.clone());
        ApprovalOutcome::AllowedOnce
    });
    harness.context().on(answering).unwrap();
    let handle = stage.agent(&harness, "main").await;
    say(handle.agent(), "Edit it.").await;

    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let [request] = &asked[..] else { panic!("{asked:?}") };
    let arguments = request.arguments.as_ref().unwrap();
    assert_eq!(arguments["edits"][0]["replace"], "of the plugin");
    let preview = format!("{:?}", request.preview.as_ref().unwrap());
    assert!(preview.contains("+of the plugin") && !preview.contains("of the model"), "{preview}");
    assert_eq!(std::fs::read_to_string(stage.path("work/a.txt")).unwrap(), "of the plugin\n");

    // The log holds both: what the model wanted, and what became of it by whom.
    let records = handle.agent().session().records_from(0);
    let call = records.iter().find_map(|it| match &it.fact {
        Fact::ToolCall(it) if it.call_id.as_str() == "c2" => Some(it.arguments.clone()),
        _ => None,
    });
    assert!(call.unwrap().contains("of the model"));
    let amended = records.iter().find_map(|it| match &it.fact {
        Fact::ToolAmended(it) => Some(it.clone()),
        _ => None,
    });
    assert_eq!(amended.unwrap().arguments["edits"][0]["replace"], "of the plugin");
    harness.shutdown().await.unwrap();
}

#[tokio::test]
async fn r052_not_one_tool_of_the_program_gets_past_a_hook_and_each_call_meets_it_once() {
    let stage = Stage::new();
    let gate = ApprovalGateConfig { mode: ApprovalMode::Never, ..ApprovalGateConfig::default() };
    // Every tool can be called at once, also those that a model would have to ask for first.
    let builder = stage.builder(EDITS).plugin::<ApprovalGatePlugin>(gate).without("load-tools");
    let harness = builder.build().await.unwrap();
    let tools = harness.context().require::<dyn Tools>().unwrap();
    let met = Arc::new(Mutex::new(Vec::new()));
    let meets = met.clone();
    let denying = listener!(async move |it: &ToolsAmend, next: Next<'_, ToolsAmend>| {
        meets.lock().unwrap().push(it.execution.name().to_string());
        // What a tool calls in its turn meets the hook as well, so the wrapper itself has to run.
        if *it.execution.name() == "bulk" {
            return next.run().await;
        }
        Ok(AmendDecision::Refuse { reason: "nothing runs here".to_owned() })
    });
    harness.context().on(denying).unwrap();
    let handle = stage.agent(&harness, "main").await;

    let names: Vec<String> = tools.schemas(None).unwrap().into_iter().map(|it| it.name.to_string()).collect();
    for expected in ["bash", "read_file", "write_file", "edit", "patch", "grep", "fetch", "todo_write", "bulk"] {
        assert!(names.iter().any(|it| it == expected), "{expected} is none of {names:?}");
    }
    let direct: Vec<&String> = names.iter().filter(|it| *it != "bulk").collect();
    let call = async |name: &str, arguments: Value| {
        let agent = Some(handle.agent().clone());
        tools.execute(ToolExecutionInput { agent, ..ToolExecutionInput::new("c", name, arguments) }).await.unwrap()
    };
    for name in &direct {
        let result = call(name, json!({})).await;
        assert!(result.is_error, "{name}");
        assert_eq!(text_of(&result.content), "Error: nothing runs here", "{name}");
    }
    assert_eq!(std::mem::take(&mut *met.lock().unwrap()), direct.iter().map(|it| (*it).clone()).collect::<Vec<_>>());

    // The same tools, reached through the wrapper. Those that it does not take run no more than the others.
    let mut n_reached = 0;
    for some in direct.chunks(4) {
        let calls: Vec<Value> = some.iter().map(|it| json!({ "name": it, "args": {} })).collect();
        let text = text_of(&call("bulk", json!({ "calls": calls })).await.content);
        let met = std::mem::take(&mut *met.lock().unwrap());
        let n_met = met.iter().filter(|it| *it != "bulk").count();
        let n_untaken = text.matches("may not be called by bulk").count();
        assert_eq!((met.len(), n_met + n_untaken), (n_met + 1, some.len()), "{met:?}: {text}");
        assert_eq!(text.matches("nothing runs here").count(), n_met, "{text}");
        n_reached += n_met;
    }
    assert!(n_reached >= 10, "{n_reached} calls went through the wrapper");
    assert!(std::fs::read_dir(stage.path("work")).unwrap().next().is_none(), "nothing was written");
    harness.shutdown().await.unwrap();
}
