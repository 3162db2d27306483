//! The order of everything that happens in a turn.

use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::services::approval::ApprovalMode;

use crate::stage::{Heard, Stage, say};

/// A call of a tool, then an answer in words.
const RECORDING: &str = r#"{"linn_recording":1}
{"request":{}}
{"chunk":{"type":"tool-call-delta","index":0,"id":"c1","name":"list_dir","argumentsDelta":"{\"path\":\".\"}"}}
{"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}
{"request":{}}
{"chunk":{"type":"text-delta","index":0,"text":"It is empty."}}
{"chunk":{"type":"finish","reason":{"kind":"stop"}}}
"#;

/// What is listed: the events of the vocabulary that a turn is made of.
fn is_of_the_turn(name: &str) -> bool {
    let families = ["session/", "agent/", "tools/", "llm/", "approval/"];
    let of_registries = ["tools/change", "session/title", "session/saved"];
    (families.iter().any(|it| name.starts_with(it)) && !of_registries.contains(&name))
        || name == "system-prompt/assemble"
}

#[tokio::test]
async fn a_turn_with_a_tool_call_is_told_in_this_order_from_the_birth_of_its_agent_to_its_end() {
    let stage = Stage::new();
    let gate = ApprovalGateConfig { mode: ApprovalMode::Never, ..ApprovalGateConfig::default() };
    let harness = stage.builder(RECORDING).plugin::<ApprovalGatePlugin>(gate).build().await.unwrap();
    let heard = Heard::on(harness.context());
    let handle = stage.agent(&harness, "main").await;
    say(handle.agent(), "What is here?").await;
    handle.dispose().await;

    let lines: Vec<String> = heard
        .events()
        .into_iter()
        .filter(|(name, _)| is_of_the_turn(name))
        .map(|(name, data)| match name {
            "session/event" => format!("log {}", data["record"]["type"].as_str().unwrap()),
            "agent/status" => format!("agent/status({})", data["status"].as_str().unwrap()),
            "agent/session-start" => format!("agent/session-start({})", data["source"].as_str().unwrap()),
            name => name.to_owned(),
        })
        .collect();
    let step = |first: &[&'static str], inner: &[&'static str]| {
        let mut step = vec!["system-prompt/assemble"];
        step.extend(first);
        step.extend(["agent/pre-step", "log step/start", "agent/request"]);
        step.extend(inner);
        step.extend(["log step/end", "agent/turn-continuation", "agent/turn-stop"]);
        step
    };
    let first = step(
        &["agent/session-prefix"],
        &[
            "log request/header",
            "agent/overlay",
            "llm/stream",
            "log assistant/chunk",
            "log assistant/chunk",
            "agent/step-result",
            "log assistant/message",
            "log tool/call",
            "tools/amend",
            "tools/pre-execute",
            "tools/execute",
            "tools/post-execute",
            "tools/result",
            "log tool/result",
        ],
    );
    let second = step(
        &[],
        &[
            "agent/overlay",
            "llm/stream",
            "log assistant/chunk",
            "log assistant/chunk",
            "agent/step-result",
            "log assistant/message",
        ],
    );
    let mut expected = vec![
        "session/created",
        "agent/created",
        "agent/session-start(startup)",
        "agent/queued",
        "agent/status(running)",
        "log turn/start",
        "agent/prompt-submit",
        "log user/message",
    ];
    expected.extend(first);
    expected.extend(second);
    expected.extend([
        "log turn/end",
        "session/flush",
        "agent/status(idle)",
        "agent/status(disposed)",
        "agent/disposed",
        "session/disposed",
    ]);
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
    harness.shutdown().await.unwrap();
}
