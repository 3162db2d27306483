//! The network, as this plugin sees it.

use std::fmt;
use std::pin::Pin;

use futures_util::Stream;
use linn_bus::BoxFuture;
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
