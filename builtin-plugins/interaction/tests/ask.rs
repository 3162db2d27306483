//! The tool `ask`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use linn_bus::{Next, Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_plugin_interaction::InteractionToolsPlugin;
use linn_services::events::InteractionAsk;
use linn_services::interaction::{Answers, InteractionPlugin};
use linn_services::model::text_of;
use linn_services::tools::{ToolClass, ToolExecutionInput, ToolExecutionResult, Tools, ToolsPlugin};
use linn_services_test::{Gate, undriven_agent};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const SKIPPED: &str = "The user skipped the questions. Proceed with your best judgment and note any assumptions.";

async fn tools(root: &Root) -> Svc<dyn Tools> {
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<InteractionPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<InteractionToolsPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Tools>().unwrap()
}

fn answering(root: &Root, answers: Answers) {
    root.on(move |_: &InteractionAsk, _: Next<'_, InteractionAsk>| std::future::ready(answers.clone())).unwrap();
}

fn questions() -> Value {
    json!({ "questions": [
        { "id": "color", "prompt": "Which color?", "type": "select", "options": ["red", "blue"], "allowCustom": true },
        { "id": "name", "prompt": "Which name?", "type": "text", "placeholder": "a name", "required": false },
    ] })
}

async fn ask(tools: &Svc<dyn Tools>, arguments: Value) -> ToolExecutionResult {
    tools.execute(ToolExecutionInput::new("c1", "ask", arguments)).await.unwrap()
}

#[test]
fn answers_are_told_by_question_in_their_order() {
    run(async |root| {
        let tools = tools(&root).await;
        answering(&root, Answers::Given([("color".to_owned(), "green".to_owned())].into()));
        let result = ask(&tools, questions()).await;
        assert!(!result.is_error);
        let expected = "User answered:\n- color (Which color?): green\n- name (Which name?): (skipped)";
        assert_eq!(text_of(&result.content), expected);
    });
}

#[test]
fn skipped_questions_are_told() {
    run(async |root| {
        let tools = tools(&root).await;
        answering(&root, Answers::Skipped);
        let result = ask(&tools, questions()).await;
        assert_eq!((text_of(&result.content).as_str(), result.is_error), (SKIPPED, false));
    });
}

#[test]
fn with_nobody_there_the_model_goes_on() {
    run(async |root| {
        let tools = tools(&root).await;
        let result = ask(&tools, questions()).await;
        assert!(!result.is_error && text_of(&result.content).starts_with("There is no user who could be asked."));
    });
}

#[test]
fn questions_that_cannot_be_asked_are_told_to_front_ends_and_skipped() {
    run(async |root| {
        let tools = tools(&root).await;
        answering(&root, Answers::Given([].into()));
        let twice = json!({ "questions": [
            { "id": "a", "prompt": "A?", "type": "text" }, { "id": "a", "prompt": "B?", "type": "text" },
        ] });
        let result = ask(&tools, twice).await;
        assert_eq!((text_of(&result.content).as_str(), result.is_error), (SKIPPED, false));
        let why = result.meta.unwrap()["error"].as_str().unwrap().to_owned();
        assert_eq!(why, "ask validation failed: two questions have the id \"a\"");
    });
}

#[test]
fn whoever_answers_sees_who_asks_and_every_field() {
    run(async |root| {
        let tools = tools(&root).await;
        let ada = undriven_agent(&root, "ada").await;
        // A listener of the agent alone: the question belongs to it.
        let heard = async |it: &InteractionAsk, _: Next<'_, InteractionAsk>| {
            let asked = serde_json::to_value(&it.questions.questions).unwrap();
            assert_eq!(json!({ "questions": asked }), questions());
            Answers::Given([("name".to_owned(), it.questions.agent.as_ref().unwrap().id().to_string())].into())
        };
        ada.agent().context().on(heard).unwrap();
        let input = ToolExecutionInput::new("c1", "ask", questions());
        let result = tools.execute(ToolExecutionInput { agent: Some(ada.agent().clone()), ..input }).await.unwrap();
        assert!(text_of(&result.content).ends_with("- name (Which name?): ada"), "{result:?}");
        let nobody = ask(&tools, questions()).await;
        assert!(text_of(&nobody.content).starts_with("There is no user"));
    });
}

#[test]
fn a_call_that_ends_takes_its_questions_back() {
    run(async |root| {
        let tools = tools(&root).await;
        let gate = Gate::new();
        let held = gate.clone();
        root.on(move |_: &InteractionAsk, _: Next<'_, InteractionAsk>| {
            let held = held.clone();
            async move {
                held.pass().await;
                Answers::Skipped
            }
        })
        .unwrap();
        let signal = CancellationToken::new();
        let input = ToolExecutionInput { signal: signal.clone(), ..ToolExecutionInput::new("c1", "ask", questions()) };
        let call = root.spawn(async move { tools.execute(input).await.unwrap() }).unwrap();
        gate.reached().await;
        signal.cancel();
        let result = call.join().await.unwrap();
        assert!(result.is_error && text_of(&result.content).contains("aborted"), "{result:?}");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<InteractionPlugin>(()).unwrap().running().await.unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<InteractionToolsPlugin>(()).unwrap();
            plugin.running().await.unwrap();
            let ask = tools.get(None, &"ask".into()).unwrap().unwrap();
            assert_eq!((ask.class, ask.is_parallel), (ToolClass::ReadOnly, false));
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}
