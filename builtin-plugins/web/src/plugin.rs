//! The plugins that put the parts of this crate together.

use std::fmt;
use std::sync::Arc;

use linn_bus::{Context, Demand, Fault, Inject, NeedList, Plugin, Svc};
use linn_services::settings::Settings;
use linn_services::tools::Tools;
use linn_services::web::Web;

use crate::config::WebConfig;
use crate::counts::Counts;
use crate::http::{Http, network};
use crate::provider::Provider;
use crate::tools;

/// The web: [`WebServicePlugin`] and [`WebToolsPlugin`].
#[derive(Debug)]
pub struct WebPlugin;

linn_bus::plugin!(WebPlugin, WebServicePlugin, WebToolsPlugin);

impl Plugin for WebPlugin {
    const NAME: &'static str = "web";
    type Config = WebConfig;
    type Needs = ();

    fn validate(config: &WebConfig) -> Result<(), Fault> {
        config.check()
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Web>(Demand::Required);
    }

    async fn start(ctx: &Context, config: WebConfig, (): ()) -> Result<(), Fault> {
        let service = ctx.mount::<WebServicePlugin>(config)?;
        ctx.mount::<WebToolsPlugin>(())?;
        // The tools wait for the registry by themselves.
        service.running().await?;
        Ok(())
    }
}

/// Provides [`Web`]; the keys of search services are those of the [`Settings`].
#[derive(Debug)]
pub struct WebServicePlugin;

impl Plugin for WebServicePlugin {
    const NAME: &'static str = "web-service";
    type Config = WebConfig;
    type Needs = Option<Svc<dyn Settings>>;

    fn validate(config: &WebConfig) -> Result<(), Fault> {
        config.check()
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Web>(Demand::Required);
    }

    async fn start(ctx: &Context, config: WebConfig, settings: Self::Needs) -> Result<(), Fault> {
        let http: Arc<dyn Http> = match &config.http {
            Some(http) => http.clone(),
            None => Arc::new(network()),
        };
        let counts = Counts::new(config.counts_file.clone());
        ctx.provide::<dyn Web>(Arc::new(Provider { ctx: ctx.clone(), settings, http, counts, config }))?;
        Ok(())
    }
}

/// The tools `fetch` and `web_search`, over whichever [`Web`] there is.
#[derive(Debug)]
pub struct WebToolsPlugin;

/// What [`WebToolsPlugin`] needs.
#[derive(Inject)]
pub struct WebToolsNeeds {
    web: Svc<dyn Web>,
    tools: Svc<dyn Tools>,
}

impl fmt::Debug for WebToolsNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebToolsNeeds").finish_non_exhaustive()
    }
}

impl Plugin for WebToolsPlugin {
    const NAME: &'static str = "web-tools";
    type Config = ();
    type Needs = WebToolsNeeds;

    async fn start(ctx: &Context, (): (), needs: WebToolsNeeds) -> Result<(), Fault> {
        needs.tools.register(ctx, tools::fetch(needs.web.clone()))?;
        needs.tools.register(ctx, tools::search(needs.web))?;
        Ok(())
    }
}
