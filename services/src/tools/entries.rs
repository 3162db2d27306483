//! What is registered with the tools. Each entry is a listener of an event that only the registry dispatches: so the bus
//! gives its order, the scope that sees it, its end, and the switch of a reload.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BusError, Context, EffectHandle, Event, Listener, ListenerError, ScopeKey, listener};

use crate::events::ToolsChange;
use crate::ids::ToolName;
use crate::tools::schema::ArgumentCheck;
use crate::tools::{
    Tool, ToolClaim, ToolExecution, ToolFailure, ToolGuard, ToolOutput, ToolPreview, ToolRestriction, ToolsError,
};

/// The name of the tool that runs code; the harness alone may register it.
const RESERVED: &str = "run_code";

/// A registered tool.
#[derive(Debug)]
pub(crate) struct ToolEntry {
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: ArgumentCheck,
    /// It is there for one agent.
    is_scoped: bool,
    /// What it claims, if it was contributed.
    claim: Option<ToolClaim>,
}

/// Collects the tools that a scope has, whether it may see them or not.
#[derive(Event)]
#[event(name = "internal/tools/entries", mode = Emit, subject = scope)]
struct CollectTools {
    scope: Option<ScopeKey>,
    found: Mutex<Vec<Arc<ToolEntry>>>,
}

/// Collects what limits the tools that a scope sees.
#[derive(Event)]
#[event(name = "internal/tools/restrictions", mode = Emit, subject = scope)]
struct CollectRestrictions {
    scope: Option<ScopeKey>,
    found: Mutex<Vec<Arc<ToolRestriction>>>,
}

/// Collects the names of tools that are taken away from a scope.
#[derive(Event)]
#[event(name = "internal/tools/withheld", mode = Emit, subject = scope)]
struct CollectWithheld {
    scope: Option<ScopeKey>,
    found: Mutex<Vec<Arc<Vec<ToolName>>>>,
}

/// Runs the body of one tool. The listener is of the plugin that registered it, which therefore does not end under a call.
#[derive(Event)]
#[event(name = "internal/tools/run", mode = Serial, output = Result<ToolOutput, ToolFailure>, subject = self.execution.scope())]
struct RunTool {
    entry: Arc<ToolEntry>,
    execution: ToolExecution,
}

/// Asks one tool what a call would do.
#[derive(Event)]
#[event(name = "internal/tools/preview", mode = Serial, output = Option<ToolPreview>, subject = self.execution.scope())]
struct PreviewTool {
    entry: Arc<ToolEntry>,
    execution: ToolExecution,
}

/// Asks the guards of one layer; the first reason refuses.
#[derive(Event)]
#[event(name = "internal/tools/guard", mode = Bail, output = String, subject = self.execution.scope())]
struct AskGuards {
    execution: ToolExecution,
    /// Those of the agent, not those of all.
    is_scoped: bool,
}

fn push<T>(found: &Mutex<Vec<T>>, entry: T) {
    found.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
}

fn taken<T>(found: Mutex<Vec<T>>) -> Vec<T> {
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The entries as the context of the registry sees them.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) ctx: Context,
}

impl Entries {
    /// Registers a tool through the context it shall live in.
    pub(crate) fn register(&self, ctx: &Context, tool: Tool) -> Result<EffectHandle, ToolsError> {
        self.enter(ctx, tool, None)
    }

    /// The same for a tool that claims less, or more, than a name of its own.
    pub(crate) fn contribute(&self, ctx: &Context, tool: Tool, claim: ToolClaim) -> Result<EffectHandle, ToolsError> {
        self.enter(ctx, tool, Some(claim))
    }

    fn enter(&self, ctx: &Context, mut tool: Tool, claim: Option<ToolClaim>) -> Result<EffectHandle, ToolsError> {
        tool.is_in_place = claim == Some(ToolClaim::InPlace);
        let name = tool.name().clone();
        if name == *RESERVED {
            return Err(ToolsError::Reserved(name));
        }
        let arguments = ArgumentCheck::new(&tool)?;
        let is_scoped = ctx.scope_key().is_some();
        // What starts in the wings takes over the names of the version that it replaces.
        if claim.is_none() && ctx.fiber().is_visible() {
            let all = self.all(ctx.scope_key());
            if all.iter().any(|it| it.claim.is_none() && it.is_scoped == is_scoped && *it.tool.name() == name) {
                return Err(ToolsError::Duplicate { name, is_global: !is_scoped });
            }
        }
        let entry = Arc::new(ToolEntry { tool: Arc::new(tool), arguments, is_scoped, claim });
        self.announced(ctx, &format!("tool `{name}`"), || {
            let (listed, run, previewed) = (entry.clone(), entry.clone(), entry);
            Ok(vec![
                ctx.on(move |it: &CollectTools| push(&it.found, listed.clone()))?,
                ctx.on(listener!(async move |it: &RunTool| {
                    if !Arc::ptr_eq(&it.entry, &run) {
                        return Ok(None);
                    }
                    let outcome = run.tool.body.execute(&it.execution).await;
                    match outcome.as_ref().err().and_then(ToolFailure::as_panic) {
                        // Counted as a panic of the plugin whose tool it is.
                        Some(panic) => Err(panic),
                        None => Ok(Some(outcome)),
                    }
                }))?,
                ctx.on(listener!(async move |it: &PreviewTool| {
                    if !Arc::ptr_eq(&it.entry, &previewed) {
                        return None;
                    }
                    Some(previewed.tool.body.preview(&it.execution).await)
                }))?,
            ])
        })
    }

    /// Takes tools away.
    pub(crate) fn withhold(&self, ctx: &Context, names: Vec<ToolName>) -> Result<EffectHandle, ToolsError> {
        let names = Arc::new(names);
        self.announced(ctx, "withheld tools", || {
            Ok(vec![ctx.on(move |it: &CollectWithheld| push(&it.found, names.clone()))?])
        })
    }

    /// Registers a guard.
    pub(crate) fn guard(&self, ctx: &Context, guard: ToolGuard) -> Result<EffectHandle, ToolsError> {
        let is_scoped = ctx.scope_key().is_some();
        let handle = ctx.effect("tool guard", |fx| {
            let ask = move |it: &AskGuards| if it.is_scoped == is_scoped { guard.call(&it.execution) } else { None };
            fx.own(fx.context().on(ask)?);
            Ok::<(), BusError>(())
        })?;
        Ok(handle)
    }

    /// Limits what the agent of a context sees.
    pub(crate) fn restrict(&self, ctx: &Context, restriction: ToolRestriction) -> Result<EffectHandle, ToolsError> {
        let Some(scope) = ctx.scope_key() else { return Err(ToolsError::RestrictionUnscoped) };
        let mut named = restriction.allow.iter().chain(&restriction.deny).flatten().peekable();
        if named.peek().is_none() {
            return Err(ToolsError::RestrictionEmpty);
        }
        let all = self.all(Some(scope));
        if let Some(unknown) = named.find(|name| !all.iter().any(|it| it.tool.name() == *name)) {
            let known = names_of(all.iter().map(|it| it.tool.name()));
            return Err(ToolsError::RestrictionUnknown { name: unknown.clone(), known });
        }
        let restriction = Arc::new(restriction);
        self.announced(ctx, "tool restriction", || {
            Ok(vec![ctx.on(move |it: &CollectRestrictions| push(&it.found, restriction.clone()))?])
        })
    }

    /// Puts listeners in place, and tells that the tools changed; now, and when they go.
    fn announced(
        &self,
        ctx: &Context,
        label: &str,
        listeners: impl FnOnce() -> Result<Vec<Listener>, BusError>,
    ) -> Result<EffectHandle, ToolsError> {
        let handle = ctx.effect(label, |fx| {
            let teller = self.ctx.clone();
            fx.defer(move || teller.emit(&ToolsChange::new()));
            for listener in listeners()? {
                fx.own(listener);
            }
            Ok::<(), BusError>(())
        })?;
        // Nothing changed yet for anybody if the plugin is in the wings; when it replaces another, the end of that tells.
        if ctx.fiber().is_visible()
            && let Err(errors) = self.ctx.try_emit(&ToolsChange::new())
        {
            // Nothing of it waits: the entry is gone when this returns.
            drop(handle.dispose());
            return Err(ToolsError::Refused(errors));
        }
        Ok(handle)
    }

    /// All tools of a scope in the order of their registration.
    fn all(&self, scope: Option<&ScopeKey>) -> Vec<Arc<ToolEntry>> {
        let collect = CollectTools { scope: scope.cloned(), found: Mutex::default() };
        self.ctx.emit(&collect);
        taken(collect.found)
    }

    /// The tools that a scope sees, by name.
    pub(crate) fn visible(&self, scope: Option<&ScopeKey>) -> BTreeMap<ToolName, Arc<ToolEntry>> {
        let restrictions = self.restrictions(scope);
        let is_let_pass =
            |it: &Arc<ToolEntry>| it.is_scoped || restrictions.iter().all(|by| is_let_pass(by, it.tool.name()));
        let (contributed, owned): (Vec<_>, Vec<_>) = self.all(scope).into_iter().partition(|it| it.claim.is_some());
        let (scoped, global): (Vec<_>, Vec<_>) = owned.into_iter().partition(|it| it.is_scoped);
        let claimed = |claim| contributed.iter().filter(move |it| it.claim == Some(claim));
        // The first holder of a name wins in its layer, and the layer of the agent comes first.
        let owned = scoped.iter().chain(&global);
        let layers = owned.chain(claimed(ToolClaim::InPlace)).chain(claimed(ToolClaim::FreeName));
        let mut visible = BTreeMap::new();
        for entry in layers.filter(|it| is_let_pass(it)) {
            visible.entry(entry.tool.name().clone()).or_insert_with(|| entry.clone());
        }
        let mut replaced = BTreeSet::new();
        for entry in claimed(ToolClaim::InPlace) {
            let name = entry.tool.name();
            if let Some(place) = visible.get_mut(name)
                && replaced.insert(name.clone())
            {
                *place = entry.clone();
            }
        }
        for name in self.withheld(scope).iter().flat_map(|it| it.iter()) {
            visible.remove(name);
        }
        visible
    }

    fn withheld(&self, scope: Option<&ScopeKey>) -> Vec<Arc<Vec<ToolName>>> {
        let collect = CollectWithheld { scope: scope.cloned(), found: Mutex::default() };
        self.ctx.emit(&collect);
        taken(collect.found)
    }

    fn restrictions(&self, scope: Option<&ScopeKey>) -> Vec<Arc<ToolRestriction>> {
        let collect = CollectRestrictions { scope: scope.cloned(), found: Mutex::default() };
        self.ctx.emit(&collect);
        taken(collect.found)
    }

    /// Runs the body of a tool; `None` if the tool is gone.
    pub(crate) async fn run(
        &self,
        entry: &Arc<ToolEntry>,
        execution: &ToolExecution,
    ) -> Result<Option<Result<ToolOutput, ToolFailure>>, ListenerError> {
        let run = RunTool { entry: entry.clone(), execution: execution.clone() };
        self.ctx.serial(&run).await
    }

    /// What a call would do, if its tool can tell.
    pub(crate) async fn preview(&self, entry: &Arc<ToolEntry>, execution: &ToolExecution) -> Option<ToolPreview> {
        let preview = PreviewTool { entry: entry.clone(), execution: execution.clone() };
        match self.ctx.serial(&preview).await {
            Ok(preview) => preview.flatten(),
            Err(error) => {
                self.ctx.logger().warn(format_args!("no preview of a call of `{}`: {error:#}", execution.name()));
                None
            }
        }
    }

    /// Why a guard refuses a call, if one does: those of all are asked first, then those of the agent.
    pub(crate) fn refusal(&self, execution: &ToolExecution) -> Result<Option<String>, ListenerError> {
        let ask = |is_scoped| self.ctx.bail(&AskGuards { execution: execution.clone(), is_scoped });
        match ask(false)? {
            Some(reason) => Ok(Some(reason)),
            None => ask(true),
        }
    }
}

fn is_let_pass(restriction: &ToolRestriction, name: &ToolName) -> bool {
    restriction.allow.as_ref().is_none_or(|it| it.contains(name))
        && !restriction.deny.as_ref().is_some_and(|it| it.contains(name))
}

/// Names in a sentence.
pub(crate) fn names_of<'a>(names: impl Iterator<Item = &'a ToolName>) -> String {
    let mut names: Vec<&str> = names.map(ToolName::as_str).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
