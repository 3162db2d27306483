//! What is read from the web.

use std::time::Duration;

use linn_bus::{ServiceError, service};

use crate::tools::ToolFailure;

/// Pages of the web, and whoever searches it.
#[service("web")]
pub trait Web {
    /// Gets a page, through the redirects on the way. A page that is longer than the limit is cut, and says so.
    ///
    /// Any status is an answer. Cancel safe: dropping the future ends the connection.
    async fn fetch(&self, request: WebRequest) -> Result<WebPage, WebError>;

    /// Searches the web, the best first. Cancel safe.
    async fn search(&self, query: WebQuery) -> Result<Vec<WebHit>, WebError>;
}

/// A page to get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// Its address.
    pub url: String,
    /// How much of it is read, in bytes; by default what the provider is set to.
    pub limit_bytes: Option<usize>,
    /// How long it may take in all; by default what the provider is set to.
    pub timeout: Option<Duration>,
}

impl WebRequest {
    /// A page, with the limits that the provider is set to.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), limit_bytes: None, timeout: None }
    }
}

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebPage {
    /// Where it was found, behind all redirects.
    pub url: String,
    /// Status code.
    pub status: u16,
    /// What it holds, such as `text/html; charset=utf-8`; empty if nobody says.
    pub content_type: String,
    /// The body, as far as it was read.
    pub body: Vec<u8>,
    /// Whether there is more of it.
    pub is_cut: bool,
}

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebQuery {
    /// In words.
    pub text: String,
    /// How many hits, at most.
    pub count: u32,
    /// Where the one who asks is, such as `us-en` or `DE`.
    pub region: Option<String>,
}

/// Something that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebHit {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What it says of the matter, in short.
    pub snippet: String,
}

/// Why nothing was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The address is none of the web.
    #[error("\"{0}\" is no address of the web; it begins with `https://` or `http://` and names a host")]
    BadUrl(String),
    /// The host may not be asked.
    #[error("host \"{host}\" is not in the fetch allowlist; allowed are: {}", allowed.join(", "))]
    NotAllowed {
        /// The host.
        host: String,
        /// Those that may be.
        allowed: Vec<String>,
    },
    /// One redirect led to the next.
    #[error("more than {0} redirects")]
    Redirects(usize),
    /// It took too long.
    #[error("no answer within {}s", .0.as_secs())]
    Timeout(Duration),
    /// The connection could not be made, or broke.
    #[error("no connection: {0}")]
    Connection(String),
    /// Nobody here can search.
    #[error("no search service has a key; set one for {}", services.join(" or "))]
    NoSearch {
        /// The services that could, if they had a key.
        services: Vec<String>,
    },
    /// A search service did not search.
    #[error("{service}: {why}")]
    Search {
        /// The service.
        service: String,
        /// Why, without secrets.
        why: String,
    },
    /// The service did not answer.
    #[error("{0}")]
    Service(String),
}

impl WebError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadUrl(_) => "WEB_BAD_URL",
            Self::NotAllowed { .. } => "WEB_NOT_ALLOWED",
            Self::Redirects(_) => "WEB_REDIRECTS",
            Self::Timeout(_) => "WEB_TIMEOUT",
            Self::Connection(_) => "WEB_CONNECTION",
            Self::NoSearch { .. } => "WEB_NO_SEARCH",
            Self::Search { .. } => "WEB_SEARCH",
            Self::Service(_) => "WEB_UNAVAILABLE",
        }
    }
}

impl From<ServiceError> for WebError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error.to_string())
    }
}
impl From<WebError> for ToolFailure {
    fn from(error: WebError) -> Self {
        Self::coded("WebError", error.code(), error.to_string())
    }
}
