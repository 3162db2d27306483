//! Wires: who speaks to an endpoint.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use linn_bus::{BoxFuture, Context, Fault, Plugin, Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_services::llm::wire::Endpoint;
use linn_services::llm::{ChunkStream, Llm, LlmError, LlmPlugin, Wire};
use linn_services::model::{GenerateRequest, LlmCallConfig, StreamChunk};

/// Says where it is asked and what for.
struct Speaks {
    kind: &'static str,
    word: &'static str,
}

impl Wire for Speaks {
    fn kind(&self) -> &str {
        self.kind
    }
    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        request: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let text = format!("{} {} {}", self.word, endpoint.base_url, request.config.model);
        let chunks = stream::iter([Ok(StreamChunk::TextDelta { index: 0, text })]).chain(stream::pending());
        Box::pin(std::future::ready(Ok(ChunkStream::new(chunks))))
    }
}

struct Brings;

impl Plugin for Brings {
    const NAME: &'static str = "brings";
    type Config = (&'static str, &'static str);
    type Needs = Svc<dyn Llm>;

    async fn start(ctx: &Context, (kind, word): Self::Config, llm: Svc<dyn Llm>) -> Result<(), Fault> {
        llm.register_wire(ctx, Arc::new(Speaks { kind, word }))?;
        Ok(())
    }
}

async fn llm(root: &Root) -> Svc<dyn Llm> {
    root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Llm>().unwrap()
}

async fn open(llm: &Svc<dyn Llm>, kind: &str) -> Option<ChunkStream> {
    let endpoint = Arc::new(Endpoint::new("local", "http://localhost:1/v1", ["m"]));
    let request = GenerateRequest { config: LlmCallConfig::of_model("m"), ..GenerateRequest::default() };
    Some(llm.wire(kind).unwrap()?.stream(endpoint, Arc::new(request)).await.unwrap())
}

async fn said(stream: &mut ChunkStream) -> String {
    match stream.next().await {
        Some(Ok(StreamChunk::TextDelta { text, .. })) => text,
        other => format!("{other:?}"),
    }
}

#[test]
fn a_wire_is_asked_by_its_kind_until_its_plugin_goes() {
    run(async |root| {
        let llm = llm(&root).await;
        assert!(open(&llm, "openai").await.is_none());
        let plugin = root.mount::<Brings>(("openai", "one")).unwrap();
        plugin.running().await.unwrap();
        assert_eq!(llm.wires().unwrap(), ["openai"]);

        let mut stream = open(&llm, "openai").await.unwrap();
        assert_eq!(said(&mut stream).await, "one http://localhost:1/v1 m");

        // The stream is open still, and is cut with the plugin.
        plugin.dispose().await.unwrap_err();
        assert!(open(&llm, "openai").await.is_none());
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.code.as_deref(), Some("ADAPTER_GONE"));
    });
}

#[test]
fn two_wires_of_one_kind_are_refused_and_the_first_stays() {
    run(async |root| {
        let llm = llm(&root).await;
        llm.register_wire(&root, Arc::new(Speaks { kind: "openai", word: "one" })).unwrap();
        let error = llm.register_wire(&root, Arc::new(Speaks { kind: "openai", word: "two" })).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("DUPLICATE_WIRE"));
        assert!(error.message.contains("`openai`"), "{error}");
        let mut stream = open(&llm, "openai").await.unwrap();
        assert!(said(&mut stream).await.starts_with("one "));
    });
}

#[test]
fn a_wire_that_is_reloaded_hands_over_in_the_wings() {
    run(async |root| {
        let llm = llm(&root).await;
        let plugin = root.mount::<Brings>(("openai", "old")).unwrap();
        plugin.running().await.unwrap();
        let mut before = open(&llm, "openai").await.unwrap();
        assert!(said(&mut before).await.starts_with("old "));
        drop(before);

        let switched = root.prepare_for::<Brings>(&plugin, ("openai", "new")).unwrap().switch().await.unwrap();
        let mut after = open(&llm, "openai").await.unwrap();
        assert!(said(&mut after).await.starts_with("new "));
        switched.old_gone().await.unwrap();
    });
}

#[test]
fn a_plugin_with_a_wire_goes_without_a_trace() {
    run(async |root| {
        let llm = llm(&root).await;
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<Brings>(("openai", "one")).unwrap();
            plugin.running().await.unwrap();
            drop(open(&llm, "openai").await);
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}
