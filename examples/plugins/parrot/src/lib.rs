//! An adapter for a model: it says again what it was told last, word by word.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use linn_sdk::bus::BoxFuture;
use linn_sdk::prelude::*;
use linn_sdk::services::llm::{Adapter, ChunkStream, Llm, LlmError};
use linn_sdk::services::model::{
    BlockType, ContentBlock, FinishReason, GenerateRequest, StreamChunk, TokenUsage, text_of,
};

/// What the plugin is configured with.
#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Name of the model.
    model: String,
    /// How long it thinks before each word.
    pause_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { model: "parrot".to_owned(), pause_ms: 0 }
    }
}

struct Parrot {
    ctx: Context,
    pause: Duration,
}

/// What is streamed for a text.
fn answer(text: &str) -> Vec<StreamChunk> {
    let index = 0;
    let mut chunks = vec![StreamChunk::BlockStart { index, block_type: BlockType::Text }];
    chunks.extend(text.split_inclusive(' ').map(|word| StreamChunk::TextDelta { index, text: word.to_owned() }));
    chunks.push(StreamChunk::BlockEnd { index, block: ContentBlock::text(text) });
    chunks.push(StreamChunk::Usage { usage: TokenUsage::default() });
    chunks.push(StreamChunk::Finish { reason: FinishReason::Stop });
    chunks
}

impl Adapter for Parrot {
    fn name(&self) -> &str {
        "parrot"
    }

    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let told = request.messages.last().map(|it| text_of(&it.content)).unwrap_or_default();
        let (ctx, pause) = (self.ctx.clone(), self.pause);
        Box::pin(async move {
            let chunks = stream::unfold(answer(&told).into_iter(), move |mut chunks| {
                let ctx = ctx.clone();
                async move {
                    let chunk = chunks.next()?;
                    let waited = if pause.is_zero() { Ok(()) } else { ctx.sleep(pause).await };
                    Some((
                        waited.map(|()| chunk).map_err(|gone| LlmError::new("PARROT_GONE", gone.to_string())),
                        chunks,
                    ))
                }
            });
            Ok(ChunkStream::new(chunks))
        })
    }
}

impl Plugin for Parrot {
    const NAME: &'static str = "parrot";
    type Config = Config;
    type Needs = Svc<dyn Llm>;

    async fn start(ctx: &Context, config: Config, llm: Svc<dyn Llm>) -> Result<(), Fault> {
        let parrot = Parrot { ctx: ctx.clone(), pause: Duration::from_millis(config.pause_ms) };
        llm.register(ctx, vec![config.model.into()], Arc::new(parrot))?;
        Ok(())
    }
}

linn_sdk::plugin!(Parrot);
