//! Writes down what models are asked and what they stream.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use futures_core::Stream;
use linn_bus::{BusError, Clock, Context, ListenerError, Next};
use linn_services::events::LlmStream;
use linn_services::llm::{ChunkStream, LlmError};
use linn_services::model::StreamChunk;

use crate::format::{Exchange, ExchangeWriter, Outcome, RecordedRequest, TimedChunk, head};
use crate::plugin::MODEL_PREFIX;
use crate::store::RecordingStore;

/// Adds every call to a recording, once it is over, in the order in which calls end.
pub(crate) struct Recorder {
    clock: Arc<dyn Clock>,
    tape: Arc<Mutex<Option<Writing>>>,
}

/// A recording that is written. It is taken away with the plugin, or when it cannot be written.
struct Writing {
    ctx: Context,
    name: String,
    store: Arc<dyn RecordingStore>,
    writer: ExchangeWriter,
}

impl Recorder {
    /// Begins to record, until the context ends. It stands outside of other listeners: what they make of a stream is what is
    /// recorded.
    pub(crate) fn install(ctx: &Context, name: &str, store: Arc<dyn RecordingStore>) -> Result<(), BusError> {
        let writing = Writing { ctx: ctx.clone(), name: name.to_owned(), store, writer: ExchangeWriter::default() };
        let tape = Arc::new(Mutex::new(Some(writing)));
        let recorder = Arc::new(Self { clock: ctx.clock().clone(), tape: tape.clone() });
        // Streams outlive the listener; they pass on what comes, and write nothing more.
        ctx.effect("recording", |fx| {
            fx.defer(move || drop(tape.lock().unwrap_or_else(PoisonError::into_inner).take()));
        })?;
        ctx.first().on_with(&recorder, Self::record)?;
        Ok(())
    }

    async fn record(&self, call: &LlmStream, next: Next<'_, LlmStream>) -> Result<ChunkStream, ListenerError> {
        if call.request.config.model.starts_with(MODEL_PREFIX) {
            return next.run().await;
        }
        let mut taken = Taken {
            tape: self.tape.clone(),
            clock: self.clock.clone(),
            last: self.clock.monotonic(),
            exchange: Exchange {
                request: RecordedRequest::of(&call.request),
                chunks: Vec::new(),
                outcome: Outcome::Dropped,
            },
        };
        match next.run().await {
            Ok(stream) => Ok(ChunkStream::new(Recorded { stream, taken })),
            Err(error) => {
                let failure = call.failure().unwrap_or_else(|| error.clone().into());
                taken.note(Err(&failure));
                Err(error)
            }
        }
    }
}

/// What was seen of a call; written when it is dropped.
struct Taken {
    tape: Arc<Mutex<Option<Writing>>>,
    clock: Arc<dyn Clock>,
    /// When something was seen last, by the monotonic clock.
    last: Duration,
    exchange: Exchange,
}

impl Taken {
    fn note(&mut self, seen: Result<&StreamChunk, &LlmError>) {
        let now = self.clock.monotonic();
        let passed = now.saturating_sub(std::mem::replace(&mut self.last, now));
        let after_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        match seen {
            Ok(chunk) => {
                if matches!(chunk, StreamChunk::Finish { .. }) {
                    self.exchange.outcome = Outcome::Finished;
                }
                self.exchange.chunks.push(TimedChunk { after_ms, chunk: chunk.clone() });
            }
            Err(error) => self.exchange.outcome = Outcome::Failed { after_ms, error: error.clone() },
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writing) = &mut *tape else { return };
        let lines = writing.writer.lines(&self.exchange);
        if let Err(error) = writing.store.append(&writing.name, &head(None), &lines) {
            // A call does not fail because it cannot be recorded. A recording with a gap is of no use.
            writing.ctx.logger().error(format_args!("recording ends here: {error}"));
            *tape = None;
        }
    }
}

struct Recorded {
    stream: ChunkStream,
    taken: Taken,
}

impl Stream for Recorded {
    type Item = Result<StreamChunk, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.stream).poll_next(cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(seen)) => self.taken.note(seen.as_ref()),
            Poll::Ready(None) => {
                if self.taken.exchange.outcome == Outcome::Dropped {
                    self.taken.exchange.outcome = Outcome::Finished;
                }
            }
        }
        polled
    }
}
