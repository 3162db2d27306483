//! What stands in front of the history, folded from the log; and how a change of it is logged.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ids::ToolName;
use crate::model::{EpochHeader, ToolSchema};
use crate::session::{Fact, HeaderReason, RequestHeader, RequestHeaderDelta, SystemDelta, ToolsDelta};

/// The header that the log tells, record by record.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeaderFold {
    current: Option<Arc<EpochHeader>>,
}

impl HeaderFold {
    pub(crate) fn current(&self) -> Option<Arc<EpochHeader>> {
        self.current.clone()
    }

    /// Takes a fact in; a delta without a header was refused before.
    pub(crate) fn take(&mut self, fact: &Fact) {
        match (fact, &self.current) {
            (Fact::RequestHeader(it), _) => self.current = Some(Arc::new(it.header.clone().canonical())),
            (Fact::RequestHeaderDelta(delta), Some(header)) => self.current = Some(Arc::new(apply(header, delta))),
            _ => {}
        }
    }
}

/// The fact that brings a log from the header `old` to `new`: none if they are equal, a delta where one can tell it, and
/// else the whole. Both count in their canonical form.
pub fn header_change(old: &EpochHeader, new: &EpochHeader) -> Option<Fact> {
    let (old, new) = (old.clone().canonical(), new.clone().canonical());
    if old == new {
        return None;
    }
    let delta = delta(&old, &new);
    if apply(&old, &delta) == new {
        Some(delta.into())
    } else {
        Some(RequestHeader { header: new, reason: HeaderReason::Fallback }.into())
    }
}

fn delta(old: &EpochHeader, new: &EpochHeader) -> RequestHeaderDelta {
    RequestHeaderDelta {
        system: (old.system != new.system)
            .then(|| system_delta(old.system.as_deref().unwrap_or(""), new.system.as_deref().unwrap_or(""))),
        tools: (old.tools != new.tools)
            .then(|| tools_delta(old.tools.as_deref().unwrap_or(&[]), new.tools.as_deref().unwrap_or(&[]))),
        config: (old.config != new.config).then(|| new.config.clone()),
        message_prefix: (old.message_prefix != new.message_prefix)
            .then(|| new.message_prefix.clone().unwrap_or_default()),
    }
}

fn apply(header: &EpochHeader, delta: &RequestHeaderDelta) -> EpochHeader {
    let mut new = header.clone();
    if let Some(system) = &delta.system {
        new.system = Some(apply_system(header.system.as_deref().unwrap_or(""), system));
    }
    if let Some(tools) = &delta.tools {
        new.tools = Some(apply_tools(header.tools.as_deref().unwrap_or(&[]), tools));
    }
    if let Some(config) = &delta.config {
        new.config = config.clone();
    }
    if let Some(prefix) = &delta.message_prefix {
        new.message_prefix = Some(prefix.clone());
    }
    new.canonical()
}

fn system_delta(old: &str, new: &str) -> SystemDelta {
    let (old, new): (Vec<_>, Vec<_>) = (old.split('\n').collect(), new.split('\n').collect());
    let shorter = old.len().min(new.len());
    let keep_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let same_end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let keep_end = same_end.min(shorter - keep_start);
    let insert = new[keep_start..new.len() - keep_end].iter().map(|it| (*it).to_owned()).collect();
    SystemDelta { keep_start, keep_end, insert }
}

fn apply_system(old: &str, delta: &SystemDelta) -> String {
    let old: Vec<_> = old.split('\n').collect();
    let start = old.iter().take(delta.keep_start).copied();
    let end = old.iter().skip(old.len().saturating_sub(delta.keep_end)).copied();
    start.chain(delta.insert.iter().map(String::as_str)).chain(end).collect::<Vec<_>>().join("\n")
}

fn tools_delta(old: &[ToolSchema], new: &[ToolSchema]) -> ToolsDelta {
    let by_name = |tools| -> HashMap<ToolName, &ToolSchema> {
        <[ToolSchema]>::iter(tools).map(|it| (it.name.clone(), it)).collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let removed = old.iter().filter(|it| !after.contains_key(&it.name)).map(|it| it.name.clone()).collect();
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for tool in new {
        match before.get(&tool.name) {
            None => added.push(tool.clone()),
            Some(before) if *before != tool => changed.push(tool.clone()),
            Some(_) => {}
        }
    }
    ToolsDelta { added, removed, changed }
}

/// A new tool goes before the first one with a greater name, since the usual order is by name; if that is not where it
/// belongs, the delta does not give the header wanted, and the header is logged in full.
fn apply_tools(old: &[ToolSchema], delta: &ToolsDelta) -> Vec<ToolSchema> {
    let changed: HashMap<_, _> = delta.changed.iter().map(|it| (&it.name, it)).collect();
    let kept = old.iter().filter(|it| !delta.removed.contains(&it.name));
    let mut tools: Vec<_> = kept.map(|it| (*changed.get(&it.name).unwrap_or(&it)).clone()).collect();
    for tool in &delta.added {
        let place = tools.iter().position(|it| it.name > tool.name).unwrap_or(tools.len());
        tools.insert(place, tool.clone());
    }
    tools
}
