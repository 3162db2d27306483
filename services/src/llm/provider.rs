//! The provider of [`Llm`]: adapters by model, and the way a call goes.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BusError, Context, Demand, EffectHandle, Event, Fault, NeedList, Plugin, ScopeKey, provider};

use crate::agent::Agent;
use crate::events::LlmStream;
use crate::ids::ModelId;
use crate::kept::Kept;
use crate::llm::stream::{Answering, OpenStreams};
use crate::llm::{Adapter, ChunkStream, Llm, LlmError, Wire, wires};
use crate::model::GenerateRequest;
use crate::secrets::{secrets_of, without_secrets};

/// Provides [`Llm`].
#[derive(Debug)]
pub struct LlmPlugin;

linn_bus::register_plugin!(LlmPlugin);

impl Plugin for LlmPlugin {
    const NAME: &'static str = "llm";
    type Config = ();
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Llm>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Llm>(Arc::new(Provider { ctx: ctx.clone(), registering: Mutex::new(()) }))?;
        Ok(())
    }
}

struct Provider {
    ctx: Context,
    /// One registration at a time, so that of two with one model exactly one is refused.
    registering: Mutex<()>,
}

/// An adapter and the models it answers for.
struct Entry {
    models: Vec<ModelId>,
    adapter: Kept<dyn Adapter>,
    /// The scope it was registered in.
    layer: Option<ScopeKey>,
    streams: Arc<OpenStreams>,
}

/// Asks every adapter for its entry.
#[derive(Event)]
#[event(name = "internal/llm/adapters", mode = Emit, subject = scope)]
struct CollectAdapters {
    scope: Option<ScopeKey>,
    found: Mutex<Vec<Arc<Entry>>>,
}

/// How well a registered model fits the one asked for: the greater, the better. A pattern fits as far as it is written out.
fn fit(registered: &ModelId, asked: &ModelId) -> Option<usize> {
    match registered.as_str().strip_suffix('*') {
        Some(start) => asked.as_str().starts_with(start).then_some(start.len()),
        None => (registered == asked).then_some(usize::MAX),
    }
}

impl Provider {
    fn entries(&self, scope: Option<&ScopeKey>) -> Vec<Arc<Entry>> {
        let collect = CollectAdapters { scope: scope.cloned(), found: Mutex::default() };
        self.ctx.emit(&collect);
        collect.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(&self, model: &ModelId, scope: Option<&ScopeKey>) -> Result<Arc<Entry>, LlmError> {
        let entries = self.entries(scope);
        let best = entries
            .iter()
            // Of two that fit alike, the last of `max_by_key` wins: the first registered, and before it the agent's own.
            .rev()
            .filter_map(|it| Some((it.models.iter().filter_map(|known| fit(known, model)).max()?, it)))
            .max_by_key(|(fit, it)| (*fit, it.layer.is_some()));
        match best {
            Some((_, entry)) => Ok(entry.clone()),
            None if model.as_str().is_empty() => Err(LlmError::new("NO_ADAPTER", "no model was chosen")),
            None => {
                let known = names(&entries);
                let known = if known.is_empty() { "none at all".to_owned() } else { known.join(", ") };
                Err(LlmError::new("NO_ADAPTER", format!("no adapter answers for model `{model}`; there are: {known}")))
            }
        }
    }
}

/// The models of these entries, each once, by id.
fn names(entries: &[Arc<Entry>]) -> Vec<&str> {
    let mut names: Vec<_> = entries.iter().flat_map(|it| &it.models).map(ModelId::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn check_models(models: &[ModelId], adapter: &str) -> Result<(), LlmError> {
    if models.is_empty() {
        return Err(LlmError::new("BAD_MODEL", format!("adapter `{adapter}` names no model that it answers for")));
    }
    for (at, model) in models.iter().enumerate() {
        let text = model.as_str();
        if text.is_empty() || text[..text.len() - 1].contains('*') {
            let why =
                format!("adapter `{adapter}` names model `{model}`; a name is not empty, and has `*` at its end only");
            return Err(LlmError::new("BAD_MODEL", why));
        }
        if models[..at].contains(model) {
            return Err(duplicate(model, adapter, adapter));
        }
    }
    Ok(())
}

fn duplicate(model: &ModelId, new: &str, old: &str) -> LlmError {
    let why = format!("adapter `{new}` names model `{model}`, for which adapter `{old}` answers already");
    LlmError::new("DUPLICATE_ADAPTER", why)
}

#[provider]
impl Llm for Provider {
    fn admit(&self, ctx: &Context, models: Vec<ModelId>, adapter: Kept<dyn Adapter>) -> Result<EffectHandle, LlmError> {
        check_models(&models, adapter.name())?;
        let layer = ctx.scope_key().cloned();
        let entry = Arc::new(Entry { models, adapter, layer, streams: Arc::default() });
        let _one_at_a_time = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        let label = format!("adapter {}", entry.adapter.name());
        let handle = ctx.effect(&label, |fx| {
            // The last to go: nobody can begin a stream then.
            fx.defer_async(entry.streams.clone().ended());
            let offered = entry.clone();
            fx.own(ctx.on(move |it: &CollectAdapters| {
                it.found.lock().unwrap_or_else(PoisonError::into_inner).push(offered.clone());
            })?);
            Ok::<_, BusError>(())
        })?;
        // An adapter that waits in the wings does not find itself, and takes over the models of its predecessor.
        let beside = self.entries(entry.layer.as_ref());
        if beside.iter().any(|it| Arc::ptr_eq(it, &entry)) {
            let others = beside.iter().filter(|it| !Arc::ptr_eq(it, &entry) && it.layer == entry.layer);
            for other in others {
                if let Some(model) = entry.models.iter().find(|it| other.models.contains(it)) {
                    // Nothing of it waits: it is gone when this returns.
                    drop(handle.dispose());
                    return Err(duplicate(model, entry.adapter.name(), other.adapter.name()));
                }
            }
        }
        Ok(handle)
    }

    async fn stream(&self, request: Arc<GenerateRequest>, agent: Option<&Agent>) -> Result<ChunkStream, LlmError> {
        let call = LlmStream::new(request.clone(), agent.cloned());
        let without = |mut error: LlmError| {
            secrets_of(&self.ctx).redact_in(&mut error.message);
            error
        };
        let ask = async || {
            let entry = self.resolve(&request.model(), agent.map(Agent::key)).map_err(|error| call.fail(error))?;
            let opened = entry.streams.open(entry.adapter.name(), || entry.adapter.stream(request.clone())).await;
            // Also whoever listens or records sees the answer without secrets.
            opened.map(|it| without_secrets(it, secrets_of(&self.ctx))).map_err(|error| call.fail(without(error)))
        };
        let asked = request.signal.run_until_cancelled(self.ctx.waterfall(&call, ask)).await;
        match asked {
            Some(Ok(stream)) => Ok(Answering::guard(stream, request.signal.clone())),
            Some(Err(error)) => Err(without(call.outcome(error))),
            None => Err(LlmError::aborted()),
        }
    }

    fn admit_wire(&self, ctx: &Context, wire: Kept<dyn Wire>) -> Result<EffectHandle, LlmError> {
        let _one_at_a_time = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        wires::register(&self.ctx, ctx, wire)
    }

    fn wire(&self, kind: &str) -> Result<Option<Arc<dyn Wire>>, LlmError> {
        Ok(wires::find(&self.ctx, kind))
    }

    fn wires(&self) -> Result<Vec<String>, LlmError> {
        Ok(wires::kinds(&self.ctx))
    }

    fn models(&self) -> Result<Vec<ModelId>, LlmError> {
        Ok(names(&self.entries(None)).into_iter().map(ModelId::from).collect())
    }
}
