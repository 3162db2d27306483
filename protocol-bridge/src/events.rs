//! What happens in the harness, told to the front end. One module an area.

mod approval;
mod closing;
mod compaction;
mod concurrency;
mod facts;
mod llm;
mod mentions;
mod news;
mod results;
mod unanswered;

pub(crate) use approval::mode_name;
pub(crate) use compaction::percent;
pub(crate) use unanswered::unanswered;

use std::sync::Arc;

use linn_bus::BusError;

use crate::bridge::Bridge;

/// Listens to everything that a front end is told of, and answers for it.
pub(crate) fn listen(bridge: &Arc<Bridge>) -> Result<(), BusError> {
    let ctx = &bridge.ctx;
    ctx.on_with(bridge, Bridge::heard)?;
    ctx.on_with(bridge, Bridge::file_changed)?;
    ctx.on_with(bridge, Bridge::complete_prompt)?;
    ctx.on_with(bridge, Bridge::hold_up)?;
    ctx.on_with(bridge, Bridge::retrying)?;
    ctx.on_with(bridge, Bridge::effort_replaced)?;
    ctx.on_with(bridge, Bridge::compaction_began)?;
    ctx.on_with(bridge, Bridge::compaction_ended)?;
    ctx.on_with(bridge, Bridge::digested)?;
    ctx.on_with(bridge, Bridge::ask_approval)?;
    ctx.on_with(bridge, Bridge::ask_questions)?;
    ctx.on_with(bridge, Bridge::ask_sudo)?;
    ctx.on_with(bridge, Bridge::approval_changed)?;
    ctx.on_with(bridge, Bridge::settings_changed)?;
    ctx.on_with(bridge, Bridge::models_changed)?;
    ctx.on_with(bridge, Bridge::providers_changed)?;
    ctx.on_with(bridge, Bridge::reflecting)?;
    ctx.on_with(bridge, Bridge::summary_required)?;
    ctx.on_with(bridge, Bridge::stuck)?;
    ctx.on_with(bridge, Bridge::unsaved)?;
    ctx.on_with(bridge, Bridge::saved)?;
    ctx.on_with(bridge, Bridge::plugin_notice)?;
    ctx.on_with(bridge, Bridge::plugin_status)?;
    ctx.on_with(bridge, Bridge::oauth_prompt)?;
    Ok(())
}
