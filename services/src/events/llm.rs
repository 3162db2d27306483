//! `llm/*`: calls of models.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Cause, Event, Fault, ListenerError};
use serde::Serialize;

use crate::agent::Agent;
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
