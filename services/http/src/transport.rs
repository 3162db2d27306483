//! The network as adapters of models see it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use linn_bus::BoxFuture;
use linn_services::llm::wire::{HttpRequest, HttpResponse, Transport, TransportError};

use crate::exchange::{HttpError, Request};
use crate::network::Network;

impl From<HttpError> for TransportError {
    fn from(error: HttpError) -> Self {
        Self(error.0)
    }
}

impl Transport for Network {
    fn post(&self, request: Arc<HttpRequest>) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let HttpRequest { url, headers, body, .. } = &*request;
        let sent = self.send(Request::post(url.clone(), body.clone()).headers(headers.clone()));
        Box::pin(async move {
            let answer = sent.await?;
            let body = answer.body.map(|it| it.map_err(TransportError::from)).boxed();
            Ok(HttpResponse { status: answer.status, reason: answer.reason, headers: answer.headers, body })
        })
    }
}
