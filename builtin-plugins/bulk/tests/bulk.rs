//! The tool `bulk`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::{Arc, Mutex};

use linn_bus::{Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_plugin_bulk::{BulkConfig, BulkPlugin};
use linn_services::events::ToolsPreExecute;
use linn_services::model::text_of;
use linn_services::tools::{
    PreToolDecision, RESULT_LIMIT_BYTES, Tool, ToolExecution, ToolExecutionInput, ToolFailure, Tools, ToolsPlugin,
};
use linn_services_test::Gate;
use serde_json::{Map, Value, json};

/// What ran, in order.
type Log = Arc<Mutex<Vec<String>>>;

async fn bench(root: &Root, names: &[&str]) -> (Svc<dyn Tools>, Log) {
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    let config = BulkConfig { tools: names.iter().map(|it| (*it).to_owned()).collect() };
    root.mount::<BulkPlugin>(config).unwrap().running().await.unwrap();
    (root.get().unwrap(), Log::default())
}

/// A tool that says its argument `say`, or fails where it begins with `no`.
fn echo(name: &'static str, log: &Log) -> Tool {
    let log = log.clone();
    Tool::new(name, "", move |arguments: Map<String, Value>, call: ToolExecution| {
        let log = log.clone();
        async move {
            let say = arguments.get("say").and_then(Value::as_str).unwrap_or_default().to_owned();
            log.lock().unwrap().push(format!("{} {say}", call.call_id()));
            if say.starts_with("no") { Err(ToolFailure::msg(say)) } else { Ok(say) }
        }
    })
}

async fn bulk(tools: &Svc<dyn Tools>, calls: Value) -> (String, bool) {
    let result = tools.execute(ToolExecutionInput::new("b", "bulk", json!({ "calls": calls }))).await.unwrap();
    (text_of(&result.content), result.is_error)
}

#[test]
fn wp_7_2_each_call_has_a_block() {
    run(async |root| {
        let (tools, log) = bench(&root, &["look", "change"]).await;
        tools.register(&root, echo("look", &log).read_only()).unwrap();
        tools.register(&root, echo("change", &log)).unwrap();
        let calls = json!([
            { "name": "look", "args": { "say": "a" } },
            { "name": "change", "args": { "say": "no way" } },
            { "name": "bulk", "args": {} },
            { "name": "look", "args": { "say": "d" } },
        ]);
        let (told, is_error) = bulk(&tools, calls).await;
        assert_eq!(
            told,
            "### [0] look\na\n\n### [1] change (failed)\nError: no way\n\n\
             ### [2] bulk (failed)\ntool 'bulk' may not be called by bulk; these may: look, change\n\n### [3] look\nd"
        );
        assert!(!is_error, "one that fails does not fail the others");
        assert_eq!(*log.lock().unwrap(), ["b/0 a", "b/1 no way", "b/3 d"]);
        assert!(bulk(&tools, json!([{ "name": "look", "args": { "say": "no" } }])).await.1, "all failed");
        assert!(bulk(&tools, json!([])).await.1);
    });
}

#[test]
fn wp_7_2_four_that_look_run_at_once_and_those_that_change_alone() {
    run(async |root| {
        let (tools, log) = bench(&root, &["look", "change"]).await;
        let gate = Gate::new();
        let (held, seen) = (gate.clone(), log.clone());
        let look = Tool::new("look", "", move |_: Map<String, Value>, call: ToolExecution| {
            let (held, seen) = (held.clone(), seen.clone());
            async move {
                seen.lock().unwrap().push(call.call_id().to_string());
                held.pass().await;
                Ok::<_, ToolFailure>("seen")
            }
        });
        tools.register(&root, look.read_only()).unwrap();
        tools.register(&root, echo("change", &log)).unwrap();
        let mut calls = vec![json!({ "name": "look", "args": {} }); 6];
        calls.extend([json!({ "name": "change", "args": { "say": "x" } }), json!({ "name": "look", "args": {} })]);
        let running = bulk(&tools, json!(calls));
        let watching = async {
            gate.reached().await;
            root.sleep(std::time::Duration::from_secs(1)).await.unwrap();
            assert_eq!(*log.lock().unwrap(), ["b/0", "b/1", "b/2", "b/3"]);
            gate.open();
        };
        let ((told, is_error), ()) = futures_util::future::join(running, watching).await;
        assert!(!is_error && told.matches("seen").count() == 7, "{told}");
        assert_eq!(log.lock().unwrap()[4..], ["b/4", "b/5", "b/6 x", "b/7"]);
    });
}

#[test]
fn wp_7_2_who_decides_about_calls_decides_about_each() {
    run(async |root| {
        let (tools, log) = bench(&root, &["change"]).await;
        tools.register(&root, echo("change", &log)).unwrap();
        root.on(async |it: &ToolsPreExecute| {
            let is_inner = it.execution.parent().is_some();
            assert_eq!(is_inner, it.execution.name().as_str() == "change");
            match it.execution.arguments().get("say").and_then(Value::as_str) {
                Some("secret") => PreToolDecision::Deny { reason: "denied by rule".to_owned() },
                _ => PreToolDecision::Allow,
            }
        })
        .unwrap();
        let calls =
            json!([{ "name": "change", "args": { "say": "secret" } }, { "name": "change", "args": { "say": "b" } }]);
        let (told, _) = bulk(&tools, calls).await;
        assert_eq!(told, "### [0] change (failed)\nError: denied by rule\n\n### [1] change\nb");
        assert_eq!(*log.lock().unwrap(), ["b/1 b"]);
    });
}

#[test]
fn long_results_share_the_room() {
    run(async |root| {
        let (tools, log) = bench(&root, &["look"]).await;
        tools.register(&root, echo("look", &log).read_only()).unwrap();
        let long = "x".repeat(RESULT_LIMIT_BYTES);
        let calls = json!([{ "name": "look", "args": { "say": "short" } }, { "name": "look", "args": { "say": long } }, { "name": "look", "args": { "say": long } }]);
        let (told, _) = bulk(&tools, calls).await;
        assert!(told.len() <= RESULT_LIMIT_BYTES, "{}", told.len());
        assert!(told.len() > RESULT_LIMIT_BYTES * 3 / 4, "{}", told.len());
        assert!(told.starts_with("### [0] look\nshort\n\n### [1] look\n") && told.contains("### [2] look\n"));
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let bulk = ctx.mount::<BulkPlugin>(BulkConfig::default()).unwrap();
            bulk.running().await.unwrap();
            bulk.dispose().await.unwrap();
        })
        .await;
    });
}
