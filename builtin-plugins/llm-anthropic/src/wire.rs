//! The wire: a request of ours becomes one of theirs, and their stream becomes one of ours.

use std::sync::Arc;

use linn_bus::{BoxFuture, Context};
use linn_services::events::LlmEffortReplaced;
use linn_services::llm::wire::{Calls, Endpoint, HttpRequest, KeyKind, Limits, Transport};
use linn_services::llm::{ChunkStream, LlmError, Wire};
use linn_services::model::GenerateRequest;
use secrecy::ExposeSecret as _;

use crate::body::{body, replaced_effort};
use crate::decode::MessagesDecoder;

/// The version of the wire.
const VERSION: &str = "2023-06-01";

/// What a token from a login needs beside it.
const OAUTH_BETA: &str = "claude-code-20250219,oauth-2025-04-20";

/// Asks models of any endpoint that speaks the Anthropic-compatible wire.
pub(crate) struct AnthropicWire {
    ctx: Context,
    transport: Arc<dyn Transport>,
}

impl AnthropicWire {
    pub(crate) fn new(ctx: Context, transport: Arc<dyn Transport>) -> Self {
        Self { ctx, transport }
    }
}

fn http(endpoint: &Endpoint, request: &GenerateRequest) -> Result<HttpRequest, LlmError> {
    let asked = endpoint.name_of(&request.config.model);
    let body = serde_json::to_vec(&body(request, asked, endpoint))
        .map_err(|error| LlmError::new("BAD_REQUEST", format!("the request cannot be written as JSON: {error}")))?;
    let key = endpoint.key();
    let own: &[&str] = if key.is_some() { &["authorization", "x-api-key"] } else { &[] };
    let mut headers = endpoint.stream_headers(own);
    headers.push(("anthropic-version".to_owned(), VERSION.into()));
    match (key, endpoint.key_kind) {
        (None, _) => {}
        (Some(key), KeyKind::OAuth) => {
            headers.push(("authorization".to_owned(), format!("Bearer {}", key.expose_secret()).into()));
            headers.push(("anthropic-beta".to_owned(), OAUTH_BETA.into()));
        }
        (Some(key), _) => headers.push(("x-api-key".to_owned(), key.clone())),
    }
    let url = endpoint.url("/messages");
    Ok(HttpRequest { url, headers, body: body.into(), secrets: endpoint.secrets() })
}

impl Wire for AnthropicWire {
    fn kind(&self) -> &str {
        "anthropic"
    }

    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        request: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let http = match http(&endpoint, &request) {
            Ok(http) => http,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        if let Some(used) = replaced_effort(&request, endpoint.name_of(&request.config.model), &endpoint) {
            self.ctx.emit(&LlmEffortReplaced {
                session_id: request.session_id.clone(),
                model: request.model(),
                requested: request.config.effort.clone().unwrap_or_default(),
                used,
            });
        }
        let limits = Limits { idle_ms: endpoint.idle_timeout_ms, ..Limits::default() };
        let calls = Calls::new(self.ctx.clone(), self.transport.clone(), limits);
        let secrets: Arc<[_]> = http.secrets.clone().into();
        Box::pin(async move { calls.stream(request, http, move || MessagesDecoder::new(secrets.clone())).await })
    }
}
