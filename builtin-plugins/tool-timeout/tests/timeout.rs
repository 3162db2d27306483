//! The policy on a bus with the registry of tools.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linn_bus::{Root, Svc, listener};
use linn_bus_test::{leak_check, run};
use linn_plugin_tool_timeout::ToolTimeoutPlugin;
use linn_services::events::ToolsResult;
use linn_services::model::text_of;
use linn_services::tools::{
    Tool, ToolExecution, ToolExecutionInput, ToolExecutionResult, ToolFailure, Tools, ToolsPlugin,
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

const LIMIT: Duration = Duration::from_millis(250);

async fn tools(root: &Root) -> Svc<dyn Tools> {
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<ToolTimeoutPlugin>(()).unwrap().running().await.unwrap();
    let tools = root.get::<dyn Tools>().unwrap();
    let fast = async |_: Nothing, _| Ok::<_, ToolFailure>("fast");
    let heeding = async |_: Nothing, call: ToolExecution| {
        call.signal().cancelled().await;
        Ok::<_, ToolFailure>("stopped")
    };
    let endless = async |_: Nothing, _| pending::<Result<String, ToolFailure>>().await;
    for tool in [
        Tool::new("fast", "", fast).with_timeout(LIMIT),
        Tool::new("heeding", "", heeding).with_timeout(LIMIT),
        Tool::new("endless", "", endless).with_timeout(LIMIT),
        Tool::new("unlimited", "", heeding),
    ] {
        tools.register(root, tool).unwrap();
    }
    tools
}

fn said(result: &ToolExecutionResult) -> (String, Option<&str>) {
    (text_of(&result.content), result.error.as_ref().map(|it| it.code.as_str()))
}

#[test]
fn tl_23_a_call_in_time_has_its_own_result() {
    run(async |root| {
        let tools = tools(&root).await;
        let result = tools.execute(ToolExecutionInput::new("c", "fast", json!({}))).await.unwrap();
        assert_eq!(said(&result), ("fast".to_owned(), None));
    });
}

#[test]
fn tl_23_a_call_that_takes_too_long_is_a_timeout_whether_it_heeds_the_signal_or_not() {
    run(async |root| {
        let tools = tools(&root).await;
        for tool in ["heeding", "endless"] {
            let began = root.clock().monotonic();
            let result = tools.execute(ToolExecutionInput::new("c", tool, json!({}))).await.unwrap();
            assert_eq!(root.clock().monotonic() - began, LIMIT);
            assert_eq!(said(&result), ("Error: tool call timed out after 250ms".to_owned(), Some("TOOL_TIMEOUT")));
            assert_eq!(result.error.unwrap().name, "ToolTimeoutError");
        }
    });
}

#[test]
fn tl_23_a_call_that_its_caller_ends_first_has_its_own_result() {
    run(async |root| {
        let tools = tools(&root).await;
        for (tool, expected) in [
            ("heeding", ("stopped".to_owned(), None)),
            ("endless", ("Error: endless aborted".to_owned(), Some("ABORTED"))),
            ("unlimited", ("stopped".to_owned(), None)),
        ] {
            let input = ToolExecutionInput::new("c", tool, json!({}));
            let signal = input.signal.clone();
            let ending = root.timeout(LIMIT / 2, move || signal.cancel()).unwrap();
            let result = tools.execute(input).await.unwrap();
            assert_eq!(said(&result), expected);
            ending.dispose();
        }
    });
}

#[test]
fn r053_a_call_that_takes_too_long_is_told_once_and_as_a_failure() {
    run(async |root| {
        let tools = tools(&root).await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = told.clone();
        let telling = listener!(async move |it: &ToolsResult| {
            tells.lock().unwrap().push((it.execution.name().to_string(), it.result.is_error));
        });
        root.on(telling).unwrap();
        for tool in ["heeding", "endless", "fast"] {
            tools.execute(ToolExecutionInput::new("c", tool, json!({}))).await.unwrap();
        }
        // Whatever a body does behind its end is heard by nobody.
        root.sleep(10 * LIMIT).await.unwrap();
        let expected = [("heeding", true), ("endless", true), ("fast", false)];
        assert_eq!(*told.lock().unwrap(), expected.map(|(name, is_error)| (name.to_owned(), is_error)));
    });
}

#[test]
fn the_policy_leaves_nothing_behind() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let policy = ctx.mount::<ToolTimeoutPlugin>(()).unwrap();
            policy.running().await.unwrap();
            policy.dispose().await.unwrap();
        })
        .await;
    });
}
