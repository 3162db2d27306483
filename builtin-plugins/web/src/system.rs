//! The network.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus::{BoxFuture, Fault};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, redirect};
use rustls_platform_verifier::BuilderVerifierExt as _;
use secrecy::ExposeSecret as _;

use crate::http::{Ask, Head, Http, HttpError};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests over HTTP. Certificates are checked against those that the system trusts.
pub(crate) struct Network {
    client: Client,
}

impl Network {
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
            .user_agent(concat!("linn/", env!("CARGO_PKG_VERSION")))
            // Where a page leads is looked at before it is followed.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| failed(&error))?;
        Ok(Self { client })
    }

    fn request(&self, ask: Ask) -> Result<reqwest::RequestBuilder, HttpError> {
        let mut builder = match ask.json {
            Some(json) => self.client.post(&ask.url).header(CONTENT_TYPE, "application/json").body(json),
            None => self.client.get(&ask.url),
        };
        for (name, value) in &ask.headers {
            let unsendable = || HttpError(format!("header `{name}` cannot be sent"));
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
fn without_address(error: reqwest::Error) -> HttpError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    HttpError(text)
}

impl Http for Network {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Head, HttpError>> {
        let sent = self.request(ask).map(reqwest::RequestBuilder::send);
        Box::pin(async move {
            let response = sent?.await.map_err(without_address)?;
            let header = |name| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
            Ok(Head {
                status: response.status().as_u16(),
                content_type: header(CONTENT_TYPE).unwrap_or_default(),
                location: header(LOCATION),
                body: response.bytes_stream().map(|it| it.map(Vec::from).map_err(without_address)).boxed(),
            })
        })
    }
}
