//! An endpoint that a config names, as an adapter.

use std::sync::Arc;

use linn_bus::BoxFuture;

use crate::llm::wire::Endpoint;
use crate::llm::{Adapter, ChunkStream, LlmError, Wire};
use crate::model::GenerateRequest;

/// Asks one endpoint through a wire.
pub struct EndpointAdapter {
    wire: Arc<dyn Wire>,
    endpoint: Arc<Endpoint>,
}

impl EndpointAdapter {
    /// An adapter for the models of `endpoint`, which speaks `wire`.
    pub fn new(wire: Arc<dyn Wire>, endpoint: Arc<Endpoint>) -> Self {
        Self { wire, endpoint }
    }
}

impl Adapter for EndpointAdapter {
    fn name(&self) -> &str {
        &self.endpoint.name
    }
    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        self.wire.stream(self.endpoint.clone(), request)
    }
}
