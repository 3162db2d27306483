//! The wires that plugins speak, by kind.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BoxFuture, BusError, Context, EffectHandle, Event};

use crate::kept::Kept;
use crate::llm::stream::OpenStreams;
use crate::llm::wire::Endpoint;
use crate::llm::{ChunkStream, LlmError, Wire};
use crate::model::GenerateRequest;

/// A wire whose streams end with it.
#[derive(Clone)]
struct Entry {
    wire: Kept<dyn Wire>,
    streams: Arc<OpenStreams>,
}

impl Wire for Entry {
    fn kind(&self) -> &str {
        self.wire.kind()
    }

    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        request: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let Self { wire, streams } = self.clone();
        Box::pin(async move { streams.open(wire.kind(), || wire.stream(endpoint, request)).await })
    }
}

/// Asks every wire for its entry.
#[derive(Event)]
#[event(name = "internal/llm/wires", mode = Emit)]
struct CollectWires {
    found: Mutex<Vec<Entry>>,
}

fn entries(bus: &Context) -> Vec<Entry> {
    let collect = CollectWires { found: Mutex::default() };
    bus.emit(&collect);
    collect.found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The first of this kind.
pub(super) fn find(bus: &Context, kind: &str) -> Option<Arc<dyn Wire>> {
    let found = entries(bus).into_iter().find(|it| it.kind() == kind)?;
    Some(Arc::new(found))
}

pub(super) fn kinds(bus: &Context) -> Vec<String> {
    let mut kinds: Vec<_> = entries(bus).iter().map(|it| it.kind().to_owned()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Registers a wire; only one caller may be in here at a time.
pub(super) fn register(bus: &Context, ctx: &Context, wire: Kept<dyn Wire>) -> Result<EffectHandle, LlmError> {
    let entry = Entry { wire, streams: Arc::default() };
    let handle = ctx.effect(&format!("wire {}", entry.kind()), |fx| {
        // The last to go: nobody can begin a stream then.
        fx.defer_async(entry.streams.clone().ended());
        let offered = entry.clone();
        fx.own(ctx.on(move |it: &CollectWires| {
            it.found.lock().unwrap_or_else(PoisonError::into_inner).push(offered.clone());
        })?);
        Ok::<_, BusError>(())
    })?;
    // One that waits in the wings does not find itself, and takes over from its predecessor.
    let beside: Vec<_> = entries(bus).into_iter().filter(|it| it.kind() == entry.kind()).collect();
    let is_own = |it: &Entry| Arc::ptr_eq(&it.streams, &entry.streams);
    if beside.iter().any(is_own) && beside.len() > 1 {
        // Nothing of it waits: it is gone when this returns.
        drop(handle.dispose());
        let why = format!("the wire `{}` is spoken already; take another name for the second", entry.kind());
        return Err(LlmError::new("DUPLICATE_WIRE", why));
    }
    Ok(handle)
}
