//! Looks for the models of a provider: in what is kept, at its endpoint, and in what is known without asking.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use linn_bus::Context;
use linn_services::providers::{ModelInfo, ProviderSpec};

use crate::cache::{
    CATALOGUE_FILE, CATALOGUE_SECS, Kept, MODELS_FILE, MODELS_SECS, catalogue, catalogue_text, is_fresh, kept, merged,
    models_path, place_of,
};
use crate::discovery::{Catalogue, KnownModel, ToldModel, anthropic_page, fallback, finish, info_map, list, resolve};
use crate::endpoint::{Key, get, is_loopback};
use crate::fetch::{FetchError, Fetcher, Get};
use crate::presets::ANTHROPIC;
use crate::system::{CacheFolder, Merge};

/// How long an endpoint may take to tell of its models in full.
const INFO_PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take to list them.
const LIST_PATIENCE: Duration = Duration::from_secs(8);

/// How long it may take to list them if it was silent already.
const SHORT_PATIENCE: Duration = Duration::from_secs(3);

/// How long a list of models may be.
const LIST_BYTES: usize = 8 << 20;

/// How long the public list may be.
const CATALOGUE_BYTES: usize = 32 << 20;

/// For how long the public list is not asked for again when it could not be had, in seconds.
const CATALOGUE_PAUSE_SECS: u64 = 600;

/// How many pages a list may have.
const MAX_PAGES: usize = 10;

/// How often a text that another program changes is tried again, and after which pause.
const MERGES: (u32, Duration) = (10, Duration::from_millis(50));

/// Whether what is kept will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// What is not too old.
    Kept,
    /// No: the endpoint is asked.
    Live,
}

/// What was found for a provider.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) models: Vec<ModelInfo>,
    /// Why the endpoint did not tell of them: they were kept, or known without asking.
    pub(crate) failure: Option<FetchError>,
    /// Whether the endpoint told of them just now.
    pub(crate) is_live: bool,
}

/// Looks for models.
pub(crate) struct Search {
    ctx: Context,
    fetcher: Fetcher,
    folder: Option<CacheFolder>,
    catalogue_url: String,
    /// The public list, and until when it counts.
    catalogue: Mutex<Option<(u64, Arc<Catalogue>)>>,
}

impl Search {
    pub(crate) fn new(ctx: Context, fetcher: Fetcher, folder: Option<CacheFolder>, catalogue_url: String) -> Self {
        Self { ctx, fetcher, folder, catalogue_url, catalogue: Mutex::default() }
    }

    /// Seconds since 1970 UTC.
    fn now(&self) -> u64 {
        self.ctx.clock().now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// The models of a provider. An endpoint that says nothing has those that are kept, or that are known without asking.
    pub(crate) async fn models(&self, spec: &ProviderSpec, key: Key<'_>, how: Freshness) -> Outcome {
        let place = place_of(spec);
        let kept = self.read(MODELS_FILE).and_then(|text| kept(&text, &place));
        let outcome = |models, failure, is_live| Outcome { models: finish(spec, models), failure, is_live };
        if let Some(kept) = kept.as_ref().filter(|_| how == Freshness::Kept)
            && is_fresh(kept.updated_at, self.now(), MODELS_SECS)
        {
            return outcome(kept.models.clone(), None, false);
        }
        match self.ask(spec, key).await {
            Ok(models) if !models.is_empty() => {
                let fresh = Kept { updated_at: self.now(), models: models.clone() };
                self.write(MODELS_FILE, |text| merged(text, &place, fresh.clone())).await;
                outcome(models, None, true)
            }
            asked => {
                let known = || fallback(spec).into_iter().map(|it| resolve(spec, it, |_| None)).collect();
                outcome(kept.map_or_else(known, |it| it.models), asked.err(), false)
            }
        }
    }

    /// The models that the endpoint itself tells of, as far as the user does not say otherwise.
    pub(crate) async fn preview(&self, spec: &ProviderSpec, key: Key<'_>) -> Result<Vec<ModelInfo>, FetchError> {
        Ok(finish(spec, self.ask(spec, key).await?))
    }

    async fn ask(&self, spec: &ProviderSpec, key: Key<'_>) -> Result<Vec<KnownModel>, FetchError> {
        let told = match &*spec.kind {
            ANTHROPIC => self.ask_pages(spec, key).await?,
            _ => self.ask_lists(spec, key).await?,
        };
        // How a server on this machine was started says more about its models than any list.
        let needs_list = |it: &ToldModel| it.context_window.is_none() && it.max_tokens.is_none();
        let catalogue = match told.iter().any(needs_list) && !is_loopback(&spec.base_url) {
            true => self.catalogue().await,
            false => Arc::default(),
        };
        let resolved = |it| resolve(spec, it, |id| catalogue.find(id).cloned());
        Ok(told.into_iter().map(resolved).collect())
    }

    /// Asks for the models in full, then for a list of them.
    async fn ask_lists(&self, spec: &ProviderSpec, key: Key<'_>) -> Result<Vec<ToldModel>, FetchError> {
        let request = |path: &str| get(spec, key, format!("{}{path}", spec.base_url), LIST_BYTES);
        let mut patience = LIST_PATIENCE;
        if spec.models_endpoint.is_none() {
            match self.fetcher.json(request("/models/info"), INFO_PATIENCE).await {
                Ok(answer) => {
                    let models = info_map(&answer);
                    if !models.is_empty() {
                        return Ok(models);
                    }
                }
                Err(error @ FetchError::Connection(_)) => return Err(error),
                Err(FetchError::Timeout(_)) => patience = SHORT_PATIENCE,
                Err(_) => {}
            }
        }
        Ok(list(&self.fetcher.json(request(&models_path(spec)), patience).await?))
    }

    /// Asks for the pages of a list, one after another.
    async fn ask_pages(&self, spec: &ProviderSpec, key: Key<'_>) -> Result<Vec<ToldModel>, FetchError> {
        let path = models_path(spec);
        let mut models = Vec::new();
        let mut query = String::new();
        for _ in 0..MAX_PAGES {
            let url = format!("{}{path}{query}", spec.base_url);
            let answer = self.fetcher.json(get(spec, key, url, LIST_BYTES), LIST_PATIENCE).await?;
            let (told, next) = anthropic_page(&answer);
            models.extend(told);
            match next {
                Some(last) => query = format!("?limit=1000&after_id={last}"),
                None => break,
            }
        }
        Ok(models)
    }

    /// The public list; empty if it cannot be had.
    async fn catalogue(&self) -> Arc<Catalogue> {
        if self.catalogue_url.is_empty() {
            return Arc::default();
        }
        let now = self.now();
        let known = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, catalogue)) = known.filter(|(until, _)| now < *until) {
            return catalogue;
        }
        let kept = self.read(CATALOGUE_FILE).and_then(|text| catalogue(&text));
        let (until, found) = match kept {
            Some((updated_at, kept)) if is_fresh(updated_at, now, CATALOGUE_SECS) => {
                (updated_at + CATALOGUE_SECS, kept)
            }
            kept => {
                let request = Get {
                    url: self.catalogue_url.clone(),
                    headers: Vec::new(),
                    limit_bytes: CATALOGUE_BYTES,
                    secrets: Vec::new(),
                };
                match self.fetcher.json(request, LIST_PATIENCE).await.map(|it| Catalogue::read(&it)) {
                    Ok(fresh) if !fresh.is_empty() => {
                        self.write(CATALOGUE_FILE, |_| catalogue_text(now, &fresh)).await;
                        (now + CATALOGUE_SECS, fresh)
                    }
                    _ => (now + CATALOGUE_PAUSE_SECS, kept.map(|(_, it)| it).unwrap_or_default()),
                }
            }
        };
        let found = Arc::new(found);
        *self.catalogue.lock().unwrap_or_else(PoisonError::into_inner) = Some((until, found.clone()));
        found
    }

    fn read(&self, name: &str) -> Option<String> {
        let read = self.folder.as_ref()?.read(name);
        read.unwrap_or_else(|error| {
            self.ctx.logger().warn(format_args!("{name} was not read: {error}"));
            None
        })
    }

    /// What is kept makes the next start quicker; the program runs on without it.
    async fn write(&self, name: &str, merge: impl Fn(Option<&str>) -> String) {
        let Some(folder) = &self.folder else { return };
        let (n_attempts, pause) = MERGES;
        for _ in 0..n_attempts {
            match folder.merge(name, &merge) {
                Ok(Merge::Done) => return,
                Ok(Merge::Busy) => {}
                Err(error) => return self.ctx.logger().warn(format_args!("{name} was not written: {error}")),
            }
            if self.ctx.sleep(pause).await.is_err() {
                return;
            }
        }
        self.ctx.logger().warn(format_args!("{name} was not written: another program keeps it locked"));
    }
}
