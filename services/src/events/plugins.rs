//! `plugins/*`: what script plugins have to say, and what becomes of them.

use linn_bus::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;

/// The script plugins that are loaded, or what was decided about them, changed.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `plugin-admin` service, after the change is in force.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "plugins/change", mode = Emit, view)]
pub struct PluginsChange {}

/// A script plugin, or who runs it, has something to tell the user.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent, if it is about one.
/// - Emitted by: the plugin that runs scripts.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "plugins/notice", mode = Emit, subject = self.agent.as_ref().map(Agent::key), view)]
#[serde(rename_all = "camelCase")]
pub struct PluginNotice {
    /// The agent.
    pub agent: Option<Agent>,
    /// The plugin.
    pub plugin: String,
    /// The hook point, if it is about one.
    pub hook: Option<String>,
    /// How much it matters.
    pub level: PluginNoticeLevel,
    /// What is told, ready to show.
    pub message: String,
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginNoticeLevel {
    /// The plugin tells it.
    Info,
    /// A script failed and was passed over, or refused something by failing.
    Warning,
}

/// The line that a script plugin shows of itself changed.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent, if it is about one.
/// - Emitted by: the plugin that runs scripts.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "plugins/status", mode = Emit, subject = self.agent.as_ref().map(Agent::key), view)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The agent.
    pub agent: Option<Agent>,
    /// The plugin.
    pub plugin: String,
    /// The line; empty to show none.
    pub text: String,
}
