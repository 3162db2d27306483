//! Plugins and their commands: those of script plugins, which the service of plugins looks after, and those that other
//! plugins registered.

use std::sync::Arc;

use linn_bus::Svc;
use linn_services::commands::{CommandCall, CommandError, CommandOutput, Commands};
use linn_services::events::{PluginNotice, PluginStatus};
use linn_services::plugin_admin::{
    PluginAdmin, PluginAdminError, PluginCommandOutcome, PluginInstalled as Installed, PluginsReloaded,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::commands::prompts::Asked;
use crate::wire::commands::{
    DisablePlugin, EnablePlugin, InstallPlugin, ListPluginCommands, ListPlugins, PluginCommand, PluginTrustDecisions,
    PluginTrustPrompt, ReloadPlugins, RemovePlugin, Run,
};
use crate::wire::events::{
    PluginCommands, PluginDisabled, PluginEnabled, PluginError, PluginInstalled, PluginRemoved, PluginStatusEvent,
    PluginsList, TrustApplied, TrustPrompt,
};

impl Bridge {
    fn admin(&self) -> Option<Svc<dyn PluginAdmin>> {
        self.service::<dyn PluginAdmin>()
    }

    fn tell_plugins(&self) {
        let plugins = self.admin().and_then(|it| it.list().ok()).unwrap_or_default();
        self.say(&PluginsList { plugins: &shown(&plugins) });
        self.tell_plugin_commands();
    }

    /// The commands of script plugins, and those that other plugins registered.
    fn tell_plugin_commands(&self) {
        let scripts = self.admin().and_then(|it| it.commands().ok()).unwrap_or_default();
        let known = self.service::<dyn Commands>().and_then(|it| it.list().ok()).unwrap_or_default();
        let others = known.into_iter().filter(|it| !scripts.iter().any(|script| script.name == it.name));
        let others = others
            .map(|it| json!({ "name": it.name, "description": it.description, "plugin": it.plugin, "mode": "script" }));
        let commands: Vec<Value> = shown(&scripts).into_iter().chain(others).collect();
        self.say(&PluginCommands { commands: &commands });
    }

    /// The names of plugins that are loaded, and of those that wait for a decision.
    pub(crate) fn plugin_names(&self) -> (Vec<String>, Vec<String>) {
        let Some(admin) = self.admin() else { return Default::default() };
        let loaded = admin.list().unwrap_or_default().into_iter().map(|it| it.name).collect();
        let waiting = admin.undecided().unwrap_or_default().into_iter().map(|it| it.name).collect();
        (loaded, waiting)
    }

    /// Asks about the plugins of the repository that nobody has decided about, if there are any.
    pub(crate) fn tell_undecided(&self) {
        let waiting = self.admin().and_then(|it| it.undecided().ok()).unwrap_or_default();
        if !waiting.is_empty() {
            self.say(&TrustPrompt { plugins: &shown(&waiting) });
        }
    }

    /// Has something done about a plugin, beside the run; what fails is told with the name.
    fn administer<F, T>(
        &self,
        name: String,
        label: &'static str,
        what: impl FnOnce(Svc<dyn PluginAdmin>) -> F + Send + 'static,
        tell: impl FnOnce(&Self, T) + Send + 'static,
    ) where
        F: Future<Output = Result<T, PluginAdminError>> + Send + 'static,
        T: Send + 'static,
    {
        let Some(admin) = self.admin() else {
            let message = format!("{label} needs a plugin that looks after plugins, and none is mounted");
            return self.say(&PluginError { name: &name, message: &message });
        };
        self.spawn_job("task", label, move |bridge, signal| async move {
            match signal.run_until_cancelled(what(admin)).await {
                Some(Ok(done)) => tell(&bridge, done),
                Some(Err(error)) => bridge.say(&PluginError { name: &name, message: &error.to_string() }),
                None => bridge.say(&PluginError { name: &name, message: &format!("{label} was aborted") }),
            }
        });
    }

    pub(crate) fn plugin_notice(&self, event: &PluginNotice) {
        self.info(&event.message);
    }

    pub(crate) fn plugin_status(&self, event: &PluginStatus) {
        self.say(&PluginStatusEvent { plugin: &event.plugin, text: &event.text });
    }
}

/// As front ends read it.
fn shown<T: Serialize>(all: &[T]) -> Vec<Value> {
    all.iter().filter_map(|it| serde_json::to_value(it).ok()).collect()
}

impl Run for ListPlugins {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.tell_plugins();
    }
}

impl Run for ListPluginCommands {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.tell_plugin_commands();
    }
}

impl Run for ReloadPlugins {
    async fn run(self, bridge: &Arc<Bridge>) {
        if bridge.admin().is_none() {
            bridge.tell_plugins();
            return bridge.info("plugins reloaded: 0 loaded, 0 skipped, 0 errors");
        }
        let reload = |admin: Svc<dyn PluginAdmin>| async move { admin.reload().await };
        bridge.administer(String::new(), "reload_plugins", reload, |bridge, done: PluginsReloaded| {
            bridge.tell_plugins();
            let PluginsReloaded { loaded, skipped, errors } = done;
            bridge.info(format!("plugins reloaded: {loaded} loaded, {skipped} skipped, {errors} errors"));
        });
    }
}

impl Run for InstallPlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { path, scope } = self;
        let name = path.clone();
        let install = |admin: Svc<dyn PluginAdmin>| async move { admin.install(&path, scope.as_deref()).await };
        bridge.administer(name, "install_plugin", install, |bridge, done: Installed| {
            let fields = serde_json::to_value(&done).unwrap_or_default();
            bridge.say(&PluginInstalled { fields: &fields });
        });
    }
}

impl Run for RemovePlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        let (name, told) = (self.name.clone(), self.name.clone());
        let remove = |admin: Svc<dyn PluginAdmin>| async move { admin.remove(&self.name).await };
        bridge.administer(name, "remove_plugin", remove, move |bridge, ()| bridge.say(&PluginRemoved { name: &told }));
    }
}

impl Run for EnablePlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        let (name, told) = (self.name.clone(), self.name.clone());
        let enable = |admin: Svc<dyn PluginAdmin>| async move { admin.enable(&self.name).await };
        bridge.administer(name, "enable_plugin", enable, move |bridge, ()| bridge.say(&PluginEnabled { name: &told }));
    }
}

impl Run for DisablePlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        let (name, told) = (self.name.clone(), self.name.clone());
        let disable = |admin: Svc<dyn PluginAdmin>| async move { admin.disable(&self.name).await };
        let tell = move |bridge: &Bridge, ()| bridge.say(&PluginDisabled { name: &told });
        bridge.administer(name, "disable_plugin", disable, tell);
    }
}

impl Run for PluginTrustPrompt {
    async fn run(self, bridge: &Arc<Bridge>) {
        let entries = bridge.admin().and_then(|it| it.trust_entries().ok()).unwrap_or_default();
        bridge.say(&TrustPrompt { plugins: &shown(&entries) });
    }
}

impl Run for PluginTrustDecisions {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Some(admin) = bridge.admin() else {
            return bridge.missing("plugin_trust_decisions", "trust in plugins");
        };
        bridge.spawn_job("task", "plugin_trust_decisions", move |bridge, signal| async move {
            match signal.run_until_cancelled(admin.decide(self.decisions)).await {
                Some(Ok(done)) => {
                    let fields = serde_json::to_value(&done).unwrap_or_default();
                    bridge.say(&TrustApplied { fields: &fields });
                    bridge.tell_plugins();
                }
                Some(Err(error)) => bridge.error(error.to_string()),
                None => bridge.error("plugin_trust_decisions was aborted; reload_plugins has what was stored in force"),
            }
        });
    }
}

impl Run for PluginCommand {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { name, args } = self;
        let bare = name.trim_start_matches('/').to_owned();
        let is_scripts =
            |admin: &Svc<dyn PluginAdmin>| admin.commands().is_ok_and(|all| all.iter().any(|it| it.name == bare));
        if let Some(admin) = bridge.admin().filter(is_scripts) {
            return bridge.run_script_command(admin, name, args);
        }
        let Some(commands) = bridge.service::<dyn Commands>() else {
            return bridge.error(format!("unknown plugin command '{name}'"));
        };
        bridge.spawn_job("task", "plugin_command", move |bridge, signal| async move {
            let call = CommandCall { agent: bridge.agent(), arguments: args.clone() };
            match signal.run_until_cancelled(commands.run(&name, call)).await {
                Some(Ok(CommandOutput::Text(text))) => bridge.info(text),
                Some(Ok(CommandOutput::Prompt(text))) => {
                    let notice = format!("/{} — starting agent turn", format!("{name} {args}").trim_end());
                    bridge.run_prompt_of(&notice, text);
                }
                Some(Ok(other)) => bridge.error(format!("/{name} gave what cannot be shown: {other:?}")),
                Some(Err(CommandError::Unknown { .. })) => bridge.error(format!("unknown plugin command '{name}'")),
                Some(Err(error)) => bridge.error(error.to_string()),
                None => bridge.info(format!("/{name} was aborted")),
            }
        });
    }
}

impl Bridge {
    fn run_script_command(&self, admin: Svc<dyn PluginAdmin>, name: String, args: String) {
        self.spawn_job("task", "plugin_command", move |bridge, signal| async move {
            let agent = bridge.agent();
            match signal.run_until_cancelled(admin.run_command(&name, &args, agent.as_ref())).await {
                Some(Ok(PluginCommandOutcome::Output { text, is_ok: true })) => bridge.info(text),
                Some(Ok(PluginCommandOutcome::Output { text, is_ok: false })) => bridge.error(text),
                Some(Ok(PluginCommandOutcome::Turn { prompt, notice })) => bridge.run_prompt_of(&notice, prompt),
                Some(Ok(other)) => bridge.error(format!("/{name} gave what cannot be shown: {other:?}")),
                Some(Err(error)) => bridge.error(error.to_string()),
                None => bridge.info(format!("/{name} was aborted")),
            }
        });
    }

    /// Begins the turn that a command asks for: with the last model, the one to begin with, or the first there is.
    fn run_prompt_of(self: &Arc<Self>, notice: &str, text: String) {
        let last = self.state().last_model.as_ref().map(|it| (it.model.id.clone(), Some(it.model.provider.clone())));
        let configured = || self.config.model.clone().map(|it| (it, None));
        let first = || self.models().into_iter().next().map(|it| (it.id, Some(it.provider)));
        let Some((model, provider)) = last.or_else(configured).or_else(first) else {
            return self.error("no model available; set a provider/key first");
        };
        self.info(notice);
        let asked = Asked { text, images: Vec::new(), model, provider, effort: None };
        self.with_model(asked, |bridge, wanted| bridge.take_prompt(wanted));
    }
}
