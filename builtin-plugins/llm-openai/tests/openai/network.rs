//! The same over a real connection.

use std::sync::Arc;

use futures_util::StreamExt as _;
use linn_bus::{Root, TokioRuntime};
use linn_model_server::{Answer, Framing, Gate, ModelServer, Wire};
use linn_plugin_llm_openai::{OpenAiConfig, OpenAiPlugin};
use linn_services::llm::wire::Endpoint;
use linn_services::llm::{Assembler, Llm, LlmPlugin};
use linn_services::model::StreamChunk;
use serde_json::json;

use crate::support::request;

/// Runs a test with a server and a plugin that speaks to it.
fn with_server(script: Vec<Answer>, test: impl AsyncFnOnce(&Root, &ModelServer)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = ModelServer::start(script).unwrap();
        let root = Root::new(TokioRuntime::seams());
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let mut endpoint = Endpoint::new("loopback", server.base_url(), ["*"]);
        endpoint.api_key = Some("test-key".into());
        let config = OpenAiConfig { endpoints: vec![endpoint], transport: None };
        root.mount::<OpenAiPlugin>(config).unwrap().running().await.unwrap();
        test(&root, &server).await;
    });
}

async fn said(root: &Root) -> String {
    let llm = root.get::<dyn Llm>().unwrap();
    let mut stream = llm.stream(Arc::new(request("m")), None).await.unwrap();
    let mut assembler = Assembler::new();
    while let Some(chunk) = stream.next().await {
        assembler.push(&chunk.unwrap()).unwrap();
    }
    linn_services::model::text_of(&assembler.finish(&[]).message.content)
}

#[test]
fn answers_come_over_a_connection_in_any_framing() {
    let answer = || Wire::OpenAi.text(&["hel", "lo \u{1f642}"]);
    let script = vec![answer(), answer().framed(Framing::Bytes), answer().framed(Framing::UntilClosed)];
    with_server(script, async |root, server| {
        for _ in 0..3 {
            assert_eq!(said(root).await, "hello \u{1f642}");
        }
        let asked = server.requests().remove(0);
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/chat/completions"));
        assert_eq!(asked.header("authorization"), Some("Bearer test-key"));
        assert_eq!(asked.header("accept-encoding"), Some("identity"));
        assert_eq!(asked.json()["messages"], json!([{ "role": "user", "content": "hi" }]));
    });
}

#[test]
fn a_body_that_is_dropped_after_partial_output_is_begun_anew() {
    let frames = Wire::OpenAi.text_frames(&["partial", " more"]);
    let script = vec![Answer::stream(frames[..1].to_vec()).dropped(), Wire::OpenAi.text(&["full"])];
    with_server(script, async |root, server| {
        assert_eq!(said(root).await, "full");
        assert_eq!(server.requests().len(), 2);
    });
}

#[test]
fn an_abort_closes_the_connection_at_once() {
    let frames = Wire::OpenAi.text_frames(&["first", "second"]);
    let gate = Gate::new();
    let held = Answer::stream(frames[..1].to_vec()).open();
    let unanswered = Wire::OpenAi.text(&["never"]).held_at(&gate);
    with_server(vec![held, unanswered], async |root, server| {
        let llm = root.get::<dyn Llm>().unwrap();
        let asked = Arc::new(request("m"));
        let mut stream = llm.stream(asked.clone(), None).await.unwrap();
        while !matches!(stream.next().await.unwrap().unwrap(), StreamChunk::TextDelta { .. }) {}
        asked.signal.cancel();
        assert_eq!(stream.next().await.unwrap().unwrap_err().code.as_deref(), Some("ABORTED"));
        server.closed(1).await;

        let asked = Arc::new(request("m"));
        let signal = asked.signal.clone();
        let (opened, ()) = tokio::join!(llm.stream(asked, None), async {
            gate.reached().await;
            signal.cancel();
        });
        assert_eq!(opened.err().unwrap().code.as_deref(), Some("ABORTED"));
    });
}

#[test]
fn an_answer_that_is_no_success_is_told() {
    with_server(vec![], async |root, server| {
        let llm = root.get::<dyn Llm>().unwrap();
        let error = llm.stream(Arc::new(request("m")), None).await.err().unwrap();
        assert_eq!(error.message, "HTTP 400 Bad Request: the script has no answer left");
        assert_eq!(server.requests().len(), 1);
    });
}
