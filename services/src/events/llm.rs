//! `llm/*`: calls of models.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Cause, Event, Fault, ListenerError};
use serde::Serialize;

use crate::agent::Agent;
use crate::ids::{ModelId, SessionId};
use crate::llm::{ChunkStream, LlmError};
use crate::model::GenerateRequest;

/// A model is asked.
///
/// A retry runs `next` again before it has passed a chunk on: chunks are logged as they come. What it goes by is
/// [`failure`](LlmStream::failure), and an error among the chunks.
///
/// - Mode: waterfall; the default asks the adapter of the model.
/// - Scope: none.
/// - Emitted by: the `llm` service, once a call, of the loop or of a plugin.
/// - On listener error or panic: the call fails.
/// - Cancelled by: the request's signal.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "llm/stream", mode = Waterfall, output = ChunkStream, view)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LlmStream {
    /// The request.
    pub request: Arc<GenerateRequest>,
    /// The agent on whose behalf the model is asked.
    pub agent: Option<Agent>,
    #[serde(skip)]
    failure: Arc<Mutex<Option<LlmError>>>,
}

impl LlmStream {
    /// A call of a model, as the `llm` service makes it.
    pub fn new(request: Arc<GenerateRequest>, agent: Option<Agent>) -> Self {
        Self { request, agent, failure: Arc::default() }
    }

    /// How the last attempt failed, in full: what `next` gives is an error in words and a code.
    pub fn failure(&self) -> Option<LlmError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how the call failed and gives what a listener returns for it, so that the caller gets this very error.
    pub fn fail(&self, error: LlmError) -> Fault {
        let fault = Fault::msg(&error).with_code(error.code.clone().unwrap_or_else(|| "LLM_FAILED".to_owned()));
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        fault
    }

    /// The error of the whole call: the one noted, if that is what came out of the chain.
    pub(crate) fn outcome(&self, error: ListenerError) -> LlmError {
        let noted = self.failure().filter(|noted| match error.cause() {
            Cause::Failed(fault) => fault.to_string() == noted.message,
            _ => false,
        });
        noted.unwrap_or_else(|| error.into())
    }
}

/// An attempt to get an answer failed, and another one is made after a pause.
///
/// - Mode: emit.
/// - Scope: none.
/// - Emitted by: adapters, before the pause.
/// - On listener error or panic: logged; the next attempt is made all the same.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "llm/retry", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct LlmRetry {
    /// The session on whose behalf the model is asked.
    pub session_id: Option<SessionId>,
    /// The model asked.
    pub model: ModelId,
    /// The attempt that failed, from 1. Requests that the endpoint did not take, and streams that broke, are counted apart.
    pub attempt: u32,
    /// HTTP status, if that is what failed.
    pub status: Option<u16>,
    /// What failed, if it is not the status.
    pub reason: Option<String>,
    /// The pause, in milliseconds.
    pub backoff_ms: u64,
    /// Whether text or calls were passed on that do not count: `Discard` follows in the stream.
    pub discard_partial: bool,
}

/// The effort that was asked for is not one of the model, which is asked with another.
///
/// - Mode: emit.
/// - Scope: none.
/// - Emitted by: adapters, once a call.
/// - On listener error or panic: logged; the call goes on.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "llm/effort-replaced", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct LlmEffortReplaced {
    /// The session on whose behalf the model is asked.
    pub session_id: Option<SessionId>,
    /// The model asked.
    pub model: ModelId,
    /// What was asked for.
    pub requested: String,
    /// What is used.
    pub used: String,
}
