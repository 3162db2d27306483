//! `llm/*`: calls of models.

use std::sync::Arc;

use linn_bus::Event;

use crate::agent::Agent;
use crate::llm::ChunkStream;
use crate::model::GenerateRequest;

/// A model is asked.
///
/// A retry runs `next` again before it has passed a chunk on: chunks are logged as they come.
///
/// - Mode: waterfall; the default asks the adapter of the model.
/// - Scope: none.
/// - Emitted by: the `llm` service, once a call, of the loop or of a plugin.
/// - On listener error or panic: the call fails.
/// - Cancelled by: the request's signal.
#[derive(Debug, Clone, Event)]
#[event(name = "llm/stream", mode = Waterfall, output = ChunkStream)]
pub struct LlmStream {
    /// The request.
    pub request: Arc<GenerateRequest>,
    /// The agent on whose behalf the model is asked.
    pub agent: Option<Agent>,
}
