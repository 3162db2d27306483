//! The provider of [`Web`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus::{Context, Svc, provider};
use linn_services::settings::Settings;
use linn_services::web::{Web, WebError, WebHit, WebPage, WebQuery, WebRequest};
use url::Url;

use crate::config::WebConfig;
use crate::counts::Counts;
use crate::http::{Ask, Head, Http, HttpError};
use crate::search::Engine;

/// How often a page may lead elsewhere.
const MAX_REDIRECTS: usize = 5;

/// How long the answer of a search may be.
const SEARCH_BYTES: usize = 4 << 20;

pub(crate) struct Provider {
    pub(crate) ctx: Context,
    pub(crate) settings: Option<Svc<dyn Settings>>,
    pub(crate) http: Arc<dyn Http>,
    pub(crate) config: WebConfig,
    pub(crate) counts: Counts,
}

/// An address of the web.
fn parsed(url: &str) -> Option<Url> {
    Url::parse(url.trim()).ok().filter(|it| matches!(it.scheme(), "http" | "https") && it.has_host())
}

fn broken(error: HttpError) -> WebError {
    WebError::Connection(error.0)
}

/// What of a body fits, and whether there is more.
async fn read(mut body: crate::http::Body, limit_bytes: usize) -> Result<(Vec<u8>, bool), HttpError> {
    let mut read = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece?;
        let room = limit_bytes - read.len();
        read.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            return Ok((read, true));
        }
    }
    Ok((read, false))
}

impl Provider {
    async fn within<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<T, WebError>>,
    ) -> Result<T, WebError> {
        self.ctx.within(patience, work).await.unwrap_or(Err(WebError::Timeout(patience)))
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.config.timeout_s)
    }

    /// Follows redirects to a page, each to a host that may be asked.
    async fn page(&self, url: &str, limit_bytes: usize) -> Result<WebPage, WebError> {
        let mut url = parsed(url).ok_or_else(|| WebError::BadUrl(url.to_owned()))?;
        for _ in 0..=MAX_REDIRECTS {
            let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
            if !self.config.allows(&host) {
                return Err(WebError::NotAllowed { host, allowed: self.config.allowlist.clone() });
            }
            let headers = vec![("accept".to_owned(), "text/html,text/plain,application/json,*/*;q=0.5".into())];
            let head = self.http.ask(Ask { url: url.to_string(), headers, json: None }).await.map_err(broken)?;
            if let Some(to) = head.location.as_ref().filter(|_| (300..400).contains(&head.status)) {
                url =
                    url.join(to).ok().and_then(|it| parsed(it.as_str())).ok_or_else(|| WebError::BadUrl(to.clone()))?;
                continue;
            }
            let Head { status, content_type, body, .. } = head;
            let (body, is_cut) = read(body, limit_bytes).await.map_err(broken)?;
            return Ok(WebPage { url: url.into(), status, content_type, body, is_cut });
        }
        Err(WebError::Redirects(MAX_REDIRECTS))
    }

    /// The first service that has a key and searches left this month, and how it is asked. The search is counted.
    fn engine(&self, query: &WebQuery) -> Result<(Engine, Ask), WebError> {
        let mut used_up = None;
        for engine in Engine::ALL {
            let key = self.settings.as_ref().and_then(|it| it.search_key(engine.name()).ok().flatten());
            let Some(key) = key else { continue };
            if let Some(limit) = self.config.monthly_limits.get(engine.name())
                && !self.is_left(engine, *limit)
            {
                let why = format!("the {limit} searches of this month are used up");
                used_up = Some(WebError::Search { service: engine.name().to_owned(), why });
                continue;
            }
            return Ok((engine, engine.ask(&self.config, query, &key)));
        }
        if let Some(error) = used_up {
            return Err(error);
        }
        Err(WebError::NoSearch { services: Engine::ALL.iter().map(|it| it.name().to_owned()).collect() })
    }

    /// Whether a service may be searched once more. What cannot be counted is allowed, and told to whoever looks after it.
    fn is_left(&self, engine: Engine, limit: u64) -> bool {
        self.counts.take(&**self.ctx.clock(), engine.name(), limit).unwrap_or_else(|error| {
            self.ctx.logger().warn(format_args!("searches are not counted: {error}"));
            true
        })
    }

    async fn hits(&self, query: &WebQuery) -> Result<Vec<WebHit>, WebError> {
        let (engine, ask) = self.engine(query)?;
        let head = self.http.ask(ask).await.map_err(broken)?;
        let status = head.status;
        let (body, is_cut) = read(head.body, SEARCH_BYTES).await.map_err(broken)?;
        let mut hits = engine.read(status, &body, is_cut)?;
        hits.truncate(usize::try_from(query.count).unwrap_or(usize::MAX));
        Ok(hits)
    }
}

#[provider]
impl Web for Provider {
    async fn fetch(&self, request: WebRequest) -> Result<WebPage, WebError> {
        let limit_bytes = request.limit_bytes.unwrap_or(self.config.max_bytes);
        let patience = request.timeout.unwrap_or_else(|| self.patience());
        self.within(patience, self.page(&request.url, limit_bytes)).await
    }

    async fn search(&self, query: WebQuery) -> Result<Vec<WebHit>, WebError> {
        self.within(self.patience(), self.hits(&query)).await
    }
}
