//! How models are asked: attempts that fail, and streams that a slow front end holds up.

use futures_util::StreamExt as _;
use linn_bus::{ListenerError, Next};
use linn_services::events::{LlmEffortReplaced, LlmRetry, LlmStream};
use linn_services::ids::SessionId;
use linn_services::llm::ChunkStream;

use crate::bridge::{Bridge, State};
use crate::sink::Origin;
use crate::wire::events::{HttpRetry, Info};

impl Bridge {
    /// Has a stream of the agent wait while the front end has too much to read already. Nothing else waits for that, and the
    /// end of the call ends the wait.
    pub(crate) async fn hold_up(
        &self,
        call: &LlmStream,
        next: Next<'_, LlmStream>,
    ) -> Result<ChunkStream, ListenerError> {
        let stream = next.run().await?;
        let is_own = call.agent.is_some() && call.agent.as_ref() == self.state().agent();
        let Some(me) = self.me().filter(|_| is_own) else { return Ok(stream) };
        let held = stream.then(move |chunk| {
            let me = me.clone();
            async move {
                me.sink.has_room().await;
                chunk
            }
        });
        Ok(ChunkStream::new(held))
    }

    pub(crate) fn retrying(&self, retry: &LlmRetry) {
        let state = self.state();
        let Some(origin) = origin_of(&state, retry.session_id.as_ref()) else { return };
        self.sink.emit(
            origin,
            &HttpRetry {
                attempt: retry.attempt,
                backoff_ms: retry.backoff_ms,
                status: retry.status,
                reason: retry.reason.as_deref(),
                discard_partial: retry.discard_partial.then_some(true),
            },
        );
    }

    pub(crate) fn effort_replaced(&self, event: &LlmEffortReplaced) {
        let state = self.state();
        let Some(origin) = origin_of(&state, event.session_id.as_ref()) else { return };
        let named = state.run.as_ref().map(|it| it.model()).filter(|it| !it.is_empty());
        let model = named.unwrap_or(event.model.as_str());
        let message =
            format!("reasoning effort '{}' not supported by model '{model}'; using '{}'", event.requested, event.used);
        self.sink.emit(origin, &Info { message: &message });
    }
}

/// The run that asks a model, if it is that of the current session.
fn origin_of<'a>(state: &'a State, session: Option<&SessionId>) -> Option<Origin<'a>> {
    let own = state.agent()?.session().id();
    let run = state.run.as_ref().filter(|_| session == Some(own))?;
    Some(Origin::Run(&run.id))
}
