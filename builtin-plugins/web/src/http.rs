//! The network, as this plugin sees it.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use linn_bus::BoxFuture;
use linn_http::{Network, NetworkConfig, Request};
use secrecy::SecretString;

/// A request: a `GET`, or a `POST` of JSON.
#[derive(Clone)]
pub struct Ask {
    /// The whole address.
    pub url: String,
    /// Headers in order. Any of them may be a key.
    pub headers: Vec<(String, SecretString)>,
    /// The JSON to post; a `GET` without it.
    pub json: Option<String>,
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Ask").field("headers", &names).field("is_post", &self.json.is_some()).finish_non_exhaustive()
    }
}

/// A body in the pieces in which it comes. Dropping it ends the connection.
pub type Body = Pin<Box<dyn Stream<Item = Result<Vec<u8>, HttpError>> + Send>>;

/// An answer whose head has come.
pub struct Head {
    /// Status code.
    pub status: u16,
    /// What it holds; empty if nobody says.
    pub content_type: String,
    /// Where it leads, if it is a redirect.
    pub location: Option<String>,
    /// The body.
    pub body: Body,
}

/// The connection could not be made, or broke. The words hold no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HttpError(pub String);

/// Sends requests. It follows no redirect.
pub trait Http: Send + Sync + 'static {
    /// Sends a request; ready when the head of the answer is there. Cancel safe: dropping the future ends the connection.
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Head, HttpError>>;
}

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The network itself.
pub(crate) fn network() -> Network {
    Network::new(NetworkConfig {
        connect_timeout: Some(CONNECT_TIMEOUT),
        user_agent: Some(concat!("linn/", env!("CARGO_PKG_VERSION"))),
        ..NetworkConfig::default()
    })
}

impl From<linn_http::HttpError> for HttpError {
    fn from(error: linn_http::HttpError) -> Self {
        Self(error.0)
    }
}

impl Http for Network {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Head, HttpError>> {
        let Ask { url, mut headers, json } = ask;
        let request = match json {
            Some(json) => {
                headers.insert(0, ("content-type".to_owned(), "application/json".into()));
                Request::post(url, json)
            }
            None => Request::get(url),
        };
        let sent = self.send(request.headers(headers));
        Box::pin(async move {
            let answer = sent.await?;
            Ok(Head {
                status: answer.status,
                content_type: answer.header("content-type").unwrap_or_default().to_owned(),
                location: answer.header("location").map(str::to_owned),
                body: answer.body.map(|it| it.map(Vec::from).map_err(HttpError::from)).boxed(),
            })
        })
    }
}
