//! The models that can be asked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use futures_core::Stream;
use linn_bus::{BoxFuture, BusError, Context, EffectHandle, ListenerError, ServiceError, service};

use crate::agent::Agent;
use crate::ids::ModelId;
use crate::kept::{Kept, KeptStream};
use crate::llm::wire::Endpoint;
use crate::model::{GenerateRequest, StreamChunk};

/// A streamed answer. An error ends it, and a panic of what streams it is one.
pub struct ChunkStream(Pin<Box<dyn Stream<Item = Result<StreamChunk, LlmError>> + Send>>);

impl ChunkStream {
    /// Wraps a stream of a plugin.
    pub fn new(stream: impl Stream<Item = Result<StreamChunk, LlmError>> + Send + 'static) -> Self {
        Self(Box::pin(KeptStream::new(stream)))
    }

    /// Wraps a stream that does nothing but ask another one.
    pub(crate) fn around(stream: impl Stream<Item = Result<StreamChunk, LlmError>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }
}

impl Stream for ChunkStream {
    type Item = Result<StreamChunk, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl std::fmt::Debug for ChunkStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChunkStream")
    }
}

/// Language models that can be asked. Adapters bring them.
#[service("llm")]
pub trait Llm {
    /// What `register` is for whoever provides this.
    fn admit(&self, ctx: &Context, models: Vec<ModelId>, adapter: Kept<dyn Adapter>) -> Result<EffectHandle, LlmError>;

    /// Asks a model, through the listeners of `llm/stream`; `agent` is on whose behalf.
    ///
    /// The stream ends with its finish, with its first error, and as `ABORTED` with the signal of the request, whatever the
    /// adapter does. Cancel safe: dropping the future or the stream ends the call.
    ///
    /// # Errors
    ///
    /// `NO_ADAPTER`, `ABORTED`, `ADAPTER_GONE`, `ADAPTER_PANICKED`, and those of the adapter and of listeners.
    async fn stream(&self, request: Arc<GenerateRequest>, agent: Option<&Agent>) -> Result<ChunkStream, LlmError>;

    /// What `register_wire` is for whoever provides this.
    fn admit_wire(&self, ctx: &Context, wire: Kept<dyn Wire>) -> Result<EffectHandle, LlmError>;

    /// The wire of a kind. Ask for it at each call: it may be another one by the next.
    fn wire(&self, kind: &str) -> Result<Option<Arc<dyn Wire>>, LlmError>;

    /// The kinds of the wires there are, by name.
    fn wires(&self) -> Result<Vec<String>, LlmError>;

    /// The models that adapters registered for all, by id.
    fn models(&self) -> Result<Vec<ModelId>, LlmError>;
}

/// Speaks one kind of wire to any endpoint. What holds for an [`Adapter`] holds for it.
pub trait Wire: Send + Sync + 'static {
    /// What it speaks, such as `openai`.
    fn kind(&self) -> &str;
    /// Begins a call of a model of an endpoint.
    ///
    /// The model of the request begins with the prefix of the endpoint, which the endpoint itself does not know.
    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        request: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>>;
}

/// Speaks to a kind of endpoint.
///
/// It sends usage before `Finish`, and nothing after it; leaves arguments as the model wrote them; and heeds
/// `request.signal`. If it tries again by itself it tells so as `llm/retry`, and once it has sent a chunk it sends
/// `Discard` first: chunks are logged as they come, so the log has to say which of them do not count.
pub trait Adapter: Send + Sync + 'static {
    /// Name, for errors.
    fn name(&self) -> &str;
    /// Begins a call.
    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>>;
}

/// Code of a call whose request is longer than the window of the model.
pub const CONTEXT_LENGTH: &str = "CONTEXT_LENGTH";

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct LlmError {
    /// In words, without secrets.
    pub message: String,
    /// Stable code, such as `NO_ADAPTER`, `AUTH`, `RATE_LIMIT`, `INVALID_REQUEST`, `SERVER`, `HTTP_418`.
    pub code: Option<String>,
    /// HTTP status, if there was one.
    pub status: Option<u16>,
    /// Whether the same call may succeed later.
    pub is_retryable: bool,
}

impl LlmError {
    /// An error with a code that another try does not help.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { message: message.into(), code: Some(code.to_owned()), status: None, is_retryable: false }
    }

    /// The call was ended by its signal.
    pub fn aborted() -> Self {
        Self::new("ABORTED", "the call was aborted")
    }

    /// The request is longer than the window of the model: what adapters make of the words of their endpoint.
    pub fn context_length(message: impl Into<String>) -> Self {
        Self::new(CONTEXT_LENGTH, message)
    }

    /// Whether the request was longer than the window of the model.
    pub fn is_context_length(&self) -> bool {
        self.code.as_deref() == Some(CONTEXT_LENGTH)
    }

    /// The same, worth another try.
    pub fn retryable(mut self) -> Self {
        self.is_retryable = true;
        self
    }

    /// The same, with the status of the HTTP answer.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}

impl From<ServiceError> for LlmError {
    fn from(error: ServiceError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
impl From<BusError> for LlmError {
    fn from(error: BusError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
impl From<ListenerError> for LlmError {
    fn from(error: ListenerError) -> Self {
        let code = match error.cause() {
            linn_bus::Cause::Failed(fault) => fault.code().unwrap_or(error.code()).to_owned(),
            _ => error.code().to_owned(),
        };
        Self { message: format!("{error:#}"), code: Some(code), status: None, is_retryable: false }
    }
}
