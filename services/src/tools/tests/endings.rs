//! How calls end: by their signal, dropped, with the plugin of the tool. Each has one result.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::future::join;
use linn_bus::{Context, Fault, Next, Svc, listener};
use linn_bus_test::{TestRuntime, run};
use serde_json::json;

use super::support::{Kit, Notes, call_of, counting, echo, endless, says, text, tool};
use crate::events::{ToolsAmend, ToolsExecute, ToolsPostExecute, ToolsPreExecute, ToolsResult};
use crate::tools::{
    AmendDecision, PostToolDecision, PreToolDecision, ToolExecutionInput, ToolExecutionResult, ToolFailure, Tools,
    ToolsPlugin,
};

/// Polls once and says whether there was a result.
async fn is_ready_at_once<T>(future: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[test]
fn r112_the_signal_ends_a_call_that_does_not_heed_it_within_one_poll() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, alive) = endless("build");
        kit.register(tool);
        let input = ToolExecutionInput::new("c", "build", json!({}));
        let signal = input.signal.clone();
        let mut call = pin!(kit.tools.execute(input));
        assert!(is_ready_at_once(&mut call).await.is_none());
        assert_eq!(alive.count(), 1);
        signal.cancel();
        let result = is_ready_at_once(&mut call).await.expect("the signal ends it at once").unwrap();
        assert_eq!((text(&result).as_str(), result.is_error), ("Error: build aborted", true));
        assert_eq!(result.error.unwrap().code, "ABORTED");
        assert_eq!(alive.count(), 0, "the body is dropped");
        assert_eq!(kit.told().len(), 1);
    });
}

#[test]
fn r112_the_signal_ends_a_call_wherever_it_waits() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        let waiting = [
            root.on(async |_: &ToolsAmend| pending::<AmendDecision>().await),
            root.on(async |_: &ToolsPreExecute| pending::<PreToolDecision>().await),
            root.on(async |_: &ToolsExecute| pending::<ToolExecutionResult>().await),
            root.on(async |_: &ToolsPostExecute| pending::<PostToolDecision>().await),
        ]
        .map(|it| it.unwrap());
        for listener in waiting {
            let input = ToolExecutionInput::new("c", "a", json!({}));
            let signal = input.signal.clone();
            let mut call = pin!(kit.tools.execute(input));
            assert!(is_ready_at_once(&mut call).await.is_none());
            signal.cancel();
            let result = is_ready_at_once(&mut call).await.expect("the signal ends it at once").unwrap();
            assert_eq!(text(&result), "Error: a aborted");
            assert_eq!(kit.told().len(), 1);
            listener.dispose();
        }
    });
}

#[test]
fn a_call_whose_signal_is_over_does_not_begin() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        let input = ToolExecutionInput::new("c", "a", json!({}));
        input.signal.cancel();
        assert_eq!(text(&kit.execute(input).await), "Error: a aborted");
        // Nor does its body begin when the signal came in time for a decision.
        root.on(|it: &ToolsPreExecute| {
            it.execution.signal().cancel();
            PreToolDecision::Allow
        })
        .unwrap();
        assert_eq!(text(&kit.call("a", json!({})).await), "Error: a aborted");
        assert_eq!(n_calls.load(std::sync::atomic::Ordering::Relaxed), 0);
        assert_eq!(kit.told().len(), 2);
    });
}

#[test]
fn a_body_that_heeds_the_signal_has_the_last_word() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}

    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(crate::tools::Tool::new("a", "Waits.", async |_: Nothing, call: crate::tools::ToolExecution| {
            call.signal().cancelled().await;
            Ok::<_, ToolFailure>("half of it")
        }));
        let input = ToolExecutionInput::new("c", "a", json!({}));
        let signal = input.signal.clone();
        let mut call = pin!(kit.tools.execute(input));
        assert!(is_ready_at_once(&mut call).await.is_none());
        signal.cancel();
        assert_eq!(text(&is_ready_at_once(&mut call).await.unwrap().unwrap()), "half of it");
    });
}

#[test]
fn r053_every_call_has_one_result_however_it_ends() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(says("succeeds", "yes"));
        kit.register(tool("fails", |_| Err(ToolFailure::msg("no"))));
        kit.register(tool("panics", |_| panic!("ouch")));
        let (hangs, _) = endless("hangs");
        kit.register(hangs);
        root.on(listener!(async move |it: &ToolsPreExecute, next: Next<'_, ToolsPreExecute>| {
            if *it.execution.name() == "denied" {
                return Ok(PreToolDecision::Deny { reason: "denied".to_owned() });
            }
            next.run().await
        }))
        .unwrap();
        let agent = kit.agent("ada");
        for name in ["succeeds", "fails", "panics", "denied", "unknown"] {
            kit.execute(call_of(&agent, name, json!({}))).await;
            let told = kit.told();
            assert_eq!(told.len(), 1, "{name}");
            assert_eq!(told[0].1.is_error, name != "succeeds");
        }
        let input = call_of(&agent, "hangs", json!({}));
        let signal = input.signal.clone();
        let (result, ()) = join(kit.execute(input), async { signal.cancel() }).await;
        assert!(result.is_error);
        assert_eq!(kit.told().len(), 1);
    });
}

#[test]
fn r053_a_call_that_is_dropped_has_a_result_all_the_same() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, alive) = endless("a");
        kit.register(tool);
        let heard = linn_bus_test::Recorder::new();
        heard.note(&root, |it: &ToolsResult| text(&it.result)).unwrap();
        {
            let mut call = pin!(kit.tools.execute(ToolExecutionInput::new("c", "a", json!({}))));
            assert!(is_ready_at_once(&mut call).await.is_none());
            assert_eq!(alive.count(), 1);
        }
        assert_eq!(alive.count(), 0);
        assert_eq!(heard.nth::<String>(1).await, "Error: a aborted");
        assert_eq!(kit.told().len(), 1);
    });
}

#[test]
fn r053_observers_hear_a_result_to_the_end_when_the_caller_is_gone() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(says("a", "said"));
        let notes = Notes::default();
        let (n, ctx) = (notes.clone(), root.context().clone());
        root.on(listener!(async move |it: &ToolsResult| {
            ctx.sleep(std::time::Duration::from_secs(1)).await?;
            n.add(text(&it.result));
            Ok::<(), linn_bus::Disposed>(())
        }))
        .unwrap();
        {
            let mut call = pin!(kit.tools.execute(ToolExecutionInput::new("c", "a", json!({}))));
            assert!(is_ready_at_once(&mut call).await.is_none());
        }
        root.sleep(std::time::Duration::from_secs(2)).await.unwrap();
        assert_eq!(notes.take(), ["said"]);
        assert_eq!(kit.told().len(), 1);
    });
}

/// Registers an endless tool.
struct Owner;

impl linn_bus::Plugin for Owner {
    const NAME: &'static str = "owner";
    type Config = ();
    type Needs = Svc<dyn Tools>;
    async fn start(ctx: &Context, (): (), tools: Self::Needs) -> Result<(), Fault> {
        tools.register(ctx, endless("a").0)?;
        Ok(())
    }
}

#[test]
fn the_end_of_the_plugin_of_a_tool_ends_its_calls_after_the_grace() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let owner = root.mount::<Owner>(()).unwrap();
        owner.running().await.unwrap();
        let call = kit.call("a", json!({}));
        let (result, disposed) = join(call, owner.dispose()).await;
        disposed.unwrap();
        assert!(result.is_error);
        assert_eq!(result.error.as_ref().unwrap().code, "LISTENER_UNLOADED");
        assert!(text(&result).contains("owner"), "{}", text(&result));
        assert_eq!(kit.told().len(), 1);
    });
}

#[test]
fn calls_in_flight_end_with_the_registry_and_leave_nothing() {
    let runtime = TestRuntime::new();
    runtime.block_on(async {
        let root = linn_bus::Root::new(runtime.seams());
        let tools = root.mount::<ToolsPlugin>(()).unwrap();
        tools.running().await.unwrap();
        let service = root.get::<dyn Tools>().unwrap();
        let (tool, alive) = endless("a");
        service.register(&root, tool).unwrap();
        let call = service.execute(ToolExecutionInput::new("c", "a", json!({})));
        let (result, disposed) = join(call, tools.dispose()).await;
        disposed.unwrap();
        assert!(result.is_err());
        assert_eq!(alive.count(), 0);
    });
}
