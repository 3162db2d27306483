//! A model that answers from a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream;
use linn_bus::BoxFuture;
use linn_services::llm::{Adapter, ChunkStream, LlmError};
use linn_services::model::GenerateRequest;

use crate::Reply;
use crate::reply::Step;

/// A model that answers from a script, one reply a request, and keeps what it was asked. Clones are the same model.
///
/// It is an [`Adapter`]: register it with `Llm` under the name of a model.
#[derive(Debug, Clone, Default)]
pub struct ScriptedModel(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Reply>,
    requests: Vec<Arc<GenerateRequest>>,
}

impl ScriptedModel {
    /// A model with a script.
    pub fn new(script: impl IntoIterator<Item = Reply>) -> Self {
        Self(Arc::new(Mutex::new(State { script: script.into_iter().collect(), requests: Vec::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reply at the end of the script.
    pub fn push(&self, reply: Reply) {
        self.state().script.push_back(reply);
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<Arc<GenerateRequest>> {
        self.state().requests.clone()
    }

    /// Replies that were not asked for yet.
    pub fn n_left(&self) -> usize {
        self.state().script.len()
    }

    fn next_reply(&self, request: Arc<GenerateRequest>) -> Result<Reply, LlmError> {
        let mut state = self.state();
        state.requests.push(request);
        let n_requests = state.requests.len();
        state.script.pop_front().ok_or_else(|| {
            LlmError::new("SCRIPT_EXHAUSTED", format!("the script has no reply for request {n_requests}"))
        })
    }
}

impl Adapter for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let reply = self.next_reply(request);
        Box::pin(async move {
            let steps = reply?.into_reversed();
            let chunks = stream::unfold(steps, async |mut steps| {
                loop {
                    match steps.pop()? {
                        Step::Chunk(chunk) => return Some((Ok(chunk), steps)),
                        Step::Wait(gate) => gate.pass().await,
                        Step::Fail(error) => return Some((Err(error), Vec::new())),
                        Step::Panic => panic!("the adapter panics, as its script says"),
                    }
                }
            });
            Ok(ChunkStream::new(chunks))
        })
    }
}
