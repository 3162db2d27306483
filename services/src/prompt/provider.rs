//! The provider of [`SystemPrompt`].

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BusError, Context, Demand, EffectHandle, Fault, NeedList, Plugin, ScopeKey, provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::events::{SystemPromptAssemble, SystemPromptChange};
use crate::ids::ToolName;
use crate::model::ToolSchema;
use crate::prompt::parts::{CollectParts, Entry, Part, Value, entry_id};
use crate::prompt::render::is_variable;
use crate::prompt::restore::restore;
use crate::prompt::{
    AssembleContext, AssembledSection, PromptAssembly, PromptError, Protection, Section, SystemPrompt, ToolSource,
    Variable, order,
};
use crate::secrets::secrets_of;

/// Name of the section that says who the model is.
pub const IDENTITY_SECTION: &str = "harness:identity";

/// Name of the section with what this deployment says of itself.
pub const PERSONA_SECTION: &str = "deployment:persona";

/// What [`SystemPromptPlugin`] is configured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "snake_case", deny_unknown_fields)]
pub struct SystemPromptConfig {
    /// Text of the section `harness:identity`, the first of a prompt.
    pub identity: String,
    /// Text of the section `deployment:persona`; empty for none.
    pub persona: String,
    /// Names of tools in the order in which the model is told of them, with `<unlisted-tools>` where the others go. Without
    /// it they go by name.
    pub tool_order: Option<Vec<String>>,
}

impl Default for SystemPromptConfig {
    fn default() -> Self {
        let identity = "You are an agent that works for a user through tools. Do what was asked, check what you did, and \
                        say plainly what you could not do.";
        Self { identity: identity.to_owned(), persona: String::new(), tool_order: None }
    }
}

/// Provides [`SystemPrompt`].
#[derive(Debug)]
pub struct SystemPromptPlugin;

linn_bus::register_plugin!(SystemPromptPlugin);

impl Plugin for SystemPromptPlugin {
    const NAME: &'static str = "system-prompt";
    type Config = SystemPromptConfig;
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn SystemPrompt>(Demand::Required);
    }

    fn validate(config: &SystemPromptConfig) -> Result<(), Fault> {
        let checked = config.tool_order.as_deref().map_or(Ok(()), order::check);
        checked.map_err(|error| Fault::msg(&error).with_code(error.code()))
    }

    async fn start(ctx: &Context, config: SystemPromptConfig, (): ()) -> Result<(), Fault> {
        let provider = Provider { ctx: ctx.clone(), tool_order: config.tool_order, registering: Mutex::new(()) };
        for section in [
            Section::fixed(IDENTITY_SECTION, -100, config.identity),
            Section::fixed(PERSONA_SECTION, 0, config.persona),
        ] {
            provider.enter(ctx, &format!("section {}", section.name), Part::Section(section), |_, _| None)?;
        }
        ctx.provide::<dyn SystemPrompt>(Arc::new(provider))?;
        Ok(())
    }
}

struct Provider {
    ctx: Context,
    tool_order: Option<Vec<String>>,
    /// One registration at a time, so that of two with one name exactly one is refused.
    registering: Mutex<()>,
}

impl Provider {
    fn entries(&self, scope: Option<&ScopeKey>) -> Result<Vec<Arc<Entry>>, PromptError> {
        CollectParts::entries(&self.ctx, scope).map_err(PromptError::Part)
    }

    /// Registers a part and tells of it. `clash` says what is wrong with it beside another entry that is seen with it.
    fn add(
        &self,
        ctx: &Context,
        label: &str,
        part: Part,
        clash: impl Fn(&Entry, &Entry) -> Option<PromptError>,
    ) -> Result<EffectHandle, PromptError> {
        let (handle, is_told) = self.enter(ctx, label, part, clash)?;
        is_told.store(true, Ordering::Release);
        match self.ctx.try_emit(&SystemPromptChange::new()) {
            Ok(()) => Ok(handle),
            Err(errors) => {
                // Nothing of it waits: the part is gone when this returns, and that is told as well.
                drop(handle.dispose());
                Err(PromptError::Refused(errors))
            }
        }
    }

    /// Registers a part. What it gives beside the handle decides whether its end is told.
    fn enter(
        &self,
        ctx: &Context,
        label: &str,
        part: Part,
        clash: impl Fn(&Entry, &Entry) -> Option<PromptError>,
    ) -> Result<(EffectHandle, Arc<AtomicBool>), PromptError> {
        let entry = Arc::new(Entry { layer: ctx.scope_key().cloned(), part });
        let is_told = Arc::new(AtomicBool::new(false));
        let _one_at_a_time = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = ctx.effect(label, |fx| {
            let (teller, is_told) = (self.ctx.clone(), is_told.clone());
            fx.defer(move || {
                if is_told.load(Ordering::Acquire) {
                    teller.emit(&SystemPromptChange::new());
                }
            });
            let offered = entry.clone();
            fx.own(ctx.on(move |it: &CollectParts| it.offer(&offered))?);
            Ok::<_, BusError>(())
        })?;
        // What waits in the wings does not find itself, and takes over the names of its predecessor.
        let checked = self.entries(entry.layer.as_ref()).and_then(|beside| {
            let (own, others): (Vec<_>, Vec<_>) = beside.iter().partition(|it| Arc::ptr_eq(it, &entry));
            let clash = if own.is_empty() { None } else { others.into_iter().find_map(|it| clash(&entry, it)) };
            clash.map_or(Ok(()), Err)
        });
        match checked {
            Ok(()) => Ok((handle, is_told)),
            Err(error) => {
                drop(handle.dispose());
                Err(error)
            }
        }
    }

    /// The sections of a prompt in order, before listeners see them. One of a scope takes the place of one for all, unless
    /// that is protected for all.
    fn sections(entries: &[Arc<Entry>], protected_for_all: &HashSet<String>) -> Vec<Arc<Entry>> {
        let mut chosen: Vec<(&Section, &Arc<Entry>)> = Vec::new();
        for entry in entries {
            let Part::Section(section) = &entry.part else { continue };
            if entry.layer.is_some() && protected_for_all.contains(&section.name) {
                continue;
            }
            match chosen.iter_mut().find(|(it, _)| it.name == section.name) {
                None => chosen.push((section, entry)),
                Some(known) if known.1.layer.is_none() && entry.layer.is_some() => *known = (section, entry),
                Some(_) => {}
            }
        }
        chosen.sort_by_key(|(section, _)| section.order);
        chosen.into_iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// The names of all tools there are for anybody, whether this prompt may show them or not.
    fn known_tools(&self, entries: &[Arc<Entry>]) -> Result<Vec<ToolName>, PromptError> {
        let sources = entries.iter().filter(|it| it.layer.is_none() && matches!(it.part, Part::Tools(_)));
        let values =
            CollectParts::values(&self.ctx, &AssembleContext::default(), sources).map_err(PromptError::Part)?;
        let tools = values.into_values().filter_map(|it| match it {
            Value::Tools(tools) => Some(tools),
            Value::Text(_) | Value::Variable(_) => None,
        });
        Ok(tools.flatten().map(|it| it.name).collect())
    }

    /// What was registered for a prompt.
    fn canonical(
        &self,
        entries: &[Arc<Entry>],
        protected_for_all: &HashSet<String>,
        context: &AssembleContext,
    ) -> Result<PromptAssembly, PromptError> {
        let sections = Self::sections(entries, protected_for_all);
        let others = entries.iter().filter(|it| matches!(it.part, Part::Variable { .. } | Part::Tools(_)));
        let mut values =
            CollectParts::values(&self.ctx, context, sections.iter().chain(others)).map_err(PromptError::Part)?;
        let mut assembly = PromptAssembly::default();
        for entry in &sections {
            if let (Part::Section(section), Some(Value::Text(text))) = (&entry.part, values.remove(&entry_id(entry))) {
                let (name, order) = (section.name.clone(), section.order);
                assembly.sections.push(AssembledSection { name, order, text });
            }
        }
        // What is for all first, so that what a scope has takes its place.
        let (for_all, of_scope): (Vec<_>, Vec<_>) = entries.iter().partition(|it| it.layer.is_none());
        let mut taken = HashSet::new();
        for entry in for_all.into_iter().chain(of_scope) {
            match (&entry.part, values.remove(&entry_id(entry))) {
                // Of two in one layer, which a reload may bring about, the first counts.
                (Part::Variable { name, .. }, Some(Value::Variable(value)))
                    if taken.insert((name.clone(), entry.layer.is_some())) =>
                {
                    assembly.variables.insert(name.clone(), value);
                }
                (Part::Tools(_), Some(Value::Tools(tools))) => {
                    take_tools(&mut assembly.tools, tools, entry.layer.is_some());
                }
                _ => {}
            }
        }
        order::sort(&mut assembly.tools, self.tool_order.as_deref(), || self.known_tools(entries))?;
        Ok(assembly)
    }

    /// Takes secrets out of all that a prompt is made of. What it says comes from files and plugins, as other texts do, and
    /// is sent and logged.
    fn without_secrets(&self, assembly: &mut PromptAssembly) {
        let secrets = secrets_of(&self.ctx);
        if secrets.is_empty() {
            return;
        }
        assembly.sections.iter_mut().for_each(|it| secrets.redact_in(&mut it.text));
        assembly.variables.values_mut().flatten().for_each(|it| secrets.redact_in(it));
        for tool in &mut assembly.tools {
            secrets.redact_in(&mut tool.description);
            secrets.redact_value(&mut tool.parameters);
        }
    }
}

/// Adds what a source gives. One of a scope takes the place of one for all; else the first of a name counts.
fn take_tools(tools: &mut Vec<ToolSchema>, more: Vec<ToolSchema>, is_of_scope: bool) {
    for tool in more {
        match tools.iter_mut().find(|it| it.name == tool.name) {
            None => tools.push(tool),
            Some(known) if is_of_scope => *known = tool,
            Some(_) => {}
        }
    }
}

/// The names that entries protect: of sections, and of tools.
fn protected<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> (HashSet<String>, HashSet<String>) {
    let (mut sections, mut tools) = (HashSet::new(), HashSet::new());
    for entry in entries {
        if let Part::Protection(it) = &entry.part {
            sections.extend(it.sections.iter().cloned());
            tools.extend(it.tools.iter().map(|it| it.as_str().to_owned()));
        }
    }
    (sections, tools)
}

#[provider]
impl SystemPrompt for Provider {
    fn section(&self, ctx: &Context, section: Section) -> Result<EffectHandle, PromptError> {
        let label = format!("section {}", section.name);
        self.add(ctx, &label, Part::Section(section), |new, old| {
            let Part::Section(section) = &new.part else { return None };
            match &old.part {
                Part::Section(other) if other.name == section.name && old.layer == new.layer => {
                    Some(PromptError::Duplicate { what: "section", name: section.name.clone() })
                }
                Part::Protection(it) if new.layer.is_some() && old.layer.is_none() => {
                    it.sections.contains(&section.name).then(|| PromptError::Protected(section.name.clone()))
                }
                _ => None,
            }
        })
    }

    fn variable(&self, ctx: &Context, name: &str, value: Variable) -> Result<EffectHandle, PromptError> {
        if !is_variable(name) {
            return Err(PromptError::BadVariable(name.to_owned()));
        }
        let part = Part::Variable { name: name.to_owned(), value };
        self.add(ctx, &format!("variable {name}"), part, |new, old| match (&new.part, &old.part) {
            (Part::Variable { name, .. }, Part::Variable { name: other, .. })
                if name == other && old.layer == new.layer =>
            {
                Some(PromptError::Duplicate { what: "variable", name: name.clone() })
            }
            _ => None,
        })
    }

    fn tools(&self, ctx: &Context, source: ToolSource) -> Result<EffectHandle, PromptError> {
        self.add(ctx, "source of tools", Part::Tools(source), |_, _| None)
    }

    fn protect(&self, ctx: &Context, protection: Protection) -> Result<EffectHandle, PromptError> {
        if protection.sections.is_empty() && protection.tools.is_empty() {
            return Err(PromptError::ProtectionEmpty);
        }
        self.add(ctx, "protection of prompt parts", Part::Protection(protection), |_, _| None)
    }

    async fn assemble(&self, context: AssembleContext) -> Result<PromptAssembly, PromptError> {
        let entries = self.entries(context.scope.as_ref())?;
        let (protected_for_all, _) = protected(entries.iter().filter(|it| it.layer.is_none()));
        let (sections, tools) = protected(entries.iter());
        let mut canonical = self.canonical(&entries, &protected_for_all, &context)?;
        self.without_secrets(&mut canonical);
        let event = SystemPromptAssemble { assembly: canonical.clone(), context };
        let changed = self.ctx.waterfall(&event, async || canonical.clone()).await?;
        let mut assembly = PromptAssembly {
            sections: restore(&canonical.sections, changed.sections, &sections),
            tools: restore(&canonical.tools, changed.tools, &tools),
            variables: changed.variables,
        };
        self.without_secrets(&mut assembly);
        Ok(assembly)
    }

    fn render(&self, assembly: &PromptAssembly) -> Result<Option<String>, PromptError> {
        // Once more: what was put in may have made a secret whole.
        let text = assembly.render()?;
        Ok(text.map(|it| secrets_of(&self.ctx).redact(it).into_owned()))
    }
}
