//! Hooks around what a human says and what a model is shown.

use std::sync::Arc;

use linn_bus::Root;
use linn_services::agent::{Agent, PromptDecision};
use linn_services::events::{AgentOverlay, AgentPromptSubmit, AgentRequest};
use linn_services::llm::{Llm, LlmPlugin};
use linn_services::model::{ContentBlock, LlmCallConfig, Message, MessageSource, Role};
use linn_services::session::Overlay;
use linn_services_test::ScriptedModel;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{answers, keeps, kept, run};

async fn submit(root: &Root, agent: &Agent, content: Vec<ContentBlock>) -> PromptDecision {
    let event = AgentPromptSubmit { agent: agent.clone(), content, source: MessageSource::User };
    root.waterfall(&event, async || PromptDecision::allow()).await.unwrap()
}

pub(crate) async fn overlays(
    root: &Root,
    agent: &Agent,
    history: Vec<Message>,
    at: (u32, u32),
) -> Vec<(Overlay, String)> {
    let history = history.into_iter().map(Arc::new).collect();
    let config = LlmCallConfig { model: "m".to_owned(), ..LlmCallConfig::default() };
    let event = AgentOverlay::new(agent.clone(), at, config, history, CancellationToken::new());
    assert!(root.serial(&event).await.unwrap().is_none());
    event.into_overlays()
}

#[test]
fn script_7_3_pre_input_rewrites_one_after_the_other_and_keeps_pictures() {
    run(async |world| {
        let seen = world.base.join("seen");
        let trims = "python3 -c 'import json,sys; t=json.load(sys.stdin)[\"args\"][\"text\"]; print(json.dumps({\"allow\":True,\"modify\":{\"text\":t.strip()}}))'";
        world.plugin("a").hook_with("pre_input", trims, json!({ "pass_args": true, "timeout_ms": 20_000 }));
        world.plugin("b").hook_with(
            "pre_input",
            &keeps(&seen, &json!({ "allow": true })),
            json!({ "pass_args": true }),
        );
        let _running = world.start().await;
        let agent = world.agent("main").await;
        let picture = ContentBlock::Image { url: "data:,".into() };
        let decision = submit(&world.root, agent.agent(), vec![ContentBlock::text("  hi  "), picture.clone()]).await;
        let content = Some(vec![ContentBlock::text("hi"), picture]);
        assert_eq!(decision, PromptDecision::Allow { content, additional_context: None });
        assert_eq!(kept(&seen)[0]["args"], json!({ "text": "hi" }));
        assert_eq!(kept(&seen)[0]["session_id"], "main");
    });
}

#[test]
fn script_7_3_pre_input_refuses_and_fails_closed() {
    run(async |world| {
        world.plugin("p").hook("pre_input", &answers(&json!({ "allow": false, "reason": "not now" })));
        let running = world.start().await;
        let agent = world.agent("main").await;
        let says = |reason: &str| PromptDecision::Block { reason: reason.to_owned() };
        let decision = submit(&world.root, agent.agent(), vec!["x".into()]).await;
        assert_eq!(decision, says("input denied by plugin 'p' pre_input: not now"));
        world.plugin("p").hook("pre_input", "exit 1");
        running.admin.reload().await.unwrap();
        let decision = submit(&world.root, agent.agent(), vec!["x".into()]).await;
        let why = "input denied by plugin 'p' pre_input: hook 'pre_input' exited with exit status: 1: ";
        assert_eq!(decision, says(why));
        let child = world.child().await;
        assert_eq!(submit(&world.root, &child, vec!["x".into()]).await, PromptDecision::allow(), "no human said it");
    });
}

#[test]
fn script_7_3_pre_agent_start_adds_to_one_request() {
    run(async |world| {
        let modify = |key: &str, text: &str| answers(&json!({ "allow": true, "modify": { key: text } }));
        world.plugin("a").hook("pre_agent_start", &modify("append_system_prompt", "cleared"));
        world.plugin("b").hook("pre_agent_start", &modify("system_prompt", "frame"));
        world.plugin("c").hook("pre_agent_start", &modify("append_system_prompt", "added"));
        let much = "printf '{\"allow\":true,\"modify\":{\"append_system_prompt\":\"'; head -c 200000 /dev/zero | tr '\\0' x; \
                    echo '\"}}'";
        world.plugin("d").hook("pre_agent_start", much);
        world.plugin("e").hook("pre_agent_start", "exit 1");
        let _running = world.start().await;
        let agent = world.agent("main").await;
        let shown = overlays(&world.root, agent.agent(), vec![Message::user(["hi".into()])], (2, 3)).await;
        let added = ContentBlock::text("frame\n\n# Plugin: c\nadded");
        let expected = Overlay::Messages(vec![Message { role: Role::System, content: vec![added] }]);
        assert_eq!(shown, [(expected, "c".to_owned())]);
        let told = world.told();
        assert!(told[0].contains("[e] hook 'pre_agent_start' exited") || told[0].contains("[d]"), "{told:?}");
        assert!(told.iter().any(|it| it.contains("`append_system_prompt` has more than 102400 bytes")), "{told:?}");

        let child = world.child().await;
        assert_eq!(overlays(&world.root, &child, vec![], (1, 1)).await.len(), 1, "the first request of a subagent");
        assert_eq!(overlays(&world.root, &child, vec![], (1, 2)).await, [], "and no other");
    });
}

#[test]
fn script_20_4_pre_context_rewrites_the_request_and_nothing_else() {
    run(async |world| {
        let seen = world.base.join("seen");
        let drops = "python3 -c 'import json,sys; m=json.load(sys.stdin)[\"args\"][\"messages\"]; \
                     m=[x for x in m if x[\"role\"]!=\"system\"]+[{\"role\":\"user\",\"content\":\"new\"}]; \
                     print(json.dumps({\"allow\":True,\"modify\":{\"messages\":m}}))'";
        world.plugin("a").hook_with("pre_context", drops, json!({ "pass_args": true, "timeout_ms": 20_000 }));
        world.plugin("b").hook_with(
            "pre_context",
            &keeps(&seen, &json!({ "allow": true })),
            json!({ "pass_args": true }),
        );
        world.plugin("c").hook("pre_context", &answers(&json!({ "allow": true, "modify": { "messages": [{}] } })));
        let _running = world.start().await;
        let agent = world.agent("main").await;
        let n_records = agent.agent().session().len();
        let system = Message { role: Role::System, content: vec!["frame".into()] };
        let history = vec![system, Message::user(["hi".into()]), Message::assistant([ContentBlock::text("yes")])];
        let shown = overlays(&world.root, agent.agent(), history.clone(), (1, 1)).await;
        let expected = [&history[1..], &[Message::user(["new".into()])]].concat();
        assert_eq!(shown, [(Overlay::Replacement(expected), "a".to_owned())]);
        assert_eq!(agent.agent().session().len(), n_records, "the conversation is what it was");
        let seen = kept(&seen);
        assert_eq!(seen[0]["args"]["messages"][2], json!({ "role": "user", "content": "new" }));
        assert!(world.told().iter().any(|it| it.contains("[c] hook 'pre_context' changed nothing")));
        let child = world.child().await;
        assert_eq!(overlays(&world.root, &child, history, (1, 1)).await, []);
    });
}

async fn model_of(root: &Root, agent: &Agent, model: &str, turn: u32, step: u32) -> String {
    let config = LlmCallConfig { model: model.to_owned(), ..LlmCallConfig::default() };
    let event = AgentRequest { agent: agent.clone(), turn, step, config };
    root.waterfall(&event, async || event.config.clone()).await.unwrap().model
}

#[test]
fn script_7_3_pre_turn_changes_the_model_of_one_turn() {
    run(async |world| {
        let seen = world.base.join("seen");
        let script = format!(
            "input=$(cat)\nprintf '%s\\n' \"$input\" >> '{}'\ncase $input in \
             *'\"model\":\"blind\"'*) echo '{{\"allow\":true,\"reason\":\"it can see\",\"modify\":{{\"model\":\"seeing\"}}}}';; \
             *) echo '{{\"allow\":true,\"modify\":{{\"model\":\"unheard-of\"}}}}';; esac\n",
            seen.display()
        );
        world.plugin("p").hook_with("pre_turn", &script, json!({ "pass_args": true }));
        world.root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let llm = world.root.get::<dyn Llm>().unwrap();
        let models = vec!["blind".into(), "seeing".into()];
        llm.register(&world.root, models, Arc::new(ScriptedModel::default())).unwrap();
        let _running = world.start().await;
        let agent = world.agent("main").await;
        let (root, agent) = (&world.root, agent.agent());
        assert_eq!(model_of(root, agent, "blind", 1, 1).await, "seeing");
        assert_eq!(world.told(), ["info vision handoff: blind → seeing (it can see)"]);
        assert_eq!(model_of(root, agent, "seeing", 1, 2).await, "seeing", "the next step of the turn");
        assert_eq!(kept(&seen).len(), 1, "once a turn");
        // The request before the next turn was one of the other model.
        assert_eq!(model_of(root, agent, "seeing", 2, 1).await, "seeing");
        assert_eq!(kept(&seen)[1]["args"]["model"], "blind");
        let models: Vec<Value> = kept(&seen)[0]["args"]["models"].as_array().unwrap().clone();
        assert_eq!((models.len(), &models[0]["id"]), (2, &json!("blind")));
        world.told();
        assert_eq!(model_of(root, agent, "other", 3, 1).await, "other");
        assert_eq!(world.told(), ["warning vision handoff ignored: 'unheard-of' is not a discovered model"]);
    });
}
