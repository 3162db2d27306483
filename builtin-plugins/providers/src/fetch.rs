//! What this plugin asks of the network: the answer to a `GET`, whole.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use linn_bus::{BoxFuture, Context};
use linn_http::{HttpError, Network, NetworkConfig, ReadError, Request};
use linn_services::llm::wire::error_text;
use secrecy::SecretString;
use serde_json::Value;

/// A request.
#[derive(Clone)]
pub struct Get {
    /// The whole address.
    pub url: String,
    /// Headers in order. Any of them may be a key.
    pub headers: Vec<(String, SecretString)>,
    /// How long the body may be, in bytes.
    pub limit_bytes: usize,
    /// What must not be shown to anybody: the key, and values of headers that a user set.
    pub secrets: Vec<SecretString>,
}

impl fmt::Debug for Get {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Get").field("headers", &names).finish_non_exhaustive()
    }
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Status code.
    pub status: u16,
    /// What the status means, such as `Not Found`.
    pub reason: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Asks the network. It follows no redirect: a key goes to no other host than the one it is for.
pub trait Fetch: Send + Sync + 'static {
    /// Gets an answer whole. Cancel safe: dropping the future ends the connection.
    ///
    /// # Errors
    ///
    /// [`FetchError::Connection`], without secrets, and [`FetchError::TooLarge`].
    fn get(&self, request: Get) -> BoxFuture<'static, Result<Fetched, FetchError>>;
}

/// Why there was no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The connection could not be made, or broke.
    #[error("no connection: {0}")]
    Connection(String),
    /// Nobody answered in time.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The body is too long.
    #[error("the answer has more than {limit_bytes} bytes")]
    TooLarge {
        /// How long it may be.
        limit_bytes: usize,
    },
    /// It was refused.
    #[error("HTTP {status}: {message}")]
    Status {
        /// Status code.
        status: u16,
        /// What the endpoint says, without secrets.
        message: String,
    },
    /// It is not what was asked for.
    #[error("the answer is no JSON")]
    NotJson,
}

impl FetchError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Connection(_) => "FETCH_CONNECTION",
            Self::Timeout(_) => "FETCH_TIMEOUT",
            Self::TooLarge { .. } => "FETCH_TOO_LARGE",
            Self::Status { .. } => "FETCH_STATUS",
            Self::NotJson => "FETCH_NOT_JSON",
        }
    }
}

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The network itself.
pub(crate) fn network() -> Network {
    Network::new(NetworkConfig { connect_timeout: Some(CONNECT_TIMEOUT), ..NetworkConfig::default() })
}

impl From<HttpError> for FetchError {
    fn from(error: HttpError) -> Self {
        Self::Connection(error.0)
    }
}

impl Fetch for Network {
    fn get(&self, request: Get) -> BoxFuture<'static, Result<Fetched, FetchError>> {
        let Get { url, headers, limit_bytes, .. } = request;
        let sent = self.send(Request::get(url).headers(headers));
        Box::pin(async move {
            let answer = sent.await?;
            let (status, reason) = (answer.status, answer.reason.clone());
            let body = answer.whole(limit_bytes).await.map_err(|error| match error {
                ReadError::TooLarge { .. } => FetchError::TooLarge { limit_bytes },
                error => FetchError::Connection(error.to_string()),
            })?;
            Ok(Fetched { status, reason, body })
        })
    }
}

/// Asks for JSON, for a limited time.
#[derive(Clone)]
pub(crate) struct Fetcher {
    ctx: Context,
    fetch: Arc<dyn Fetch>,
}

impl Fetcher {
    pub(crate) fn new(ctx: Context, fetch: Arc<dyn Fetch>) -> Self {
        Self { ctx, fetch }
    }

    pub(crate) async fn json(&self, request: Get, patience: Duration) -> Result<Value, FetchError> {
        let secrets = request.secrets.clone();
        let asked = self.ctx.within(patience, self.fetch.get(request)).await;
        let answer = asked.map_err(|_| FetchError::Timeout(patience))??;
        if !(200..300).contains(&answer.status) {
            let message = error_text(&answer.body, &secrets);
            return Err(FetchError::Status { status: answer.status, message });
        }
        serde_json::from_slice(&answer.body).map_err(|_| FetchError::NotJson)
    }
}
