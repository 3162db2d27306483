//! What the system text tells a model about where it works and whom it can ask.

use linn::services::approval::Approval;
use linn::services::model::text_of;
use linn::services::prompt::{SystemPromptConfig, SystemPromptPlugin};
use linn::services::session::{ApprovalPolicy, Fact};

use crate::stage::{Stage, say};

const RECORDING: &str = r#"{"linn_recording":1}
{"request":{}}
{"chunk":{"type":"text-delta","index":0,"text":"Fine."}}
{"chunk":{"type":"finish","reason":{"kind":"stop"}}}
"#;

#[tokio::test]
async fn model_and_folder_stand_in_the_system_text_and_so_does_whether_anybody_can_be_asked() {
    let stage = Stage::new();
    let persona = "You are {{model}}, and you work in {{cwd}}.".to_owned();
    let config = SystemPromptConfig { persona, ..SystemPromptConfig::default() };
    let harness = stage.builder(RECORDING).plugin::<SystemPromptPlugin>(config).build().await.unwrap();
    let handle = stage.agent(&harness, "main").await;
    let (agent, session) = (handle.agent(), handle.agent().session());
    let system = || session.request_header().unwrap().system.clone().unwrap();

    say(agent, "one").await;
    let folder = stage.path("work");
    assert!(system().contains(&format!("You are replay:test, and you work in {}.", folder.display())), "{}", system());
    assert!(system().contains("<approval-policy>ask</approval-policy>"), "{}", system());
    assert!(!system().contains("Nobody can be asked"), "{}", system());

    harness.context().require::<dyn Approval>().unwrap().set_policy(session, ApprovalPolicy::Never).unwrap();
    say(agent, "two").await;
    assert!(system().contains("<approval-policy>never</approval-policy>"), "{}", system());
    assert!(system().contains("Nobody can be asked to approve a tool call in this session."), "{}", system());
    let notices: Vec<String> = session
        .records_from(0)
        .iter()
        .filter_map(|it| if let Fact::ContextMessage(it) = &it.fact { Some(text_of(&it.content)) } else { None })
        .collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].starts_with("From now on nobody can be asked to approve a tool call."), "{notices:?}");

    say(agent, "three").await;
    let told = session.records_from(0).iter().filter(|it| matches!(it.fact, Fact::ContextMessage(_))).count();
    assert_eq!(told, 1, "what was told is not told again");
    harness.shutdown().await.unwrap();
}
