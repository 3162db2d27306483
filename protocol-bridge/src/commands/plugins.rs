//! Plugins and their commands. Nothing installs plugins yet; commands that plugins registered can be called.

use std::sync::Arc;

use linn_services::commands::{CommandCall, CommandError, CommandOutput, Commands};
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::commands::prompts::Asked;
use crate::wire::commands::{
    DisablePlugin, EnablePlugin, InstallPlugin, ListPluginCommands, ListPlugins, PluginCommand, PluginTrustDecisions,
    PluginTrustPrompt, ReloadPlugins, RemovePlugin, Run,
};
use crate::wire::events::{PluginCommands, PluginError, PluginsList, TrustPrompt};

impl Bridge {
    fn tell_plugins(&self) {
        self.say(&PluginsList { plugins: &[] });
        self.tell_plugin_commands();
    }

    fn tell_plugin_commands(&self) {
        let known = self.service::<dyn Commands>().and_then(|it| it.list().ok()).unwrap_or_default();
        let shown = |it: &linn_services::commands::CommandInfo| json!({ "name": it.name, "description": it.description, "plugin": it.plugin, "mode": "script" });
        self.say(&PluginCommands { commands: &known.iter().map(shown).collect::<Vec<Value>>() });
    }

    fn no_admin(&self, name: &str, command: &str) {
        let message = format!("{command} needs a plugin that looks after plugins, and none is mounted");
        self.say(&PluginError { name, message: &message });
    }
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
        bridge.tell_plugins();
        bridge.info("plugins reloaded: 0 loaded, 0 skipped, 0 errors");
    }
}

impl Run for InstallPlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.no_admin(&self.path, "install_plugin");
    }
}

impl Run for RemovePlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.no_admin(&self.name, "remove_plugin");
    }
}

impl Run for EnablePlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.no_admin(&self.name, "enable_plugin");
    }
}

impl Run for DisablePlugin {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.no_admin(&self.name, "disable_plugin");
    }
}

impl Run for PluginTrustPrompt {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.say(&TrustPrompt { plugins: &[] });
    }
}

impl Run for PluginTrustDecisions {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.missing("plugin_trust_decisions", "trust in plugins");
    }
}

impl Run for PluginCommand {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { name, args } = self;
        let Some(commands) = bridge.service::<dyn Commands>() else {
            return bridge.error(format!("unknown plugin command '{name}'"));
        };
        bridge.spawn_job("task", "plugin_command", move |bridge, signal| async move {
            let call = CommandCall { agent: bridge.agent(), arguments: args.clone() };
            match signal.run_until_cancelled(commands.run(&name, call)).await {
                Some(Ok(CommandOutput::Text(text))) => bridge.info(text),
                Some(Ok(CommandOutput::Prompt(text))) => bridge.run_prompt_of(&name, &args, text),
                Some(Ok(other)) => bridge.error(format!("/{name} gave what cannot be shown: {other:?}")),
                Some(Err(CommandError::Unknown { .. })) => bridge.error(format!("unknown plugin command '{name}'")),
                Some(Err(error)) => bridge.error(error.to_string()),
                None => bridge.info(format!("/{name} was aborted")),
            }
        });
    }
}

impl Bridge {
    /// Begins the turn that a command asks for: with the last model, the one to begin with, or the first there is.
    fn run_prompt_of(self: &Arc<Self>, name: &str, args: &str, text: String) {
        let last = self.state().last_model.as_ref().map(|it| (it.model.id.clone(), Some(it.model.provider.clone())));
        let configured = || self.config.model.clone().map(|it| (it, None));
        let first = || self.models().into_iter().next().map(|it| (it.id, Some(it.provider)));
        let Some((model, provider)) = last.or_else(configured).or_else(first) else {
            return self.error("no model available; set a provider/key first");
        };
        self.info(format!("/{} — starting agent turn", format!("{name} {args}").trim_end()));
        let asked = Asked { text, images: Vec::new(), model, provider, effort: None };
        self.with_model(asked, |bridge, wanted| bridge.take_prompt(wanted));
    }
}
