//! Hooks that tell of sessions and turns.

use std::sync::Arc;

use linn_services::agent::Agent;
use linn_services::compaction::{CompactTrigger, ContextBudget};
use linn_services::events::{AgentPreStep, CompactionStart, Exit};
use linn_services::model::{ContentBlock, MessageSource, TokenUsage};
use linn_services::session::{
    AssistantMessage, RewindCause, SessionRewind, StepEnd, StepStart, TurnEnd, TurnEndReason, TurnStart, TurnTrigger,
    UserMessage,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{World, keeps, kept, run, until};

async fn pre_step(world: &World, agent: &Agent, turn: u32, step: u32) {
    let event = AgentPreStep {
        agent: agent.clone(),
        turn,
        step,
        full_system_prompt: "".into(),
        session_prefix: Arc::default(),
        signal: CancellationToken::new(),
    };
    world.root.serial(&event).await.unwrap();
}

/// One whole turn, in the log.
fn turn(agent: &Agent, turn: u32) {
    let session = agent.session();
    session.append(TurnStart { turn, trigger: TurnTrigger::Message { source: MessageSource::User } }).unwrap();
    session.say(UserMessage { content: vec!["hi".into()], source: MessageSource::User }).unwrap();
    session.append(StepStart { turn, step: 1 }).unwrap();
    let usage = TokenUsage { input_tokens: 7, output_tokens: 3, cache_read_tokens: Some(2), ..TokenUsage::default() };
    let content = vec![ContentBlock::text("yes")];
    session.say(AssistantMessage { turn, step: 1, content, usage: Some(usage) }).unwrap();
    session.append(StepEnd { turn, step: 1 }).unwrap();
    session.append(TurnEnd { turn, reason: TurnEndReason::Completed }).unwrap();
}

/// A plugin that keeps what it is told at these points.
fn listener(world: &World, name: &str, points: &[&str]) -> std::path::PathBuf {
    let seen = world.base.join(format!("seen-by-{name}"));
    let mut plugin = world.plugin(name);
    for point in points {
        plugin = plugin.hook_with(point, &keeps(&seen, &json!({ "allow": false })), json!({ "pass_args": true }));
    }
    seen
}

fn points(seen: &std::path::Path) -> Vec<String> {
    kept(seen).iter().map(|it| it["hook"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn script_7_3_a_session_starts_and_stops_once_and_turns_are_told_in_order() {
    run(async |world| {
        let all = ["session_start", "session_stop", "turn_start", "turn_end", "session_shutdown", "pre_compact"];
        let seen = listener(&world, "p", &all);
        let running = world.start().await;
        let handle = world.agent("main").await;
        let agent = handle.agent();
        for number in [1, 2] {
            pre_step(&world, agent, number, 1).await;
            pre_step(&world, agent, number, 2).await;
            turn(agent, number);
        }
        let trigger = CompactTrigger::Manual;
        let event = CompactionStart { agent: agent.clone(), trigger, tokens: 1, budget: ContextBudget::default() };
        world.root.emit(&event);
        until(&world.root, || kept(&seen).len() == 6).await;
        running.admin.shut_down().await.unwrap();
        running.admin.shut_down().await.unwrap();
        let expected = [
            "session_start",
            "turn_start",
            "turn_end",
            "turn_start",
            "turn_end",
            "pre_compact",
            "session_stop",
            "session_shutdown",
        ];
        assert_eq!(points(&seen), expected);
        handle.dispose().await;
        assert_eq!(kept(&seen).len(), 8, "the end was told already");
        let stop = &kept(&seen)[6]["args"];
        let session = json!({ "turns": 2, "tokens_in": 18, "tokens_out": 6, "cached_tokens": 4, "model": "" });
        assert_eq!(stop["session"], session);
        assert_eq!((&stop["turn"]["tokens_in"], &stop["turn"]["tokens_out"]), (&json!(9), &json!(3)));
        assert_eq!(stop["human_corrections"], json!({ "undo_count": 0 }));
        assert!(kept(&seen)[7].get("args").is_none() && kept(&seen)[7]["session_id"] == "");
    });
}

#[test]
fn script_7_3_a_reset_and_the_end_of_an_agent_end_a_session() {
    run(async |world| {
        let seen = listener(&world, "p", &["session_start", "session_stop"]);
        let _running = world.start().await;
        let handle = world.agent("main").await;
        turn(handle.agent(), 1);
        handle.agent().session().append(SessionRewind { to: 0, cause: RewindCause::Reset }).unwrap();
        until(&world.root, || kept(&seen).len() == 3).await;
        handle.dispose().await;
        until(&world.root, || kept(&seen).len() == 4).await;
        assert_eq!(points(&seen), ["session_start", "session_stop", "session_start", "session_stop"]);
    });
}

#[test]
fn script_7_3_the_end_is_told_when_the_plugin_goes_without_having_been_told() {
    run(async |world| {
        let first = listener(&world, "a", &["session_stop", "session_shutdown"]);
        let running = world.start().await;
        let _agent = world.agent("main").await;
        // One that comes later hears of it as well.
        let later = listener(&world, "b", &["session_shutdown"]);
        running.admin.reload().await.unwrap();
        running.fiber.dispose().await.unwrap();
        assert_eq!(points(&first), ["session_stop", "session_shutdown"]);
        assert_eq!(points(&later), ["session_shutdown"]);
    });
}

#[test]
fn script_7_3_the_end_of_the_program_is_waited_for() {
    run(async |world| {
        let seen = listener(&world, "p", &["session_stop", "session_shutdown"]);
        let running = world.start().await;
        let _agent = world.agent("main").await;
        world.root.parallel(&Exit { signal: None }).await.unwrap();
        assert_eq!(points(&seen), ["session_stop", "session_shutdown"]);
        running.fiber.dispose().await.unwrap();
        assert_eq!(kept(&seen).len(), 2, "and it is told once");
    });
}

#[test]
fn hooks_of_the_end_have_two_seconds_together_and_leave_nothing_running() {
    run(async |world| {
        let started = world.base.join("pid");
        world.plugin("slow").hook("session_stop", &format!("echo $$ > '{}'; exec sleep 300", started.display()));
        world.plugin("slower").hook("session_shutdown", "exec sleep 300");
        let running = world.start().await;
        let _agent = world.agent("main").await;
        #[expect(clippy::disallowed_methods, reason = "how long the end takes is what is promised")]
        let before = std::time::Instant::now();
        world.root.parallel(&Exit { signal: None }).await.unwrap();
        running.fiber.dispose().await.unwrap();
        assert!(before.elapsed() < std::time::Duration::from_secs(5), "{:?}", before.elapsed());
        let pid = std::fs::read_to_string(&started).unwrap();
        until(&world.root, || !std::path::Path::new("/proc").join(pid.trim()).exists()).await;
    });
}

#[test]
fn script_6_3_an_advisory_hook_that_fails_is_told_and_holds_up_nothing() {
    run(async |world| {
        world.plugin("p").hook("turn_start", "echo broken >&2; exit 1");
        let _running = world.start().await;
        let agent = world.agent("main").await;
        pre_step(&world, agent.agent(), 1, 1).await;
        let expected = "warning [p] hook 'turn_start' exited with exit status: 1: broken; it is passed over";
        assert_eq!(world.told(), [expected]);
    });
}

#[test]
fn r047_a_script_at_the_end_of_a_turn_that_fails_is_told_and_changes_nothing() {
    run(async |world| {
        world.plugin("p").hook("turn_end", "exit 127");
        let _running = world.start().await;
        let handle = world.agent("main").await;
        turn(handle.agent(), 1);
        let before = handle.agent().session().len();
        let mut told = Vec::new();
        until(&world.root, || {
            told.extend(world.told());
            !told.is_empty()
        })
        .await;
        assert_eq!(told, ["warning [p] hook 'turn_end' exited with exit status: 127: ; it is passed over"]);
        assert_eq!(handle.agent().session().len(), before, "the turn is over");
    });
}

#[test]
fn hooks_of_independent_plugins_run_side_by_side_wherever_their_order_cannot_be_seen() {
    run(async |world| {
        let points = [
            "session_start",
            "turn_start",
            "pre_agent_start",
            "turn_end",
            "pre_compact",
            "session_stop",
            "session_shutdown",
        ];
        // At each point each waits for the other: one after the other they would never end.
        let file = |point: &str, name: &str| world.base.join(format!("{point}-{name}"));
        for (name, other) in [("a", "b"), ("b", "a")] {
            let mut plugin = world.plugin(name);
            for point in points {
                let (own, other) = (file(point, name), file(point, other));
                let (own, other) = (own.display(), other.display());
                let meets = format!(
                    "touch '{own}'; until [ -e '{other}' ]; do sleep 0.01; done; touch '{own}.met'; echo '{{}}'"
                );
                plugin = plugin.hook(point, &meets);
            }
        }
        let running = world.start().await;
        let have_met = |point: &str| ["a", "b"].iter().all(|it| file(point, &format!("{it}.met")).exists());
        let handle = world.agent("main").await;
        until(&world.root, || have_met("session_start")).await;
        pre_step(&world, handle.agent(), 1, 1).await;
        assert!(have_met("turn_start"), "the turn waits for it");
        crate::requests::overlays(&world.root, handle.agent(), Vec::new(), (1, 1)).await;
        assert!(have_met("pre_agent_start"), "the request waits for it");
        turn(handle.agent(), 1);
        until(&world.root, || have_met("turn_end")).await;
        let (agent, trigger) = (handle.agent().clone(), CompactTrigger::Manual);
        world.root.emit(&CompactionStart { agent, trigger, tokens: 1, budget: ContextBudget::default() });
        until(&world.root, || have_met("pre_compact")).await;
        handle.dispose().await;
        until(&world.root, || have_met("session_stop")).await;
        running.admin.shut_down().await.unwrap();
        assert!(have_met("session_shutdown"));
        assert_eq!(world.told(), [""; 0]);
    });
}

#[test]
fn script_5_a_subagent_is_no_session_of_a_human() {
    run(async |world| {
        use linn_services::agent::{AgentOptions, Agents, CreateAgent};
        let seen = listener(&world, "p", &["session_start", "turn_start", "session_stop"]);
        let running = world.start().await;
        let main = world.agent("main").await;
        let agents = world.root.get::<dyn Agents>().unwrap();
        let options = AgentOptions { subagent_depth: Some(1), ..AgentOptions::default() };
        let create = CreateAgent { cwd: Some("/".to_owned()), options, ..CreateAgent::new("child", "child") };
        let child = agents.create(&world.root, create).await.unwrap();
        pre_step(&world, child.agent(), 1, 1).await;
        child.dispose().await;
        running.admin.shut_down().await.unwrap();
        let sessions: Vec<_> = kept(&seen).iter().map(|it| it["session_id"].clone()).collect();
        assert_eq!(
            (points(&seen), sessions),
            (vec!["session_start".into(), "session_stop".into()], vec![json!("main"); 2])
        );
        drop(main);
    });
}

#[test]
fn script_5_pre_compact_is_told_of_a_subagent_too() {
    run(async |world| {
        let seen = listener(&world, "p", &["pre_compact"]);
        let _running = world.start().await;
        let agent = world.child().await;
        let trigger = CompactTrigger::Manual;
        world.root.emit(&CompactionStart { agent, trigger, tokens: 1, budget: ContextBudget::default() });
        until(&world.root, || kept(&seen).len() == 1).await;
        assert_eq!(kept(&seen)[0]["session_id"], "child");
    });
}

#[test]
fn script_6_3_r036_an_answer_of_a_lifecycle_hook_that_is_no_json_is_told_and_the_turn_goes_on() {
    run(async |world| {
        world.plugin("p").hook("turn_start", "cat >/dev/null; echo not json");
        let seen = listener(&world, "q", &["turn_start"]);
        let _running = world.start().await;
        let handle = world.agent("main").await;
        pre_step(&world, handle.agent(), 1, 1).await;
        until(&world.root, || kept(&seen).len() == 1).await;
        let mut told = Vec::new();
        until(&world.root, || {
            told.extend(world.told());
            told.iter().any(|it| it.contains("[p] hook 'turn_start'"))
        })
        .await;
    });
}

#[test]
fn script_6_3_r036_an_answer_of_a_lifecycle_hook_that_is_no_object_is_told() {
    run(async |world| {
        for (name, answer) in [("a", "[1]"), ("b", "\"x\""), ("c", "3")] {
            world.plugin(name).hook("turn_start", &format!("cat >/dev/null; echo '{answer}'"));
        }
        let _running = world.start().await;
        let handle = world.agent("main").await;
        pre_step(&world, handle.agent(), 1, 1).await;
        let mut told = world.told();
        told.sort();
        let expected = [("a", "an array"), ("b", "a string"), ("c", "a number")].map(|(name, what)| {
            format!(
                "warning [{name}] hook 'turn_start' returned {what} where a JSON object is wanted, such as \
                 {{\"allow\": true}}; it is passed over"
            )
        });
        assert_eq!(told, expected);
    });
}
