//! What prompts are made of: entries that come and go with the contexts they were registered through.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Event, ListenerErrors, ScopeKey};

use crate::model::ToolSchema;
use crate::prompt::{AssembleContext, Protection, Section, ToolSource, Variable};

/// One registration.
pub(crate) struct Entry {
    /// The scope it was registered in; `None` if it is for all.
    pub(crate) layer: Option<ScopeKey>,
    pub(crate) part: Part,
}

pub(crate) enum Part {
    Section(Section),
    Variable { name: String, value: Variable },
    Tools(ToolSource),
    Protection(Protection),
}

/// What tells an entry from all others that are there with it.
pub(crate) fn entry_id(entry: &Arc<Entry>) -> usize {
    Arc::as_ptr(entry).addr()
}

/// What an entry is for one prompt.
pub(crate) enum Value {
    Text(String),
    Variable(Option<String>),
    Tools(Vec<ToolSchema>),
}

/// Asks every entry for itself, or those that are wanted for their value.
///
/// What they run for it is a call of their own plugin: nobody unloads it meanwhile, and a panic names it.
#[derive(Event)]
#[event(name = "internal/system-prompt/parts", mode = Emit, subject = self.context.scope)]
pub(crate) struct CollectParts {
    context: AssembleContext,
    wanted: Option<HashSet<usize>>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    entries: Vec<Arc<Entry>>,
    values: HashMap<usize, Value>,
}

impl CollectParts {
    /// The entries that a prompt of this scope is made of, those for all and those of the scope, each in order.
    pub(crate) fn entries(ctx: &Context, scope: Option<&ScopeKey>) -> Result<Vec<Arc<Entry>>, ListenerErrors> {
        let context = AssembleContext { scope: scope.cloned(), ..AssembleContext::default() };
        let found = Self::collect(ctx, context, None)?;
        Ok(found.entries)
    }

    /// The values of these entries by [`entry_id`]; nothing for one that went meanwhile.
    pub(crate) fn values<'a>(
        ctx: &Context,
        context: &AssembleContext,
        wanted: impl Iterator<Item = &'a Arc<Entry>>,
    ) -> Result<HashMap<usize, Value>, ListenerErrors> {
        let wanted = wanted.map(entry_id).collect();
        Ok(Self::collect(ctx, context.clone(), Some(wanted))?.values)
    }

    fn collect(
        ctx: &Context,
        context: AssembleContext,
        wanted: Option<HashSet<usize>>,
    ) -> Result<Found, ListenerErrors> {
        let it = Self { context, wanted, found: Mutex::default() };
        ctx.try_emit(&it)?;
        Ok(it.found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the listener of an entry does.
    pub(crate) fn offer(&self, entry: &Arc<Entry>) {
        let found = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(wanted) = &self.wanted else { return found().entries.push(entry.clone()) };
        if !wanted.contains(&entry_id(entry)) {
            return;
        }
        let value = match &entry.part {
            Part::Section(section) => Value::Text(section.text.call(&self.context)),
            Part::Variable { value, .. } => Value::Variable(value.call(&self.context)),
            Part::Tools(source) => Value::Tools(source.call(&self.context)),
            Part::Protection(_) => return,
        };
        found().values.insert(entry_id(entry), value);
    }
}
