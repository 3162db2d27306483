//! Why something of a turn did not come to its end, and how everything that waits can be stopped.

use futures_util::future::{Either, select};
use linn_bus::ListenerError;
use linn_services::ids::AgentId;
use linn_services::llm::LlmError;
use linn_services::prompt::PromptError;
use linn_services::session::{AppendError, ErrorInfo, SessionError};
use tokio_util::sync::CancellationToken;

/// Why something of a turn did not come to its end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The turn was cancelled, or its agent disposed.
    Cancelled,
    /// It failed.
    Failed(LoopError),
}

impl<E: Into<LoopError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What can fail in a turn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoopError {
    #[error("{0:#}")]
    Listener(#[from] ListenerError),
    #[error("{0}")]
    Append(#[from] AppendError),
    #[error("{0}")]
    Prompt(#[from] PromptError),
    #[error("{0}")]
    Llm(#[from] LlmError),
    #[error("{0}")]
    Flush(SessionError),
    #[error(
        "the session was not written down within {limit_ms} ms, which is `flush_limit_ms`: a listener of `session/flush` hangs"
    )]
    FlushStuck { limit_ms: u128 },
    #[error("no `{service}` service is there; mount the plugin that provides it")]
    NoService { service: &'static str },
    #[error("agent \"{0}\" has no model: give it one in its options, or by a listener of `agent/request`")]
    NoModel(AgentId),
    #[error("the model said that it calls tools, and named none")]
    EmptyAnswer,
    #[error("the turn was kept going {limit} times after it would have ended; the limit is `max_forced_continues`")]
    ContinuationLimit { limit: u32 },
}

impl LoopError {
    /// Stable code, where the error has one.
    pub(crate) fn code(&self) -> Option<String> {
        let code = match self {
            Self::Listener(error) => return Some(listener_code(error)),
            Self::Append(AppendError::Listeners { errors, .. }) => return errors.iter().next().map(listener_code),
            Self::Append(error) => error.code(),
            Self::Prompt(PromptError::Listener(error)) => return Some(listener_code(error)),
            Self::Prompt(error) => error.code(),
            Self::Llm(error) => return error.code.clone(),
            Self::Flush(error) => error.code(),
            Self::FlushStuck { .. } => "FLUSH_STUCK",
            Self::NoService { .. } => "NO_SERVICE",
            Self::NoModel(_) => "NO_MODEL",
            Self::EmptyAnswer => "EMPTY_RESPONSE",
            Self::ContinuationLimit { .. } => "CONTINUATION_LIMIT",
        };
        Some(code.to_owned())
    }

    /// Kind of error and code, for who shows it.
    pub(crate) fn info(&self) -> Option<ErrorInfo> {
        let name = match self {
            Self::Listener(_) => "ListenerError",
            Self::Append(_) => "AppendError",
            Self::Prompt(_) => "PromptError",
            Self::Llm(_) => "LlmError",
            Self::Flush(_) => "SessionError",
            Self::FlushStuck { .. }
            | Self::NoService { .. }
            | Self::NoModel(_)
            | Self::EmptyAnswer
            | Self::ContinuationLimit { .. } => "LoopError",
        };
        self.code().map(|code| ErrorInfo { name: name.to_owned(), code })
    }
}

/// The code that the author of a listener gave, else the one of how it failed.
fn listener_code(error: &ListenerError) -> String {
    match error.cause() {
        linn_bus::Cause::Failed(fault) => fault.code().unwrap_or(error.code()).to_owned(),
        _ => error.code().to_owned(),
    }
}

/// What `future` gives, unless `token` ends it first; then it is dropped where it waits. What it gives while the token
/// ends is thrown away.
pub(crate) async fn race<T>(token: &CancellationToken, future: impl Future<Output = T>) -> Result<T, Halt> {
    if token.is_cancelled() {
        return Err(Halt::Cancelled);
    }
    let cancelled = std::pin::pin!(token.cancelled());
    match select(std::pin::pin!(future), cancelled).await {
        Either::Left((value, _)) if !token.is_cancelled() => Ok(value),
        _ => Err(Halt::Cancelled),
    }
}
