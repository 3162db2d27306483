//! Providers that a human logs in to without a key.

use linn_bus::{ServiceError, service};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// Logs in to providers of models, and keeps what it takes to speak to them.
///
/// Where a human has to go is told as `oauth/prompt`.
#[service("oauth")]
pub trait OAuth {
    /// The providers that can be logged in to, by id.
    fn providers(&self) -> Result<Vec<OAuthProvider>, OAuthError>;

    /// Logs in. A login that was begun before is superseded by this one.
    ///
    /// Dropping the future gives the login up; all it started is gone then.
    async fn log_in(&self, provider: &str) -> Result<OAuthLogin, OAuthError>;

    /// Goes on with the login that waits for a code, and gives the provider. After a failure it waits still.
    async fn complete(&self, code: &str) -> Result<OAuthProvider, OAuthError>;

    /// Whether some login waits for a code.
    fn is_pending(&self) -> Result<bool, OAuthError>;

    /// The provider that brings tokens for an endpoint: by its id, or by the host of its base URL.
    fn provider_for(&self, id: &str, base_url: &str) -> Result<Option<OAuthProvider>, OAuthError>;

    /// The token for the next request to a provider. It comes from memory while it has more than a minute left; else a
    /// script is asked, once, however many ask at the same time.
    async fn token(&self, provider: &str) -> Result<OAuthToken, OAuthError>;

    /// The endpoint refused a token: it is forgotten, and the next call of [`token`](Self::token) asks for another one.
    fn refused(&self, provider: &str) -> Result<(), OAuthError>;

    /// Logs out: the plugin clears what it keeps, then its token file goes.
    async fn log_out(&self, provider: &str) -> Result<(), OAuthError>;
}

/// A provider that can be logged in to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OAuthProvider {
    /// Id.
    pub id: String,
    /// What it is called.
    pub label: String,
    /// The wire it speaks: `openai` or `anthropic`.
    pub kind: String,
    /// Where its endpoint is.
    pub base_url: String,
    /// What it is, in a line.
    pub description: String,
    /// Headers of every request to it, in order.
    pub headers: Vec<(String, String)>,
    /// The plugin that logs in to it.
    pub plugin: String,
    /// Whether there are stored credentials.
    pub has_credentials: bool,
}

/// How far a login is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthLogin {
    /// It is done.
    Done,
    /// It waits for a code, see [`OAuth::complete`].
    AwaitsCode,
    /// Another login was begun meanwhile; what came of this one does not count.
    Superseded,
}

/// What a request carries. `Debug` does not show the token.
#[derive(Debug, Clone)]
pub struct OAuthToken {
    /// The token.
    pub access_token: SecretString,
    /// Headers that take the place of those of the provider of the same name.
    pub headers: Vec<(String, SecretString)>,
}

/// Why a login or a token did not come about.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// No enabled plugin logs in to it.
    #[error(
        "'{0}' has no plugin OAuth login — install a plugin that declares oauth.provider_id=\"{0}\", or paste an API key \
         via /login"
    )]
    Unknown(String),
    /// Nothing waits for a code.
    #[error(
        "No pending OAuth login. Run /login first — the no-browser flow prints a URL; paste its code here with \
         /oauth-code <code>."
    )]
    NothingPending,
    /// The plugin that began the login is gone.
    #[error("no plugin OAuth provider for '{0}' — pending login discarded")]
    PendingGone(String),
    /// The script, or the way to it, failed.
    #[error("{0}")]
    Failed(String),
    /// There is no token; a login may help.
    #[error("oauth token script for '{0}' returned no access_token (re-login may be required)")]
    NoToken(String),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl OAuthError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "OAUTH_UNKNOWN_PROVIDER",
            Self::NothingPending => "OAUTH_NOTHING_PENDING",
            Self::PendingGone(_) => "OAUTH_PENDING_GONE",
            Self::Failed(_) => "OAUTH_FAILED",
            Self::NoToken(_) => "OAUTH_NO_TOKEN",
            Self::Service(error) => error.code(),
        }
    }
}
