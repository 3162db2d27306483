//! The provider of [`Providers`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use linn_bus::{Context, ServiceError, Svc, provider};
use linn_services::events::{ProviderModels, ProvidersChanged};
use linn_services::oauth::{OAuth, OAuthError};
use linn_services::providers::{
    EndpointDraft, Kept, LoggedIn, ModelInfo, ProviderInfo, ProviderPreset, ProviderSpec, ProviderUsage, Providers,
    ProvidersError, Put, Refreshed, SilentProvider,
};
use linn_services::secrets::secrets_of;
use linn_services::settings::{ProviderChange, ProviderMemory, Settings};
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

use crate::book::{Book, DEFAULT, Entry};
use crate::endpoint::{Key, canonical, is_below, is_web, spec_of};
use crate::fetch::Fetcher;
use crate::login::{Credentials, login_of, preset_of};
use crate::presets::{PRESETS, Preset, family};
use crate::search::{Freshness, Search};
use crate::usage::{self, Asked};

/// Whose models an endpoint has that is only looked at.
const PREVIEW: &str = "__preview__";

/// The domain whose list of models changes often: it is looked at again at each start.
const LIVE_DOMAIN: &str = "umans.ai";

/// The providers of a harness.
pub(crate) struct Service {
    pub(crate) ctx: Context,
    settings: Option<Svc<dyn Settings>>,
    book: Mutex<Book>,
    /// What front ends changed; whoever provides the providers next goes on from there.
    memory: Mutex<ProviderMemory>,
    search: Search,
    fetcher: Fetcher,
    /// The searches under way: each is cancelled when it is over.
    running: Mutex<Vec<CancellationToken>>,
    /// Models were looked for.
    has_looked: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A search under way, until it is dropped.
struct Running {
    of: Arc<Service>,
    over: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.over.cancel();
        lock(&self.of.running).retain(|it| !it.is_cancelled());
    }
}

/// Tells once what a search has found, also when it is dropped before its end.
struct Telling<'a> {
    of: &'a Service,
    has_changed: AtomicBool,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if self.has_changed.load(Ordering::Relaxed) {
            let n_models = self.of.book().models().len();
            self.of.ctx.emit(&ProviderModels { n_models });
        }
    }
}

/// What a look for the models of one provider came to.
struct Looked {
    /// Its endpoint told of them just now.
    is_live: bool,
    /// It did not answer.
    silent: Option<SilentProvider>,
}

impl Service {
    pub(crate) fn new(
        ctx: Context,
        settings: Option<Svc<dyn Settings>>,
        mut book: Book,
        search: Search,
        fetcher: Fetcher,
    ) -> Self {
        let memory = settings.as_ref().and_then(|it| it.provider_memory().ok()).unwrap_or_default();
        book.recall(&memory);
        Self {
            ctx,
            settings,
            book: Mutex::new(book),
            memory: Mutex::new(memory),
            search,
            fetcher,
            running: Mutex::default(),
            has_looked: AtomicBool::new(false),
        }
    }

    /// What is known at this moment.
    pub(crate) fn book(&self) -> Book {
        lock(&self.book).clone()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        change(&mut lock(&self.book))
    }

    /// Notes a change that a front end made.
    fn remember(&self, note: impl FnOnce(&mut ProviderMemory)) {
        let mut memory = lock(&self.memory);
        note(&mut memory);
        if let Some(settings) = &self.settings
            && let Err(error) = settings.remember_providers(memory.clone())
        {
            self.ctx.logger().warn(format_args!("a change of providers ends with this plugin: {error}"));
        }
    }

    fn variable(&self, name: &str) -> Option<SecretString> {
        self.settings.as_ref()?.variable(name).ok().flatten()
    }

    pub(crate) fn key(&self, book: &Book, spec: &ProviderSpec) -> Option<SecretString> {
        book.key(spec, &|name| self.variable(name))
    }

    fn info(&self, book: &Book, spec: &ProviderSpec) -> ProviderInfo {
        let has_login = self.ctx.get::<dyn OAuth>().is_some_and(|it| login_of(&it, spec).is_some());
        book.info(spec, &|name| self.variable(name), has_login)
    }

    /// The providers whose models are looked for.
    fn askable(&self) -> Vec<Entry> {
        let book = self.book();
        book.askable(|it| self.info(&book, it).is_logged_in)
    }

    /// What a provider is asked with: its key, else the token of a login, else nothing.
    ///
    /// # Errors
    ///
    /// If a human has logged in and there is no token all the same.
    pub(crate) async fn credentials(&self, spec: &Arc<ProviderSpec>) -> Result<Credentials, OAuthError> {
        let key = self.key(&self.book(), spec);
        let credentials = match self.ctx.get::<dyn OAuth>().filter(|_| key.is_none()) {
            Some(oauth) => match login_of(&oauth, spec) {
                Some(login) => Credentials::of_login(&oauth, &login, spec).await?,
                None => Credentials::of_key(spec.clone(), key),
            },
            None => Credentials::of_key(spec.clone(), key),
        };
        // Before anybody is asked with them, so that nobody's answer can tell them.
        let secrets = secrets_of(&self.ctx);
        credentials.secret().iter().for_each(|it| secrets.keep(it.expose_secret()));
        credentials.spec.headers.iter().for_each(|(name, value)| secrets.keep_header(name, value.expose_secret()));
        Ok(credentials)
    }

    /// The same; that there is no token is logged.
    async fn some_credentials(&self, spec: &Arc<ProviderSpec>) -> Credentials {
        self.credentials(spec).await.unwrap_or_else(|error| {
            self.ctx.logger().warn(format_args!("provider `{}` is asked without a token: {error}", spec.name));
            Credentials::of_key(spec.clone(), None)
        })
    }

    /// Ends the login of a provider, if there is one; why it did not end.
    async fn end_login(&self, name: &str) -> Option<String> {
        let oauth = self.ctx.get::<dyn OAuth>()?;
        let base_url = self.book().entry(name).map(|it| it.spec.base_url.clone()).unwrap_or_default();
        let login = oauth.provider_for(name, &base_url).ok().flatten().filter(|it| it.has_credentials)?;
        oauth.log_out(&login.id).await.err().map(|it| it.to_string())
    }

    fn has_login(&self, name: &str) -> bool {
        let found = self.ctx.get::<dyn OAuth>().and_then(|it| it.provider_for(name, "").ok().flatten());
        found.is_some_and(|it| it.has_credentials)
    }

    pub(crate) fn note_asked(&self, provider: &str, model: &str) {
        self.change(|book| book.last_asked = Some((provider.to_owned(), model.to_owned())));
    }

    /// Looks for the models of all providers, the first time that somebody wants to know or asks one: a program that asks
    /// none speaks to nobody.
    pub(crate) fn look_once(self: &Arc<Self>) {
        if self.has_looked.swap(true, Ordering::Relaxed) {
            return;
        }
        let entries = self.askable();
        let (of, running) = (self.clone(), self.running());
        self.spawn(async move {
            let looked = of.look(entries.clone(), Freshness::Kept).await;
            drop(running);
            let changes_often = |it: &Entry| is_below(&it.spec.base_url, LIVE_DOMAIN);
            let again = entries.into_iter().zip(looked).filter(|(it, looked)| changes_often(it) && !looked.is_live);
            let again: Vec<Entry> =
                again.map(|(it, _)| it).filter(|it| of.info(&of.book(), &it.spec).has_key).collect();
            of.look(again, Freshness::Live).await;
        });
    }

    /// Looks for the models of providers that were changed.
    fn look_for(self: &Arc<Self>, names: &[&str]) {
        let book = self.book();
        let entries: Vec<Entry> = names.iter().filter_map(|it| book.entry(it)).cloned().collect();
        if entries.is_empty() {
            return;
        }
        let (of, running) = (self.clone(), self.running());
        self.spawn(async move {
            of.look(entries, Freshness::Kept).await;
            drop(running);
        });
    }

    fn spawn(&self, search: impl Future<Output = ()> + Send + 'static) {
        if let Err(error) = self.ctx.spawn(search) {
            self.ctx.logger().warn(format_args!("models are not looked for: {error}"));
        }
    }

    fn running(self: &Arc<Self>) -> Running {
        let over = CancellationToken::new();
        lock(&self.running).push(over.clone());
        Running { of: self.clone(), over }
    }

    /// Whether models are looked for.
    pub(crate) fn is_looking(&self) -> bool {
        !lock(&self.running).is_empty()
    }

    /// Ready when no models are looked for.
    pub(crate) async fn until_settled(&self) {
        loop {
            let Some(over) = lock(&self.running).first().cloned() else { return };
            over.cancelled().await;
        }
    }

    /// Looks for the models of providers, side by side.
    async fn look(&self, entries: Vec<Entry>, how: Freshness) -> Vec<Looked> {
        let telling = Telling { of: self, has_changed: AtomicBool::new(false) };
        let look = async |entry: Entry| {
            let with = self.some_credentials(&entry.spec).await;
            let outcome = self.search.models(&with.spec, with.as_key(), how).await;
            let name = &entry.spec.name;
            if let Some(failure) = &outcome.failure {
                self.ctx.logger().warn(format_args!("provider `{name}` does not tell of its models: {failure}"));
            }
            let has_changed = self.change(|book| {
                // One that is silent keeps what it had.
                let is_known = outcome.failure.is_some() && !book.models_of(name).is_empty();
                !is_known && book.found(&entry, outcome.models)
            });
            telling.has_changed.fetch_or(has_changed, Ordering::Relaxed);
            let silent = outcome.failure.map(|it| SilentProvider { name: name.clone(), why: it.to_string() });
            Looked { is_live: outcome.is_live, silent }
        };
        join_all(entries.into_iter().map(look)).await
    }

    /// Tells of a change, and gives the provider that is active now.
    fn changed(&self) -> ProviderInfo {
        let book = self.book();
        let active = self.info(&book, &book.active().spec);
        self.ctx.emit(&ProvidersChanged { active: active.clone() });
        active
    }

    async fn keep(&self, change: ProviderChange) -> Kept {
        let Some(settings) = &self.settings else {
            return Kept { failure: Some("nothing here keeps settings".to_owned()) };
        };
        Kept { failure: settings.save_providers(change).await.err().map(|it| it.to_string()) }
    }

    fn unknown(book: &Book, name: &str) -> ProvidersError {
        ProvidersError::UnknownProvider { name: name.to_owned(), known: book.names() }
    }
}

/// Notes that a provider was added, and who is active from then on.
fn put_in(memory: &mut ProviderMemory, spec: &ProviderSpec, active: &str) {
    memory.put.retain(|it| it.name != spec.name);
    memory.put.push(spec.clone());
    memory.removed.retain(|it| *it != spec.name);
    memory.keys.remove(&spec.name);
    memory.active = Some(active.to_owned());
}

fn not_empty(key: Option<SecretString>) -> Option<SecretString> {
    let key = key?;
    let trimmed = key.expose_secret().trim();
    match trimmed.len() {
        0 => None,
        len if len == key.expose_secret().len() => Some(key),
        _ => Some(trimmed.into()),
    }
}

/// The service as others reach it.
pub(crate) struct Provider(pub(crate) Arc<Service>);

#[provider]
impl Providers for Provider {
    fn list(&self) -> Result<Vec<ProviderInfo>, ServiceError> {
        let book = self.0.book();
        Ok(book.entries().iter().map(|it| self.0.info(&book, &it.spec)).collect())
    }

    fn active(&self) -> Result<ProviderInfo, ServiceError> {
        let book = self.0.book();
        Ok(self.0.info(&book, &book.active().spec))
    }

    fn presets(&self) -> Result<Vec<ProviderPreset>, ServiceError> {
        let book = self.0.book();
        let mut presets = book.presets();
        let logins = self.0.ctx.get::<dyn OAuth>().and_then(|it| it.providers().ok()).unwrap_or_default();
        for login in logins {
            if !presets.iter().any(|it| it.id == login.id) {
                presets.push(preset_of(&book, login));
            }
        }
        Ok(presets)
    }

    fn models(&self) -> Result<Vec<ModelInfo>, ServiceError> {
        self.0.look_once();
        Ok(self.0.book().models())
    }

    fn route(&self, model: &str, provider: Option<&str>) -> Result<Option<ModelInfo>, ServiceError> {
        Ok(self.0.book().route(model, provider).info)
    }

    async fn settled(&self) -> Result<(), ServiceError> {
        self.0.look_once();
        self.0.until_settled().await;
        Ok(())
    }

    async fn refresh(&self) -> Result<Refreshed, ProvidersError> {
        self.0.has_looked.store(true, Ordering::Relaxed);
        let entries = self.0.askable();
        let _running = self.0.running();
        let looked = self.0.look(entries, Freshness::Live).await;
        let mut refreshed = Refreshed::new(self.0.book().models());
        refreshed.silent = looked.into_iter().filter_map(|it| it.silent).collect();
        Ok(refreshed)
    }

    async fn preview(&self, endpoint: EndpointDraft) -> Result<Vec<ModelInfo>, ProvidersError> {
        let spec = spec_of(&endpoint, PREVIEW);
        if !is_web(&spec.base_url) {
            return Err(ProvidersError::Incomplete);
        }
        let none = |why: String| ProvidersError::NoModels { base_url: spec.base_url.clone(), why };
        match self.0.search.preview(&spec, Key::api(spec.key())).await {
            Ok(models) if models.is_empty() => Err(none("it lists none".to_owned())),
            Ok(models) => Ok(models),
            Err(error) => Err(none(error.to_string())),
        }
    }

    async fn log_in(&self, preset: &str, key: Option<SecretString>) -> Result<LoggedIn, ProvidersError> {
        let preset = Preset::find(preset).ok_or_else(|| ProvidersError::UnknownPreset {
            preset: preset.to_owned(),
            known: PRESETS.iter().map(|it| it.id.to_owned()).collect(),
        })?;
        let key = not_empty(key);
        if key.is_none() && !preset.env.is_empty() {
            return Err(ProvidersError::NoKey { label: preset.label.to_owned() });
        }
        let specs = preset.specs(key.as_ref());
        self.0.change(|book| {
            for spec in &specs {
                book.put(spec.clone());
            }
            book.set_active(preset.id);
        });
        self.0.remember(|it| specs.iter().for_each(|spec| put_in(it, spec, preset.id)));
        let names: Vec<&str> = specs.iter().map(|it| &*it.name).collect();
        self.0.look_for(&names);
        let provider = self.0.changed();
        let change = ProviderChange { put: specs, remove: Vec::new(), active: Some(preset.id.to_owned()) };
        let kept = self.0.keep(change).await;
        Ok(LoggedIn { label: preset.label.to_owned(), provider, with_key: key.is_some(), kept })
    }

    async fn log_out(&self, provider: &str) -> Result<Kept, ProvidersError> {
        let book = self.0.book();
        if provider != DEFAULT && !book.is_configured(provider) && !self.0.has_login(provider) {
            return Err(ProvidersError::NotLoggedIn(provider.to_owned()));
        }
        let login_kept = self.0.end_login(provider).await;
        let names: Vec<String> = family(provider).into_iter().map(str::to_owned).collect();
        let active = self.0.change(|book| {
            for name in &names {
                book.remove(name);
            }
            book.is_configured(&book.active().spec.name).then(|| book.active().spec.name.clone())
        });
        self.0.remember(|it| {
            for name in &names {
                it.put.retain(|spec| spec.name != *name);
                it.keys.remove(name);
                it.removed.push(name.clone());
            }
            it.active.clone_from(&active);
        });
        self.0.changed();
        let change = ProviderChange { put: Vec::new(), remove: names, active };
        let kept = self.0.keep(change).await;
        Ok(Kept { failure: kept.failure.or(login_kept) })
    }

    async fn set_key(&self, provider: Option<&str>, key: SecretString) -> Result<String, ProvidersError> {
        let key = not_empty(Some(key)).unwrap_or_default();
        let name = self.0.change(|book| {
            let name = provider.map_or_else(|| book.active().spec.name.clone(), str::to_owned);
            book.set_key(&name, key.clone());
            name
        });
        self.0.remember(|it| drop(it.keys.insert(name.clone(), key)));
        self.0.look_for(&[&name]);
        self.0.changed();
        Ok(name)
    }

    async fn set_active(&self, provider: &str) -> Result<ProviderInfo, ProvidersError> {
        let is_new = self.0.change(|book| {
            if book.entry(provider).is_none() {
                return Err(Service::unknown(book, provider));
            }
            book.set_active(provider);
            Ok(book.models_of(provider).is_empty())
        })?;
        self.0.remember(|it| it.active = Some(provider.to_owned()));
        if is_new {
            self.0.look_for(&[provider]);
        }
        Ok(self.0.changed())
    }

    async fn put(&self, provider: ProviderSpec) -> Result<Put, ProvidersError> {
        let spec = ProviderSpec { api_key: not_empty(provider.api_key.clone()), ..canonical(provider) };
        if spec.name.is_empty() || !is_web(&spec.base_url) {
            return Err(ProvidersError::Incomplete);
        }
        let replaced = self.0.change(|book| {
            let replaced = book.put(spec.clone());
            book.set_active(&spec.name);
            replaced
        });
        self.0.remember(|it| put_in(it, &spec, &spec.name));
        self.0.look_for(&[&spec.name]);
        let provider = self.0.changed();
        let active = Some(spec.name.clone());
        let kept = self.0.keep(ProviderChange { put: vec![spec], remove: Vec::new(), active }).await;
        Ok(Put { provider, replaced, kept })
    }

    async fn usage(&self, model: Option<&str>) -> Result<ProviderUsage, ServiceError> {
        let book = self.0.book();
        let route = match model.filter(|it| !it.is_empty()) {
            Some(model) => book.route(model, None),
            None => match (&book.last_asked, book.models().first()) {
                (Some((provider, model)), _) => book.route(&format!("{provider}:{model}"), None),
                (None, Some(first)) => book.route(&first.qualified(), None),
                (None, None) => book.route("", None),
            },
        };
        let with = self.0.some_credentials(&route.entry.spec).await;
        Ok(usage::of(&self.0.fetcher, Asked { with: &with, model: &route.model }).await)
    }
}
