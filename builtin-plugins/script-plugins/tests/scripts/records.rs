//! What the log of a session tells of hooks.

use linn_services::session::invariants::LogChecker;
use linn_services::session::{Fact, StepEnd, StepStart, TurnEnd, TurnEndReason, TurnStart, TurnTrigger};
use serde_json::{Value, json};

use crate::support::{answers, call_of, run};

/// The facts about hooks in short, without how long they took.
fn told(records: &[std::sync::Arc<linn_services::session::Record>]) -> Vec<Value> {
    let of_hooks = records.iter().filter_map(|it| match &it.fact {
        Fact::HookInvoked(fact) => Some((it.fact.kind(), serde_json::to_value(fact).unwrap())),
        Fact::HookResult(fact) => Some((it.fact.kind(), serde_json::to_value(fact).unwrap())),
        _ => None,
    });
    let short = of_hooks.map(|(kind, mut fact)| {
        fact.as_object_mut().unwrap().remove("durationMs");
        json!([kind, fact])
    });
    short.collect()
}

#[test]
fn hooks_that_a_turn_waits_for_are_in_its_log_with_what_came_of_them() {
    run(async |world| {
        world
            .plugin("a")
            .hook("pre_tool", &answers(&json!({ "allow": true, "modify": { "x": 1 } })))
            .hook("post_tool", &answers(&json!({})));
        world.plugin("b").hook("pre_tool", "echo boom >&2; exit 3");
        world.plugin("c").hook("turn_end", &answers(&json!({}))).hook("session_start", &answers(&json!({})));
        world.echo("any");
        let running = world.start().await;
        let agent = world.agent("main").await;
        let session = agent.agent().session().clone();
        // Nothing waits for what is called outside of a turn.
        world.tools.execute(call_of(agent.agent(), "any", json!({}))).await.unwrap();
        assert_eq!(told(&session.records_from(0)), Vec::<Value>::new());

        session.append(TurnStart { turn: 1, trigger: TurnTrigger::Other(json!("test")) }).unwrap();
        session.append(StepStart { turn: 1, step: 1 }).unwrap();
        let before = session.len();
        world.tools.execute(call_of(agent.agent(), "any", json!({}))).await.unwrap();
        let about = |plugin: &str| {
            json!({
                "turn": 1, "point": "pre_tool", "handlerId": format!("{plugin}/hooks/pre_tool.sh"),
            })
        };
        let with = |mut fact: Value, more: Value| {
            fact.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fact
        };
        let dialect = json!({ "dialect": "plugin.json" });
        let failed = json!({ "decision": "deny", "exitCode": 3, "stderrSummary": "boom" });
        let expected = [
            json!(["hook/invoked", with(about("a"), dialect.clone())]),
            json!(["hook/result", with(about("a"), json!({ "decision": "modify", "exitCode": 0 }))]),
            json!(["hook/invoked", with(about("b"), dialect.clone())]),
            json!(["hook/result", with(about("b"), failed)]),
        ];
        assert_eq!(told(&session.records_from(before)), expected);

        running.admin.disable("b").await.unwrap();
        let before = session.len();
        world.tools.execute(call_of(agent.agent(), "any", json!({}))).await.unwrap();
        let told: Vec<_> = told(&session.records_from(before));
        assert_eq!(told.len(), 4, "{told:#?}");
        assert_eq!((&told[3][1]["point"], &told[3][1]["decision"]), (&json!("post_tool"), &json!("none")));

        // What is told beside a turn may answer when it is over, and is in no log.
        session.append(StepEnd { turn: 1, step: 1 }).unwrap();
        let before = session.len();
        session.append(TurnEnd { turn: 1, reason: TurnEndReason::Completed }).unwrap();
        running.fiber.dispose().await.unwrap();
        assert_eq!(session.len(), before + 1);
        let mut checker = LogChecker::default();
        for record in session.records_from(0) {
            checker.take(&record).unwrap();
        }
    });
}
