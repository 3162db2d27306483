//! Answers from recordings.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use linn_bus::{BoxFuture, Clock};
use linn_services::llm::{Adapter, ChunkStream, LlmError};
use linn_services::model::{GenerateRequest, StreamChunk};

use crate::format::{Exchange, Outcome};
use crate::plugin::MODEL_PREFIX;
use crate::tape::Library;

/// Answers for the models `replay:*`.
pub(crate) struct ReplayAdapter {
    clock: Arc<dyn Clock>,
    library: Library,
    delay_percent: u32,
}

impl ReplayAdapter {
    pub(crate) fn new(clock: Arc<dyn Clock>, library: Library, delay_percent: u32) -> Self {
        Self { clock, library, delay_percent }
    }

    fn replay(&self, request: &GenerateRequest) -> Result<ChunkStream, LlmError> {
        let model = request.config.model.as_str();
        let name = model.strip_prefix(MODEL_PREFIX).unwrap_or(model);
        let exchange = self.library.answer(name, request)?;
        Ok(self.play(&exchange))
    }

    fn play(&self, exchange: &Exchange) -> ChunkStream {
        let mut steps: VecDeque<(u64, Result<StreamChunk, LlmError>)> =
            exchange.chunks.iter().map(|it| (it.after_ms, Ok(it.chunk.clone()))).collect();
        if let Outcome::Failed { after_ms, error } = &exchange.outcome {
            steps.push_back((*after_ms, Err(error.clone())));
        }
        let (clock, percent) = (self.clock.clone(), u64::from(self.delay_percent));
        let played = stream::unfold(steps, move |mut steps| {
            let clock = clock.clone();
            async move {
                let (after_ms, step) = steps.pop_front()?;
                let pause = after_ms.saturating_mul(percent) / 100;
                if pause > 0 {
                    clock.sleep(Duration::from_millis(pause)).await;
                }
                Some((step, steps))
            }
        });
        match exchange.outcome {
            // Nobody waited for the rest, so that there is none to come.
            Outcome::Dropped => ChunkStream::new(played.chain(stream::pending())),
            Outcome::Finished | Outcome::Failed { .. } => ChunkStream::new(played),
        }
    }
}

impl Adapter for ReplayAdapter {
    fn name(&self) -> &str {
        "replay"
    }

    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        Box::pin(std::future::ready(self.replay(&request)))
    }
}
