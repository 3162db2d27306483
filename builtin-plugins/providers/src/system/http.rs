//! The network.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus::BoxFuture;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt as _;
use secrecy::ExposeSecret as _;

use crate::fetch::{Fetch, FetchError, Fetched, Get};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests over HTTP.
///
/// Certificates are checked against those that the system trusts. They are read with the first request that needs them: a
/// program whose models are all on the same machine starts without, and runs where there are none.
#[derive(Default)]
pub(crate) struct HttpFetch {
    plain: OnceLock<Result<Client, FetchError>>,
    secure: OnceLock<Result<Client, FetchError>>,
}

impl HttpFetch {
    fn client(&self, url: &str) -> Result<&Client, FetchError> {
        let is_plain = url.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("http:"));
        let client =
            if is_plain { self.plain.get_or_init(|| client(false)) } else { self.secure.get_or_init(|| client(true)) };
        client.as_ref().map_err(FetchError::clone)
    }

    fn request(&self, request: &Get) -> Result<reqwest::RequestBuilder, FetchError> {
        let mut builder = self.client(&request.url)?.get(&request.url);
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

fn client(trusts_system: bool) -> Result<Client, FetchError> {
    let failed = |error: &dyn std::error::Error| {
        FetchError::Connection(format!("there is no TLS to speak with: {}", in_full(error)))
    };
    // The provider is given here because the default one would be the process's.
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let tls = if trusts_system {
        tls.with_platform_verifier().map_err(|error| failed(&error))?
    } else {
        tls.with_root_certificates(rustls::RootCertStore::empty())
    };
    Client::builder()
        .tls_backend_preconfigured(tls.with_no_client_auth())
        .connect_timeout(CONNECT_TIMEOUT)
        // A key goes to no other host than the one it is for.
        .redirect(redirect::Policy::none())
        .build()
        .map_err(|error| failed(&error))
}

/// The error with all its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The error in full, but for the address, which may hold a key.
fn without_address(error: reqwest::Error) -> FetchError {
    FetchError::Connection(in_full(&error.without_url()))
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
