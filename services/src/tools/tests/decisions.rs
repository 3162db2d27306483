//! Whether calls may run: listeners and guards. Questions to a human are tested with the approval service.

use std::sync::atomic::Ordering;

use linn_bus::{Fault, Next, listener};
use linn_bus_test::run;
use serde_json::json;

use super::support::{Kit, Notes, call_of, counting, echo, says, text};
use crate::events::{ToolsAmend, ToolsExecute, ToolsPostExecute, ToolsPreExecute};
use crate::tools::{AmendDecision, PreToolDecision, Tool, ToolExecution, ToolExecutionInput, ToolFailure, ToolGuard};

fn deny(reason: &str) -> PreToolDecision {
    PreToolDecision::Deny { reason: reason.to_owned() }
}

#[test]
fn tl_03_a_denied_call_skips_the_body_alone() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        let notes = Notes::default();
        root.on(|_: &ToolsPreExecute| deny("not on a Sunday")).unwrap();
        let n = notes.clone();
        root.on(listener!(async move |_: &ToolsExecute, next: Next<'_, ToolsExecute>| {
            n.add("execute");
            next.run().await
        }))
        .unwrap();
        let n = notes.clone();
        root.on(listener!(async move |it: &ToolsPostExecute, next: Next<'_, ToolsPostExecute>| {
            n.add(format!("post {}", text(&it.result)));
            next.run().await
        }))
        .unwrap();
        let result = kit.call("a", json!({})).await;
        assert_eq!((text(&result).as_str(), result.is_error), ("Error: not on a Sunday", true));
        assert_eq!(result.error.unwrap().code, "DENIED");
        assert_eq!(notes.take(), ["post Error: not on a Sunday"]);
        assert_eq!(kit.told().len(), 1);
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn tl_04_a_malformed_decision_is_none() {
    // Natively a malformed decision does not compile; what a script answers is read by these rules.
    let malformed = [
        json!({ "decision": "allow", "extra": 1 }),
        json!({ "decision": "deny" }),
        json!({ "decision": "deny", "reason": 7 }),
        json!({ "decision": "maybe" }),
        json!(["allow"]),
        json!(null),
    ];
    for decision in malformed {
        assert!(serde_json::from_value::<PreToolDecision>(decision.clone()).is_err(), "{decision}");
    }
    let right = json!({ "decision": "deny", "reason": "no" });
    assert_eq!(serde_json::from_value::<PreToolDecision>(right).unwrap(), deny("no"));
}

#[test]
fn tl_04_a_listener_that_panics_lets_nothing_run() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        root.on(|_: &ToolsPreExecute| -> PreToolDecision { panic!("no decision") }).unwrap();
        let result = kit.call("a", json!({})).await;
        assert!(result.is_error && text(&result).ends_with("panicked: no decision"), "{result:?}");
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn tl_06_a_guard_denies_whatever_others_decided() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        let agent = kit.agent("ada");
        let notes = Notes::default();
        let guard = |name: &'static str, refuses: bool| {
            let notes = notes.clone();
            ToolGuard::new(move |_: &ToolExecution| {
                notes.add(name);
                refuses.then(|| format!("{name} refuses"))
            })
        };
        kit.tools.guard(agent.context(), guard("own", true)).unwrap();
        kit.tools.guard(&root, guard("global abstains", false)).unwrap();
        let refusing = kit.tools.guard(&root, guard("global", true)).unwrap();
        kit.tools.guard(&root, guard("late", false)).unwrap();
        root.on(|_: &ToolsPreExecute| PreToolDecision::Allow).unwrap();

        let result = kit.execute(call_of(&agent, "a", json!({}))).await;
        assert_eq!(text(&result), "Error: global refuses");
        assert_eq!(notes.take(), ["global abstains", "global"]);
        refusing.dispose().await;
        let result = kit.execute(call_of(&agent, "a", json!({}))).await;
        assert_eq!(text(&result), "Error: own refuses");
        assert_eq!(notes.take(), ["global abstains", "late", "own"]);
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
        assert!(!kit.call("a", json!({})).await.is_error, "the guard of an agent does not concern others");
    });
}

#[test]
fn tl_06_a_guard_is_not_asked_about_a_denied_call() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        kit.tools.guard(&root, ToolGuard::new(|_| Some("guard".to_owned()))).unwrap();
        root.on(|_: &ToolsPreExecute| deny("listener")).unwrap();
        assert_eq!(text(&kit.call("a", json!({})).await), "Error: listener");
    });
}

#[test]
fn tl_07_a_guard_that_has_no_answer_lets_nothing_run() {
    // By its type a guard answers text or nothing; what remains is one that panics.
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        kit.tools.guard(&root, ToolGuard::new(|_| panic!("no answer"))).unwrap();
        let result = kit.call("a", json!({})).await;
        assert!(result.is_error && text(&result).ends_with("panicked: no answer"), "{result:?}");
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn r037_a_listener_that_has_no_opinion_is_no_error_and_leaves_the_call_as_it_is() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        let warned = linn_bus_test::Recorder::new();
        warned.note(&root, |_: &linn_bus::InternalFault| ()).unwrap();
        root.on(listener!(async move |_: &ToolsPreExecute, next: Next<'_, ToolsPreExecute>| next.run().await)).unwrap();
        root.on(listener!(async move |_: &ToolsPostExecute, next: Next<'_, ToolsPostExecute>| next.run().await))
            .unwrap();
        let result = kit.call("a", json!({ "x": 1 })).await;
        assert_eq!((text(&result).as_str(), result.is_error), ("{\"x\":1}", false));
        assert!(warned.names().is_empty(), "nothing is told of it");
    });
}

#[test]
fn r044_rules_and_later_hooks_judge_what_was_rewritten() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("bash");
        kit.register(tool);
        root.on(listener!(async move |it: &ToolsAmend, next: Next<'_, ToolsAmend>| {
            it.replace(json!({ "command": "touch pwned" }), "a");
            next.run().await
        }))
        .unwrap();
        let is_touch = |command: &serde_json::Value| command.as_str().is_some_and(|it| it.starts_with("touch"));
        let later = root
            .on(listener!(async move |it: &ToolsAmend, next: Next<'_, ToolsAmend>| {
                if is_touch(&it.arguments()["command"]) {
                    return Ok(AmendDecision::Refuse { reason: "b denies touch".to_owned() });
                }
                next.run().await
            }))
            .unwrap();
        let agent = kit.agent("ada");
        let call = || call_of(&agent, "bash", json!({ "command": "ls" }));
        assert_eq!(text(&kit.execute(call()).await), "Error: b denies touch");
        later.dispose();
        root.on(listener!(async move |it: &ToolsPreExecute, next: Next<'_, ToolsPreExecute>| {
            if is_touch(&it.execution.arguments()["command"]) { Ok(deny("rule")) } else { next.run().await }
        }))
        .unwrap();
        assert_eq!(text(&kit.execute(call()).await), "Error: rule");
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn r045_a_hook_that_denies_wins_over_one_that_allows() {
    for denies_first in [true, false] {
        run(async |root| {
            let kit = Kit::new(&root).await;
            let (tool, n_calls) = counting("a");
            kit.register(tool);
            for denies in [denies_first, !denies_first] {
                let ctx = root.context().clone();
                root.on(listener!(async move |_: &ToolsAmend, next: Next<'_, ToolsAmend>| {
                    if denies {
                        ctx.sleep(std::time::Duration::from_secs(1)).await?;
                        return Ok(AmendDecision::Refuse { reason: "denied".to_owned() });
                    }
                    Ok::<_, Fault>(next.run().await?)
                }))
                .unwrap();
            }
            assert_eq!(text(&kit.call("a", json!({})).await), "Error: denied");
            assert_eq!(n_calls.load(Ordering::Relaxed), 0);
        });
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[test]
fn r052_every_call_meets_the_hooks_also_one_made_by_a_tool() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(says("read", "text"));
        let tools = kit.tools.clone();
        let bulk = Tool::new("bulk", "Calls read.", move |_: Nothing, call: ToolExecution| {
            let tools = tools.clone();
            async move {
                let input = ToolExecutionInput {
                    agent: call.agent().cloned(),
                    parent: Some(call.token().clone()),
                    ..ToolExecutionInput::new("inner", "read", json!({}))
                };
                let result = tools.execute(input).await.map_err(Fault::from)?;
                Ok::<_, ToolFailure>(text(&result))
            }
        });
        kit.register(bulk);
        let notes = Notes::default();
        let n = notes.clone();
        root.on(listener!(async move |it: &ToolsAmend, next: Next<'_, ToolsAmend>| {
            n.add(it.execution.name().to_string());
            if it.execution.parent().is_some() {
                return Ok(AmendDecision::Refuse { reason: "none of it".to_owned() });
            }
            next.run().await
        }))
        .unwrap();
        assert_eq!(text(&kit.call("bulk", json!({})).await), "Error: none of it");
        assert_eq!(notes.take(), ["bulk", "read"]);
        let told: Vec<_> = kit.told().iter().map(|it| it.0.call_id().to_string()).collect();
        assert_eq!(told, ["inner", "c"]);
    });
}
