//! The network, as adapters see it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use linn_bus::BoxFuture;
use secrecy::SecretString;

/// A request: always a `POST` of JSON.
#[derive(Clone)]
pub struct HttpRequest {
    /// The whole address.
    pub url: String,
    /// Headers in order. Any of them may be a key.
    pub headers: Vec<(String, SecretString)>,
    /// The body.
    pub body: Bytes,
    /// What must not be shown to anybody: keys, and values of headers that a user set.
    pub secrets: Vec<SecretString>,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpRequest")
            .field("headers", &names)
            .field("n_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The body of an answer, in the pieces in which it comes. Dropping it ends the connection.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// An answer whose head has come.
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// What the status means, such as `Not Found`.
    pub reason: String,
    /// Headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

impl HttpResponse {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// The connection could not be made, or broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Sends requests. It follows no redirect and sets no time limit but one for the connection.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request; ready when the head of the answer is there.
    ///
    /// Cancel safe: dropping the future ends the connection.
    ///
    /// # Errors
    ///
    /// [`TransportError`], without secrets.
    fn post(&self, request: Arc<HttpRequest>) -> BoxFuture<'static, Result<HttpResponse, TransportError>>;
}
