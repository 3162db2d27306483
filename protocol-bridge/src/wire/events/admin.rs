//! Skills, agents, plugins, memory, checkpoints, goals, and what else is listed.

use serde_json::Value;

use super::wire_events;

wire_events! {
    Skills<'a> = "skills", checked { skills: &'a [Value], }
    AgentList<'a> = "agents", checked { agents: &'a [Value], }
    PluginsList<'a> = "plugins_list", checked { plugins: &'a [Value], }
    PluginCommands<'a> = "plugin_commands", checked { commands: &'a [Value], }
    PluginError<'a> = "plugin_error", plain { name: &'a str, message: &'a str, }
    PluginInstalled<'a> = "plugin_installed", checked {
        #[serde(flatten)]
        fields: &'a Value,
    }
    PluginRemoved<'a> = "plugin_removed", plain { name: &'a str, }
    PluginEnabled<'a> = "plugin_enabled", plain { name: &'a str, }
    PluginDisabled<'a> = "plugin_disabled", plain { name: &'a str, }
    PluginStatusEvent<'a> = "plugin_status", plain { plugin: &'a str, text: &'a str, }
    TrustApplied<'a> = "plugin_trust_applied", checked {
        #[serde(flatten)]
        fields: &'a Value,
    }
    TrustPrompt<'a> = "plugin_trust_prompt", checked { plugins: &'a [Value], }
    MemoryList<'a> = "memory_list", checked { entries: &'a [Value], count: usize, }
    MemorySaved<'a> = "memory_saved", plain {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        message: &'a str,
    }
    Checkpoints<'a> = "checkpoints", checked { checkpoints: &'a [Value], }
    GoalState<'a> = "goal_state", checked {
        #[serde(flatten)]
        fields: &'a Value,
    }
    SandboxStatus<'a> = "sandbox_status", checked {
        mode: &'a str,
        report: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        reset: Option<bool>,
    }
    SandboxError<'a> = "sandbox_error", plain { error: &'a str, }
    MarketplaceState<'a> = "skill_marketplace_state", checked { disclaimer_accepted: bool, installed: &'a [Value], }
    MarketplaceError<'a> = "skill_marketplace_error", plain { message: &'a str, }
}
