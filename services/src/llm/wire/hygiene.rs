//! Words of an endpoint that are shown to people: short, and without keys.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

/// Most characters of an endpoint's words that are shown.
pub const MAX_ERROR_CHARS: usize = 2000;

/// What is shown in place of words that may hold a key.
pub const REDACTED: &str = "provider returned a redacted authentication/error response";

/// What is shown where the endpoint said nothing.
const SILENT: &str = "provider request failed";

const MARKERS: &[&str] = &[
    "authorization",
    "bearer ",
    "api_key",
    "api-key",
    "api key",
    "apikey",
    "access_token",
    "access-token",
    "refresh_token",
    "refresh-token",
    "client_secret",
    "client-secret",
    "id_token",
    "id-token",
    "oauth_token",
    "oauth-token",
    "sk-",
];

/// Words of an endpoint as they may be shown: trimmed, cut, and replaced as a whole if they hold one of `secrets` or what
/// looks like a key.
pub fn clean_text(text: &str, secrets: &[SecretString]) -> String {
    let text = text.trim();
    if text.is_empty() {
        return SILENT.to_owned();
    }
    let lower = text.to_ascii_lowercase();
    let is_told = |secret: &SecretString| !secret.expose_secret().is_empty() && text.contains(secret.expose_secret());
    if MARKERS.iter().any(|it| lower.contains(it)) || secrets.iter().any(is_told) {
        return REDACTED.to_owned();
    }
    match text.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What the body of an error answer says: the message of an error object, or the body as it is.
pub fn error_text(body: &[u8], secrets: &[SecretString]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    match parsed.as_ref().and_then(message) {
        // The rest of the body is not shown, so it need not be looked at.
        Some(message) => clean_text(message, secrets),
        None => clean_text(&String::from_utf8_lossy(body), secrets),
    }
}

fn message(body: &Value) -> Option<&str> {
    let body = body.as_array().and_then(|it| it.first()).unwrap_or(body);
    let error = body.get("error").unwrap_or(body);
    error
        .as_str()
        .or_else(|| error.get("message").and_then(Value::as_str))
        .or_else(|| body.get("message").and_then(Value::as_str))
        .or_else(|| body.get("detail").and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r138_words_that_may_hold_a_key_are_not_shown() {
        let secrets = [SecretString::from("hunter-2")];
        for text in [
            "Authorization header is wrong",
            "the header was `Bearer abc`",
            "your API key is xyz",
            "api-key",
            "bad x-api-key",
            "{\"Access_Token\": 1}",
            "refresh-token",
            "key sk-test-123",
            "no such user hunter-2",
        ] {
            assert_eq!(clean_text(text, &secrets), REDACTED, "{text}");
        }
        assert_eq!(clean_text(" no such model ", &secrets), "no such model");
        assert_eq!(clean_text("x", &[SecretString::from("")]), "x");
    }

    #[test]
    fn words_are_cut_at_a_character() {
        let text = clean_text(&"é".repeat(3000), &[]);
        assert_eq!((text.chars().count(), text.chars().last()), (MAX_ERROR_CHARS + 1, Some('…')));
        assert_eq!(clean_text(&"é".repeat(2000), &[]).chars().count(), 2000);
        assert_eq!(clean_text(" \n", &[]), SILENT);
    }

    #[test]
    fn the_message_is_found_in_the_body() {
        for (body, expected) in [
            (r#"{"error":{"message":"too long","code":1}}"#, "too long"),
            (r#"{"error":"broken"}"#, "broken"),
            (r#"{"message":"gone"}"#, "gone"),
            (r#"{"detail":"not found"}"#, "not found"),
            (r#"[{"error":{"message":"in a list"}}]"#, "in a list"),
            ("<html>502</html>", "<html>502</html>"),
            ("", SILENT),
        ] {
            assert_eq!(error_text(body.as_bytes(), &[]), expected);
        }
        assert_eq!(error_text(b"\xff\xfe", &[]), "\u{fffd}\u{fffd}");
    }
}
