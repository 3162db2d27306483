//! Providers of subagents, and their runs.

use std::sync::Arc;

use linn_bus::{BoxFuture, Context, EffectHandle, Fault};

use super::{Keeps, Kept, future};
use crate::model::ContentBlock;
use crate::subagents::{
    StartedSubagent, SubagentCapabilities, SubagentControl, SubagentError, SubagentOutcome, SubagentProvider,
    SubagentRequest, SubagentStopReason, Subagents,
};

impl dyn Subagents {
    /// Registers a provider.
    ///
    /// # Errors
    ///
    /// The name is taken, who heard of it failed, and those of the context.
    pub fn register(&self, ctx: &Context, provider: Arc<dyn SubagentProvider>) -> Result<EffectHandle, SubagentError> {
        self.admit(ctx, provider.into())
    }
}

impl From<Arc<dyn SubagentProvider>> for Kept<dyn SubagentProvider> {
    fn from(provider: Arc<dyn SubagentProvider>) -> Self {
        Self(Arc::new(Keeps::new(provider)))
    }
}

impl SubagentProvider for Keeps<dyn SubagentProvider> {
    fn name(&self) -> &str {
        self.name(|it| it.name())
    }

    fn capabilities(&self) -> SubagentCapabilities {
        self.ask(|it| it.capabilities()).unwrap_or_default()
    }

    fn inherits_parent_context(&self) -> bool {
        self.ask(|it| it.inherits_parent_context()).unwrap_or_default()
    }

    fn start(&self, request: SubagentRequest) -> BoxFuture<'static, Result<StartedSubagent, Fault>> {
        let kept = Self(self.0.clone());
        Box::pin(async move {
            let started = future(|| kept.0.start(request)).await??;
            let result = Box::pin(async move { future(|| started.result).await.unwrap_or_else(broken) });
            let control: Arc<dyn SubagentControl> = Arc::new(Keeps::new(started.control));
            Ok(StartedSubagent { id: started.id, result, control })
        })
    }
}

/// What a run comes to whose code panicked, which the panic hook has told.
fn broken(_: Fault) -> SubagentOutcome {
    SubagentOutcome { output: Vec::new(), structured: None, stop_reason: SubagentStopReason::Error }
}

impl SubagentControl for Keeps<dyn SubagentControl> {
    fn cancel(&self, reason: Option<&str>) {
        self.ask(|it| it.cancel(reason));
    }

    fn dispose(&self) -> BoxFuture<'static, ()> {
        let kept = Self(self.0.clone());
        // Nothing of a run whose end panics can be waited for; the panic hook has told of it.
        Box::pin(async move { drop(future(|| kept.0.dispose()).await) })
    }

    fn send_message(&self, content: Vec<ContentBlock>) -> BoxFuture<'static, Result<(), Fault>> {
        let kept = Self(self.0.clone());
        Box::pin(async move { future(|| kept.0.send_message(content)).await? })
    }
}
