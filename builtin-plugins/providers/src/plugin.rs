//! The plugin.

use std::fmt;
use std::sync::Arc;

use linn_bus::{Context, Demand, Fault, Inject, NeedList, Plugin, Svc};
use linn_services::llm::Llm;
use linn_services::providers::Providers;
use linn_services::settings::Settings;

use crate::adapter::Router;
use crate::book::Book;
use crate::config::ProvidersConfig;
use crate::fetch::{Fetch, Fetcher, network};
use crate::search::Search;
use crate::service::{Provider, Service};
use crate::system::CacheFolder;

/// Provides [`Providers`], and answers for every model that no other adapter answers for.
///
/// Keys that are set, and the provider that is made active, are state of this instance; what logs in, logs out and adds
/// providers is kept by the [`Settings`] as well.
#[derive(Debug)]
pub struct ProvidersPlugin;

/// What [`ProvidersPlugin`] needs.
#[derive(Inject)]
pub struct ProvidersNeeds {
    llm: Svc<dyn Llm>,
    settings: Option<Svc<dyn Settings>>,
}

impl fmt::Debug for ProvidersNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvidersNeeds").finish_non_exhaustive()
    }
}

linn_bus::plugin!(ProvidersPlugin);

impl Plugin for ProvidersPlugin {
    const NAME: &'static str = "providers";
    type Config = ProvidersConfig;
    type Needs = ProvidersNeeds;

    fn validate(config: &ProvidersConfig) -> Result<(), Fault> {
        Book::check(config)
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Providers>(Demand::Required);
    }

    async fn start(ctx: &Context, config: ProvidersConfig, needs: ProvidersNeeds) -> Result<(), Fault> {
        let (book, complaints) = Book::new(&config);
        for complaint in complaints {
            ctx.logger().warn(complaint);
        }
        let fetch: Arc<dyn Fetch> = match config.fetch {
            Some(fetch) => fetch,
            None => Arc::new(network()),
        };
        let fetcher = Fetcher::new(ctx.clone(), fetch);
        let folder = config.cache_folder.map(CacheFolder::new);
        let search = Search::new(ctx.clone(), fetcher.clone(), folder, config.catalogue_url);
        let service = Arc::new(Service::new(ctx.clone(), needs.settings, book, search, fetcher));
        ctx.provide::<dyn Providers>(Arc::new(Provider(service.clone())))?;
        let idle_timeout_ms = config.idle_timeout_ms;
        let router = Router { service: service.clone(), llm: needs.llm.clone(), idle_timeout_ms };
        needs.llm.register(ctx, vec!["*".into()], Arc::new(router))?;
        Ok(())
    }
}
