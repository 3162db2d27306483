//! Panics of what a library hands over: trait objects, functions and streams.

use std::sync::Arc;

use futures_util::StreamExt as _;
use linn_services::commands::{CommandCall, Commands};
use linn_services::llm::{Llm, LlmError};
use linn_services::model::{GenerateRequest, LlmCallConfig, text_of};
use linn_services::prompt::{AssembleContext, SystemPrompt};
use linn_services::skills::{SkillLookup, Skills};
use serde_json::json;

use crate::support::World;

/// The error of a call of a model, wherever it is.
async fn failure(world: &World, model: &str) -> LlmError {
    let request = GenerateRequest { config: LlmCallConfig::of_model(model), ..GenerateRequest::default() };
    let llm = world.root.get::<dyn Llm>().unwrap();
    match llm.stream(Arc::new(request), None).await {
        Ok(mut stream) => stream.next().await.unwrap().unwrap_err(),
        Err(error) => error,
    }
}

#[tokio::test]
async fn r068_whatever_a_library_hands_over_may_panic_and_the_program_goes_on() {
    let world = World::of(&["bombs", "word-count"]).await;
    world.mount_all(&[("bombs", ""), ("word-count", "")]).await;

    for (model, words) in [
        ("asked", "adapter `bomb` panicked: assertion `left != right` failed: as soon as it is asked"),
        ("opened", "adapter `bomb` panicked: assertion `left != right` failed: before its stream is there"),
        ("streamed", "the stream of the model panicked: in its stream"),
    ] {
        let error = failure(&world, model).await;
        assert_eq!(error.code.as_deref(), Some("ADAPTER_PANICKED"), "{model}");
        assert!(error.message.starts_with(words), "{model}: {}", error.message);
    }

    let call = CommandCall { agent: None, arguments: String::new() };
    let error = world.root.get::<dyn Commands>().unwrap().run("bomb", call).await.unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), ("COMMAND_FAILED", "command `/bomb` failed: a command"));

    // A provider that fails is left out.
    let skills = world.root.get::<dyn Skills>().unwrap();
    assert!(skills.list(SkillLookup::default()).await.unwrap().is_empty());

    let error = world.root.get::<dyn SystemPrompt>().unwrap().assemble(AssembleContext::default()).await.unwrap_err();
    assert!(error.to_string().contains("a section"), "{error}");

    let panicked = world.call("bomb", json!({})).await;
    assert!(panicked.is_error && text_of(&panicked.content).contains("a tool"), "{panicked:?}");
    // The guard panics for this one alone; a call that nobody lets pass does not run.
    let guarded = world.call("count_words", json!({ "text": "x" })).await;
    assert!(guarded.is_error && text_of(&guarded.content).contains("a guard"), "{guarded:?}");

    // Everything of it panics once more when it is dropped.
    world.mount_all(&[("word-count", "")]).await;
    assert_eq!(world.count("a b").await, "2");
    world.end().await;
}
