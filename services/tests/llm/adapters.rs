//! Who is asked, and how a call goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use linn_bus::{BoxFuture, Context, Fault, ListenerError, Next, Plugin, Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_services::events::LlmStream;
use linn_services::llm::{Adapter, ChunkStream, Llm, LlmError, LlmPlugin};
use linn_services::model::{FinishReason, GenerateRequest, LlmCallConfig, StreamChunk};

fn text(text: &str) -> StreamChunk {
    StreamChunk::TextDelta { index: 0, text: text.into() }
}
fn stop() -> StreamChunk {
    StreamChunk::Finish { reason: FinishReason::Stop }
}
fn request(model: &str) -> Arc<GenerateRequest> {
    Arc::new(GenerateRequest { config: LlmCallConfig::of_model(model), ..GenerateRequest::default() })
}

type Begin = Box<dyn Fn(Arc<GenerateRequest>) -> Result<ChunkStream, LlmError> + Send + Sync>;

/// An adapter that answers as it is told.
struct Fake(&'static str, Begin);

impl Adapter for Fake {
    fn name(&self) -> &str {
        self.0
    }
    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        Box::pin(std::future::ready((self.1)(request)))
    }
}

/// Says its own name.
fn named(name: &'static str) -> Arc<dyn Adapter> {
    chunks(name, move || vec![Ok(text(name)), Ok(stop())])
}

fn chunks(
    name: &'static str,
    chunks: impl Fn() -> Vec<Result<StreamChunk, LlmError>> + Send + Sync + 'static,
) -> Arc<dyn Adapter> {
    Arc::new(Fake(name, Box::new(move |_| Ok(ChunkStream::new(stream::iter(chunks()))))))
}

fn failing(name: &'static str, error: LlmError) -> Arc<dyn Adapter> {
    Arc::new(Fake(name, Box::new(move |_| Err(error.clone()))))
}

async fn llm(root: &Root) -> Svc<dyn Llm> {
    root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Llm>().unwrap()
}

async fn ask(llm: &Svc<dyn Llm>, model: &str) -> Result<String, LlmError> {
    let mut stream = llm.stream(request(model), None).await?;
    let mut said = String::new();
    while let Some(chunk) = stream.next().await {
        if let StreamChunk::TextDelta { text, .. } = chunk? {
            said += &text;
        }
    }
    Ok(said)
}

fn code(result: Result<impl Sized, LlmError>) -> String {
    result.err().unwrap().code.unwrap()
}

#[test]
fn lm_01_an_adapter_answers_for_its_models_until_it_goes() {
    run(async |root| {
        let llm = llm(&root).await;
        let error = ask(&llm, "a").await.unwrap_err();
        assert_eq!(error.code.as_deref(), Some("NO_ADAPTER"));
        assert_eq!(error.message, "no adapter answers for model `a`; there are: none at all");

        let handle = llm.register(&root, vec!["a".into(), "b".into()], named("one")).unwrap();
        assert_eq!(ask(&llm, "a").await.unwrap(), "one");
        assert_eq!(llm.models().unwrap(), ["a", "b"]);
        assert_eq!(ask(&llm, "c").await.unwrap_err().message, "no adapter answers for model `c`; there are: a, b");
        assert_eq!(ask(&llm, "").await.unwrap_err().message, "no model was chosen");

        handle.dispose().await;
        assert_eq!(code(ask(&llm, "a").await), "NO_ADAPTER");
    });
}

#[test]
fn lm_01_a_model_that_is_taken_refuses_all_of_the_adapter() {
    run(async |root| {
        let llm = llm(&root).await;
        llm.register(&root, vec!["a".into()], named("one")).unwrap();
        let error = llm.register(&root, vec!["b".into(), "a".into()], named("two")).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("DUPLICATE_ADAPTER"));
        assert_eq!(error.message, "adapter `two` names model `a`, for which adapter `one` answers already");
        assert_eq!(code(ask(&llm, "b").await), "NO_ADAPTER");
        assert_eq!(ask(&llm, "a").await.unwrap(), "one");
        assert_eq!(code(llm.register(&root, vec!["c".into(), "c".into()], named("two"))), "DUPLICATE_ADAPTER");
    });
}

#[test]
fn names_that_are_none_are_refused() {
    run(async |root| {
        let llm = llm(&root).await;
        for models in [vec![], vec!["".into()], vec!["a*b".into()]] {
            assert_eq!(code(llm.register(&root, models, named("one"))), "BAD_MODEL");
        }
    });
}

#[test]
fn the_longest_pattern_that_fits_is_asked() {
    run(async |root| {
        let llm = llm(&root).await;
        llm.register(&root, vec!["*".into()], named("any")).unwrap();
        llm.register(&root, vec!["gpt-*".into()], named("family")).unwrap();
        llm.register(&root, vec!["gpt-9".into()], named("exact")).unwrap();
        assert_eq!(ask(&llm, "gpt-9").await.unwrap(), "exact");
        assert_eq!(ask(&llm, "gpt-9-mini").await.unwrap(), "family");
        assert_eq!(ask(&llm, "other").await.unwrap(), "any");
    });
}

#[derive(Debug)]
struct Brings;

impl Plugin for Brings {
    const NAME: &'static str = "brings";
    type Config = Arc<dyn Adapter>;
    type Needs = Svc<dyn Llm>;
    async fn start(ctx: &Context, adapter: Arc<dyn Adapter>, llm: Svc<dyn Llm>) -> Result<(), Fault> {
        llm.register(ctx, vec!["a".into()], adapter)?;
        Ok(())
    }
}

#[test]
fn lm_01_a_reload_takes_the_models_over() {
    run(async |root| {
        let llm = llm(&root).await;
        let old = root.mount::<Brings>(named("old")).unwrap();
        old.running().await.unwrap();
        let prepared = root.prepare_for::<Brings>(&old, named("new")).unwrap();
        assert_eq!(ask(&llm, "a").await.unwrap(), "old");
        let switched = prepared.switch().await.unwrap();
        assert_eq!(ask(&llm, "a").await.unwrap(), "new");
        switched.old_gone().await.unwrap();

        let second = root.mount::<Brings>(named("second")).unwrap();
        assert!(second.running().await.unwrap_err().to_string().contains("brings"));
        assert_eq!(ask(&llm, "a").await.unwrap(), "new");
    });
}

#[test]
fn what_an_adapter_is_registered_with_goes_without_a_trace() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<LlmPlugin>(()).unwrap();
            plugin.running().await.unwrap();
            let brings = ctx.mount::<Brings>(named("a")).unwrap();
            brings.running().await.unwrap();
            brings.dispose().await.unwrap();
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_stream_ends_with_its_finish_and_with_its_first_error() {
    run(async |root| {
        let llm = llm(&root).await;
        llm.register(&root, vec!["a".into()], chunks("one", || vec![Ok(stop()), Ok(text("late"))])).unwrap();
        let broken = || vec![Err(LlmError::new("SERVER", "oh")), Ok(text("late"))];
        llm.register(&root, vec!["b".into()], chunks("two", broken)).unwrap();
        let all = llm.stream(request("a"), None).await.unwrap().collect::<Vec<_>>().await;
        assert_eq!(all, [Ok(stop())]);
        let all = llm.stream(request("b"), None).await.unwrap().collect::<Vec<_>>().await;
        assert_eq!(all, [Err(LlmError::new("SERVER", "oh"))]);
    });
}

#[test]
fn the_error_of_an_adapter_arrives_as_it_is() {
    run(async |root| {
        let llm = llm(&root).await;
        let limit = LlmError::new("RATE_LIMIT", "slow down").with_status(429).retryable();
        llm.register(&root, vec!["a".into()], failing("one", limit.clone())).unwrap();
        assert_eq!(llm.stream(request("a"), None).await.err().unwrap(), limit);
    });
}

#[test]
fn a_retry_asks_again_and_goes_by_the_failure() {
    run(async |root| {
        let llm = llm(&root).await;
        let n_calls = Arc::new(AtomicU32::new(0));
        let calls = n_calls.clone();
        let flaky = Fake(
            "flaky",
            Box::new(move |_| match calls.fetch_add(1, SeqCst) {
                0 => Err(LlmError::new("SERVER", "busy").with_status(503).retryable()),
                _ => Ok(ChunkStream::new(stream::iter([Ok(text("there")), Ok(stop())]))),
            }),
        );
        llm.register(&root, vec!["a".into()], Arc::new(flaky)).unwrap();
        root.on(async |call: &LlmStream, next: Next<'_, LlmStream>| -> Result<ChunkStream, ListenerError> {
            match next.run().await {
                Err(_) if call.failure().is_some_and(|it| it.is_retryable && it.status == Some(503)) => {
                    next.run().await
                }
                other => other,
            }
        })
        .unwrap();
        assert_eq!(ask(&llm, "a").await.unwrap(), "there");
        assert_eq!(n_calls.load(SeqCst), 2);
    });
}

#[test]
fn a_listener_replaces_the_stream_or_refuses_the_call() {
    run(async |root| {
        let llm = llm(&root).await;
        let replaced = root
            .on(async |call: &LlmStream, next: Next<'_, LlmStream>| -> Result<ChunkStream, ListenerError> {
                match call.request.config.model.as_str() {
                    "mine" => Ok(ChunkStream::new(stream::iter([Ok(text("replaced")), Ok(stop())]))),
                    _ => next.run().await,
                }
            })
            .unwrap();
        assert_eq!(ask(&llm, "mine").await.unwrap(), "replaced");
        assert_eq!(code(ask(&llm, "other").await), "NO_ADAPTER");
        replaced.dispose();

        root.on(async |call: &LlmStream, _: Next<'_, LlmStream>| -> Result<ChunkStream, Fault> {
            Err(call.fail(LlmError::new("BUDGET", "the budget is spent")))
        })
        .unwrap();
        assert_eq!(ask(&llm, "mine").await.unwrap_err(), LlmError::new("BUDGET", "the budget is spent"));
    });
}

#[test]
fn the_failure_of_a_listener_is_told_and_not_that_of_an_earlier_attempt() {
    run(async |root| {
        let llm = llm(&root).await;
        root.on(async |_: &LlmStream, next: Next<'_, LlmStream>| -> Result<ChunkStream, Fault> {
            assert!(next.run().await.is_err());
            Err(Fault::msg("no luck").with_code("NO_LUCK"))
        })
        .unwrap();
        let error = ask(&llm, "a").await.unwrap_err();
        assert_eq!(error.code.as_deref(), Some("NO_LUCK"));
        assert!(error.message.contains("no luck"), "{error}");
    });
}

#[test]
fn the_signal_ends_a_call_that_hangs_before_and_in_its_stream() {
    run(async |root| {
        let llm = llm(&root).await;
        struct Hangs;
        impl Adapter for Hangs {
            fn name(&self) -> &str {
                "hangs"
            }
            fn stream(&self, _: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
                Box::pin(std::future::pending())
            }
        }
        llm.register(&root, vec!["opening".into()], Arc::new(Hangs)).unwrap();
        let open = |_| Ok(ChunkStream::new(stream::iter([Ok(text("a"))]).chain(stream::pending())));
        let endless = Fake("endless", Box::new(open));
        llm.register(&root, vec!["open".into()], Arc::new(endless)).unwrap();

        let opening = request("opening");
        let signal = opening.signal.clone();
        root.spawn(async move { signal.cancel() }).unwrap();
        assert_eq!(code(llm.stream(opening, None).await), "ABORTED");

        let open = request("open");
        let mut stream = llm.stream(open.clone(), None).await.unwrap();
        assert_eq!(stream.next().await, Some(Ok(text("a"))));
        root.spawn(async move { open.signal.cancel() }).unwrap();
        assert_eq!(stream.next().await, Some(Err(LlmError::aborted())));
        assert_eq!(stream.next().await, None);
    });
}

#[test]
fn a_panic_of_an_adapter_is_an_error_of_the_call() {
    run(async |root| {
        let llm = llm(&root).await;
        llm.register(&root, vec!["a".into()], Arc::new(Fake("a", Box::new(|_| panic!("not today"))))).unwrap();
        let late = || ChunkStream::new(stream::once(async { panic!("in the stream") }));
        llm.register(&root, vec!["b".into()], Arc::new(Fake("b", Box::new(move |_| Ok(late()))))).unwrap();
        let error = ask(&llm, "a").await.unwrap_err();
        assert_eq!(
            (error.code.as_deref(), &*error.message),
            (Some("ADAPTER_PANICKED"), "adapter `a` panicked: not today")
        );
        assert_eq!(code(ask(&llm, "b").await), "ADAPTER_PANICKED");
    });
}

/// A stream that never ends and tells when it is dropped.
struct Endless(Arc<AtomicBool>);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn endless(is_dropped: &Arc<AtomicBool>) -> Arc<dyn Adapter> {
    let is_dropped = is_dropped.clone();
    let begin = move |_| {
        let guard = Endless(is_dropped.clone());
        let rest = stream::poll_fn(move |_| {
            let _kept = &guard;
            std::task::Poll::Pending
        });
        Ok(ChunkStream::new(stream::iter([Ok(text("a"))]).chain(rest)))
    };
    Arc::new(Fake("endless", Box::new(begin)))
}

#[test]
fn a_stream_is_cut_when_its_adapter_goes_and_the_grace_is_over() {
    run(async |root| {
        let llm = llm(&root).await;
        let is_dropped = Arc::new(AtomicBool::new(false));
        let plugin = root.mount::<Brings>(endless(&is_dropped)).unwrap();
        plugin.running().await.unwrap();

        let mut stream = llm.stream(request("a"), None).await.unwrap();
        assert_eq!(stream.next().await, Some(Ok(text("a"))));
        let before = root.clock().monotonic();
        let error = plugin.dispose().await.unwrap_err();
        assert!(error.to_string().contains("grace"), "{error}");
        assert_eq!(root.clock().monotonic() - before, Duration::from_secs(5));
        assert!(is_dropped.load(SeqCst));
        assert_eq!(stream.next().await.unwrap().unwrap_err().code.as_deref(), Some("ADAPTER_GONE"));
        assert_eq!(stream.next().await, None);
    });
}

#[test]
fn a_stream_that_is_dropped_holds_up_nobody() {
    run(async |root| {
        let llm = llm(&root).await;
        let is_dropped = Arc::new(AtomicBool::new(false));
        let plugin = root.mount::<Brings>(endless(&is_dropped)).unwrap();
        plugin.running().await.unwrap();
        let stream = llm.stream(request("a"), None).await.unwrap();
        let disposing = plugin.fiber().clone();
        let disposed = root.spawn(async move { disposing.dispose().await }).unwrap();
        drop(stream);
        assert!(is_dropped.load(SeqCst));
        disposed.join().await.unwrap().unwrap();
        assert_eq!(root.clock().monotonic(), Duration::ZERO);
        assert_eq!(code(ask(&llm, "a").await), "NO_ADAPTER");
    });
}

#[test]
fn an_adapter_of_a_scope_is_asked_for_that_scope_alone() {
    run(async |root| {
        let llm = llm(&root).await;
        llm.register(&root, vec!["a".into()], named("of all")).unwrap();
        let scope = root.scope().unwrap();
        llm.register(scope.context(), vec!["a".into(), "b".into()], named("of one")).unwrap();
        assert_eq!(ask(&llm, "a").await.unwrap(), "of all");
        assert_eq!(code(ask(&llm, "b").await), "NO_ADAPTER");
        assert_eq!(llm.models().unwrap(), ["a"]);
        let again = llm.register(scope.context(), vec!["b".into()], named("again"));
        assert_eq!(code(again), "DUPLICATE_ADAPTER");
        scope.dispose().await.unwrap();
    });
}
