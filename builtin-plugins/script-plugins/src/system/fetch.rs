//! The network, for releases of plugins.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use linn_bus::BoxFuture;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::install::{Fetch, FetchError, Fetched};

/// How long one answer may take, to its last byte.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How often a request is sent elsewhere.
const MAX_REDIRECTS: usize = 10;

/// Who asks.
const USER_AGENT: &str = concat!("linn-plugin-install/", env!("CARGO_PKG_VERSION"));

/// Gets things over HTTP. Certificates are those that the system trusts, read with the first request that needs them.
#[derive(Debug, Default)]
pub(crate) struct HttpFetch {
    plain: OnceLock<Option<Client>>,
    secure: OnceLock<Option<Client>>,
}

impl HttpFetch {
    fn client(&self, url: &str) -> Result<Client, FetchError> {
        let is_secure = !url.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("http:"));
        let client = if is_secure {
            self.secure.get_or_init(|| client(is_secure))
        } else {
            self.plain.get_or_init(|| client(is_secure))
        };
        client.clone().ok_or_else(|| FetchError::Failed("there is no TLS to speak with".to_owned()))
    }
}

fn client(is_secure: bool) -> Option<Client> {
    // The provider is given here because the default one would be the process's.
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions().ok()?;
    let tls = if is_secure {
        tls.with_platform_verifier().ok()?
    } else {
        tls.with_root_certificates(rustls::RootCertStore::empty())
    };
    let elsewhere = redirect::Policy::custom(move |attempt| {
        if attempt.previous().len() > MAX_REDIRECTS {
            return attempt.error("it was sent elsewhere too often");
        }
        if is_secure && attempt.url().scheme() != "https" {
            return attempt.error("it was sent where nothing is encrypted");
        }
        attempt.follow()
    });
    // A key goes to no other host than the one it is for: the client takes it away when it follows elsewhere.
    let client = Client::builder().tls_backend_preconfigured(tls.with_no_client_auth()).redirect(elsewhere);
    client.timeout(TIMEOUT).user_agent(USER_AGENT).build().ok()
}

/// The error with all its causes, but for the address.
fn in_full(error: reqwest::Error) -> FetchError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    FetchError::Failed(text)
}

impl Fetch for HttpFetch {
    fn get(
        &self,
        url: String,
        headers: BTreeMap<&'static str, String>,
        limit_bytes: usize,
    ) -> BoxFuture<'static, Result<Fetched, FetchError>> {
        let client = self.client(&url);
        Box::pin(async move {
            let mut request = client?.get(&url);
            for (name, value) in headers {
                let unsendable = |_| FetchError::Failed(format!("header `{name}` cannot be sent"));
                let mut value = HeaderValue::try_from(value).map_err(unsendable)?;
                value.set_sensitive(true);
                request = request.header(HeaderName::from_static(name), value);
            }
            let response = request.send().await.map_err(in_full)?;
            let status = response.status().as_u16();
            let limit = limit_bytes as u64;
            if let Some(n) = response.content_length().filter(|it| *it > limit) {
                return Err(FetchError::TooLarge(n));
            }
            let mut body = Vec::new();
            let mut pieces = response.bytes_stream();
            while let Some(piece) = pieces.next().await {
                body.extend_from_slice(&piece.map_err(in_full)?);
                if body.len() > limit_bytes {
                    return Err(FetchError::TooLarge(body.len() as u64));
                }
            }
            Ok(Fetched { status, body })
        })
    }
}
