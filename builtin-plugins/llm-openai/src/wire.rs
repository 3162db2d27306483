//! The wire: a request of ours becomes one of theirs, and their stream becomes one of ours.

use std::borrow::Cow;
use std::sync::Arc;

use linn_bus::{BoxFuture, Context};
use linn_services::events::LlmEffortReplaced;
use linn_services::llm::wire::{Calls, Endpoint, HttpRequest, Limits, Transport, resolve_effort};
use linn_services::llm::{ChunkStream, LlmError, Wire};
use linn_services::model::GenerateRequest;
use secrecy::ExposeSecret as _;

use crate::body::body;
use crate::decode::ChatDecoder;
use crate::dialect::Dialect;

/// Asks models of any endpoint that speaks the OpenAI-compatible wire.
pub(crate) struct OpenAiWire {
    ctx: Context,
    transport: Arc<dyn Transport>,
}

impl OpenAiWire {
    pub(crate) fn new(ctx: Context, transport: Arc<dyn Transport>) -> Self {
        Self { ctx, transport }
    }

    fn http(&self, endpoint: &Endpoint, request: &GenerateRequest) -> Result<HttpRequest, LlmError> {
        let asked = endpoint.name_of(&request.config.model);
        let known = endpoint.model(asked);
        let dialect = Dialect::of(endpoint, asked);
        let effort = request.config.effort.as_deref().unwrap_or_default();
        let levels = known.map_or(&[][..], |it| it.effort_levels.as_slice());
        let used = if effort.is_empty() { Cow::Borrowed(effort) } else { resolve_effort(effort, levels) };
        if !used.eq_ignore_ascii_case(effort) {
            self.ctx.emit(&LlmEffortReplaced {
                session_id: request.session_id.clone(),
                model: request.model(),
                requested: effort.to_owned(),
                used: used.clone().into_owned(),
            });
        }
        let max_tokens = request.config.max_tokens.or(known.and_then(|it| it.max_tokens));
        let body = body(request, asked, dialect, &used, max_tokens);
        let body = serde_json::to_vec(&body)
            .map_err(|error| LlmError::new("BAD_REQUEST", format!("the request cannot be written as JSON: {error}")))?;
        let key = endpoint.key();
        let mut headers = endpoint.stream_headers(if key.is_some() { &["authorization"] } else { &[] });
        headers.extend(key.map(|it| ("authorization".to_owned(), format!("Bearer {}", it.expose_secret()).into())));
        let url = endpoint.url("/chat/completions");
        Ok(HttpRequest { url, headers, body: body.into(), secrets: endpoint.secrets() })
    }
}

impl Wire for OpenAiWire {
    fn kind(&self) -> &str {
        "openai"
    }

    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        request: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let http = match self.http(&endpoint, &request) {
            Ok(http) => http,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let limits = Limits { idle_ms: endpoint.idle_timeout_ms, retries_empty: true, ..Limits::default() };
        let calls = Calls::new(self.ctx.clone(), self.transport.clone(), limits);
        let secrets: Arc<[_]> = http.secrets.clone().into();
        Box::pin(async move { calls.stream(request, http, move || ChatDecoder::new(secrets.clone())).await })
    }
}
