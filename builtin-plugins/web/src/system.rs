//! The network.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, redirect};
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt as _;
use secrecy::ExposeSecret as _;

use crate::http::{Ask, Head, Http, HttpError};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests over HTTP.
///
/// Certificates are checked against those that the system trusts. They are read with the first request that needs them.
#[derive(Default)]
pub(crate) struct Network {
    plain: OnceLock<Result<Client, HttpError>>,
    secure: OnceLock<Result<Client, HttpError>>,
}

impl Network {
    fn client(&self, url: &str) -> Result<&Client, HttpError> {
        let is_plain = url.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("http:"));
        let client =
            if is_plain { self.plain.get_or_init(|| client(false)) } else { self.secure.get_or_init(|| client(true)) };
        client.as_ref().map_err(HttpError::clone)
    }

    fn request(&self, ask: Ask) -> Result<reqwest::RequestBuilder, HttpError> {
        let client = self.client(&ask.url)?;
        let mut builder = match ask.json {
            Some(json) => client.post(&ask.url).header(CONTENT_TYPE, "application/json").body(json),
            None => client.get(&ask.url),
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

fn client(trusts_system: bool) -> Result<Client, HttpError> {
    let failed =
        |error: &dyn std::error::Error| HttpError(format!("there is no TLS to speak with: {}", in_full(error)));
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
        .user_agent(concat!("linn/", env!("CARGO_PKG_VERSION")))
        // Where a page leads is looked at before it is followed.
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
fn without_address(error: reqwest::Error) -> HttpError {
    HttpError(in_full(&error.without_url()))
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
