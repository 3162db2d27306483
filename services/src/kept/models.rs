//! Adapters, wires and streams of models.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use linn_bus::{BoxFuture, EffectHandle, Fault, contain_now};

use super::{Keeps, Kept, future};
use crate::ids::ModelId;
use crate::llm::wire::Endpoint;
use crate::llm::{Adapter, ChunkStream, Llm, LlmError, Wire};
use crate::model::{GenerateRequest, StreamChunk};

impl dyn Llm {
    /// Registers an adapter for models: all of them, or none. A model that ends with `*` stands for all that begin so; the
    /// longest that fits is asked. What is registered through the context of an agent is there for that agent alone, before
    /// one of the same model that is there for all.
    ///
    /// When the adapter goes, its streams get the grace period of its plugin to end; what is left then ends as
    /// `ADAPTER_GONE`.
    ///
    /// # Errors
    ///
    /// `DUPLICATE_ADAPTER`, `BAD_MODEL` for no model or a name that is none, and those of the context.
    pub fn register(
        &self,
        ctx: &linn_bus::Context,
        models: Vec<ModelId>,
        adapter: Arc<dyn Adapter>,
    ) -> Result<EffectHandle, LlmError> {
        self.admit(ctx, models, adapter.into())
    }

    /// Registers a wire, so that endpoints that speak it can be asked by whoever knows them. When it goes, its streams end
    /// as those of an adapter do.
    ///
    /// # Errors
    ///
    /// `DUPLICATE_WIRE`, and those of the context.
    pub fn register_wire(&self, ctx: &linn_bus::Context, wire: Arc<dyn Wire>) -> Result<EffectHandle, LlmError> {
        self.admit_wire(ctx, wire.into())
    }
}

/// What a panic of an adapter or a wire is.
fn panicked(who: &str, panic: &Fault) -> LlmError {
    LlmError::new("ADAPTER_PANICKED", format!("{who} panicked: {panic}"))
}

impl From<Arc<dyn Adapter>> for Kept<dyn Adapter> {
    fn from(adapter: Arc<dyn Adapter>) -> Self {
        Self(Arc::new(Keeps::new(adapter)))
    }
}

impl Adapter for Keeps<dyn Adapter> {
    fn name(&self) -> &str {
        self.name(|it| it.name())
    }

    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let kept = Self(self.0.clone());
        Box::pin(async move {
            let opened = future(|| kept.0.stream(request)).await;
            opened.map_err(|panic| panicked(&format!("adapter `{}`", Adapter::name(&kept)), &panic))?
        })
    }
}

impl From<Arc<dyn Wire>> for Kept<dyn Wire> {
    fn from(wire: Arc<dyn Wire>) -> Self {
        Self(Arc::new(Keeps::new(wire)))
    }
}

impl Wire for Keeps<dyn Wire> {
    fn kind(&self) -> &str {
        self.name(|it| it.kind())
    }

    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        request: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let kept = Self(self.0.clone());
        Box::pin(async move {
            let opened = future(|| kept.0.stream(endpoint, request)).await;
            opened.map_err(|panic| panicked(&format!("wire `{}`", Wire::kind(&kept)), &panic))?
        })
    }
}

/// A stream that ends with its first panic.
pub(crate) struct KeptStream<S>(Option<Pin<Box<S>>>);

impl<S> KeptStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Some(Box::pin(stream)))
    }

    /// Drops the stream; a panic of that has nobody to go to but the panic hook, which has seen it.
    fn end(&mut self) {
        let stream = self.0.take();
        drop(contain_now(|| drop(stream)));
    }
}

impl<S> Drop for KeptStream<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<S: Stream<Item = Result<StreamChunk, LlmError>>> Stream for KeptStream<S> {
    type Item = Result<StreamChunk, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(stream) = self.0.as_mut() else { return Poll::Ready(None) };
        match contain_now(|| stream.as_mut().poll_next(cx)) {
            Ok(polled) => polled,
            Err(panic) => {
                self.end();
                Poll::Ready(Some(Err(panicked("the stream of the model", &panic))))
            }
        }
    }
}
