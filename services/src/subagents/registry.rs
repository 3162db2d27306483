//! The providers of subagents, and how a run is begun and told.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use linn_bus::{BoxFuture, Context, Demand, EffectHandle, Event, Fault, NeedList, Plugin, ScopeKey, provider};

use crate::events::{SubagentEnd, SubagentProviderAdded, SubagentProviderRemoved, SubagentStart};
use crate::ids::SubagentRunId;
use crate::kept::Kept;
use crate::subagents::{
    SubagentError, SubagentOutcome, SubagentProvider, SubagentProviderInfo, SubagentRequest, SubagentRun,
    SubagentStopReason, Subagents,
};

/// Provides [`Subagents`].
#[derive(Debug)]
pub struct SubagentsPlugin;

linn_bus::register_plugin!(SubagentsPlugin);

impl Plugin for SubagentsPlugin {
    const NAME: &'static str = "subagents";
    type Config = ();
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Subagents>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Subagents>(Arc::new(Registry { ctx: ctx.clone() }))?;
        Ok(())
    }
}

/// Asks for the providers, in the order of their plugins.
#[derive(Event)]
#[event(name = "internal/subagents/providers", mode = Emit)]
struct CollectProviders {
    found: Mutex<Vec<Arc<dyn SubagentProvider>>>,
}

struct Registry {
    ctx: Context,
}

impl Registry {
    fn all(&self) -> Vec<Arc<dyn SubagentProvider>> {
        let collect = CollectProviders { found: Mutex::default() };
        self.ctx.emit(&collect);
        collect.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<Arc<dyn SubagentProvider>, SubagentError> {
        let all = self.all();
        match all.iter().find(|it| it.name() == name) {
            Some(provider) => Ok(provider.clone()),
            None => {
                let known: Vec<_> = all.iter().map(|it| it.name()).collect();
                Err(SubagentError::NoProvider { name: name.to_owned(), known: known.join(", ") })
            }
        }
    }

    /// The result of a run, with its end told once, in the scope of whoever was the parent when it began.
    fn told(
        &self,
        provider: String,
        id: SubagentRunId,
        parent: ScopeKey,
        result: BoxFuture<'static, SubagentOutcome>,
    ) -> BoxFuture<'static, SubagentOutcome> {
        let ctx = self.ctx.clone();
        Box::pin(async move {
            let settled = AssertUnwindSafe(result).catch_unwind().await;
            let (outcome, last_message) = match settled {
                Ok(outcome) => {
                    let has_broken_down = outcome.stop_reason == SubagentStopReason::Error && outcome.output.is_empty();
                    let last = (!has_broken_down).then(|| outcome.output.clone());
                    (outcome, last)
                }
                Err(_) => {
                    ctx.logger().error(format_args!("subagent provider `{provider}` panicked in run {id}"));
                    let stop_reason = SubagentStopReason::Error;
                    (SubagentOutcome { output: Vec::new(), structured: None, stop_reason }, None)
                }
            };
            let stop_reason = outcome.stop_reason.clone();
            ctx.emit(&SubagentEnd { parent, provider, id, stop_reason, last_assistant_message: last_message });
            outcome
        })
    }
}

/// The first thing asked for that the provider cannot do.
fn unmet(provider: &dyn SubagentProvider, request: &SubagentRequest) -> Option<&'static str> {
    let has = provider.capabilities();
    let asked = [
        (request.output_schema.is_some(), has.output_schema, "outputSchema"),
        (request.max_depth.is_some(), has.depth_limit, "depthLimit"),
        (request.tools.is_some(), has.tool_filter, "toolFilter"),
        (request.persona.is_some(), has.persona, "persona"),
    ];
    asked.into_iter().find(|(is_asked, is_there, _)| *is_asked && !is_there).map(|(_, _, name)| name)
}

#[provider]
impl Subagents for Registry {
    fn admit(&self, ctx: &Context, provider: Kept<dyn SubagentProvider>) -> Result<EffectHandle, SubagentError> {
        let provider = provider.into_inner();
        let name = provider.name().to_owned();
        if ctx.fiber().is_visible() && self.all().iter().any(|it| it.name() == name) {
            return Err(SubagentError::DuplicateProvider(name));
        }
        let registry = self.ctx.clone();
        let (entry, gone) = (provider.clone(), name.clone());
        let handle = ctx.effect(&format!("subagent provider {name}"), |fx| -> Result<(), linn_bus::BusError> {
            fx.defer(move || registry.emit(&SubagentProviderRemoved { name: gone }));
            fx.own(ctx.on(move |it: &CollectProviders| {
                it.found.lock().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
            })?);
            Ok(())
        })?;
        match self.ctx.try_emit(&SubagentProviderAdded { provider }) {
            Ok(()) => Ok(handle),
            Err(errors) => {
                // Nothing of it waits: it is undone when this returns.
                drop(handle.dispose());
                Err(SubagentError::Refused(errors))
            }
        }
    }

    fn providers(&self) -> Result<Vec<SubagentProviderInfo>, SubagentError> {
        let info = |it: Arc<dyn SubagentProvider>| SubagentProviderInfo {
            name: it.name().to_owned(),
            capabilities: it.capabilities(),
            inherits_parent_context: it.inherits_parent_context(),
        };
        Ok(self.all().into_iter().map(info).collect())
    }

    async fn start(&self, provider: &str, request: SubagentRequest) -> Result<SubagentRun, SubagentError> {
        let from = self.find(provider)?;
        if let Some(capability) = unmet(&*from, &request) {
            return Err(SubagentError::UnsupportedCapability { provider: provider.to_owned(), capability });
        }
        if let Some(schema) = request.output_schema.as_ref().filter(|it| !it.is_object()) {
            return Err(SubagentError::BadSchema(format!("it is {schema}")));
        }
        let parent = request.parent.key().clone();
        let started = from.start(request).await;
        let started = started.map_err(|cause| SubagentError::Start { provider: provider.to_owned(), cause })?;
        let id = started.id;
        self.ctx.emit(&SubagentStart { parent: parent.clone(), provider: provider.to_owned(), id: id.clone() });
        let result = self.told(provider.to_owned(), id.clone(), parent, started.result).shared();
        // The end is told also when nobody waits for it.
        self.ctx.spawn(result.clone().map(drop))?;
        Ok(SubagentRun { id, provider: provider.to_owned(), result, control: started.control })
    }
}
