//! The plugin: what it is configured with, and what it brings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use linn_bus::{Context, Fault, Plugin, Svc};
use linn_http::{Network, NetworkConfig};
use linn_services::llm::wire::{Endpoint, EndpointAdapter, Transport};
use linn_services::llm::{Llm, Wire};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::wire::AnthropicWire;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What [`AnthropicPlugin`] is configured with.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnthropicConfig {
    /// Who answers for which models.
    pub endpoints: Vec<Endpoint>,
    /// What requests go through; by default the network.
    #[serde(skip)]
    pub transport: Option<Arc<dyn Transport>>,
}

impl fmt::Debug for AnthropicConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicConfig").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// Speaks the wire `anthropic`, and answers for the models of the endpoints in its config.
#[derive(Debug)]
pub struct AnthropicPlugin;

linn_bus::plugin!(AnthropicPlugin);

impl Plugin for AnthropicPlugin {
    const NAME: &'static str = "llm-anthropic";
    type Config = AnthropicConfig;
    type Needs = Svc<dyn Llm>;

    fn validate(config: &AnthropicConfig) -> Result<(), Fault> {
        Endpoint::check_all(&config.endpoints).map_err(|it| Fault::msg(&it).with_code(it.code()))
    }

    async fn start(ctx: &Context, config: AnthropicConfig, llm: Svc<dyn Llm>) -> Result<(), Fault> {
        let transport = config.transport.unwrap_or_else(|| Arc::new(network()));
        let wire: Arc<dyn Wire> = Arc::new(AnthropicWire::new(ctx.clone(), transport));
        llm.register_wire(ctx, wire.clone())?;
        for endpoint in config.endpoints {
            let models = endpoint.model_ids();
            llm.register(ctx, models, Arc::new(EndpointAdapter::new(wire.clone(), Arc::new(endpoint))))?;
        }
        Ok(())
    }
}

fn network() -> Network {
    Network::new(NetworkConfig { connect_timeout: Some(CONNECT_TIMEOUT), ..NetworkConfig::default() })
}
