//! The plugin: what it is configured with, and what it brings.

use std::fmt;
use std::sync::Arc;

use linn_bus::{Context, Fault, Plugin, Svc};
use linn_services::llm::Llm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapter::ReplayAdapter;
use crate::bundled::Bundled;
use crate::recorder::Recorder;
use crate::store::RecordingStore;
use crate::system::FolderStore;
use crate::tape::Library;

/// What begins the name of a model that is replayed.
pub(crate) const MODEL_PREFIX: &str = "replay:";

/// Whether a request has to be the recorded one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayMode {
    /// Yes: model, messages and tools. Another request is an error that names the first difference.
    #[default]
    Strict,
    /// No: answers go in the order in which they were recorded.
    Lenient,
}

/// What [`ReplayPlugin`] is configured with.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "snake_case", deny_unknown_fields)]
pub struct ReplayConfig {
    /// Whether a request has to be the recorded one.
    pub mode: ReplayMode,
    /// How long the pauses between chunks are, in percent of those recorded; 0 for none.
    pub delay_percent: u32,
    /// Whether a recording begins anew when it is used up.
    pub repeat: bool,
    /// The folder of recordings that are named by a relative path.
    pub folder: String,
    /// Name of the recording that every call of other models is added to; none are recorded without it.
    pub record: Option<String>,
    /// Recordings that are part of the program, beside those of this plugin.
    #[serde(skip)]
    pub bundled: Vec<Bundled>,
    /// What keeps recordings; by default the folder does.
    #[serde(skip)]
    pub store: Option<Arc<dyn RecordingStore>>,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self {
            mode: ReplayMode::Strict,
            delay_percent: 100,
            repeat: false,
            folder: ".".to_owned(),
            record: None,
            bundled: Vec::new(),
            store: None,
        }
    }
}

impl fmt::Debug for ReplayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayConfig")
            .field("mode", &self.mode)
            .field("delay_percent", &self.delay_percent)
            .field("repeat", &self.repeat)
            .field("folder", &self.folder)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

impl ReplayConfig {
    pub(crate) fn store(&self) -> Arc<dyn RecordingStore> {
        self.store.clone().unwrap_or_else(|| Arc::new(FolderStore::new(&self.folder)))
    }
}

/// Answers for the models `replay:*`, and records the others if it is told to.
#[derive(Debug)]
pub struct ReplayPlugin;

linn_bus::plugin!(ReplayPlugin);

impl Plugin for ReplayPlugin {
    const NAME: &'static str = "llm-replay";
    type Config = ReplayConfig;
    type Needs = Svc<dyn Llm>;

    async fn start(ctx: &Context, config: ReplayConfig, llm: Svc<dyn Llm>) -> Result<(), Fault> {
        let adapter = ReplayAdapter::new(ctx.clock().clone(), Library::new(&config), config.delay_percent);
        llm.register(ctx, vec![format!("{MODEL_PREFIX}*").into()], Arc::new(adapter))?;
        if let Some(name) = &config.record {
            Recorder::install(ctx, name, config.store())?;
        }
        Ok(())
    }
}
