//! `linn doctor`: what is wrong on this machine.

use std::path::Path;

use anyhow::Context as _;
use linn::Harness;
use linn::config::{Config, keys};
use linn::services::providers::{ProviderInfo, Providers, Refreshed, SilentProvider};
use linn::services::shell::{Shell, ShellCommand};

use crate::cli::DoctorArguments;
use crate::cli::sessions;
use crate::cli::terminal::Terminal;

/// What came of one look.
enum Finding {
    /// As it should be.
    Good(String),
    /// It works without.
    Note(String),
    /// It does not work, and what to do.
    Bad(String),
}

/// Looks at everything, and says whether all is well.
pub(crate) async fn doctor(arguments: &DoctorArguments, terminal: &Terminal) -> anyhow::Result<bool> {
    let config = arguments.settings.load()?;
    let mut findings = Vec::new();
    of_config(&config, &mut findings);
    findings.push(of_workspace(config.workspace()));
    findings.push(of_sessions());
    let model = config.get(&keys::MODEL);
    let workspace = config.workspace().to_owned();
    let harness = Harness::builder().workspace(workspace).config(config).build().await?;
    of_programs(&harness, &mut findings).await?;
    of_providers(&harness, arguments.offline, model.as_deref(), &mut findings).await?;
    harness.shutdown().await.context("the harness did not end quietly")?;
    let mut is_well = true;
    for finding in findings {
        match finding {
            Finding::Good(text) => terminal.explain(&format!("✓ {text}")),
            Finding::Note(text) => terminal.plain(&format!("· {text}")),
            Finding::Bad(text) => {
                is_well = false;
                terminal.warn(&format!("✗ {text}"));
            }
        }
    }
    Ok(is_well)
}

fn of_config(config: &Config, findings: &mut Vec<Finding>) {
    if config.problems().is_empty() {
        findings.push(Finding::Good("the configuration has no problem".to_owned()));
    }
    findings.extend(config.problems().iter().map(|it| Finding::Bad(format!("config: {it}"))));
}

fn of_workspace(workspace: &Path) -> Finding {
    match workspace.is_dir() {
        true => Finding::Good(format!("the workspace is {}", workspace.display())),
        false => Finding::Bad(format!("no folder at {}; name another with --workspace", workspace.display())),
    }
}

fn of_sessions() -> Finding {
    match sessions::folder(None).and_then(|folder| sessions::can_write(&folder).map(|()| folder)) {
        Ok(folder) => Finding::Good(format!("sessions are kept in {}", folder.display())),
        Err(error) => Finding::Bad(format!("sessions cannot be kept: {error:#}")),
    }
}

/// Programs that tools call, asked for their version in the shell that would call them.
async fn of_programs(harness: &Harness, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let shell = harness.context().require::<dyn Shell>()?;
    for (program, what) in [("git", "the tools for git")] {
        let output = shell.run(ShellCommand::line(format!("{program} --version"))).await;
        let version = output.ok().filter(|it| it.exit_code == Some(0)).map(|it| {
            let text = String::from_utf8_lossy(&it.stdout.head).into_owned();
            text.lines().next().unwrap_or_default().to_owned()
        });
        findings.push(match version {
            Some(version) => Finding::Good(version),
            None => Finding::Note(format!("`{program}` is not there; what needs it: {what}")),
        });
    }
    Ok(())
}

async fn of_providers(
    harness: &Harness,
    is_offline: bool,
    model: Option<&str>,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<()> {
    let providers = harness.context().require::<dyn Providers>()?;
    // What stands in while nothing is configured is none that the user chose.
    let is_chosen = |it: &ProviderInfo| it.is_logged_in || it.name != "default";
    let all: Vec<_> = providers.list()?.into_iter().filter(is_chosen).collect();
    if all.is_empty() {
        let how = "add one to ~/.config/linn/linn.toml, or use `--base-url`; docs/endpoints.md tells how";
        findings.push(Finding::Note(format!("no provider is configured: {how}")));
    }
    let refreshed = match is_offline || all.is_empty() {
        true => Refreshed::default(),
        false => providers.refresh().await?,
    };
    for provider in &all {
        findings.push(of_provider(provider, is_offline, &refreshed));
    }
    findings.push(match model {
        None => Finding::Note("no model is chosen: set `model`, or name one with --model".to_owned()),
        Some(model) if model.starts_with("replay:") || is_offline => Finding::Good(format!("the model is {model}")),
        Some(model) => match providers.route(model, None)? {
            Some(info) => Finding::Good(format!("the model is {}, asked of {}", info.id, info.provider)),
            None => Finding::Bad(format!("no provider has the model `{model}`")),
        },
    });
    Ok(())
}

fn of_provider(provider: &ProviderInfo, is_offline: bool, refreshed: &Refreshed) -> Finding {
    let ProviderInfo { name, base_url, .. } = provider;
    let n_models = refreshed.models.iter().filter(|it| it.provider == *name).count();
    if let Some(SilentProvider { why, .. }) = refreshed.silent.iter().find(|it| it.name == *name) {
        let known = match n_models {
            0 => String::new(),
            n => format!(" {n} models of it are known from before"),
        };
        return Finding::Bad(format!("provider `{name}` does not answer at {base_url}: {why}; is it running?{known}"));
    }
    match (provider.is_logged_in, n_models) {
        (false, _) => {
            Finding::Bad(format!("provider `{name}` has no key: set its variable, or `provider_keys.{name}`"))
        }
        (true, _) if is_offline => Finding::Good(format!("provider `{name}` at {base_url}, not asked")),
        (true, 0) => Finding::Bad(format!("provider `{name}` lists no models at {base_url}: is it running?")),
        (true, n) => Finding::Good(format!("provider `{name}` at {base_url} has {n} models")),
    }
}
