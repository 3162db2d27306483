//! The configuration of a command: files, variables, and what its command line sets.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use linn::config::{Config, Sources};

use crate::cli::Approve;
use crate::cli::terminal::Terminal;

/// What every command that works in a workspace can be told.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingsArguments {
    /// The folder that tools work in; by default the current one.
    #[arg(long, short)]
    workspace: Option<PathBuf>,
    /// The model: its id, `<provider>:<id>`, or `replay:<file>` for a recording.
    #[arg(long, short)]
    model: Option<String>,
    /// Which calls are asked about.
    #[arg(long, value_enum)]
    approve: Option<Approve>,
    /// The provider that is asked first.
    #[arg(long)]
    provider: Option<String>,
    /// Ask this OpenAI-compatible endpoint, which needs no key, such as `http://localhost:11434/v1`.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Set a key of the configuration, such as `shell.timeout_secs=60`; `linn config` lists them.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Read this file in place of those of existing clients.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl SettingsArguments {
    /// Reads all layers.
    ///
    /// # Errors
    ///
    /// Only if the current folder cannot be told: what is wrong with a layer is a problem of the configuration.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let mut arguments = Vec::new();
        let mut pass = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
        if let Some(file) = &self.config {
            pass("--config", text(file)?);
        }
        if let Some(folder) = &self.workspace {
            let folder = folder.canonicalize().with_context(|| format!("no workspace at {}", folder.display()))?;
            pass("--set", format!("workspace={}", text(&folder)?));
        }
        if let Some(url) = &self.base_url {
            let url = toml_text(url);
            pass("--set", format!("providers=[{{name = \"endpoint\", base_url = {url}, api_key_env = \"\"}}]"));
            pass("--set", "provider=endpoint".to_owned());
        }
        if let Some(provider) = &self.provider {
            pass("--set", format!("provider={provider}"));
        }
        if let Some(model) = &self.model {
            pass("--set", format!("model={model}"));
        }
        if let Some(mode) = self.approve {
            pass("--set", format!("approval={}", mode.name()));
        }
        for pair in &self.set {
            pass("--set", pair.clone());
        }
        let sources = Sources::system(arguments).context("the current folder cannot be told")?;
        Ok(Config::load(sources, &[]))
    }
}

/// A basic string of TOML.
fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn text(path: &std::path::Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} has no name in Unicode", path.display()))
}

/// Tells what is wrong with the configuration; all else of it is in force.
pub(crate) fn warn_of_problems(config: &Config, terminal: &Terminal) {
    for problem in config.problems() {
        terminal.warn(&format!("config: {problem}"));
    }
}
