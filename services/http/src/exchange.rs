//! Requests, and what comes back.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use secrecy::SecretString;

/// A request: a `GET`, or a `POST` if it has a body.
#[derive(Clone)]
#[non_exhaustive]
pub struct Request {
    /// The whole address.
    pub url: String,
    /// Headers in order. Any of them may be a key.
    pub headers: Vec<(String, SecretString)>,
    /// What to post.
    pub body: Option<Bytes>,
}

impl Request {
    /// A `GET`.
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new(), body: None }
    }

    /// A `POST`; what the body is, a header says.
    pub fn post(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { url: url.into(), headers: Vec::new(), body: Some(body.into()) }
    }

    /// With these headers.
    pub fn headers(self, headers: Vec<(String, SecretString)>) -> Self {
        Self { headers, ..self }
    }
}

impl fmt::Debug for Request {
    /// Neither the address, which may hold a key, nor values of headers, nor the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let n_bytes = self.body.as_ref().map(Bytes::len);
        f.debug_struct("Request").field("headers", &names).field("n_bytes", &n_bytes).finish_non_exhaustive()
    }
}

/// A body in the pieces in which it comes. Dropping it ends the connection.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, HttpError>> + Send>>;

/// An answer whose head has come.
#[non_exhaustive]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// What the status means, such as `Not Found`.
    pub reason: String,
    /// Headers that are text; names in lower case.
    pub headers: Vec<(String, String)>,
    /// How long the body is, in bytes, if the head says so.
    pub length_bytes: Option<u64>,
    /// The body.
    pub body: Body,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The body, whole.
    ///
    /// Cancel safe: dropping the future ends the connection.
    ///
    /// # Errors
    ///
    /// [`ReadError::Connection`], and [`ReadError::TooLarge`] as soon as it is known.
    pub async fn whole(mut self, limit_bytes: usize) -> Result<Vec<u8>, ReadError> {
        let limit = u64::try_from(limit_bytes).unwrap_or(u64::MAX);
        if let Some(size_bytes) = self.length_bytes.filter(|it| *it > limit) {
            return Err(ReadError::TooLarge { size_bytes });
        }
        let mut body = Vec::new();
        while let Some(piece) = self.body.next().await {
            let piece = piece?;
            let size = body.len().saturating_add(piece.len());
            if size > limit_bytes {
                return Err(ReadError::TooLarge { size_bytes: u64::try_from(size).unwrap_or(u64::MAX) });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The request cannot be sent, or the connection could not be made, or broke. The words hold no address, which may hold a
/// key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HttpError(pub String);

/// Why a body was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The connection broke.
    #[error(transparent)]
    Connection(#[from] HttpError),
    /// It is longer than is taken.
    #[error("the answer has {size_bytes} bytes or more")]
    TooLarge {
        /// How long it says it is, or how much had come.
        size_bytes: u64,
    },
}
