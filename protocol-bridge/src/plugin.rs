//! The plugin.

use std::sync::Arc;

use linn_bus::{Context, Fault, Inject, Plugin, Svc};
use linn_services::agent::Agents;
use linn_services::session::Sessions;

use crate::bridge::Bridge;
use crate::config::BridgeConfig;

/// Speaks the protocol with one front end.
///
/// It needs the services of agents and sessions. All others it looks up when a command needs them, and says so where one
/// is missing.
#[derive(Debug)]
pub struct BridgePlugin;

/// What [`BridgePlugin`] needs.
#[derive(Inject)]
pub struct BridgeNeeds {
    pub(crate) agents: Svc<dyn Agents>,
    pub(crate) sessions: Svc<dyn Sessions>,
}

impl std::fmt::Debug for BridgeNeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BridgeNeeds")
    }
}

impl Plugin for BridgePlugin {
    const NAME: &'static str = "protocol-bridge";
    type Config = BridgeConfig;
    type Needs = BridgeNeeds;

    fn validate(config: &BridgeConfig) -> Result<(), Fault> {
        let named = [Some(("workspace", &config.workspace)), config.session.as_ref().map(|it| ("session", it))];
        match named.into_iter().flatten().find(|(_, path)| !path.is_absolute()) {
            None => Ok(()),
            Some((key, path)) => Err(Fault::msg(format!("`{key}` is {path:?}; it has to be an absolute path"))),
        }
    }

    async fn start(ctx: &Context, config: BridgeConfig, needs: BridgeNeeds) -> Result<(), Fault> {
        let bridge = Bridge::new(ctx, config, needs);
        let leaving = bridge.clone();
        // The first effect is undone last: the agent is gone by then, and what it said is in the queue.
        ctx.effect("front end", |fx| fx.defer_async(async move { leaving.leave().await }))?;
        crate::events::listen(&bridge)?;
        bridge.open_first_session().await?;
        let (writer, journal) = (bridge.clone(), bridge.clone());
        ctx.spawn(async move { writer.sink.write_to(&writer.config.streams.output).await })?;
        ctx.spawn(async move { journal.keep_journal().await })?;
        ctx.spawn(crate::serve::serve(Arc::clone(&bridge)))?;
        Ok(())
    }
}
