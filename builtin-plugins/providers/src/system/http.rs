//! The network.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus::{BoxFuture, Fault};
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use rustls_platform_verifier::BuilderVerifierExt as _;
use secrecy::ExposeSecret as _;

use crate::fetch::{Fetch, FetchError, Fetched, Get};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests over HTTP. Certificates are checked against those that the system trusts.
pub(crate) struct HttpFetch {
    client: Client,
}

impl HttpFetch {
    pub(crate) fn new() -> Result<Self, Fault> {
        // The provider is given here because the default one would be the process's.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_platform_verifier())
            .map_err(|error| failed(&error))?
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT_TIMEOUT)
            // A key goes to no other host than the one it is for.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| failed(&error))?;
        Ok(Self { client })
    }

    fn request(&self, request: &Get) -> Result<reqwest::RequestBuilder, FetchError> {
        let mut builder = self.client.get(&request.url);
        for (name, value) in &request.headers {
            let unsendable = || FetchError::Connection(format!("header `{name}` cannot be sent"));
            let name = HeaderName::try_from(name).map_err(|_| unsendable())?;
            let mut value = HeaderValue::try_from(value.expose_secret()).map_err(|_| unsendable())?;
            value.set_sensitive(true);
            builder = builder.header(name, value);
        }
        Ok(builder)
    }
}

fn failed(error: &dyn std::error::Error) -> Fault {
    Fault::msg(format!("there is no TLS to speak with: {error}")).with_code("TLS_UNAVAILABLE")
}

/// The error in full, but for the address, which may hold a key.
fn without_address(error: reqwest::Error) -> FetchError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    FetchError::Connection(text)
}

impl Fetch for HttpFetch {
    fn get(&self, request: Get) -> BoxFuture<'static, Result<Fetched, FetchError>> {
        let limit_bytes = request.limit_bytes;
        let sent = self.request(&request).map(reqwest::RequestBuilder::send);
        Box::pin(async move {
            let response = sent?.await.map_err(without_address)?;
            let status = response.status();
            let reason = status.canonical_reason().unwrap_or_default().to_owned();
            let mut stream = response.bytes_stream();
            let mut body = Vec::new();
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(without_address)?;
                if body.len() + piece.len() > limit_bytes {
                    return Err(FetchError::TooLarge { limit_bytes });
                }
                body.extend_from_slice(&piece);
            }
            Ok(Fetched { status: status.as_u16(), reason, body })
        })
    }
}
