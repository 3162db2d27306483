//! How an attempt failed, and whether another one may help.

use crate::llm::LlmError;

/// How an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error, if nothing helps.
    pub error: LlmError,
    /// What the endpoint says of when to come back, in milliseconds.
    pub hint_ms: Option<u64>,
    /// What front ends are told in place of a status.
    pub reason: Option<&'static str>,
}

impl From<LlmError> for Failure {
    fn from(error: LlmError) -> Self {
        Self { error, hint_ms: None, reason: None }
    }
}

/// Words by which an endpoint says that the request is longer than the window of the model.
const TOO_LONG: &[&str] = &[
    "context length",
    "context_length",
    "context window",
    "maximum context",
    "prompt is too long",
    "too many tokens",
    "input is too long",
];

/// The error of an answer with a status that is no success. `reason` is the reason phrase, `message` is clean.
pub fn status_error(status: u16, reason: &str, message: &str) -> LlmError {
    let line = format!("{status} {reason}");
    let text = format!("HTTP {}: {message}", line.trim());
    let lower = message.to_ascii_lowercase();
    let is_too_long = matches!(status, 400 | 413 | 422) && TOO_LONG.iter().any(|it| lower.contains(it));
    let error = match status {
        _ if is_too_long => LlmError::new("CONTEXT_LENGTH", text),
        401 | 403 => LlmError::new("AUTH", text),
        408 => LlmError::new("TIMEOUT", text).retryable(),
        429 => LlmError::new("RATE_LIMIT", text).retryable(),
        400 | 404 | 405 | 409 | 413 | 415 | 422 => LlmError::new("INVALID_REQUEST", text),
        500.. => LlmError::new("SERVER", text).retryable(),
        _ => LlmError::new(&format!("HTTP_{status}"), text),
    };
    error.with_status(status)
}

/// The error that an endpoint tells in the middle of a stream. `kinds` are its code and type, as far as it gave them;
/// `message` is clean.
pub fn stream_error(kinds: &[&str], message: &str) -> LlmError {
    let (mut code, mut is_retryable, mut status) = ("STREAM_ERROR", false, None);
    for kind in kinds {
        let kind = kind.to_ascii_lowercase();
        let number = kind.parse::<u16>().ok().filter(|it| (400..600).contains(it));
        status = status.or(number);
        let (its_code, helps) = match (&*kind, number) {
            (_, Some(429)) => ("RATE_LIMIT", true),
            (_, Some(500..=504 | 529)) => ("SERVER", true),
            (_, Some(401 | 403)) => ("AUTH", false),
            ("server_error" | "api_error", _) => ("SERVER", true),
            ("timeout" | "timeout_error", _) => ("TIMEOUT", true),
            ("authentication_error" | "permission_error", _) => ("AUTH", false),
            ("context_length_exceeded", _) => ("CONTEXT_LENGTH", false),
            ("invalid_request_error", _) => ("INVALID_REQUEST", false),
            _ if kind.starts_with("rate_limit") => ("RATE_LIMIT", true),
            _ if kind.starts_with("overloaded") => ("OVERLOADED", true),
            _ => continue,
        };
        if code == "STREAM_ERROR" || helps && !is_retryable {
            code = its_code;
        }
        is_retryable |= helps;
    }
    let lower = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|it| lower.contains(it));
    if !is_retryable && code == "STREAM_ERROR" {
        if says(&["rate limit", "too many requests"]) {
            (code, is_retryable) = ("RATE_LIMIT", true);
        } else if says(&["overloaded", "temporarily unavailable"]) {
            (code, is_retryable) = ("OVERLOADED", true);
        } else if says(TOO_LONG) {
            code = "CONTEXT_LENGTH";
        }
    }
    let kind = kinds.iter().find(|it| !it.is_empty()).map_or(String::new(), |it| format!(" ({it})"));
    let mut error = LlmError::new(code, format!("provider stream error: {message}{kind}"));
    error.status = status;
    error.is_retryable = is_retryable;
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_what_is_wrong_and_whether_another_try_helps() {
        for (status, code, is_retryable) in [
            (400, "INVALID_REQUEST", false),
            (401, "AUTH", false),
            (403, "AUTH", false),
            (404, "INVALID_REQUEST", false),
            (408, "TIMEOUT", true),
            (418, "HTTP_418", false),
            (429, "RATE_LIMIT", true),
            (500, "SERVER", true),
            (504, "SERVER", true),
            (529, "SERVER", true),
        ] {
            let error = status_error(status, "Reason", "words");
            assert_eq!(error.message, format!("HTTP {status} Reason: words"));
            assert_eq!((error.code.as_deref(), error.is_retryable), (Some(code), is_retryable), "{status}");
            assert_eq!(error.status, Some(status));
        }
        let error = status_error(400, "", "This model's maximum context length is 8192 tokens");
        assert_eq!(error.code.as_deref(), Some("CONTEXT_LENGTH"));
    }

    #[test]
    fn errors_within_a_stream_are_told_apart() {
        for (kinds, message, code, is_retryable) in [
            (&["502"][..], "upstream limit reached", "SERVER", true),
            (&["rate_limit_exceeded"], "x", "RATE_LIMIT", true),
            (&["invalid_request_error", "429"], "x", "RATE_LIMIT", true),
            (&["overloaded_error"], "Overloaded", "OVERLOADED", true),
            (&["server_error"], "x", "SERVER", true),
            (&["timeout"], "x", "TIMEOUT", true),
            (&["invalid_request_error"], "is overloaded with fields", "INVALID_REQUEST", false),
            (&["weird"], "Too Many Requests", "RATE_LIMIT", true),
            (&[], "the model is temporarily unavailable", "OVERLOADED", true),
            (&["context_length_exceeded"], "x", "CONTEXT_LENGTH", false),
            (&[], "boom", "STREAM_ERROR", false),
        ] {
            let error = stream_error(kinds, message);
            assert_eq!((error.code.as_deref(), error.is_retryable), (Some(code), is_retryable), "{kinds:?} {message}");
            assert!(error.message.starts_with(&format!("provider stream error: {message}")));
        }
    }
}
