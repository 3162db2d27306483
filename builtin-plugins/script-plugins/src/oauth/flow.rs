//! From the beginning of a login to its end.

use std::time::Duration;

use futures_util::future::{Either, select};
use linn_services::events::OAuthPrompt;
use linn_services::oauth::{OAuthError, OAuthLogin, OAuthProvider};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::Setting;
use crate::oauth::{Action, Known, Logins, Pending};
use crate::system::{Redirect, open_url, remove_file};

/// How long a browser may take to come back.
const REDIRECT: Duration = Duration::from_secs(300);

/// How a login goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Somebody is logged in already.
    Existing,
    /// The script waits for the provider.
    Poll,
    /// A human brings a code.
    Manual,
    /// A browser brings the code.
    Web,
}

impl Flow {
    fn of(answer: &Map<String, Value>, is_headless: bool) -> Self {
        let flow = answer.get("flow").and_then(Value::as_str).unwrap_or_default().trim().to_ascii_lowercase();
        let is_automatic = answer.get("auto_complete").and_then(Value::as_bool) == Some(true);
        match flow.as_str() {
            "already_authenticated" | "already-authenticated" | "existing" | "authenticated" => Self::Existing,
            "poll" | "auto" | "device_code" | "device-code" => Self::Poll,
            _ if is_automatic => Self::Poll,
            "manual" => Self::Manual,
            _ if is_headless => Self::Manual,
            _ => Self::Web,
        }
    }
}

/// Whether no browser can be opened for a human here.
fn is_headless(setting: &Setting) -> bool {
    let asked = setting.variable("CATALYST_CODE_NO_BROWSER").or_else(|| setting.variable("NO_BROWSER"));
    if let Some(asked) = asked {
        return !matches!(asked.to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off");
    }
    let is_set = |name| setting.variable(name).is_some();
    if is_set("SSH_CONNECTION") || is_set("SSH_TTY") {
        return true;
    }
    cfg!(unix) && !cfg!(target_os = "macos") && !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY")
}

fn text<'a>(answer: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    answer.get(key).and_then(Value::as_str)
}

fn failed(what: impl Into<String>) -> OAuthError {
    OAuthError::Failed(what.into())
}

impl Logins {
    /// Logs in, unless another login begins meanwhile.
    pub(crate) async fn log_in(&self, provider: &str) -> Result<OAuthLogin, OAuthError> {
        let known = self.find(provider)?;
        let own = CancellationToken::new();
        {
            let mut state = self.state();
            std::mem::replace(&mut state.current, own.clone()).cancel();
            state.pending = None;
        }
        let login = Box::pin(self.go_through(&known, &own));
        match select(login, Box::pin(own.cancelled())).await {
            // What its script came to when it was ended does not count either.
            _ if own.is_cancelled() => Ok(OAuthLogin::Superseded),
            Either::Left((done, _)) => done,
            Either::Right(_) => Ok(OAuthLogin::Superseded),
        }
    }

    async fn go_through(&self, known: &Known, own: &CancellationToken) -> Result<OAuthLogin, OAuthError> {
        let is_headless = is_headless(&self.fleet.setting);
        let mut request = json!({ "headless": is_headless });
        let mut redirect = None;
        if !is_headless {
            let bound = Redirect::bind().await;
            let bound = bound.map_err(|it| failed(format!("could not bind localhost OAuth callback: {it}")))?;
            request["redirect_uri"] = bound.uri().into();
            redirect = Some(bound);
        }
        let answer = self.act(known, Action::Login, request, own).await?;
        if answer.get("ok").and_then(Value::as_bool) == Some(false) {
            return Err(failed(text(&answer, "error").unwrap_or("unknown error")));
        }
        let flow = Flow::of(&answer, is_headless);
        if flow == Flow::Existing {
            self.forget_token(&known.entry.provider_id);
            return Ok(OAuthLogin::Done);
        }
        let url = text(&answer, "url").ok_or_else(|| failed("login script did not return a url"))?;
        // It goes to the opener of the system, which would start any program for any scheme.
        let scheme = url.split_once("://").map(|it| it.0.to_ascii_lowercase()).unwrap_or_default();
        if !matches!(scheme.as_str(), "http" | "https") || url.chars().any(char::is_control) {
            return Err(failed("login script returned a url that is neither http nor https"));
        }
        self.prompt(known, url, &answer, is_headless);
        let carried = answer.get("pending").filter(|it| !it.is_null()).cloned();
        match (flow, redirect) {
            (Flow::Manual, _) => {
                let mut state = self.state();
                if !own.is_cancelled() {
                    state.pending = Some(Pending { provider: known.entry.provider_id.clone(), carried });
                }
                Ok(OAuthLogin::AwaitsCode)
            }
            (Flow::Web, Some(redirect)) => {
                let code = self.code(&redirect, text(&answer, "state")).await?;
                self.finish(known, &code, Some(redirect.uri()), carried, own).await
            }
            (_, redirect) => self.finish(known, "", redirect.map(|it| it.uri()), carried, own).await,
        }
    }

    fn prompt(&self, known: &Known, url: &str, answer: &Map<String, Value>, is_headless: bool) {
        let usual = if is_headless {
            "Open the URL, approve, then paste the code via /oauth-code."
        } else {
            "Open the URL to log in."
        };
        self.fleet.ctx.emit(&OAuthPrompt {
            provider: known.entry.provider_id.clone(),
            url: url.to_owned(),
            code: text(answer, "code").map(str::to_owned),
            message: text(answer, "message").unwrap_or(usual).to_owned(),
        });
        if !is_headless {
            let (url, environment) = (url.to_owned(), self.fleet.scripts.open_environment());
            let opening = async move { open_url(&url, &environment).await };
            // When the plugin is going nobody logs in any more.
            drop(self.fleet.ctx.spawn(opening));
        }
    }

    async fn code(&self, redirect: &Redirect, state: Option<&str>) -> Result<String, OAuthError> {
        let clock = self.fleet.ctx.clock();
        let waiting = Box::pin(redirect.code(state, clock));
        match select(waiting, clock.sleep(REDIRECT)).await {
            Either::Left((code, _)) => code.map_err(|it| failed(it.to_string())),
            Either::Right(_) => Err(failed("timed out waiting for the browser redirect")),
        }
    }

    async fn finish(
        &self,
        known: &Known,
        code: &str,
        redirect_uri: Option<String>,
        carried: Option<Value>,
        own: &CancellationToken,
    ) -> Result<OAuthLogin, OAuthError> {
        let mut request = json!({ "code": code });
        if let Some(uri) = redirect_uri {
            request["redirect_uri"] = uri.into();
        }
        if let Some(carried) = carried {
            request["pending"] = carried;
        }
        let answer = self.act(known, Action::Complete, request, own).await?;
        if answer.get("ok").and_then(Value::as_bool) != Some(true) {
            return Err(failed(text(&answer, "error").unwrap_or("the script did not say that it is done")));
        }
        self.forget_token(&known.entry.provider_id);
        Ok(OAuthLogin::Done)
    }

    /// Goes on with the login that waits for a code; it waits still when that fails.
    pub(crate) async fn complete(&self, code: &str) -> Result<OAuthProvider, OAuthError> {
        let pending = self.state().pending.clone().ok_or(OAuthError::NothingPending)?;
        let Ok(known) = self.find(&pending.provider) else {
            self.state().pending = None;
            return Err(OAuthError::PendingGone(pending.provider));
        };
        let own = self.state().current.clone();
        self.finish(&known, code, None, pending.carried, &own).await?;
        self.state().pending = None;
        Ok(self.shown(&known))
    }

    /// Logs out: first the plugin clears what it keeps, which may need the token, then the token goes.
    pub(crate) async fn log_out(&self, provider: &str) -> Result<(), OAuthError> {
        let known = self.find(provider)?;
        let cleared = match known.entry.clear {
            Some(_) => self.act(&known, Action::Clear, json!({}), &CancellationToken::new()).await.map(drop),
            None => Ok(()),
        };
        if let Err(error) = cleared {
            self.fleet.ctx.logger().warn(format_args!("'{provider}' was not cleared by its plugin: {error}"));
        }
        self.forget_token(provider);
        {
            let mut state = self.state();
            if state.pending.as_ref().is_some_and(|it| it.provider == provider) {
                state.pending = None;
            }
        }
        let path = self.token_path(&known.entry);
        remove_file(&path).map_err(|it| failed(format!("the token file {} was not removed: {it}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::ScriptPluginsConfig;

    fn setting(variables: &[(&str, &str)]) -> Arc<Setting> {
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Arc::new(Setting::new(ScriptPluginsConfig { environment: Some(environment), ..Default::default() }))
    }

    #[test]
    fn script_13_2_how_a_login_goes_on() {
        let of = |answer: Value, is_headless| Flow::of(answer.as_object().unwrap(), is_headless);
        for flow in ["already_authenticated", "Already-Authenticated", " existing ", "authenticated"] {
            assert_eq!(of(json!({ "flow": flow }), true), Flow::Existing, "{flow}");
        }
        for flow in ["poll", "auto", "device_code", "DEVICE-CODE"] {
            assert_eq!(of(json!({ "flow": flow }), true), Flow::Poll, "{flow}");
        }
        assert_eq!(of(json!({ "auto_complete": true }), true), Flow::Poll);
        assert_eq!(of(json!({ "flow": "manual" }), false), Flow::Manual);
        assert_eq!(of(json!({ "flow": "web" }), true), Flow::Manual);
        assert_eq!(of(json!({}), false), Flow::Web);
    }

    #[test]
    fn script_13_2_where_no_browser_can_be_opened() {
        assert!(!is_headless(&setting(&[("NO_BROWSER", "off"), ("SSH_TTY", "x")])));
        assert!(is_headless(&setting(&[("NO_BROWSER", "1"), ("DISPLAY", ":0")])));
        assert!(!is_headless(&setting(&[("CATALYST_CODE_NO_BROWSER", "0"), ("NO_BROWSER", "1")])));
        assert!(is_headless(&setting(&[("SSH_CONNECTION", "x"), ("DISPLAY", ":0")])));
        assert!(is_headless(&setting(&[])));
        assert!(!is_headless(&setting(&[("WAYLAND_DISPLAY", "w")])));
    }
}
