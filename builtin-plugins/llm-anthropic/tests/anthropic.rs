//! The adapter through the plugin, without a network but for the last test.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use linn_bus::{Root, TokioRuntime};
use linn_bus_test::{leak_check, run};
use linn_model_server::{Answer, Framing, ModelServer, Wire as ServerWire};
use linn_plugin_llm_anthropic::{AnthropicConfig, AnthropicPlugin};
use linn_services::events::LlmEffortReplaced;
use linn_services::llm::wire::{Endpoint, EndpointModel, KeyKind};
use linn_services::llm::{Assembler, Llm, LlmError, LlmPlugin};
use linn_services::model::{ContentBlock, FinishReason, GenerateRequest, LlmCallConfig, Message, Role, ToolSchema};
use linn_services_test::{HttpAnswer, ScriptedTransport};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

struct Outcome {
    answer: linn_services::llm::Answer,
    error: Option<LlmError>,
    url: String,
    headers: Vec<(String, String)>,
    body: Value,
    n_requests: usize,
}

impl Outcome {
    fn calls(&self) -> Vec<(&str, &str, &str)> {
        let calls = self.answer.message.content.iter().filter_map(|it| match it {
            ContentBlock::ToolCall { id, name, arguments } => Some((id.as_str(), name.as_str(), arguments.as_str())),
            _ => None,
        });
        calls.collect()
    }
    fn text(&self) -> String {
        linn_services::model::text_of(&self.answer.message.content)
    }
}

fn endpoint() -> Endpoint {
    let mut endpoint = Endpoint::new("test", "https://h.invalid/v1", ["*"]);
    endpoint.api_key = Some("hunter-2".into());
    endpoint
}

fn config(endpoint: Endpoint, transport: &ScriptedTransport) -> AnthropicConfig {
    AnthropicConfig { endpoints: vec![endpoint], transport: Some(Arc::new(transport.clone())) }
}

fn request() -> GenerateRequest {
    let messages = vec![Arc::new(Message::user([ContentBlock::text("hi")]))];
    GenerateRequest { config: LlmCallConfig::of_model("claude"), messages, ..GenerateRequest::default() }
}

fn ask_with(answers: Vec<HttpAnswer>, endpoint: Endpoint, request: GenerateRequest) -> Outcome {
    let outcome = Arc::new(Mutex::new(None));
    let seen = outcome.clone();
    run(async move |root| {
        let transport = ScriptedTransport::new(answers);
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let plugin = root.mount::<AnthropicPlugin>(config(endpoint, &transport)).unwrap();
        plugin.running().await.unwrap();
        let llm = root.get::<dyn Llm>().unwrap();
        let (mut assembler, mut error) = (Assembler::new(), None);
        match llm.stream(Arc::new(request), None).await {
            Err(failed) => error = Some(failed),
            Ok(mut stream) => {
                while let Some(next) = stream.next().await {
                    match next {
                        Ok(chunk) => assembler.push(&chunk).unwrap(),
                        Err(failed) => error = Some(failed),
                    }
                }
            }
        }
        let requests = transport.requests();
        let headers = requests[0].headers.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        *seen.lock().unwrap() = Some(Outcome {
            answer: assembler.finish(&[]),
            error,
            url: requests[0].url.clone(),
            headers: headers.collect(),
            body: serde_json::from_slice(&requests[0].body).unwrap(),
            n_requests: requests.len(),
        });
    });
    outcome.lock().unwrap().take().unwrap()
}

fn ask(answers: Vec<HttpAnswer>) -> Outcome {
    ask_with(answers, endpoint(), request())
}

/// Streams `events` whole, byte by byte, and cut in two at every place; `check` holds for each.
fn stream(events: &[&str], check: impl Fn(&Outcome)) {
    let bytes = events.concat().into_bytes();
    check(&ask(vec![HttpAnswer::stream([&bytes])]));
    check(&ask(vec![HttpAnswer::stream(bytes.chunks(1))]));
    for at in 1..bytes.len() {
        let (left, right) = bytes.split_at(at);
        check(&ask(vec![HttpAnswer::stream([left, right])]));
    }
}

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":0}}}\n\n";
const TEXT: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
const STOP: &str = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
const END_TURN: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n";
const TOOL_USE: &str =
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n";
const END: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn delta(index: u32, delta: &str) -> String {
    format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{delta}}}\n\n"
    )
}

fn tool(index: u32, name: &str) -> String {
    format!(
        "event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{{\"type\":\"tool_use\",\"id\":\"tu_1\",\"name\":\"{name}\",\"input\":{{}}}}}}\n\n"
    )
}

#[test]
fn r027_ping_and_unknown_events_are_passed_over() {
    let unknown = "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: ping\n\nevent: brand_new_event\ndata: {\"type\":\"brand_new_event\",\"x\":1}\n\n";
    let new = delta(0, r#"{"type":"brand_new_delta","y":2}"#);
    let hi = delta(0, r#"{"type":"text_delta","text":"hi"}"#);
    stream(&[START, unknown, TEXT, &new, &hi, STOP, END_TURN, END], |outcome| {
        assert_eq!((outcome.error.as_ref(), outcome.text().as_str()), (None, "hi"));
        let usage = outcome.answer.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (3, 1));
        assert_eq!(outcome.answer.finish, FinishReason::Stop);
    });
}

#[test]
fn half_a_surrogate_pair_is_one_character_and_ends_nothing() {
    let cut = delta(0, r#"{"type":"text_delta","text":"a\ud83d"}"#);
    stream(&[START, TEXT, &cut, STOP, END_TURN, END], |outcome| {
        assert_eq!((outcome.error.as_ref(), outcome.text().as_str()), (None, "a\u{fffd}"));
    });
}

#[test]
fn r028_an_error_event_is_retryable_and_no_success() {
    let par = delta(0, r#"{"type":"text_delta","text":"par"}"#);
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let bytes = [START, TEXT, &par, error].concat();
    let answer = || HttpAnswer::stream([&bytes]);
    let outcome = ask(vec![answer(), answer(), answer()]);
    let failed = outcome.error.as_ref().unwrap();
    assert_eq!(failed.message, "provider stream error: Overloaded (overloaded_error)");
    assert_eq!((failed.code.as_deref(), failed.is_retryable), (Some("OVERLOADED"), true));
    assert_eq!((outcome.text().as_str(), outcome.n_requests), ("par", 3));
    // Of those that another try does not help, some have no type of their own.
    let fatal = "data: {\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}\n\n";
    stream(&[START, TEXT, &par, fatal], |outcome| {
        let failed = outcome.error.as_ref().unwrap();
        assert_eq!((failed.code.as_deref(), outcome.n_requests), (Some("INVALID_REQUEST"), 1));
        assert_eq!(outcome.text(), "par");
    });
}

#[test]
fn r029_a_tool_without_input_is_called_with_the_empty_object() {
    let empty = delta(0, r#"{"type":"input_json_delta","partial_json":""}"#);
    stream(&[START, &tool(0, "list"), &empty, STOP, TOOL_USE, END], |outcome| {
        assert_eq!(outcome.error, None);
        assert_eq!(outcome.calls(), [("tu_1", "list", "{}")]);
        assert_eq!(outcome.answer.finish, FinishReason::ToolCalls);
    });
}

#[test]
fn r030_input_comes_in_pieces_and_is_not_mended() {
    let pieces = [r#"{\"pa"#, r#"th\":\"a\",\"content\":\"x\""#, "}"];
    let pieces = pieces.map(|it| delta(1, &format!(r#"{{"type":"input_json_delta","partial_json":"{it}"}}"#)));
    let stop = STOP.replace(":0}", ":1}");
    let begin = tool(1, "write");
    stream(&[START, &begin, &pieces[0], &pieces[1], &pieces[2], &stop, TOOL_USE, END], |outcome| {
        assert_eq!(outcome.calls(), [("tu_1", "write", r#"{"path":"a","content":"x"}"#)]);
    });
    stream(&[START, &begin, &pieces[0], &pieces[1], &stop, TOOL_USE, END], |outcome| {
        assert_eq!(outcome.calls(), [("tu_1", "write", r#"{"path":"a","content":"x""#)]);
    });
}

#[test]
fn r031_done_of_another_wire_is_passed_over() {
    let ok = delta(0, r#"{"type":"text_delta","text":"ok"}"#);
    stream(&[START, TEXT, &ok, STOP, END_TURN, END, "event: done\ndata: [DONE]\n\n"], |outcome| {
        assert_eq!((outcome.error.as_ref(), outcome.text().as_str()), (None, "ok"));
    });
}

#[test]
fn thinking_keeps_its_signature() {
    let begin = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n";
    let thought = delta(0, r#"{"type":"thinking_delta","thinking":"hm"}"#);
    let signed = [r#"{"type":"signature_delta","signature":"ab"}"#, r#"{"type":"signature_delta","signature":"cd"}"#];
    let signed = signed.map(|it| delta(0, it));
    let text = delta(1, r#"{"type":"text_delta","text":"so"}"#);
    stream(&[START, begin, &thought, &signed[0], &signed[1], STOP, &text, END_TURN, END], |outcome| {
        let reasoning = ContentBlock::Reasoning { text: "hm".into(), signature: Some("abcd".into()) };
        assert_eq!(outcome.answer.message.content, [reasoning, ContentBlock::text("so")]);
    });
}

fn good() -> HttpAnswer {
    let ok = delta(0, r#"{"type":"text_delta","text":"ok"}"#);
    HttpAnswer::stream([[START, TEXT, &ok, STOP, END_TURN, END].concat()])
}

#[test]
fn a_history_is_sent_in_the_shape_the_wire_wants() {
    let call = |id: &str, arguments: &str| ContentBlock::ToolCall {
        id: id.into(),
        name: "read".into(),
        arguments: arguments.into(),
    };
    let system = |text: &str| Message { role: Role::System, content: vec![ContentBlock::text(text)] };
    let picture = |url: &str| ContentBlock::Image { url: url.into() };
    let result =
        ContentBlock::ToolResult { tool_call_id: "a".into(), content: vec![ContentBlock::text("A")], is_error: true };
    let thought = ContentBlock::Reasoning { text: "hm".into(), signature: Some("s".into()) };
    let mut asked = request();
    asked.system = Some("be brief".into());
    asked.messages = [
        system("and kind"),
        Message::user([ContentBlock::text("look"), picture("data:image/png;base64,AA==")]),
        Message::user([picture("https://h.invalid/x.png")]),
        Message::assistant([thought, call("a", "{\"path\":1}"), call("b", "{\"pa")]),
        Message::user([ContentBlock::text("and?"), result]),
        system("remember"),
        Message::assistant([]),
        Message::user([]),
        Message::user([ContentBlock::text("go on")]),
    ]
    .into_iter()
    .map(Arc::new)
    .collect();
    let named =
        |name: &str| ToolSchema { name: name.into(), description: "d".into(), parameters: json!({ "type": "object" }) };
    asked.tools = vec![named("write"), named("read")];
    let cache = json!({ "type": "ephemeral" });
    let outcome = ask_with(vec![good()], endpoint(), asked);
    assert_eq!(outcome.url, "https://h.invalid/v1/messages");
    assert_eq!(
        outcome.body["system"],
        json!([{ "type": "text", "text": "be brief\n\nand kind", "cache_control": cache }])
    );
    assert_eq!((&outcome.body["max_tokens"], &outcome.body["stream"]), (&json!(8192), &json!(true)));
    assert_eq!(
        outcome.body["messages"],
        json!([
            { "role": "user", "content": [
                { "type": "text", "text": "look" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } },
                { "type": "image", "source": { "type": "url", "url": "https://h.invalid/x.png" } },
            ] },
            { "role": "assistant", "content": [
                { "type": "tool_use", "id": "a", "name": "read", "input": { "path": 1 } },
                { "type": "tool_use", "id": "b", "name": "read", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "b", "content": "The call was interrupted; there is no result.", "is_error": true },
                { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "A" }], "is_error": true },
                { "type": "text", "text": "and?" },
            ] },
            { "role": "assistant", "content": [{ "type": "text", "text": "" }] },
            { "role": "user", "content": [
                { "type": "text", "text": "go on", "cache_control": cache },
                { "type": "text", "text": "remember" },
            ] },
        ])
    );
    assert_eq!(
        outcome.body["tools"],
        json!([
            { "name": "read", "description": "d", "input_schema": { "type": "object" } },
            { "name": "write", "description": "d", "input_schema": { "type": "object" }, "cache_control": cache },
        ])
    );
    assert_eq!(outcome.body["tool_choice"], json!({ "type": "auto" }));
}

#[test]
fn keys_are_sent_in_the_way_of_their_kind() {
    let sent = |key_kind| {
        let endpoint = Endpoint { key_kind, ..endpoint() };
        ask_with(vec![good()], endpoint, request()).headers.split_off(4)
    };
    let own = |it: &[(&str, &str)]| it.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
    assert_eq!(sent(KeyKind::Api), own(&[("anthropic-version", "2023-06-01"), ("x-api-key", "hunter-2")]));
    assert_eq!(
        sent(KeyKind::OAuth),
        own(&[
            ("anthropic-version", "2023-06-01"),
            ("authorization", "Bearer hunter-2"),
            ("anthropic-beta", "claude-code-20250219,oauth-2025-04-20"),
        ])
    );
}

#[test]
fn thinking_is_asked_for_where_the_model_can() {
    let sent = |effort: &str, max_tokens, levels: &[&str]| {
        let mut endpoint = endpoint();
        let effort_levels = levels.iter().map(|it| (*it).to_owned()).collect();
        endpoint.models = vec![EndpointModel { id: "*".into(), effort_levels, max_tokens }];
        let mut asked = request();
        asked.config.effort = Some(effort.to_owned());
        ask_with(vec![good()], endpoint, asked).body["thinking"].clone()
    };
    let levels = &["low", "medium", "high", "max"];
    for (effort, max_tokens, levels, budget) in [
        ("low", Some(32_000), &levels[..], Some(4096)),
        ("medium", Some(32_000), levels, Some(12_288)),
        ("high", Some(32_000), levels, Some(24_576)),
        ("max", Some(32_000), levels, Some(24_576)),
        ("high", None, levels, Some(7168)),
        ("high", Some(2000), levels, None),
        ("high", Some(32_000), &[], None),
        ("none", Some(32_000), levels, None),
        ("minimal", Some(32_000), levels, None),
        ("off", Some(32_000), levels, None),
        ("", Some(32_000), levels, None),
    ] {
        let expected = budget.map_or(Value::Null, |it| json!({ "type": "enabled", "budget_tokens": it }));
        assert_eq!(sent(effort, max_tokens, levels), expected, "{effort} {max_tokens:?}");
    }
}

#[test]
fn wp_8_3_an_effort_that_the_model_does_not_know_is_replaced_and_told() {
    run(async |root| {
        let transport = ScriptedTransport::new([good(), good(), good()]);
        let levels = vec!["low".to_owned(), "high".to_owned()];
        let mut endpoint = endpoint();
        endpoint.models = vec![EndpointModel { id: "claude".into(), effort_levels: levels, max_tokens: None }];
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<AnthropicPlugin>(config(endpoint, &transport)).unwrap().running().await.unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = told.clone();
        let _listener =
            root.on(move |it: &LlmEffortReplaced| seen.lock().unwrap().push((it.requested.clone(), it.used.clone())));
        let llm = root.get::<dyn Llm>().unwrap();
        // One it has is not replaced, whatever its case; nor is thinking that is not wanted.
        for effort in ["medium", "HIGH", "none"] {
            let mut asked = request();
            asked.config.effort = Some(effort.into());
            drop(llm.stream(Arc::new(asked), None).await.unwrap());
        }
        assert_eq!(*told.lock().unwrap(), [("medium".to_owned(), "high".to_owned())]);
    });
}

#[test]
fn r138_the_key_is_in_no_error() {
    let outcome =
        ask(vec![HttpAnswer::status(401, "Unauthorized", "{\"error\":{\"message\":\"invalid x-api-key hunter-2\"}}")]);
    let expected = "HTTP 401 Unauthorized: provider returned a redacted authentication/error response";
    assert_eq!((outcome.error.unwrap().message.as_str(), outcome.n_requests), (expected, 1));
}

#[test]
fn the_plugin_goes_without_a_trace() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let transport = ScriptedTransport::new([good()]);
            let plugin = ctx.mount::<AnthropicPlugin>(config(endpoint(), &transport)).unwrap();
            plugin.running().await.unwrap();
            let llm = ctx.get::<dyn Llm>().unwrap();
            let stream = llm.stream(Arc::new(request()), None).await.unwrap();
            assert!(stream.all(async |it| it.is_ok()).await);
            plugin.dispose().await.unwrap();
            assert!(llm.models().unwrap().is_empty());
        })
        .await;
    });
}

/// Over a real connection, through the wire that the plugin registers.
#[test]
fn any_endpoint_can_be_asked_through_the_wire() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = ModelServer::start([
            ServerWire::Anthropic.calls(&[("tu_1", "list", json!({ "path": "a" }))]).framed(Framing::Bytes),
            Answer::stream(ServerWire::Anthropic.text_frames(&["partial", "x"])[..3].to_vec()).dropped(),
            ServerWire::Anthropic.text(&["full"]),
        ])
        .unwrap();
        let root = Root::new(TokioRuntime::seams());
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<AnthropicPlugin>(AnthropicConfig::default()).unwrap().running().await.unwrap();
        let llm = root.get::<dyn Llm>().unwrap();
        assert_eq!((llm.wires().unwrap(), llm.models().unwrap()), (vec!["anthropic".to_owned()], vec![]));
        let mut endpoint = Endpoint::new("of the moment", server.base_url(), ["*"]);
        endpoint.api_key = Some("test-key".into());
        endpoint.prefix = "p:".into();
        let endpoint = Arc::new(endpoint);
        let mut asked = request();
        asked.config.model = "p:claude".into();
        let asked = Arc::new(asked);
        let mut answers = Vec::new();
        for _ in 0..2 {
            let wire = llm.wire("anthropic").unwrap().unwrap();
            let mut stream = wire.stream(endpoint.clone(), asked.clone()).await.unwrap();
            let mut assembler = Assembler::new();
            while let Some(chunk) = stream.next().await {
                assembler.push(&chunk.unwrap()).unwrap();
            }
            answers.push(assembler.finish(&[]).message.content);
        }
        let call =
            ContentBlock::ToolCall { id: "tu_1".into(), name: "list".into(), arguments: "{\"path\":\"a\"}".into() };
        assert_eq!(answers, [vec![call], vec![ContentBlock::text("full")]]);
        let sent = server.requests().remove(0);
        assert_eq!((sent.path.as_str(), sent.header("x-api-key")), ("/v1/messages", Some("test-key")));
        assert_eq!(sent.json()["model"], "claude");
    });
}
