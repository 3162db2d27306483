//! The client.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus::BoxFuture;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt as _;
use secrecy::ExposeSecret as _;

use crate::exchange::{Answer, HttpError, Request};

/// What becomes of an answer that leads elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redirects {
    /// It is the answer: a key goes to no other host than the one it is for.
    #[default]
    Given,
    /// It is followed this often, and never from where all is encrypted to where it is not. Keys in headers go to no other
    /// host.
    Followed(usize),
}

/// How requests are sent.
#[derive(Debug, Clone, Default)]
pub struct NetworkConfig {
    /// How long a connection may take to be made; no limit of its own if there is none.
    pub connect_timeout: Option<Duration>,
    /// How long an answer may take, to its last byte; no limit if there is none.
    pub timeout: Option<Duration>,
    /// Who asks, in the header of this name.
    pub user_agent: Option<&'static str>,
    /// What becomes of an answer that leads elsewhere.
    pub redirects: Redirects,
}

/// Sends requests over HTTP, through the proxy that the environment names, if it names one.
///
/// Certificates are checked against those that the system trusts. They are read with the first request that needs them: a
/// program that asks nobody but its own machine starts without, and runs where there are none.
#[derive(Debug, Default)]
pub struct Network {
    config: NetworkConfig,
    plain: OnceLock<Result<Client, HttpError>>,
    secure: OnceLock<Result<Client, HttpError>>,
}

impl Network {
    /// A network that has asked nobody yet.
    pub fn new(config: NetworkConfig) -> Self {
        Self { config, plain: OnceLock::new(), secure: OnceLock::new() }
    }

    /// Sends a request; ready when the head of the answer is there.
    ///
    /// It has to be polled on a tokio runtime with I/O and time. Cancel safe: dropping the future ends the connection.
    ///
    /// # Errors
    ///
    /// [`HttpError`], without the address.
    pub fn send(&self, request: Request) -> BoxFuture<'static, Result<Answer, HttpError>> {
        let request = self.request(request);
        Box::pin(async move {
            let response = request?.send().await.map_err(without_address)?;
            let status = response.status();
            let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
            let headers = response.headers().iter();
            let headers = headers.filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value)?))).collect();
            Ok(Answer {
                status: status.as_u16(),
                reason: status.canonical_reason().unwrap_or_default().to_owned(),
                headers,
                length_bytes: response.content_length(),
                body: response.bytes_stream().map(|it| it.map_err(without_address)).boxed(),
            })
        })
    }

    fn client(&self, url: &str) -> Result<&Client, HttpError> {
        let is_plain = url.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("http:"));
        let (cell, trust) = if is_plain { (&self.plain, Trust::Nobody) } else { (&self.secure, Trust::System) };
        cell.get_or_init(|| client(&self.config, trust)).as_ref().map_err(HttpError::clone)
    }

    fn request(&self, request: Request) -> Result<reqwest::RequestBuilder, HttpError> {
        let client = self.client(&request.url)?;
        let mut builder = match request.body {
            Some(body) => client.post(&request.url).body(body),
            None => client.get(&request.url),
        };
        for (name, value) in &request.headers {
            let unsendable = || HttpError(format!("header `{name}` cannot be sent"));
            let name = HeaderName::try_from(name).map_err(|_| unsendable())?;
            let mut value = HeaderValue::try_from(value.expose_secret()).map_err(|_| unsendable())?;
            value.set_sensitive(true);
            builder = builder.header(name, value);
        }
        Ok(builder)
    }
}

/// Whose certificates are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Nobody's: it asks over plain connections.
    Nobody,
    /// Those of the system.
    System,
}

fn client(config: &NetworkConfig, trust: Trust) -> Result<Client, HttpError> {
    let failed =
        |error: &dyn std::error::Error| HttpError(format!("there is no TLS to speak with: {}", in_full(error)));
    // The provider is given here because the default one would be the process's.
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let tls = match trust {
        Trust::System => tls.with_platform_verifier().map_err(|error| failed(&error))?,
        Trust::Nobody => tls.with_root_certificates(rustls::RootCertStore::empty()),
    };
    let mut builder = Client::builder().tls_backend_preconfigured(tls.with_no_client_auth());
    builder = builder.redirect(policy(config.redirects, trust));
    if let Some(limit) = config.connect_timeout {
        builder = builder.connect_timeout(limit);
    }
    if let Some(limit) = config.timeout {
        builder = builder.timeout(limit);
    }
    if let Some(name) = config.user_agent {
        builder = builder.user_agent(name);
    }
    builder.build().map_err(|error| failed(&error))
}

fn policy(redirects: Redirects, trust: Trust) -> redirect::Policy {
    let at_most = match redirects {
        Redirects::Given => return redirect::Policy::none(),
        Redirects::Followed(at_most) => at_most,
    };
    redirect::Policy::custom(move |attempt| {
        if attempt.previous().len() > at_most {
            return attempt.error("it was sent elsewhere too often");
        }
        if trust == Trust::System && attempt.url().scheme() != "https" {
            return attempt.error("it was sent where nothing is encrypted");
        }
        attempt.follow()
    })
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
