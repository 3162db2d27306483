//! Calls that run: arguments, layers around the body, results.

use std::sync::atomic::Ordering;

use linn_bus::{Fault, Next, listener};
use linn_bus_test::run;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::{Kit, Notes, call_of, content, counting, echo, facts, says, text, tool};
use crate::events::{ToolsAmend, ToolsExecute, ToolsPostExecute, ToolsPreExecute, ToolsResult};
use crate::model::{HookContext, MessageSource};
use crate::tools::{
    AmendDecision, PostToolDecision, PreToolDecision, Tool, ToolExecutionInput, ToolExecutionResult, ToolFailure,
    ToolGuard, ToolOutput,
};

#[test]
fn tl_01_a_registered_tool_runs() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(tool("a", |_| Ok(ToolOutput::from("done").with_meta(json!({ "lines": 3 })))));
        let result = kit.call("a", json!({})).await;
        let expected = ToolExecutionResult {
            call_id: "c".into(),
            content: content("done"),
            is_error: false,
            error: None,
            additional_context: None,
            meta: Some(json!({ "lines": 3 })),
        };
        assert_eq!(result, expected);
        assert_eq!(*kit.told()[0].1, expected);
    });
}

#[test]
fn tl_02_whatever_goes_wrong_is_a_result() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(tool("words", |_| Err(ToolFailure::msg("no luck"))));
        kit.register(tool("code", |_| Err(ToolFailure::coded("FsError", "FS_GONE", "the file is gone"))));
        kit.register(tool("empty", |_| Err(ToolFailure::msg(""))));
        kit.register(tool("panic", |_| panic!("out of range")));
        kit.register(tool("told", |_| Ok(ToolOutput::from("exit code 1").failed())));

        let unknown = kit.call("nothing", json!({})).await;
        assert_eq!(unknown.error.as_ref().unwrap().code, "UNKNOWN_TOOL");
        assert_eq!(unknown.error.as_ref().unwrap().name, "ToolNotFoundError");
        let words = kit.call("words", json!({})).await;
        assert_eq!((text(&words), words.is_error, words.error), ("Error: no luck".to_owned(), true, None));
        let code = kit.call("code", json!({})).await;
        assert_eq!(text(&code), "Error: the file is gone");
        assert_eq!(serde_json::to_value(code.error).unwrap(), json!({ "name": "FsError", "code": "FS_GONE" }));
        let empty = kit.call("empty", json!({})).await;
        assert_eq!((text(&empty), empty.is_error), ("Error: ".to_owned(), true));
        let panic = kit.call("panic", json!({})).await;
        assert!(panic.is_error && text(&panic).ends_with("panicked: out of range"), "{panic:?}");
        assert_eq!(panic.error.unwrap().code, "LISTENER_PANICKED");
        let told = kit.call("told", json!({})).await;
        assert_eq!((text(&told), told.is_error), ("exit code 1".to_owned(), true));
    });
}

#[test]
fn r007_an_unknown_tool_is_answered_with_the_known_ones() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(says("todo_write", "written"));
        kit.register(says("read", "text"));
        let result = kit.call("todo/write", json!({})).await;
        assert_eq!(text(&result), "Error: unknown tool: `todo/write`; there are: read, todo_write");
        assert_eq!(text(&kit.call("read", json!({})).await), "text");
    });
}

/// Arguments that are no object, and words that the error has to hold.
const NO_OBJECTS: &[(&str, &[&str])] = &[
    (r#"["ls"]"#, &["have to be a JSON object", "a list"]),
    (r#""ls""#, &["have to be a JSON object", "text that is no JSON"]),
    ("7", &["have to be a JSON object", "a number"]),
    ("null", &["have to be a JSON object", "null"]),
    (r#""{\"command\":\"ls\"}""#, &["have to be a JSON object", "a string that holds JSON"]),
];

#[test]
fn r006_arguments_that_are_no_object_are_refused() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("bash");
        kit.register(tool);
        for (arguments, words) in NO_OBJECTS {
            let result = kit.call("bash", serde_json::from_str(arguments).unwrap()).await;
            assert!(result.is_error);
            assert_eq!(result.error.as_ref().unwrap().code, "INVALID_ARGUMENTS");
            for word in *words {
                assert!(text(&result).contains(word), "{arguments}: {}", text(&result));
            }
        }
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn r017_arguments_that_are_cut_off_are_refused_and_not_completed() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("write");
        kit.register(tool);
        let result = kit.call("write", json!("{\"content\":\"partial te")).await;
        assert!(result.is_error);
        assert!(text(&result).contains("cut off: what arrived ends after 22 characters"), "{}", text(&result));
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn tl_16_arguments_that_are_no_object_are_told_once_in_the_scope_of_the_agent() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        let (ada, bob) = (kit.agent("ada"), kit.agent("bob"));
        let notes = Notes::default();
        for (name, agent) in [("ada", &ada), ("bob", &bob)] {
            let told = notes.clone();
            let note = move |it: &ToolsResult| told.add(format!("{name} {}", it.execution.arguments()));
            agent.context().on(note).unwrap();
        }
        let refused = notes.clone();
        root.on(move |_: &ToolsAmend| -> AmendDecision {
            refused.add("amend");
            AmendDecision::Proceed
        })
        .unwrap();
        let result = kit.execute(call_of(&ada, "a", json!([1]))).await;
        assert!(result.is_error);
        assert_eq!(notes.take(), ["ada null"]);
    });
}

#[test]
fn the_place_that_does_not_fit_the_schema_is_named() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Edit {
        #[expect(dead_code, reason = "only its schema counts here")]
        search: String,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Edits {
        #[expect(dead_code, reason = "only its schema counts here")]
        path: String,
        edits: Vec<Edit>,
    }
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(Tool::new("edit", "Edits.", async |it: Edits, _| {
            Ok::<_, ToolFailure>(format!("{} edits", it.edits.len()))
        }));
        let result = kit.call("edit", json!({ "path": "a", "edits": [{ "search": "x" }, { "search": 7 }] })).await;
        assert_eq!(
            text(&result),
            "Error: the arguments of `edit` do not fit its schema: at `/edits/1/search`: 7 is not of type \"string\""
        );
        assert_eq!(result.error.unwrap().code, "INVALID_ARGUMENTS");
        let missing = text(&kit.call("edit", json!({ "edits": [] })).await);
        assert!(missing.ends_with("\"path\" is a required property"), "{missing}");
        let long = text(&kit.call("edit", json!({ "path": ["x".repeat(5_000)], "edits": [] })).await);
        assert!(long.chars().count() < 500, "{long}");
        assert_eq!(text(&kit.call("edit", json!({ "path": "a", "edits": [{ "search": "x" }] })).await), "1 edits");
    });
}

#[test]
fn tl_08_layers_run_around_the_body() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let notes = Notes::default();
        let n = notes.clone();
        kit.register(tool("a", move |_| {
            n.add("body");
            Ok("".into())
        }));
        let n = notes.clone();
        root.on(listener!(async move |_: &ToolsAmend, next: Next<'_, ToolsAmend>| {
            n.add("amend");
            next.run().await
        }))
        .unwrap();
        let n = notes.clone();
        root.on(listener!(async move |_: &ToolsPreExecute, next: Next<'_, ToolsPreExecute>| {
            n.add("pre");
            next.run().await
        }))
        .unwrap();
        let n = notes.clone();
        root.on(listener!(async move |_: &ToolsExecute, next: Next<'_, ToolsExecute>| {
            n.add("in");
            let result = next.run().await;
            n.add("out");
            result
        }))
        .unwrap();
        let n = notes.clone();
        root.on(listener!(async move |_: &ToolsPostExecute, next: Next<'_, ToolsPostExecute>| {
            n.add("post");
            next.run().await
        }))
        .unwrap();
        let n = notes.clone();
        root.on(move |_: &ToolsResult| n.add("result")).unwrap();
        kit.call("a", json!({})).await;
        assert_eq!(notes.take(), ["amend", "pre", "in", "body", "out", "post", "result"]);
    });
}

#[test]
fn tl_09_a_wrapper_replaces_the_signal_and_puts_it_back() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let notes = Notes::default();
        let n = notes.clone();
        let said = |signal: &CancellationToken| if signal.is_cancelled() { "cancelled" } else { "open" };
        kit.register(tool("a", move |call| {
            let signal = call.signal();
            n.add(format!("body {}", said(&signal)));
            signal.cancel();
            Ok("".into())
        }));
        root.on(listener!(async move |it: &ToolsExecute, next: Next<'_, ToolsExecute>| {
            let outer = it.execution.replace_signal(it.execution.signal().child_token());
            let result = next.run().await;
            let inner = it.execution.replace_signal(outer);
            assert!(inner.is_cancelled());
            result
        }))
        .unwrap();
        let n = notes.clone();
        root.on(listener!(async move |it: &ToolsPostExecute, next: Next<'_, ToolsPostExecute>| {
            n.add(format!("post {}", said(&it.execution.signal())));
            next.run().await
        }))
        .unwrap();
        let input = ToolExecutionInput::new("c", "a", json!({}));
        let signal = input.signal.clone();
        assert!(!kit.execute(input).await.is_error);
        assert!(!signal.is_cancelled());
        assert_eq!(notes.take(), ["body open", "post open"]);
    });
}

#[test]
fn tl_10_a_wrapper_may_answer_in_place_of_the_body() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        let answer = |call_id: &str| ToolExecutionResult {
            content: content("cached"),
            is_error: false,
            ..ToolExecutionResult::failed(call_id.into(), "")
        };
        let own = root.on(move |_: &ToolsExecute| answer("c")).unwrap();
        assert_eq!(kit.call("a", json!({})).await, answer("c"));
        own.dispose();
        root.on(move |_: &ToolsExecute| answer("another")).unwrap();
        let result = kit.call("a", json!({})).await;
        assert_eq!(
            text(&result),
            "Error: a listener of `tools/execute` answered call `c` with the result of call `another`"
        );
        assert!(result.is_error);
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn tl_11_running_next_twice_runs_the_inner_layers_and_the_tool_twice() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, _) = counting("a");
        kit.register(tool);
        root.on(async |_: &ToolsExecute, next: Next<'_, ToolsExecute>| {
            next.run().await?;
            next.run().await
        })
        .unwrap();
        let notes = Notes::default();
        let n = notes.clone();
        root.on(listener!(async move |_: &ToolsExecute, next: Next<'_, ToolsExecute>| {
            n.add("inner");
            next.run().await
        }))
        .unwrap();
        assert_eq!(text(&kit.call("a", json!({})).await), "call 2");
        assert_eq!(notes.take(), ["inner", "inner"]);
        assert_eq!(kit.told().len(), 1);
    });
}

fn context(text: &str) -> HookContext {
    HookContext { content: content(text), source: MessageSource::plugin("hook") }
}

#[test]
fn tl_12_a_result_can_be_changed_or_blocked_after_the_body() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(tool("a", |_| Ok(ToolOutput::from("said").with_meta(json!(1)))));
        kit.register(tool("bad", |_| Err(ToolFailure::coded("E", "CODE", "failed"))));
        let cases: Vec<(&str, PostToolDecision, Value)> = vec![
            (
                "a",
                PostToolDecision::Accept {
                    content: Some(content("other")),
                    is_error: None,
                    meta: None,
                    additional_context: None,
                },
                json!({ "text": "other", "isError": false, "meta": 1, "code": null, "context": null }),
            ),
            (
                "bad",
                PostToolDecision::Accept {
                    content: Some(content("other")),
                    is_error: None,
                    meta: None,
                    additional_context: None,
                },
                json!({ "text": "other", "isError": true, "meta": null, "code": "CODE", "context": null }),
            ),
            (
                "bad",
                PostToolDecision::Accept {
                    content: None,
                    is_error: Some(false),
                    meta: Some(json!(2)),
                    additional_context: None,
                },
                json!({ "text": "Error: failed", "isError": false, "meta": 2, "code": null, "context": null }),
            ),
            (
                "a",
                PostToolDecision::Block { feedback: content("not so"), additional_context: None },
                json!({ "text": "not so", "isError": true, "meta": null, "code": null, "context": null }),
            ),
            (
                "bad",
                PostToolDecision::Block { feedback: content("not so"), additional_context: Some(context("why")) },
                json!({ "text": "not so", "isError": true, "meta": null, "code": null, "context": "why" }),
            ),
        ];
        for (tool, decision, expected) in cases {
            let listener = root.on(move |_: &ToolsPostExecute| decision.clone()).unwrap();
            let result = kit.call(tool, json!({})).await;
            let got = json!({
                "text": text(&result),
                "isError": result.is_error,
                "meta": result.meta,
                "code": result.error.map(|it| it.code),
                "context": result.additional_context.map(|it| crate::model::text_of(&it.content)),
            });
            assert_eq!(got, expected);
            listener.dispose();
        }
    });
}

#[test]
fn tl_13_a_listener_that_changes_its_copy_changes_nothing() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(says("a", "said"));
        root.on(|it: &ToolsPostExecute| {
            let mut copy = (*it.result).clone();
            copy.content.clear();
            copy.is_error = true;
            PostToolDecision::accept()
        })
        .unwrap();
        let result = kit.call("a", json!({})).await;
        assert_eq!((text(&result).as_str(), result.is_error), ("said", false));
    });
}

#[test]
fn tl_14_a_listener_that_fails_is_an_error_result_with_its_code() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        let fail = || Fault::msg("no policy").with_code("POLICY_GONE");
        let failing = [
            root.on(move |_: &ToolsAmend| Err::<AmendDecision, _>(fail())).unwrap(),
            root.on(move |_: &ToolsPreExecute| Err::<PreToolDecision, _>(fail())).unwrap(),
            root.on(move |_: &ToolsExecute| Err::<ToolExecutionResult, _>(fail())).unwrap(),
            root.on(move |_: &ToolsPostExecute| Err::<PostToolDecision, _>(fail())).unwrap(),
        ];
        for (listener, event) in failing.iter().zip(["amend", "pre-execute", "execute", "post-execute"]) {
            let result = kit.call("a", json!({})).await;
            assert!(result.is_error);
            assert_eq!(text(&result), format!("Error: listener of plugin `root` on `tools/{event}` failed: no policy"));
            assert_eq!(result.error.unwrap().code, "POLICY_GONE");
            listener.dispose();
        }
        assert_eq!(n_calls.load(Ordering::Relaxed), 1, "only the call whose post-execute failed has run");
        assert_eq!(kit.told().len(), 4);
    });
}

#[test]
fn tl_15_every_observer_hears_of_a_result() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(says("a", "said"));
        let notes = Notes::default();
        let n = notes.clone();
        root.on(listener!(async move |_: &ToolsResult| {
            n.add("first");
            Err::<(), _>(Fault::msg("cannot write"))
        }))
        .unwrap();
        let n = notes.clone();
        root.on(move |it: &ToolsResult| n.add(text(&it.result))).unwrap();
        assert_eq!(text(&kit.call("a", json!({})).await), "said");
        assert_eq!(notes.take(), ["first", "said"]);
    });
}

#[test]
fn tl_17_a_parent_that_the_registry_did_not_begin_is_refused() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("a");
        kit.register(tool);
        run(async |other| {
            // The token of another harness is the nearest that there is to a forged one.
            let elsewhere = Kit::new(&other).await;
            elsewhere.register(says("a", "elsewhere"));
            elsewhere.call("a", json!({})).await;
            let foreign = elsewhere.told().remove(0).0.token().clone();
            let input = ToolExecutionInput { parent: Some(foreign), ..ToolExecutionInput::new("c", "a", json!({})) };
            let result = kit.execute(input).await;
            assert_eq!(result.error.as_ref().unwrap().code, "FOREIGN_PARENT");
            assert_eq!(kit.told().len(), 1);
        });
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
        kit.call("a", json!({})).await;
        let own = kit.told().remove(0).0.token().clone();
        let input = ToolExecutionInput { parent: Some(own), ..ToolExecutionInput::new("d", "a", json!({})) };
        assert!(!kit.execute(input).await.is_error);
    });
}

/// A listener that adds to the text of the arguments, after it waited a moment if it is slow.
fn rewriting(kit: &Kit, by: &'static str, is_slow: bool) {
    let ctx = kit.root.clone();
    kit.root
        .on(listener!(async move |it: &ToolsAmend, next: Next<'_, ToolsAmend>| {
            if is_slow {
                ctx.sleep(std::time::Duration::from_secs(1)).await?;
            }
            let before = it.arguments()["command"].as_str().unwrap_or_default().to_owned();
            it.replace(json!({ "command": format!("{before} {by}") }), by);
            Ok::<_, Fault>(next.run().await?)
        }))
        .unwrap();
}

#[test]
fn r042_rewrites_come_one_after_another_in_order() {
    for is_first_slow in [true, false] {
        run(async |root| {
            let kit = Kit::new(&root).await;
            kit.register(echo("bash"));
            rewriting(&kit, "ONE", is_first_slow);
            rewriting(&kit, "TWO", !is_first_slow);
            let agent = kit.agent("ada");
            for _ in 0..20 {
                let result = kit.execute(call_of(&agent, "bash", json!({ "command": "echo" }))).await;
                assert_eq!(text(&result), r#"{"command":"echo ONE TWO"}"#);
            }
            let logged = facts(agent.session());
            assert_eq!(logged.len(), 20);
            assert_eq!(logged[0]["type"], "tool/amended");
            assert_eq!(
                logged[0]["data"],
                json!({ "callId": "c", "arguments": { "command": "echo ONE TWO" }, "by": "TWO" })
            );
        });
    }
}

#[test]
fn amended_arguments_are_what_everybody_judges_and_the_tool_gets() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        root.on(|it: &ToolsAmend| {
            it.replace(json!({ "n": 2 }), "hook");
            AmendDecision::Proceed
        })
        .unwrap();
        let notes = Notes::default();
        let n = notes.clone();
        root.on(listener!(async move |it: &ToolsPreExecute, next: Next<'_, ToolsPreExecute>| {
            n.add(it.execution.arguments().to_string());
            next.run().await
        }))
        .unwrap();
        let n = notes.clone();
        kit.tools
            .guard(
                &root,
                ToolGuard::new(move |call| {
                    n.add(call.arguments().to_string());
                    None
                }),
            )
            .unwrap();
        assert_eq!(text(&kit.call("a", json!({ "n": 1 })).await), r#"{"n":2}"#);
        assert_eq!(notes.take(), [r#"{"n":2}"#, r#"{"n":2}"#]);
        assert_eq!(**kit.told()[0].0.arguments(), json!({ "n": 2 }));
    });
}

#[test]
fn arguments_that_were_replaced_by_the_same_are_not_logged() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        kit.register(echo("a"));
        root.on(|it: &ToolsAmend| {
            it.replace((*it.arguments()).clone(), "hook");
            AmendDecision::Proceed
        })
        .unwrap();
        let agent = kit.agent("ada");
        kit.execute(call_of(&agent, "a", json!({ "n": 1 }))).await;
        assert!(facts(agent.session()).is_empty());
    });
}

#[test]
fn arguments_amended_to_no_object_or_to_what_does_not_fit_are_refused() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (mut tool, n_calls) = counting("a");
        tool.schema.parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        kit.register(tool);
        for (amended, words) in [(json!([]), "what is no object"), (json!({ "n": "x" }), "at `/n`")] {
            let listener = root
                .on(move |it: &ToolsAmend| {
                    it.replace(amended.clone(), "hook");
                    AmendDecision::Proceed
                })
                .unwrap();
            let result = kit.call("a", json!({ "n": 1 })).await;
            assert!(result.is_error && text(&result).contains(words), "{result:?}");
            listener.dispose();
        }
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}
