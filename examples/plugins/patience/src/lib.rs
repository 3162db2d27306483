//! An async listener: asks a server before a tool runs, and tries again when the tool fails.
//!
//! It uses tokio as any program does, which the feature `tokio` of the SDK makes possible in a library.

use std::sync::Arc;
use std::time::Duration;

use linn_sdk::prelude::*;
use linn_sdk::services::events::ToolsExecute;
use linn_sdk::services::tools::ToolExecutionResult;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What the plugin is configured with.
#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Address of a server that answers `ok` to the name of a tool; none is asked if it is empty.
    server: String,
    /// How often a call is tried.
    attempts: u32,
    /// How long to wait between two attempts.
    pause_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { server: String::new(), attempts: 1, pause_ms: 1 }
    }
}

struct Patience {
    ctx: Context,
    config: Config,
}

impl Patience {
    async fn wrap(&self, event: &ToolsExecute, next: Next<'_, ToolsExecute>) -> Result<ToolExecutionResult, Fault> {
        let name = event.execution.name().as_str().to_owned();
        assert_ne!(name, "panic", "asked to");
        if !self.config.server.is_empty() {
            // A task of tokio, in the library's own runtime, which sleeps and does I/O.
            let server = self.config.server.clone();
            let answer = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let mut stream = TcpStream::connect(server).await?;
                stream.write_all(name.as_bytes()).await?;
                stream.shutdown().await?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await?;
                Ok::<_, std::io::Error>(answer)
            });
            let answer = answer.await??;
            if answer != "ok" {
                return Ok(ToolExecutionResult::failed(event.execution.call_id().clone(), answer));
            }
        }
        let mut result = next.run().await?;
        for _ in 1..self.config.attempts {
            if !result.is_error {
                break;
            }
            // Waiting through the context ends with the plugin.
            self.ctx.sleep(Duration::from_millis(self.config.pause_ms)).await?;
            result = next.run().await?;
        }
        Ok(result)
    }
}

impl Plugin for Patience {
    const NAME: &'static str = "patience";
    type Config = Config;
    type Needs = ();

    async fn start(ctx: &Context, config: Config, (): ()) -> Result<(), Fault> {
        // A task of the plugin, on the executor of the program.
        let watch = ctx.clone();
        ctx.spawn(async move {
            watch.logger().debug("patience is there");
        })?;
        ctx.on_with(&Arc::new(Patience { ctx: ctx.clone(), config }), Patience::wrap)?;
        Ok(())
    }
}

linn_sdk::plugin!(Patience);
