//! Plugins that log in to providers: four actions of a script, and everything around them.

mod flow;
mod tokens;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linn_bus::provider;
use linn_services::oauth::{OAuth, OAuthError, OAuthLogin, OAuthProvider, OAuthToken};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::active::{Active, ask};
use crate::exchange::Question;
use crate::fleet::Fleet;
use crate::manifest::{DetectPath, OAuthEntry};
use crate::oauth::tokens::Slot;
use crate::system::{absolute, exists};

/// All logins: the one that is under way, and what it takes to speak to providers.
pub(crate) struct Logins {
    fleet: Arc<Fleet>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Ends the login that was begun last, when another one begins.
    current: CancellationToken,
    pending: Option<Pending>,
    tokens: HashMap<String, Arc<Slot>>,
}

/// A login that waits for a code.
#[derive(Debug, Clone)]
struct Pending {
    provider: String,
    /// What the script wants back.
    carried: Option<Value>,
}

/// What a script is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Login,
    Complete,
    Token,
    Clear,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Complete => "complete",
            Self::Token => "token",
            Self::Clear => "clear",
        }
    }

    fn script(self, entry: &OAuthEntry) -> Option<(PathBuf, Duration)> {
        let (script, timeout) = match self {
            Self::Login => (entry.login.clone(), entry.login_timeout),
            Self::Complete => (entry.complete.clone(), entry.login_timeout),
            Self::Token => (Some(entry.token.clone()), entry.token_timeout),
            Self::Clear => (entry.clear.clone(), entry.token_timeout),
        };
        script.map(|it| (it, timeout))
    }
}

/// A provider with the plugin that brings it.
#[derive(Debug, Clone)]
struct Known {
    active: Arc<Active>,
    entry: OAuthEntry,
}

impl Logins {
    pub(crate) fn new(fleet: Arc<Fleet>) -> Arc<Self> {
        Arc::new(Self { fleet, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The providers, by id; of two plugins the first by name.
    fn known(&self) -> Vec<Known> {
        let active = self.fleet.active().into_iter();
        let mut known: Vec<Known> = active
            .filter_map(|active| {
                let entry = active.manifest.oauth.clone()?;
                Some(Known { active, entry })
            })
            .collect();
        known.sort_by(|a, b| a.entry.provider_id.cmp(&b.entry.provider_id));
        known.dedup_by(|later, first| later.entry.provider_id == first.entry.provider_id);
        known
    }

    fn find(&self, id: &str) -> Result<Known, OAuthError> {
        let found = self.known().into_iter().find(|it| it.entry.provider_id == id);
        found.ok_or_else(|| OAuthError::Unknown(id.to_owned()))
    }

    /// Where the plugin keeps its token.
    fn token_path(&self, entry: &OAuthEntry) -> PathBuf {
        let file = PathBuf::from(".config/catalyst-code/oauth").join(&entry.token_file);
        match self.fleet.setting.home() {
            Some(home) => home.join(file),
            None => absolute(&file),
        }
    }

    fn has_credentials(&self, entry: &OAuthEntry) -> bool {
        let home = self.fleet.setting.home();
        let detect = entry.detect.as_ref().and_then(|it| match it {
            DetectPath::Codex => {
                let set = self.fleet.setting.variable("CODEX_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
                Some(set.or_else(|| home.map(|it| it.join(".codex")))?.join("auth.json"))
            }
            DetectPath::Home(path) => Some(home?.join(path)),
        });
        exists(&self.token_path(entry)) || detect.is_some_and(|it| exists(&it))
    }

    fn shown(&self, known: &Known) -> OAuthProvider {
        let entry = &known.entry;
        OAuthProvider {
            id: entry.provider_id.clone(),
            label: entry.label.clone(),
            kind: entry.kind.clone(),
            base_url: entry.base_url.clone(),
            description: entry.description.clone(),
            headers: entry.headers.clone(),
            plugin: known.active.name().to_owned(),
            has_credentials: self.has_credentials(entry),
        }
    }

    /// Asks the script for an action.
    async fn act(
        &self,
        known: &Known,
        action: Action,
        more: Value,
        signal: &CancellationToken,
    ) -> Result<Map<String, Value>, OAuthError> {
        let failed = |what: String| OAuthError::Failed(what);
        let entry = &known.entry;
        let (script, timeout) = action
            .script(entry)
            .ok_or_else(|| failed(format!("'{}' has no script for '{}'", entry.provider_id, action.as_str())))?;
        let mut input = json!({
            "action": action.as_str(),
            "provider_id": entry.provider_id,
            "token_path": self.token_path(entry).display().to_string(),
            "workspace": self.fleet.setting.workspace_text(),
            "timestamp": self.fleet.scripts.now(),
        });
        if let (Some(input), Value::Object(more)) = (input.as_object_mut(), more) {
            input.extend(more);
        }
        let question = Question {
            label: "oauth script",
            script,
            input,
            timeout,
            environment: entry.env_passthrough.clone(),
            signal: signal.clone(),
        };
        let text = ask(&known.active, question).await.map_err(|it| failed(it.text("oauth script")))?;
        let answer: Value =
            serde_json::from_str(&text).map_err(|it| failed(format!("oauth script returned invalid JSON: {it}")))?;
        match answer {
            Value::Object(answer) => Ok(answer),
            _ => Err(failed("oauth script returned invalid JSON: it is no object".to_owned())),
        }
    }
}

/// The host that a URL names, in small letters.
fn host_of(url: &str) -> Option<String> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |it| it.1);
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// Provides [`OAuth`].
pub(crate) struct OAuthService(pub(crate) Arc<Logins>);

#[provider]
impl OAuth for OAuthService {
    fn providers(&self) -> Result<Vec<OAuthProvider>, OAuthError> {
        Ok(self.0.known().iter().map(|it| self.0.shown(it)).collect())
    }

    async fn log_in(&self, provider: &str) -> Result<OAuthLogin, OAuthError> {
        self.0.log_in(provider).await
    }

    async fn complete(&self, code: &str) -> Result<OAuthProvider, OAuthError> {
        self.0.complete(code).await
    }

    fn is_pending(&self) -> Result<bool, OAuthError> {
        Ok(self.0.state().pending.is_some())
    }

    fn provider_for(&self, id: &str, base_url: &str) -> Result<Option<OAuthProvider>, OAuthError> {
        let known = self.0.known();
        let by_host = || {
            let host = host_of(base_url)?;
            known.iter().find(|it| host_of(&it.entry.base_url).as_ref() == Some(&host))
        };
        let found = known.iter().find(|it| it.entry.provider_id == id).or_else(by_host);
        Ok(found.map(|it| self.0.shown(it)))
    }

    async fn token(&self, provider: &str) -> Result<OAuthToken, OAuthError> {
        self.0.token(provider).await
    }

    fn refused(&self, provider: &str) -> Result<(), OAuthError> {
        self.0.forget_token(provider);
        Ok(())
    }

    async fn log_out(&self, provider: &str) -> Result<(), OAuthError> {
        self.0.log_out(provider).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_13_5_hosts_of_endpoints() {
        for (url, host) in [
            ("https://API.example.com/v1", Some("api.example.com")),
            ("http://user:pw@example.com:8080?x", Some("example.com")),
            ("http://[::1]:80/x", Some("::1")),
            ("example.com", None),
            ("https:///x", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }
}
