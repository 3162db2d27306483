//! Tests of questions to a human, and of what the model is told about them.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::join;
use linn_bus::{Context, Fault, Next, Root, Svc, listener};
use linn_bus_test::{leak_check, run};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Approval, ApprovalConfig, ApprovalPlugin, PatternError, Permission, PermissionScope, check_pattern_scope};
use crate::agent::Agent;
use crate::events::{AgentPreStep, ApprovalRequest, ToolsAmend, ToolsPreExecute};
use crate::session::{ApprovalOutcome, ApprovalPolicy, StepEnd, StepStart, TurnEnd, TurnEndReason};
use crate::tools::tests::support::{Kit, Notes, call_of, counting, echo, facts, text};
use crate::tools::{AmendDecision, PreToolDecision, ToolClass};

/// Tools and approval on a bus.
struct Desk {
    kit: Kit,
    approval: Svc<dyn Approval>,
    agent: Agent,
}

impl Desk {
    async fn new(root: &Root) -> Self {
        let kit = Kit::new(root).await;
        root.mount::<ApprovalPlugin>(ApprovalConfig::default()).unwrap().running().await.unwrap();
        let agent = kit.agent("ada");
        Self { kit, approval: root.get::<dyn Approval>().unwrap(), agent }
    }

    async fn ask(&self) -> ApprovalOutcome {
        self.approval.request(ApprovalRequest::new(self.agent.clone(), "bash")).await.unwrap()
    }

    /// Kinds and outcomes in the log of the agent.
    fn logged(&self) -> Vec<String> {
        let line = |it: &Value| match it["data"]["outcome"].as_str() {
            Some(outcome) => format!("{} {outcome}", it["type"].as_str().unwrap()),
            None => it["type"].as_str().unwrap().to_owned(),
        };
        facts(self.agent.session()).iter().map(line).collect()
    }

    fn answer(&self, outcome: ApprovalOutcome) -> linn_bus::Listener {
        self.kit.root.on(move |_: &ApprovalRequest| outcome).unwrap()
    }
}

#[test]
fn ap_01_a_question_needs_an_open_turn() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        desk.agent.session().append(TurnEnd { turn: 1, reason: TurnEndReason::Completed }).unwrap();
        let n_records = desk.agent.session().len();
        let error = desk.approval.request(ApprovalRequest::new(desk.agent.clone(), "bash")).await.unwrap_err();
        assert_eq!(error.code(), "NO_OPEN_TURN");
        assert_eq!(desk.agent.session().len(), n_records);
    });
}

#[test]
fn ap_02_nobody_answers_or_the_answerer_fails() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        assert_eq!(desk.ask().await, ApprovalOutcome::Unavailable);
        let failing = [
            root.on(|_: &ApprovalRequest| Err::<ApprovalOutcome, _>(Fault::msg("the window is gone"))).unwrap(),
            root.on(async |_: &ApprovalRequest| Err::<ApprovalOutcome, _>(Fault::msg("the window is gone"))).unwrap(),
            root.on(|_: &ApprovalRequest| -> ApprovalOutcome { panic!("no window") }).unwrap(),
        ];
        for listener in failing {
            assert_eq!(desk.ask().await, ApprovalOutcome::Unavailable);
            listener.dispose();
        }
        let pair = ["approval/asked", "approval/decided unavailable"];
        assert_eq!(desk.logged(), pair.repeat(4));
        let logged = facts(desk.agent.session());
        let ids: Vec<_> = logged.iter().map(|it| it["data"]["id"].as_str().unwrap()).collect();
        assert_eq!(ids[0], ids[1]);
        assert_ne!(ids[0], ids[2]);
    });
}

#[test]
fn ap_02_an_outcome_that_is_none_is_no_answer() {
    // By its type an answerer has no other; what comes from outside is read by this rule.
    for rogue in [json!("allowed"), json!("allowed-always"), json!(true), json!(null)] {
        assert!(serde_json::from_value::<ApprovalOutcome>(rogue).is_err());
    }
}

#[test]
fn ap_03_the_first_answer_counts_and_who_delegates_passes_on() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let delegating = root.on(async |_: &ApprovalRequest, next: Next<'_, ApprovalRequest>| next.run().await);
        delegating.unwrap();
        desk.answer(ApprovalOutcome::Rejected);
        desk.answer(ApprovalOutcome::AllowedOnce);
        assert_eq!(desk.ask().await, ApprovalOutcome::Rejected);
    });
}

#[test]
fn ap_04_a_question_that_is_taken_back_is_cancelled() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let notes = Notes::default();
        let (n, answer) = (notes.clone(), CancellationToken::new());
        let answered = answer.clone();
        root.on(listener!(async move |_: &ApprovalRequest| {
            n.add("asked");
            answered.cancelled().await;
            n.add("answered");
            ApprovalOutcome::AllowedOnce
        }))
        .unwrap();

        let before = ApprovalRequest::new(desk.agent.clone(), "bash");
        before.signal.cancel();
        assert_eq!(desk.approval.request(before).await.unwrap(), ApprovalOutcome::Cancelled);
        assert!(notes.take().is_empty());

        let during = ApprovalRequest::new(desk.agent.clone(), "bash");
        let signal = during.signal.clone();
        let mut asking = pin!(desk.approval.request(during));
        assert!(asking.as_mut().now_or_never().is_none());
        signal.cancel();
        answer.cancel();
        let outcome = asking.now_or_never().expect("cancelled at once").unwrap();
        assert_eq!(outcome, ApprovalOutcome::Cancelled);
        assert_eq!(notes.take(), ["asked"]);
        assert_eq!(desk.logged(), ["approval/asked", "approval/decided cancelled"].repeat(2));
    });
}

#[test]
fn ap_04_a_question_that_is_dropped_is_cancelled_in_the_log() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        root.on(async |_: &ApprovalRequest| pending::<ApprovalOutcome>().await).unwrap();
        assert!(desk.ask().now_or_never().is_none());
        assert_eq!(desk.logged(), ["approval/asked", "approval/decided cancelled"]);
    });
}

#[test]
fn ap_05_where_nobody_can_be_asked_nobody_is() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        root.first().on(|_: &ApprovalRequest| -> ApprovalOutcome { panic!("asked") }).unwrap();
        let session = desk.agent.session();
        assert_eq!(desk.approval.policy(session).unwrap(), ApprovalPolicy::Ask);
        desk.approval.set_policy(session, ApprovalPolicy::Never).unwrap();
        desk.approval.set_policy(session, ApprovalPolicy::Never).unwrap();
        assert_eq!(desk.approval.policy(session).unwrap(), ApprovalPolicy::Never);
        assert_eq!(desk.ask().await, ApprovalOutcome::Rejected);
        assert_eq!(desk.logged(), ["approval/policy", "approval/asked", "approval/decided rejected"]);
    });
}

#[test]
fn ap_05_the_config_says_what_holds_without_a_word_in_the_log() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let config = ApprovalConfig { policy: ApprovalPolicy::Never };
        root.mount::<ApprovalPlugin>(config).unwrap().running().await.unwrap();
        let approval = root.get::<dyn Approval>().unwrap();
        let agent = kit.agent("ada");
        let ask = || approval.request(ApprovalRequest::new(agent.clone(), "bash"));
        root.on(|_: &ApprovalRequest| ApprovalOutcome::AllowedOnce).unwrap();
        assert_eq!(ask().await.unwrap(), ApprovalOutcome::Rejected);
        approval.set_policy(agent.session(), ApprovalPolicy::Ask).unwrap();
        assert_eq!(ask().await.unwrap(), ApprovalOutcome::AllowedOnce);
    });
}

/// The beginning of a step as the loop makes it.
async fn step(root: &Context, agent: &Agent, number: u32) {
    let signal = CancellationToken::new();
    let (full_system_prompt, session_prefix) = (Arc::from(""), Arc::from(Vec::new()));
    let event =
        AgentPreStep { agent: agent.clone(), turn: 1, step: number, full_system_prompt, session_prefix, signal };
    root.serial(&event).await.unwrap();
    agent.session().append(StepStart { turn: 1, step: number }).unwrap();
    agent.session().append(StepEnd { turn: 1, step: number }).unwrap();
}

#[test]
fn ap_06_the_model_is_told_once_of_a_change() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let session = desk.agent.session();
        let set = |policy| desk.approval.set_policy(session, policy).unwrap();
        let n_notices = || desk.logged().iter().filter(|it| *it == "context/message").count();

        set(ApprovalPolicy::Never);
        step(&root, &desk.agent, 1).await;
        assert_eq!(n_notices(), 0, "before the first step the system text says it");

        set(ApprovalPolicy::Ask);
        set(ApprovalPolicy::Never);
        step(&root, &desk.agent, 2).await;
        assert_eq!(n_notices(), 0, "net zero");

        set(ApprovalPolicy::Ask);
        set(ApprovalPolicy::Never);
        set(ApprovalPolicy::Ask);
        step(&root, &desk.agent, 3).await;
        step(&root, &desk.agent, 4).await;
        assert_eq!(n_notices(), 1);
        let notice = facts(session).into_iter().find(|it| it["type"] == "context/message").unwrap();
        assert_eq!(notice["data"]["source"], json!({ "kind": "plugin", "plugin": "approval" }));
        let said = notice["data"]["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("<approval-policy>ask</approval-policy>"), "{said}");
    });
}

/// A listener of `tools/pre-execute` that has a human decide.
fn asks(root: &Context, reason: Option<&'static str>) {
    root.on(move |_: &ToolsPreExecute| PreToolDecision::Ask { reason: reason.map(str::to_owned) }).unwrap();
}

#[test]
fn tl_05_only_what_was_allowed_runs() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let (tool, n_calls) = counting("bash");
        desk.kit.register(tool);
        asks(&root, Some("it deletes"));
        let expected = [
            (ApprovalOutcome::Rejected, "Error: the user rejected tool \"bash\""),
            (ApprovalOutcome::Cancelled, "Error: approval for tool \"bash\" was cancelled"),
            (
                ApprovalOutcome::Unavailable,
                "Error: tool \"bash\" requires approval, but no approval channel is available",
            ),
        ];
        for (outcome, message) in expected {
            let answerer = desk.answer(outcome);
            let result = desk.kit.execute(call_of(&desk.agent, "bash", json!({}))).await;
            assert_eq!((text(&result).as_str(), result.is_error), (message, true));
            answerer.dispose();
        }
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
        desk.answer(ApprovalOutcome::AllowedOnce);
        assert_eq!(text(&desk.kit.execute(call_of(&desk.agent, "bash", json!({}))).await), "call 1");
        let asked = &facts(desk.agent.session())[0]["data"];
        assert_eq!(
            (&asked["toolName"], &asked["callId"], &asked["reason"]),
            (&json!("bash"), &json!("c"), &json!("it deletes"))
        );
    });
}

#[test]
fn tl_05_without_an_agent_or_a_service_an_ask_is_a_no() {
    run(async |root| {
        let kit = Kit::new(&root).await;
        let (tool, n_calls) = counting("bash");
        kit.register(tool);
        asks(&root, None);
        let agent = kit.agent("ada");
        let call = || call_of(&agent, "bash", json!({}));
        assert_eq!(text(&kit.execute(call()).await), "Error: tool \"bash\" requires approval (not yet supported)");
        let approval = root.mount::<ApprovalPlugin>(ApprovalConfig::default()).unwrap();
        approval.running().await.unwrap();
        root.on(|_: &ApprovalRequest| ApprovalOutcome::AllowedOnce).unwrap();
        let of_nobody = kit.call("bash", json!({})).await;
        assert!(of_nobody.is_error && text(&of_nobody).contains("of no agent"), "{of_nobody:?}");
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
        assert!(!kit.execute(call()).await.is_error);
        approval.dispose().await.unwrap();
        assert!(kit.execute(call()).await.is_error);
    });
}

#[test]
fn tl_05_a_question_outside_of_a_turn_is_an_error() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        desk.kit.register(echo("bash"));
        asks(&root, None);
        desk.agent.session().append(TurnEnd { turn: 1, reason: TurnEndReason::Completed }).unwrap();
        let result = desk.kit.execute(call_of(&desk.agent, "bash", json!({}))).await;
        assert_eq!(result.error.unwrap().code, "NO_OPEN_TURN");
    });
}

#[test]
fn r043_the_question_shows_what_was_rewritten_and_that_runs() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        desk.kit.register(echo("bash"));
        root.on(|it: &ToolsAmend| {
            it.replace(json!({ "command": "y" }), "a");
            AmendDecision::Proceed
        })
        .unwrap();
        asks(&root, None);
        let notes = Notes::default();
        let n = notes.clone();
        root.on(move |it: &ApprovalRequest| {
            n.add(it.arguments.as_ref().unwrap().to_string());
            ApprovalOutcome::AllowedOnce
        })
        .unwrap();
        let result = desk.kit.execute(call_of(&desk.agent, "bash", json!({ "command": "x" }))).await;
        assert_eq!(notes.take(), [r#"{"command":"y"}"#]);
        assert_eq!(text(&result), r#"{"command":"y"}"#);
    });
}

#[test]
fn r084_what_was_approved_is_what_runs() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        desk.kit.register(echo("bash"));
        asks(&root, None);
        // Nothing of a call on its way can be changed; what a plugin can try is to replace the tool meanwhile.
        let (mut other, n_calls) = counting("bash");
        other.schema.description = "touch pwned".to_owned();
        let (tools, scope) = (desk.kit.tools.clone(), desk.agent.context().clone());
        root.on(move |_: &ApprovalRequest| {
            tools.register(&scope, other.clone()).unwrap();
            ApprovalOutcome::AllowedOnce
        })
        .unwrap();
        let result = desk.kit.execute(call_of(&desk.agent, "bash", json!({ "command": "echo A" }))).await;
        assert_eq!(text(&result), r#"{"command":"echo A"}"#);
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn r084_a_tool_that_went_while_it_was_asked_about_is_not_followed_by_another() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let first = desk.kit.tools.register(&root, echo("bash")).unwrap();
        asks(&root, None);
        let (mut other, n_calls) = counting("bash");
        other.schema.description = "something else".to_owned();
        let (tools, ctx) = (desk.kit.tools.clone(), root.context().clone());
        root.on(move |_: &ApprovalRequest| {
            drop(first.dispose());
            tools.register(&ctx, other.clone()).unwrap();
            ApprovalOutcome::AllowedOnce
        })
        .unwrap();
        let result = desk.kit.execute(call_of(&desk.agent, "bash", json!({}))).await;
        assert_eq!(result.error.as_ref().unwrap().code, "TOOL_REPLACED", "{result:?}");
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

/// Never answers.
struct SilentFrontEnd;

impl linn_bus::Plugin for SilentFrontEnd {
    const NAME: &'static str = "front-end";
    type Config = ();
    type Needs = ();
    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        ctx.on(async |_: &ApprovalRequest| pending::<ApprovalOutcome>().await)?;
        Ok(())
    }
}

#[test]
fn r129_a_front_end_that_goes_away_has_not_allowed_anything() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let (tool, n_calls) = counting("bash");
        desk.kit.register(tool);
        asks(&root, None);
        let front_end = root.mount::<SilentFrontEnd>(()).unwrap();
        front_end.running().await.unwrap();
        let call = desk.kit.execute(call_of(&desk.agent, "bash", json!({})));
        let (result, disposed) = join(call, async { front_end.dispose().await }).await;
        disposed.unwrap();
        assert!(text(&result).contains("no approval channel is available"), "{}", text(&result));
        assert_eq!(desk.logged(), ["approval/asked", "approval/decided unavailable"]);
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn r130_a_late_answer_to_a_cancelled_question_has_no_effect() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let (tool, n_calls) = counting("bash");
        desk.kit.register(tool);
        asks(&root, None);
        let allow = CancellationToken::new();
        let allowed = allow.clone();
        root.on(listener!(async move |_: &ApprovalRequest| {
            allowed.cancelled().await;
            ApprovalOutcome::AllowedOnce
        }))
        .unwrap();
        let input = call_of(&desk.agent, "bash", json!({}));
        let signal = input.signal.clone();
        let mut call = pin!(desk.kit.execute(input));
        assert!(call.as_mut().now_or_never().is_none());
        signal.cancel();
        let result = call.as_mut().now_or_never().expect("it ends at once");
        allow.cancel();
        assert!(result.is_error);
        assert_eq!(n_calls.load(Ordering::Relaxed), 0);
        assert_eq!(desk.logged(), ["approval/asked", "approval/decided cancelled"]);
        assert_eq!(desk.kit.told().len(), 1);
    });
}

#[test]
fn nothing_is_left_of_the_service() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let fiber = ctx.mount::<ApprovalPlugin>(ApprovalConfig::default()).unwrap();
            fiber.running().await.unwrap();
            fiber.dispose().await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_pattern_has_to_begin_like_what_was_asked_about() {
    for (pattern, target) in [
        ("src/a.rs", "src/a.rs"),
        ("src/*", "src/a.rs"),
        ("src/?.rs", "src/a.rs"),
        ("s[a-z]*", "src/a.rs"),
        ("git status", "git status"),
        ("git *", "git status"),
    ] {
        assert_eq!(check_pattern_scope(pattern, target), Ok(()), "{pattern}");
    }
    for (pattern, target) in [
        ("", "src/a.rs"),
        ("*", "src/a.rs"),
        ("*.rs", "src/a.rs"),
        ("?rc/*", "src/a.rs"),
        ("/*", "/etc/passwd"),
        ("src", "src/a.rs"),
        ("tests/*", "src/a.rs"),
        ("src/../*", "src/../a.rs"),
        ("../a", "../a"),
    ] {
        assert!(check_pattern_scope(pattern, target).is_err(), "{pattern}");
    }
}

#[test]
fn what_is_permitted_follows_from_the_question() {
    run(async |root| {
        let desk = Desk::new(&root).await;
        let mut request = ApprovalRequest::new(desk.agent.clone(), "write_file");
        let permit = |request: &ApprovalRequest, scope: PermissionScope| scope.permission(request);
        assert_eq!(permit(&request, PermissionScope::Class).unwrap_err().code(), "NO_TOOL_CLASS");
        let no_target = permit(&request, PermissionScope::Pattern(None)).unwrap_err();
        assert!(no_target.to_string().contains(&PatternError::NoTarget.to_string()), "{no_target}");

        request.class = Some(ToolClass::Destructive);
        request.arguments = Some(Arc::new(json!({ "path": "a.txt", "command": "ls" })));
        let texts = [
            PermissionScope::Class,
            PermissionScope::Tool,
            PermissionScope::Pattern(None),
            PermissionScope::Pattern(Some("a*".to_owned())),
        ]
        .map(|it| permit(&request, it).unwrap().text());
        assert_eq!(texts, ["destructive:always", "write_file *", "write_file a.txt", "write_file a*"]);
        let outside = permit(&request, PermissionScope::Pattern(Some("b*".to_owned()))).unwrap_err();
        assert!(
            outside.to_string().starts_with("approval pattern exceeds or does not match the requested scope"),
            "{outside}"
        );
        let permission = permit(&request, PermissionScope::Tool).unwrap();
        let written = serde_json::to_value(&permission).unwrap();
        assert_eq!(written, json!({ "kind": "tool", "tool": "write_file" }));
        assert_eq!(serde_json::from_value::<Permission>(written).unwrap(), permission);
    });
}
