//! Streams given as bytes, and what comes of them.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use linn_bus::{Mounted, Root, Svc};
use linn_bus_test::run;
use linn_plugin_llm_openai::{OpenAiConfig, OpenAiPlugin};
use linn_services::events::LlmRetry;
use linn_services::llm::wire::Endpoint;
use linn_services::llm::{Assembler, Llm, LlmError, LlmPlugin};
use linn_services::model::{
    ContentBlock, FinishReason, GenerateRequest, LlmCallConfig, Message, StreamChunk, TokenUsage,
};
use linn_services_test::{HttpAnswer, ScriptedTransport};

/// An endpoint for every model, with a key.
pub(crate) fn endpoint() -> Endpoint {
    let mut endpoint = Endpoint::new("test", "https://h.invalid/v1/", ["*"]);
    endpoint.api_key = Some("hunter-2".into());
    endpoint.idle_timeout_ms = 2000;
    endpoint
}

pub(crate) async fn mount(
    root: &Root,
    endpoint: Endpoint,
    transport: &ScriptedTransport,
) -> (Svc<dyn Llm>, Mounted<OpenAiPlugin>) {
    root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
    let config = OpenAiConfig { endpoints: vec![endpoint], transport: Some(Arc::new(transport.clone())) };
    let plugin = root.mount::<OpenAiPlugin>(config).unwrap();
    plugin.running().await.unwrap();
    (root.get::<dyn Llm>().unwrap(), plugin)
}

pub(crate) fn request(model: &str) -> GenerateRequest {
    let messages = vec![Arc::new(Message::user([ContentBlock::text("hi")]))];
    GenerateRequest { config: LlmCallConfig::of_model(model), messages, ..GenerateRequest::default() }
}

/// A retry: attempt, status, reason, pause and whether chunks do not count.
pub(crate) type Retry = (u32, Option<u16>, Option<String>, u64, bool);

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) chunks: Vec<StreamChunk>,
    pub(crate) error: Option<LlmError>,
    /// Content, usage and finish, as they are put together of the chunks.
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) finish: FinishReason,
    pub(crate) retries: Vec<Retry>,
    pub(crate) n_requests: usize,
    /// Milliseconds that went by.
    pub(crate) took_ms: u128,
}

impl Outcome {
    pub(crate) fn text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect()
    }
    pub(crate) fn code(&self) -> Option<&str> {
        self.error.as_ref()?.code.as_deref()
    }
    pub(crate) fn message(&self) -> &str {
        self.error.as_ref().map_or("", |it| &it.message)
    }
    /// Ids, names and arguments of the calls.
    pub(crate) fn calls(&self) -> Vec<(&str, &str, &str)> {
        let calls = self.content.iter().filter_map(|it| match it {
            ContentBlock::ToolCall { id, name, arguments } => Some((id.as_str(), name.as_str(), arguments.as_str())),
            _ => None,
        });
        calls.collect()
    }
}

/// Asks once, with these answers of the endpoint.
pub(crate) fn ask(answers: Vec<HttpAnswer>) -> Outcome {
    let outcome = Arc::new(Mutex::new(None));
    let seen = outcome.clone();
    run(async move |root| {
        let transport = ScriptedTransport::new(answers);
        let (llm, _plugin) = mount(&root, endpoint(), &transport).await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let retries = told.clone();
        let _listener = root
            .on(move |it: &LlmRetry| {
                let told = (it.attempt, it.status, it.reason.clone(), it.backoff_ms, it.discard_partial);
                retries.lock().unwrap().push(told);
            })
            .unwrap();
        let (mut chunks, mut error, mut assembler) = (Vec::new(), None, Assembler::new());
        match llm.stream(Arc::new(request("m")), None).await {
            Err(failed) => error = Some(failed),
            Ok(mut stream) => {
                while let Some(next) = stream.next().await {
                    match next {
                        Ok(chunk) => {
                            assembler.push(&chunk).unwrap();
                            chunks.push(chunk);
                        }
                        Err(failed) => error = Some(failed),
                    }
                }
            }
        }
        let answer = assembler.finish(&[]);
        let (n_requests, took_ms) = (transport.requests().len(), root.clock().monotonic().as_millis());
        let retries = told.lock().unwrap().clone();
        let (content, usage, finish) = (answer.message.content, answer.usage, answer.finish);
        *seen.lock().unwrap() = Some(Outcome { chunks, error, content, usage, finish, retries, n_requests, took_ms });
    });
    outcome.lock().unwrap().take().unwrap()
}

/// Streams `bytes` whole, byte by byte, and cut in two at every place; `check` holds for each.
pub(crate) fn stream(bytes: &[u8], check: impl Fn(&Outcome)) {
    stream_as(bytes, |answer| answer, check);
}

/// The same with something changed in the answer.
pub(crate) fn stream_as(bytes: &[u8], change: impl Fn(HttpAnswer) -> HttpAnswer, check: impl Fn(&Outcome)) {
    check(&ask(vec![change(HttpAnswer::stream([bytes]))]));
    check(&ask(vec![change(HttpAnswer::stream(bytes.chunks(1)))]));
    for at in 1..bytes.len() {
        let (left, right) = bytes.split_at(at);
        check(&ask(vec![change(HttpAnswer::stream([left, right]))]));
    }
}

/// A frame with a delta and nothing else in it.
pub(crate) fn delta(delta: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
    )
}

/// A frame with a finish reason.
pub(crate) fn finish(reason: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n"
    )
}

pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A frame with deltas of tool calls.
pub(crate) fn calls(calls: &str) -> String {
    delta(&format!("{{\"tool_calls\":[{calls}]}}"))
}
