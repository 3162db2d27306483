//! What stands in front of the history, folded from the log; and how a change of it is logged.

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
            (Fact::RequestHeader(it), _) => self.current = Some(Arc::new(it.header.clone())),
            (Fact::RequestHeaderDelta(delta), Some(header)) => self.current = Some(Arc::new(apply(header, delta))),
            _ => {}
        }
    }
}

/// The fact that brings a log from the header `old` to `new`: none if they are equal, a delta where one can tell it, and
/// else the whole.
pub fn header_change(old: &EpochHeader, new: &EpochHeader) -> Option<Fact> {
    if old == new {
        return None;
    }
    let delta = delta(old, new);
    if apply(old, &delta) == *new {
        Some(delta.into())
    } else {
        Some(RequestHeader { header: new.clone(), reason: HeaderReason::Fallback }.into())
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
    let find = |tools: &[ToolSchema], name: &ToolName| tools.iter().find(|it| it.name == *name).cloned();
    let removed = old.iter().filter(|it| find(new, &it.name).is_none()).map(|it| it.name.clone()).collect();
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for tool in new {
        match find(old, &tool.name) {
            None => added.push(tool.clone()),
            Some(before) if before != *tool => changed.push(tool.clone()),
            Some(_) => {}
        }
    }
    ToolsDelta { added, removed, changed }
}

/// New tools go behind the others; if that is not where they belong, the delta does not give the header wanted, and the
/// header is logged in full.
fn apply_tools(old: &[ToolSchema], delta: &ToolsDelta) -> Vec<ToolSchema> {
    let mut tools: Vec<_> = old.iter().filter(|it| !delta.removed.contains(&it.name)).cloned().collect();
    for tool in &mut tools {
        if let Some(changed) = delta.changed.iter().find(|it| it.name == tool.name) {
            *tool = changed.clone();
        }
    }
    for tool in &delta.added {
        // The usual order is by name: a new tool goes before the first one with a greater name.
        let place = tools.iter().position(|it| it.name > tool.name).unwrap_or(tools.len());
        tools.insert(place, tool.clone());
    }
    tools
}
