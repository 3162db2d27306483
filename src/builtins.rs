//! The built-in plugins, in the order they are mounted.

use linn_bus::Plugin as _;
use linn_config::{BuiltIn, Config};
use linn_plugin_agent_loop::{AgentLoopPlugin, LoopConfig};
use linn_plugin_approval::ApprovalGatePlugin;
use linn_plugin_bulk::{BulkConfig, BulkPlugin};
use linn_plugin_compaction::CompactionPlugin;
use linn_plugin_diagnostics::DiagnosticsPlugin;
use linn_plugin_files::{Confinement, FilesConfig, FilesPlugin};
use linn_plugin_git::{GitConfig, GitPlugin};
use linn_plugin_insight::InsightPlugin;
use linn_plugin_interaction::InteractionToolsPlugin;
use linn_plugin_llm_anthropic::{AnthropicConfig, AnthropicPlugin};
use linn_plugin_llm_openai::{OpenAiConfig, OpenAiPlugin};
use linn_plugin_llm_replay::{ReplayConfig, ReplayPlugin};
use linn_plugin_load_tools::{LoadToolsConfig, LoadToolsPlugin};
use linn_plugin_providers::ProvidersPlugin;
use linn_plugin_script_plugins::{ScriptPluginsConfig, ScriptPluginsPlugin};
use linn_plugin_session_store::{SessionStoreConfig, SessionStorePlugin};
use linn_plugin_shell::{ShellConfig, ShellPlugin};
use linn_plugin_stuck::{StuckConfig, StuckPlugin};
use linn_plugin_todo::TodoPlugin;
use linn_plugin_tool_timeout::ToolTimeoutPlugin;
use linn_plugin_web::WebPlugin;
use linn_services::agent::AgentsPlugin;
use linn_services::approval::{ApprovalConfig, ApprovalPlugin};
use linn_services::commands::CommandsPlugin;
use linn_services::interaction::InteractionPlugin;
use linn_services::llm::LlmPlugin;
use linn_services::prompt::{SystemPromptConfig, SystemPromptPlugin};
use linn_services::secrets::SecretsPlugin;
use linn_services::session::SessionsPlugin;
use linn_services::skills::SkillsPlugin;
use linn_services::subagents::SubagentsPlugin;
use linn_services::tools::ToolsPlugin;

use crate::configured;
use crate::harness::{Mounts, Setup};
use crate::settings::SettingsPlugin;

/// Puts all of them: the registries, then what works with them.
pub(crate) fn put_all(mounts: &mut Mounts, setup: &Setup) {
    if let Some(config) = &setup.config {
        mounts.put::<SettingsPlugin>(config.clone());
    }
    mounts.put::<SecretsPlugin>(setup.secrets.clone());
    mounts.put::<SessionsPlugin>(());
    mounts.put::<SystemPromptPlugin>(SystemPromptConfig::default());
    mounts.put::<ToolsPlugin>(());
    mounts.put::<LlmPlugin>(());
    mounts.put::<ApprovalPlugin>(ApprovalConfig::default());
    mounts.put::<InteractionPlugin>(());
    mounts.put::<CommandsPlugin>(());
    mounts.put::<SkillsPlugin>(());
    mounts.put::<SubagentsPlugin>(());
    mounts.put::<AgentsPlugin>(());

    if let Some(folder) = &setup.sessions {
        mounts.put::<SessionStorePlugin>(SessionStoreConfig::new(folder));
    }
    mounts.put::<ReplayPlugin>(ReplayConfig::default());
    mounts.put::<OpenAiPlugin>(OpenAiConfig::default());
    mounts.put::<AnthropicPlugin>(AnthropicConfig::default());
    mounts.put::<ProvidersPlugin>(said(setup, configured::providers));
    mounts.put::<ApprovalGatePlugin>(said(setup, configured::approval));
    mounts.put::<ToolTimeoutPlugin>(());
    mounts.put::<AgentLoopPlugin>(LoopConfig::default());
    mounts.put::<CompactionPlugin>(said(setup, configured::compaction));
    mounts.put::<InsightPlugin>(said(setup, configured::insight));
    mounts.put::<InteractionToolsPlugin>(());
    mounts.put::<WebPlugin>(said(setup, configured::web));
    mounts.put::<BulkPlugin>(BulkConfig::default());
    mounts.put::<LoadToolsPlugin>(LoadToolsConfig::default());
    if setup.config.is_some() {
        let config = said(setup, configured::script_plugins);
        mounts.put::<ScriptPluginsPlugin>(ScriptPluginsConfig { workspace: setup.workspace.clone(), ..config });
    }
    mounts.put::<TodoPlugin>(());
    mounts.put::<StuckPlugin>(StuckConfig::default());
    if let Some(workspace) = &setup.workspace {
        // Who lets everything run without a question gets no other fence either.
        let confinement = if setup.config.is_some() { Confinement::ByApproval } else { Confinement::Workspace };
        mounts.put::<FilesPlugin>(FilesConfig { confinement, ..FilesConfig::new(workspace) });
        mounts.put::<ShellPlugin>(ShellConfig { workspace: Some(workspace.clone()), ..said(setup, configured::shell) });
        mounts.put::<GitPlugin>(GitConfig::default());
        mounts.put::<DiagnosticsPlugin>(said(setup, configured::diagnostics));
    }
}

/// The plugins of the program as entries of the plugin tree, each under its own name, in the order they are mounted. What is
/// configured is read against them: [`Config::load`].
pub fn built_in_entries() -> Vec<BuiltIn> {
    let mut mounts = Mounts::default();
    let somewhere = Some(std::path::PathBuf::from("/"));
    put_all(&mut mounts, &Setup { workspace: somewhere.clone(), sessions: somewhere, ..Setup::default() });
    let mut entries: Vec<_> = mounts.names().iter().map(|it| BuiltIn::plugin(*it)).collect();
    entries.push(BuiltIn::plugin(ScriptPluginsPlugin::NAME));
    entries
}

/// What the configuration says of a plugin; its defaults without one.
fn said<T: Default>(setup: &Setup, read: impl FnOnce(&Config) -> T) -> T {
    setup.config.as_ref().map(|config| read(&config.lock())).unwrap_or_default()
}
