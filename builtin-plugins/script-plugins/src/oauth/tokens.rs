//! Tokens: asked for when they are needed, by one at a time, and kept in memory alone.

use std::sync::{Arc, Mutex, PoisonError};

use linn_services::oauth::{OAuthError, OAuthToken};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::oauth::{Action, Logins};

/// A token with less time left than this is asked for anew, in seconds.
const MARGIN_S: u64 = 60;

/// How long a token is taken to live when nobody says, in seconds.
const ASSUMED_S: u64 = 300;

/// The token of one provider.
#[derive(Default)]
pub(crate) struct Slot {
    /// Held by whoever asks for a new one.
    asking: tokio::sync::Mutex<()>,
    kept: Mutex<Option<(OAuthToken, u64)>>,
}

impl Slot {
    fn get(&self, now: u64) -> Option<OAuthToken> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(_, expires_at)| *expires_at > now + MARGIN_S).map(|it| it.0.clone())
    }

    fn set(&self, kept: Option<(OAuthToken, u64)>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

impl Logins {
    fn slot(&self, provider: &str) -> Arc<Slot> {
        self.state().tokens.entry(provider.to_owned()).or_default().clone()
    }

    /// The next one asks for a new token; also whoever has asked for one before and has not got it yet does not keep it.
    pub(crate) fn forget_token(&self, provider: &str) {
        self.state().tokens.remove(provider);
    }

    pub(crate) async fn token(&self, provider: &str) -> Result<OAuthToken, OAuthError> {
        let known = self.find(provider)?;
        let slot = self.slot(provider);
        if let Some(token) = slot.get(self.fleet.scripts.now()) {
            return Ok(token);
        }
        let _asking = slot.asking.lock().await;
        // Somebody else may have asked meanwhile.
        if let Some(token) = slot.get(self.fleet.scripts.now()) {
            return Ok(token);
        }
        let asked = self.act(&known, Action::Token, json!({}), &CancellationToken::new()).await;
        let answer =
            asked.map_err(|it| OAuthError::Failed(format!("oauth token script for '{provider}' failed: {it}")))?;
        let now = self.fleet.scripts.now();
        let Some((token, expires_at)) = read(&answer, now) else {
            return Err(OAuthError::NoToken(provider.to_owned()));
        };
        slot.set(Some((token.clone(), expires_at)));
        Ok(token)
    }
}

fn read(answer: &Map<String, Value>, now: u64) -> Option<(OAuthToken, u64)> {
    let access_token = answer.get("access_token")?.as_str().filter(|it| !it.is_empty())?;
    let expires_at = answer.get("expires_at").and_then(Value::as_u64).filter(|it| *it > 0).unwrap_or(now + ASSUMED_S);
    let header = |pair: &Value| {
        let [name, value] = &pair.as_array()?[..] else { return None };
        let (name, value) = (name.as_str()?, value.as_str()?);
        (!name.is_empty() && !value.is_empty()).then(|| (name.to_owned(), SecretString::from(value.to_owned())))
    };
    let headers = answer.get("headers").and_then(Value::as_array).into_iter().flatten().filter_map(header).collect();
    Some((OAuthToken { access_token: SecretString::from(access_token.to_owned()), headers }, expires_at))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn script_13_1_what_a_token_script_answers() {
        let of = |answer: Value| read(answer.as_object().unwrap(), 1_000);
        assert!(of(json!({ "access_token": null })).is_none());
        assert!(of(json!({ "access_token": "" })).is_none());
        for (expires_at, expected) in
            [(json!(5_000), 5_000), (json!(0), 1_300), (json!(-1), 1_300), (json!("5"), 1_300)]
        {
            let (_, found) = of(json!({ "access_token": "t", "expires_at": expires_at })).unwrap();
            assert_eq!(found, expected, "{expires_at}");
        }
        let headers = json!([["X-A", "1"], ["X-B"], ["", "2"], ["X-C", 3], "x", ["X-D", ""], ["X-E", "5"]]);
        let (token, _) = of(json!({ "access_token": "t", "ok": false, "headers": headers })).unwrap();
        let found: Vec<_> = token.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(found, [("X-A", "1"), ("X-E", "5")]);
        assert!(!format!("{token:?}").contains("\"t\""));
    }
}
