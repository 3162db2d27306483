//! What scripts have to say to the user.

use linn_bus::Context;
use linn_services::agent::Agent;
use linn_services::events::{PluginNotice, PluginNoticeLevel, PluginStatus};

use crate::hooks::{HookPoint, Told};

/// Shows what a script of a plugin tells beside its answer.
pub(crate) fn tell(ctx: &Context, plugin: &str, agent: Option<&Agent>, told: &Told) {
    tell_of_hook(ctx, plugin, None, agent, told);
}

/// The same for a script of a hook.
pub(crate) fn tell_of_hook(ctx: &Context, plugin: &str, hook: Option<HookPoint>, agent: Option<&Agent>, told: &Told) {
    if let Some(text) = &told.notify {
        notice(ctx, plugin, hook, agent, PluginNoticeLevel::Info, format!("[{plugin}] {text}"));
    }
    if let Some(text) = &told.status {
        ctx.emit(&PluginStatus { agent: agent.cloned(), plugin: plugin.to_owned(), text: text.clone() });
    }
}

/// Shows something to the user.
pub(crate) fn notice(
    ctx: &Context,
    plugin: &str,
    hook: Option<HookPoint>,
    agent: Option<&Agent>,
    level: PluginNoticeLevel,
    message: String,
) {
    let hook = hook.map(|it| it.as_str().to_owned());
    ctx.emit(&PluginNotice { agent: agent.cloned(), plugin: plugin.to_owned(), hook, level, message });
}
