//! The configuration of a command: files, variables, and what its command line sets.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use linn::config::{Config, Layer, Problem, Sources, keys};
use linn::services::secrets::SecretKeeper;

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
    /// Ask this provider, which is set up, and no other.
    #[arg(long, conflicts_with = "base_url")]
    provider: Option<String>,
    /// Ask this OpenAI-compatible endpoint, which needs no key, such as `http://localhost:11434/v1`, and no other.
    #[arg(long, value_name = "URL", value_parser = address)]
    base_url: Option<String>,
    /// Set a key of the configuration, such as `shell.timeout_secs=60`; `linn config` lists them.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run the scripts of plugins in the workspace without a word from you.
    #[arg(long)]
    trust_project_plugins: bool,
    /// Read this file in place of those of existing clients.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What knows the secrets, also those of what goes to standard error.
    #[arg(skip)]
    pub(crate) secrets: SecretKeeper,
}

impl SettingsArguments {
    /// The folder that was named.
    pub(crate) fn workspace(&self) -> Option<&Path> {
        self.workspace.as_deref()
    }

    /// The same with this folder, if none was named.
    pub(crate) fn or_workspace(mut self, folder: Option<PathBuf>) -> Self {
        self.workspace = self.workspace.or(folder);
        self
    }

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
            pass("--set", format!("providers=[{{name = \"{ENDPOINT}\", base_url = {url}, api_key_env = \"\"}}]"));
            pass("--set", format!("provider={ENDPOINT}"));
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
        if self.trust_project_plugins {
            pass("--set", "script_plugins.trust_project=true".to_owned());
        }
        for pair in &self.set {
            pass("--set", pair.clone());
        }
        let sources = Sources::system(arguments).context("the current folder cannot be told")?;
        Ok(Config::load(sources, &linn::built_in_entries()))
    }
}

/// What the endpoint is called that `--base-url` names.
const ENDPOINT: &str = "endpoint";

/// An address that can be asked.
fn address(text: &str) -> anyhow::Result<String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() => Ok(text.to_owned()),
        _ => bail!("it begins with http:// or https:// and a host, as in http://localhost:11434/v1"),
    }
}

/// A basic string of TOML.
fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} has no name in Unicode", path.display()))
}

/// Tells what is wrong with the configuration; all else of it is in force.
pub(crate) fn warn_of_problems(config: &Config, terminal: &Terminal) {
    for problem in config.problems() {
        terminal.warn(&format!("config: {problem}"));
    }
}

/// The model that is set, if one is.
///
/// # Errors
///
/// A recording stands in for a model only if the user says so: with it a repository would have its own script run.
pub(crate) fn chosen_model(config: &Config) -> anyhow::Result<Option<String>> {
    let Some(model) = config.get(&keys::MODEL) else { return Ok(None) };
    let origin = config.origin(keys::MODEL.declaration());
    let is_users = matches!(origin.layer, Layer::User | Layer::Environment | Layer::CommandLine | Layer::Runtime);
    if model.starts_with("replay:") && !is_users {
        bail!("{origin} chooses the recording `{model}` as the model; name it with `--model` if that is what you want");
    }
    Ok(Some(model))
}

impl SettingsArguments {
    /// The model as that of the provider that the command line names: a plain id would go to whoever is known to have it,
    /// and what a user sends to one endpoint is not for another.
    ///
    /// # Errors
    ///
    /// There is no such provider.
    pub(crate) fn of_named_provider(&self, model: String, config: &Config) -> anyhow::Result<String> {
        let Some(name) = self.provider.as_deref().or(self.base_url.as_deref().map(|_| ENDPOINT)) else {
            return Ok(model);
        };
        let providers = config.get(&keys::PROVIDERS);
        if !providers.iter().any(|it| it.name == name) {
            let known: Vec<_> = providers.iter().map(|it| it.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            bail!("no provider `{name}` is set up; there are: {known} (docs/endpoints.md)");
        }
        let is_qualified =
            model.starts_with("replay:") || model.strip_prefix(name).is_some_and(|it| it.starts_with(':'));
        Ok(if is_qualified { model } else { format!("{name}:{model}") })
    }
}

/// Refuses to go on with a configuration that may protect less than its writer meant.
///
/// # Errors
///
/// A file of the user cannot be read as a whole, or what says which calls are asked about is wrong.
pub(crate) fn refuse_what_protects_less(config: &Config) -> anyhow::Result<()> {
    let workspace = config.workspace().display().to_string();
    let protects = |it: &&Problem| match it {
        // A repository protects nothing.
        Problem::Syntax { place, .. } => !place.to_string().starts_with(&workspace),
        Problem::WrongValue { key, .. } => key == "approval" || key.starts_with("permissions"),
        _ => false,
    };
    match config.problems().iter().find(protects) {
        Some(problem) => bail!("config: {problem}; nothing is run, since what it should protect would not be"),
        None => Ok(()),
    }
}
