//! Providers, their keys, and their models.
//!
//! What goes over the network runs as a job, one after the other, so that `abort` always works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use linn_bus::Svc;
use linn_services::events::OAuthPrompt;
use linn_services::oauth::{OAuth, OAuthError, OAuthLogin, OAuthProvider};
use linn_services::providers::{
    EndpointDraft, Kept, ProviderInfo, ProviderPreset, ProviderSpec, Providers, ProvidersError,
};
use linn_services::settings::{Settings, SettingsError};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use tokio::sync::OwnedMutexGuard;

use crate::bridge::Bridge;
use crate::wire::commands::{
    AddCustomProvider, DiscoverProviderModels, Headers, ListProviderPresets, Login, LoginOauth, Logout, OauthCode,
    RefreshModels, Run, SetKey, SetProvider, SetSearchKey,
};
use crate::wire::events::{
    Authed, Models, ModelsRefreshed, OauthPrompt, ProviderChanged, ProviderModelsPreview, ProviderPresets, SearchKeySet,
};

/// Providers are changed on behalf of the front end until this is dropped.
struct Providing {
    bridge: Arc<Bridge>,
    _one_at_a_time: OwnedMutexGuard<()>,
}

impl Drop for Providing {
    fn drop(&mut self) {
        self.bridge.is_providing.store(false, Ordering::Release);
    }
}

/// What can be logged in to.
pub(crate) fn presets(bridge: &Bridge) -> Vec<ProviderPreset> {
    bridge.service::<dyn Providers>().and_then(|it| it.presets().ok()).unwrap_or_default()
}

impl Bridge {
    pub(crate) fn tell_models(&self) {
        self.say(&Models { models: &self.models() });
        self.say(&ProviderPresets { presets: &presets(self) });
    }

    fn tell_provider(&self, provider: &ProviderInfo) {
        self.say(&ProviderChanged {
            provider: &provider.name,
            kind: &provider.kind,
            base_url: &public_address(&provider.base_url),
            has_key: provider.has_key,
        });
    }

    /// Changes providers as a job, behind those that were asked for before, or says that there are none to change.
    fn change_providers<F>(
        self: &Arc<Self>,
        command: &'static str,
        change: impl FnOnce(Arc<Self>, Svc<dyn Providers>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(providers) = self.service::<dyn Providers>() else { return self.missing(command, "providers") };
        let mut turn = Box::pin(self.providing.clone().lock_owned());
        // Asked once here, it has its place behind those that wait already.
        let taken = (&mut turn).now_or_never();
        self.spawn_job("task", command, move |bridge, signal| async move {
            let changing = async {
                let one_at_a_time = match taken {
                    Some(guard) => guard,
                    None => turn.await,
                };
                bridge.is_providing.store(true, Ordering::Release);
                let _providing = Providing { bridge: bridge.clone(), _one_at_a_time: one_at_a_time };
                change(bridge.clone(), providers).await;
            };
            if signal.run_until_cancelled(changing).await.is_none() {
                bridge.info(format!("{command} was aborted"));
            }
        });
    }
}

fn not_empty(key: Option<SecretString>) -> Option<SecretString> {
    key.filter(|it| !it.expose_secret().trim().is_empty())
}

impl Run for ListProviderPresets {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.say(&ProviderPresets { presets: &presets(bridge) });
    }
}

impl Run for SetKey {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.change_providers("set_key", move |bridge, providers| async move {
            match providers.set_key(self.provider.as_deref(), self.api_key).await {
                Ok(provider) => {
                    bridge.say(&Authed { ok: true, provider: Some(&provider) });
                    bridge.tell_models();
                }
                Err(error) => bridge.error(format!("set_key failed: {error}")),
            }
        });
    }
}

impl Run for SetSearchKey {
    async fn run(self, bridge: &Arc<Bridge>) {
        let provider = self.provider.trim().to_lowercase();
        let Some(settings) = bridge.service::<dyn Settings>() else {
            return bridge.missing("set_search_key", "settings");
        };
        let key = not_empty(Some(self.api_key));
        let has_key = key.is_some();
        match settings.save_search_key(&provider, key).await {
            Ok(()) => bridge.say(&SearchKeySet { provider: &provider, has_key }),
            Err(SettingsError::Unknown { .. }) => {
                bridge.error(format!("set_search_key: unknown provider '{provider}' (expected 'exa' or 'tavily')"))
            }
            Err(error) => bridge.error(format!("set_search_key: failed to persist: {error}")),
        }
    }
}

impl Run for SetProvider {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.change_providers("set_provider", move |bridge, providers| async move {
            match providers.set_active(&self.name).await {
                Ok(provider) => {
                    bridge.tell_provider(&provider);
                    if provider.has_key {
                        bridge.say(&Authed { ok: true, provider: Some(&provider.name) });
                    }
                    bridge.tell_models();
                }
                Err(ProvidersError::UnknownProvider { name, .. }) => {
                    bridge.error(format!("unknown provider '{name}'; not switching"));
                }
                Err(error) => bridge.error(format!("set_provider failed: {error}")),
            }
        });
    }
}

impl Run for Login {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.change_providers("login", move |bridge, providers| async move {
            let done = match providers.log_in(&self.preset, not_empty(self.api_key)).await {
                Ok(done) => done,
                Err(ProvidersError::UnknownPreset { preset, known }) => {
                    let known = known.join(", ");
                    return bridge.error(format!("unknown provider preset '{preset}'; available: {known}"));
                }
                Err(ProvidersError::NoKey { label }) => {
                    return bridge.error(format!(
                        "no API key provided for '{label}' — paste a key via /login (subscription OAuth is available \
                         via plugins)"
                    ));
                }
                Err(error) => return bridge.error(format!("login failed: {error}")),
            };
            let label = &done.label;
            if let Kept { failure: Some(why) } = &done.kept {
                bridge
                    .info(format!("logged into '{label}' for this session (could not persist to config.json: {why})"));
            }
            let keyless = if done.with_key { "" } else { " (no API key required)" };
            bridge.info(format!("logged into {label}{keyless}."));
            bridge.tell_provider(&done.provider);
            bridge.say(&Authed { ok: done.with_key, provider: Some(&done.provider.name) });
            bridge.tell_models();
        });
    }
}

impl Run for Logout {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.change_providers("logout", move |bridge, providers| async move {
            let provider = self.provider;
            match providers.log_out(&provider).await {
                Ok(kept) => {
                    let unkept = kept.failure.map(|why| format!(" for this session (could not persist: {why})"));
                    bridge.info(format!("logged out of '{provider}'{}", unkept.unwrap_or_default()));
                    let active = bridge.active_provider();
                    bridge.tell_provider(&active);
                    bridge.say(&Authed { ok: active.has_key, provider: Some(&active.name) });
                    bridge.tell_models();
                }
                Err(ProvidersError::NotLoggedIn(_) | ProvidersError::UnknownProvider { .. }) => {
                    bridge.error(format!("not logged into '{provider}'"));
                }
                Err(error) => bridge.error(format!("logout failed: {error}")),
            }
        });
    }
}

impl Run for AddCustomProvider {
    async fn run(self, bridge: &Arc<Bridge>) {
        let (name, base_url) = (self.name.trim().to_owned(), self.base_url.trim().to_owned());
        if name.is_empty() || base_url.is_empty() {
            return bridge.error("add_custom_provider: name and base_url are required");
        }
        let spec = ProviderSpec {
            name: name.clone(),
            base_url,
            kind: self.kind.unwrap_or_default(),
            api_key: not_empty(self.api_key),
            api_key_env: self.api_key_env,
            headers: self.headers.map(Headers::into_pairs).unwrap_or_default(),
            context_window: self.context_window,
            models_override: overrides(self.models_override),
            models_endpoint: None,
        };
        bridge.change_providers("add_custom_provider", move |bridge, providers| async move {
            let put = match providers.put(spec).await {
                Ok(put) => put,
                Err(error) => return bridge.error(format!("add_custom_provider: {error}")),
            };
            if let Some(why) = &put.kept.failure {
                bridge.info(format!(
                    "provider '{name}' added for this session (could not persist to config.json: {why})"
                ));
            }
            let verb = if put.replaced { "updated" } else { "added" };
            bridge.info(format!("{verb} provider '{name}'."));
            bridge.tell_provider(&put.provider);
            if put.provider.has_key {
                bridge.say(&Authed { ok: true, provider: Some(&put.provider.name) });
            }
            bridge.tell_models();
        });
    }
}

/// An address without what may be secret in it: the user, the password, the query.
fn public_address(address: &str) -> String {
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

/// What is said of models, from an object by id or a list with ids.
fn overrides(given: Option<Value>) -> Vec<(String, Map<String, Value>)> {
    match given {
        Some(Value::Object(by_id)) => {
            by_id.into_iter().filter_map(|(id, it)| Some((id, it.as_object()?.clone()))).collect()
        }
        Some(Value::Array(items)) => {
            let item = |it: Value| {
                let Value::Object(mut fields) = it else { return None };
                let id = fields.remove("id")?.as_str()?.to_owned();
                Some((id, fields))
            };
            items.into_iter().filter_map(item).collect()
        }
        _ => Vec::new(),
    }
}

impl Run for DiscoverProviderModels {
    async fn run(self, bridge: &Arc<Bridge>) {
        let base_url = self.base_url.trim().to_owned();
        if base_url.is_empty() {
            let error = Some("discover_provider_models: base_url is required");
            return bridge.say(&ProviderModelsPreview { models: &[], base_url: "", count: None, error });
        }
        let shown_url = public_address(&base_url);
        let Some(providers) = bridge.service::<dyn Providers>() else {
            let error = Some("discover_provider_models needs providers, and no plugin that is mounted has any");
            return bridge.say(&ProviderModelsPreview { models: &[], base_url: &shown_url, count: None, error });
        };
        let asked_url = base_url.clone();
        bridge.info(format!("discovering models from {shown_url}…"));
        let draft = EndpointDraft {
            base_url,
            kind: self.kind.unwrap_or_default(),
            api_key: not_empty(self.api_key),
            headers: self.headers.map(Headers::into_pairs).unwrap_or_default(),
        };
        bridge.spawn_job("task", "discover_provider_models", move |bridge, signal| async move {
            let found = signal.run_until_cancelled(providers.preview(draft)).await;
            let (mut models, why) = match found {
                Some(Ok(models)) if !models.is_empty() => (models, None),
                Some(Ok(_) | Err(ProvidersError::NoModels { .. })) => (
                    Vec::new(),
                    Some(format!(
                        "no models discovered from {shown_url} — check base URL, API key, wire kind, and that the \
                         endpoint serves /models"
                    )),
                ),
                Some(Err(error)) => (Vec::new(), Some(error.to_string().replace(&asked_url, &shown_url))),
                None => (Vec::new(), Some("discover_provider_models was aborted".to_owned())),
            };
            models.iter_mut().for_each(|it| it.provider = "__preview__".to_owned());
            let count = why.is_none().then_some(models.len());
            let error = why.as_deref();
            bridge.say(&ProviderModelsPreview { models: &models, base_url: &shown_url, count, error });
        });
    }
}

impl Run for RefreshModels {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.info("refreshing model list (live fetch from all logged-in providers)…");
        if bridge.service::<dyn Providers>().is_none() {
            return bridge.tell_refreshed();
        }
        bridge.change_providers("refresh_models", |bridge, providers| async move {
            if let Err(error) = providers.refresh().await {
                bridge.info(format!("the models are as they were: {error}"));
            }
            bridge.tell_refreshed();
        });
    }
}

impl Bridge {
    /// The models, and at last that they were looked for.
    fn tell_refreshed(&self) {
        self.tell_models();
        let models = self.models();
        let mut providers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for model in &models {
            providers.entry(&model.provider).or_default().push(&model.id);
        }
        self.say(&ModelsRefreshed { count: models.len(), providers: &providers });
    }
}

impl Run for LoginOauth {
    async fn run(self, bridge: &Arc<Bridge>) {
        let preset = self.preset;
        let oauth = bridge.service::<dyn OAuth>();
        let known = oauth.as_ref().and_then(|it| it.providers().ok()).unwrap_or_default();
        let (Some(oauth), Some(provider)) = (oauth, known.into_iter().find(|it| it.id == preset)) else {
            return bridge.error(OAuthError::Unknown(preset).to_string());
        };
        bridge.info(format!("starting OAuth login for {}…", provider.label));
        bridge.spawn_job("task", "login_oauth", move |bridge, signal| async move {
            match signal.run_until_cancelled(oauth.log_in(&preset)).await {
                Some(Ok(OAuthLogin::Done)) => bridge.logged_in(provider).await,
                Some(Ok(OAuthLogin::AwaitsCode)) => bridge.info(
                    "OAuth login awaiting a code. Open the URL above on any device, approve, then paste the code via \
                     /oauth-code <code>.",
                ),
                Some(Ok(_)) => bridge.info("Ignoring a superseded OAuth attempt (a newer /login is in progress)."),
                Some(Err(error)) => bridge.error(format!("OAuth login failed: {error}")),
                None => bridge.info("the OAuth login was aborted"),
            }
        });
    }
}

impl Run for OauthCode {
    async fn run(self, bridge: &Arc<Bridge>) {
        let oauth = bridge.service::<dyn OAuth>();
        let Some(oauth) = oauth.filter(|it| it.is_pending().unwrap_or(false)) else {
            return bridge.error(OAuthError::NothingPending.to_string());
        };
        bridge.spawn_job("task", "oauth_code", move |bridge, signal| async move {
            match signal.run_until_cancelled(oauth.complete(&self.code)).await {
                Some(Ok(provider)) => bridge.logged_in(provider).await,
                Some(Err(error @ (OAuthError::NothingPending | OAuthError::PendingGone(_)))) => {
                    bridge.error(error.to_string());
                }
                Some(Err(error)) => bridge.error(format!(
                    "OAuth code exchange failed: {error} (pending login restored — try /oauth-code again with the \
                     correct code)"
                )),
                None => bridge.info("the OAuth login was aborted"),
            }
        });
    }
}

impl Bridge {
    pub(crate) fn oauth_prompt(&self, event: &OAuthPrompt) {
        let code = event.code.as_deref().unwrap_or_default();
        self.say(&OauthPrompt { url: &event.url, code, message: &event.message });
    }

    /// A human has logged in to a provider in a browser: it is configured, and its models are looked for.
    async fn logged_in(&self, login: OAuthProvider) {
        let Some(providers) = self.service::<dyn Providers>() else { return self.missing("login_oauth", "providers") };
        let one_at_a_time = self.providing.clone().lock_owned().await;
        self.is_providing.store(true, Ordering::Release);
        let providing = self.me().map(|bridge| Providing { bridge, _one_at_a_time: one_at_a_time });
        let spec = ProviderSpec {
            name: login.id.clone(),
            base_url: login.base_url,
            kind: login.kind,
            ..ProviderSpec::default()
        };
        let put = providers.put(spec).await;
        if put.is_ok() {
            // What fails here is told with the models: there are none.
            let _ = providers.settled().await;
        }
        drop(providing);
        let label = &login.label;
        match put {
            Ok(put) => {
                self.info(format!(
                    "logged into {label} via OAuth — you're signed in. Pick a model with /models if needed."
                ));
                self.say(&Authed { ok: true, provider: None });
                let ProviderInfo { name, kind, base_url, .. } = &put.provider;
                self.say(&ProviderChanged { provider: name, kind, base_url: &public_address(base_url), has_key: true });
                self.tell_models();
                let models = self.models();
                let mine = models.iter().filter(|it| it.provider == *name).count();
                let all = models.len();
                self.info(format!("OAuth ready: {mine} {label} model(s) available ({all} total across providers)."));
            }
            Err(error) => self.error(format!("OAuth login failed: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overrides_come_by_id_or_as_a_list() {
        let fields = json!({ "context_window": 5 }).as_object().cloned().unwrap();
        let expected = vec![("m".to_owned(), fields)];
        assert_eq!(overrides(Some(json!({ "m": { "context_window": 5 }, "bad": 1 }))), expected);
        assert_eq!(overrides(Some(json!([{ "id": "m", "context_window": 5 }, { "no": "id" }, 3]))), expected);
        assert_eq!(overrides(None), []);
    }

    #[test]
    fn addresses_are_shown_without_what_may_be_secret() {
        for (address, shown) in [
            ("http://user:SECRET@h:1/v1?key=SECRET#SECRET", "http://h:1/v1"),
            ("https://h/v1", "https://h/v1"),
            ("http://a:p@q@h", "http://h"),
            ("http://h?key=SECRET", "http://h"),
            ("http://h/a@b", "http://h/a@b"),
            ("user:SECRET@h/v1", "h/v1"),
            ("", ""),
        ] {
            assert_eq!(public_address(address), shown);
        }
    }
}
