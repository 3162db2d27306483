//! What the program calls as a trait object, with its panics kept in the library.
//!
//! A panic that leaves a library ends the process. Listeners, services, tools, tasks and starts are contained by the bus and
//! the registries; what is handed over as an `Arc<dyn ..>` goes through these functions, which are made in the library.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use linn_bus::{BoxFuture, Contained, Fault, contain, contain_now};
use linn_services::commands::{CommandBody, CommandCall, CommandOutput};
use linn_services::llm::{Adapter, ChunkStream, LlmError};
use linn_services::model::{GenerateRequest, StreamChunk};
use linn_services::skills::{SkillCandidate, SkillDefinition, SkillLookup, SkillProvider};

/// Stands for a name whose code panicked.
const NAMELESS: &str = "panicked";

/// An adapter for models. A panic is the error `ADAPTER_PANICKED`, and ends the stream.
pub fn adapter(adapter: impl Adapter) -> Arc<dyn Adapter> {
    Arc::new(Kept(Arc::new(Contained::new(adapter))))
}

/// What a command does. A panic is its error.
pub fn command(body: impl CommandBody) -> Arc<dyn CommandBody> {
    Arc::new(Kept(Arc::new(Contained::new(body))))
}

/// A provider of skills. A panic is its error.
pub fn skills(provider: impl SkillProvider) -> Arc<dyn SkillProvider> {
    Arc::new(Kept(Arc::new(Contained::new(provider))))
}

struct Kept<T>(Arc<Contained<T>>);

fn panicked(panic: Fault) -> LlmError {
    LlmError::new("ADAPTER_PANICKED", format!("the adapter panicked: {panic}"))
}

impl<A: Adapter> Adapter for Kept<A> {
    fn name(&self) -> &str {
        contain_now(|| self.0.name()).unwrap_or(NAMELESS)
    }

    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let adapter = self.0.clone();
        Box::pin(async move {
            let opened = contain(async move { Ok::<_, Fault>(adapter.stream(request).await) });
            let stream = opened.await.map_err(panicked)??;
            Ok(Box::pin(KeptStream(Some(stream))) as ChunkStream)
        })
    }
}

/// A stream that ends with its first panic.
struct KeptStream(Option<ChunkStream>);

impl KeptStream {
    /// Drops the stream; a panic of that has nobody to go to but the panic hook, which has seen it.
    fn end(&mut self) {
        let stream = self.0.take();
        drop(contain_now(|| drop(stream)));
    }
}

impl Drop for KeptStream {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stream for KeptStream {
    type Item = Result<StreamChunk, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(stream) = self.0.as_mut() else { return Poll::Ready(None) };
        match contain_now(|| stream.as_mut().poll_next(cx)) {
            Ok(polled) => polled,
            Err(panic) => {
                self.end();
                Poll::Ready(Some(Err(panicked(panic))))
            }
        }
    }
}

impl<B: CommandBody> CommandBody for Kept<B> {
    fn run<'a>(&'a self, call: CommandCall) -> BoxFuture<'a, Result<CommandOutput, Fault>> {
        Box::pin(contain(async move { self.0.run(call).await }))
    }
}

impl<P: SkillProvider> SkillProvider for Kept<P> {
    fn name(&self) -> &str {
        contain_now(|| self.0.name()).unwrap_or(NAMELESS)
    }

    fn list<'a>(&'a self, lookup: &'a SkillLookup) -> BoxFuture<'a, Result<Vec<SkillCandidate>, Fault>> {
        Box::pin(contain(async move { self.0.list(lookup).await }))
    }

    fn get<'a>(
        &'a self,
        candidate: &'a SkillCandidate,
        lookup: &'a SkillLookup,
    ) -> BoxFuture<'a, Result<Option<SkillDefinition>, Fault>> {
        Box::pin(contain(async move { self.0.get(candidate, lookup).await }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;
    impl CommandBody for Bomb {
        fn run<'a>(&'a self, _: CommandCall) -> BoxFuture<'a, Result<CommandOutput, Fault>> {
            panic!("called")
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped")
        }
    }

    #[test]
    fn a_panic_of_a_command_is_its_error_and_that_of_its_drop_is_nothing() {
        let body = command(Bomb);
        let call = CommandCall { agent: None, arguments: String::new() };
        let outcome = futures_util::FutureExt::now_or_never(body.run(call));
        assert!(outcome.is_some_and(|it| it.is_err_and(|it| it.is_panic())));
        drop(body);
    }
}
