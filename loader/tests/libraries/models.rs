//! Models that libraries answer for.

use std::sync::Arc;

use futures_util::StreamExt as _;
use linn_services::ids::ModelId;
use linn_services::llm::{ChunkStream, Llm};
use linn_services::model::{ContentBlock, GenerateRequest, LlmCallConfig, Message, StreamChunk};

use crate::support::{Edits, World, library};

/// A version that answers in capitals.
const LOUD: Edits<'_> = &[("text_of(&it.content)", "text_of(&it.content).to_uppercase()")];

pub(crate) async fn asked(world: &World, text: &str) -> ChunkStream {
    let request = GenerateRequest {
        config: LlmCallConfig::of_model("parrot"),
        messages: vec![Arc::new(Message::user(vec![ContentBlock::text(text)]))],
        ..GenerateRequest::default()
    };
    world.root.get::<dyn Llm>().unwrap().stream(Arc::new(request), None).await.unwrap()
}

/// The next piece of text; nothing when the answer is over.
async fn word(stream: &mut ChunkStream) -> Option<String> {
    loop {
        match stream.next().await?.unwrap() {
            StreamChunk::TextDelta { text, .. } => return Some(text),
            StreamChunk::Finish { .. } => return None,
            _ => {}
        }
    }
}

pub(crate) async fn rest(stream: &mut ChunkStream) -> String {
    let mut text = String::new();
    while let Some(word) = word(stream).await {
        text += &word;
    }
    text
}

#[tokio::test]
async fn an_adapter_of_a_library_answers_for_its_model() {
    let world = World::of(&["parrot"]).await;
    world.mount_all(&[("parrot", "pause_ms = 1")]).await;
    assert_eq!(rest(&mut asked(&world, "pieces of eight").await).await, "pieces of eight");
    assert_eq!(world.root.get::<dyn Llm>().unwrap().models().unwrap(), [ModelId::from("parrot")]);
    world.mount_all(&[]).await;
    assert!(world.root.get::<dyn Llm>().unwrap().models().unwrap().is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_stream_in_flight_ends_on_the_old_version_with_nothing_lost_or_doubled() {
    let world = World::of(&["parrot"]).await;
    world.mount_all(&[("parrot", "")]).await;
    let old = world.loader.entry("parrot").await.unwrap();
    let mut before = asked(&world, "one two three four").await;
    assert_eq!(word(&mut before).await.as_deref(), Some("one "));
    world.replace("parrot", &library("parrot", LOUD));
    world.loader.reload(&world.path("parrot")).await.unwrap();
    // The stream that is open holds its plugin, and new ones are of the new version.
    let mut after = asked(&world, "one two three four").await;
    assert_eq!(word(&mut after).await.as_deref(), Some("ONE "));
    assert_eq!(word(&mut before).await.as_deref(), Some("two "));
    assert_eq!(rest(&mut after).await, "TWO THREE FOUR");
    assert_eq!(rest(&mut before).await, "three four");
    drop(before);
    old.dispose().await.unwrap();
    assert_eq!(rest(&mut asked(&world, "again").await).await, "AGAIN");
    world.end().await;
}
