//! The service that manages plugins.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use linn_bus::provider;
use linn_services::agent::Agent;
use linn_services::plugin_admin::{
    PluginAdmin, PluginAdminError, PluginCheck, PluginCommand, PluginCommandMode, PluginCommandOutcome, PluginFailure,
    PluginInfo, PluginInstalled, PluginScope, PluginTrust, PluginTrustApplied, PluginsReloaded,
};

use crate::admin::Admin;
use crate::command;
use crate::install;
use crate::manifest::{CommandKind, name_of, read};
use crate::system::{absolute, blocking, real_path};
use crate::trust::Decision;

/// Provides [`PluginAdmin`].
pub(crate) struct AdminProvider(pub(crate) Arc<Admin>);

#[provider]
impl PluginAdmin for AdminProvider {
    fn list(&self) -> Result<Vec<PluginInfo>, PluginAdminError> {
        Ok(self.0.view().plugins.clone())
    }

    fn undecided(&self) -> Result<Vec<PluginTrust>, PluginAdminError> {
        let view = self.0.view();
        let is_loaded = |name: &str| view.plugins.iter().any(|it| it.name == name);
        let undecided = view.skipped.iter().filter(|it| it.decision.is_empty() && !is_loaded(&it.name));
        Ok(undecided.cloned().collect())
    }

    fn trust_entries(&self) -> Result<Vec<PluginTrust>, PluginAdminError> {
        let view = self.0.view();
        let of_workspace = view.loaded.iter().filter(|(it, _)| it.scope == PluginScope::Workspace);
        let loaded = of_workspace.map(|(it, _)| PluginTrust {
            name: it.manifest.name.clone(),
            version: it.manifest.version.clone(),
            description: it.manifest.description.clone(),
            path: it.folder.display().to_string(),
            decision: it.decision.map_or("", Decision::as_str).to_owned(),
        });
        let mut all: Vec<PluginTrust> = view.skipped.iter().cloned().chain(loaded).collect();
        all.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
        Ok(all)
    }

    fn failures(&self) -> Result<Vec<PluginFailure>, PluginAdminError> {
        Ok(self.0.view().failures.clone())
    }

    async fn decide(&self, decisions: BTreeMap<String, String>) -> Result<PluginTrustApplied, PluginAdminError> {
        self.0.to_the_end(|admin| admin.decide(decisions)).await
    }

    async fn install(&self, source: &str, scope: Option<&str>) -> Result<PluginInstalled, PluginAdminError> {
        let scope = PluginScope::parse(scope.unwrap_or_default())?;
        install::install(&self.0, source, scope).await
    }

    async fn remove(&self, name: &str) -> Result<(), PluginAdminError> {
        let name = name.to_owned();
        self.0.to_the_end(|admin| admin.remove(name)).await
    }

    async fn enable(&self, name: &str) -> Result<(), PluginAdminError> {
        let name = name.to_owned();
        self.0.to_the_end(|admin| admin.set_enabled(name, true)).await
    }

    async fn disable(&self, name: &str) -> Result<(), PluginAdminError> {
        let name = name.to_owned();
        self.0.to_the_end(|admin| admin.set_enabled(name, false)).await
    }

    async fn reload(&self) -> Result<PluginsReloaded, PluginAdminError> {
        self.0.to_the_end(Admin::reload).await
    }

    fn commands(&self) -> Result<Vec<PluginCommand>, PluginAdminError> {
        let view = self.0.view();
        let enabled = view.loaded.iter().filter(|(_, is_enabled)| *is_enabled).map(|(it, _)| &it.manifest);
        let commands = enabled.flat_map(|manifest| {
            manifest.commands.iter().map(|it| PluginCommand {
                name: it.name.clone(),
                description: it.description.clone(),
                plugin: manifest.name.clone(),
                mode: match it.body {
                    CommandKind::Script { .. } => PluginCommandMode::Script,
                    CommandKind::Prompt { .. } => PluginCommandMode::AgentTurn,
                },
            })
        });
        Ok(commands.collect())
    }

    async fn run_command(
        &self,
        name: &str,
        arguments: &str,
        agent: Option<&Agent>,
    ) -> Result<PluginCommandOutcome, PluginAdminError> {
        let name = name.strip_prefix('/').unwrap_or(name);
        for active in self.0.fleet.active() {
            if let Some(entry) = active.manifest.commands.iter().find(|it| it.name == name) {
                return command::run(&active, entry, arguments, agent).await;
            }
        }
        Err(PluginAdminError::UnknownCommand(name.to_owned()))
    }

    async fn check(&self, folder: &str) -> Result<PluginCheck, PluginAdminError> {
        let folder = absolute(&PathBuf::from(folder));
        let checked = blocking(move || {
            let folder = real_path(&folder).unwrap_or(folder);
            let reading = read(&folder);
            PluginCheck {
                name: Some(name_of(&folder, &reading.loose)).filter(|it| !it.is_empty()),
                errors: reading.problems.iter().map(ToString::to_string).collect(),
                warnings: reading.warnings,
                capabilities: reading.capabilities,
            }
        });
        Ok(checked.await)
    }

    async fn shut_down(&self) -> Result<(), PluginAdminError> {
        self.0.life.shut_down().await;
        Ok(())
    }
}
