//! What is sent, and how the plugin comes and goes.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use linn_bus_test::{leak_check, run};
use linn_plugin_llm_openai::{OpenAiConfig, OpenAiPlugin};
use linn_services::events::LlmEffortReplaced;
use linn_services::llm::wire::{Endpoint, EndpointModel};
use linn_services::llm::{Llm, LlmPlugin};
use linn_services::model::{ContentBlock, GenerateRequest, Message, Role, ToolSchema};
use linn_services_test::{HttpAnswer, ScriptedTransport};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::support::{DONE, delta, endpoint, finish, mount, request};

fn good() -> HttpAnswer {
    HttpAnswer::stream([delta(r#"{"content":"ok"}"#), finish("stop"), DONE.to_owned()])
}

/// What is sent for a request: address, headers and body.
fn sent(endpoint: Endpoint, request: GenerateRequest) -> (String, Vec<(String, String)>, Value) {
    let seen = Arc::new(Mutex::new(None));
    let found = seen.clone();
    run(async move |root| {
        let transport = ScriptedTransport::new([good()]);
        let (llm, _plugin) = mount(&root, endpoint, &transport).await;
        let stream = llm.stream(Arc::new(request), None).await.unwrap();
        assert!(stream.all(async |it| it.is_ok()).await);
        let sent = transport.requests().remove(0);
        let headers = sent.headers.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        *found.lock().unwrap() =
            Some((sent.url.clone(), headers.collect(), serde_json::from_slice(&sent.body).unwrap()));
    });
    let found = seen.lock().unwrap().take();
    found.unwrap()
}

#[test]
fn the_plainest_request() {
    let (url, headers, body) = sent(endpoint(), request("gpt"));
    assert_eq!(url, "https://h.invalid/v1/chat/completions");
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        headers,
        [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("accept-encoding", "identity"),
            ("cache-control", "no-cache"),
            ("authorization", "Bearer hunter-2"),
        ]
    );
    assert_eq!(
        body,
        json!({
            "model": "gpt",
            "messages": [{ "role": "user", "content": "hi" }],
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
}

#[test]
fn headers_of_the_config_are_sent_but_for_a_second_authorization() {
    let mut endpoint = endpoint();
    endpoint.headers.insert("Authorization".into(), "Basic x".into());
    endpoint.headers.insert("X-Title".into(), "Linn".into());
    let names = |endpoint: Endpoint| sent(endpoint, request("m")).1.split_off(4);
    let with_key = names(endpoint.clone());
    assert_eq!(
        with_key,
        [("X-Title", "Linn"), ("authorization", "Bearer hunter-2")].map(|(a, b)| (a.into(), b.into()))
    );
    endpoint.api_key = Some("".into());
    let without = names(endpoint);
    assert_eq!(without, [("Authorization", "Basic x"), ("X-Title", "Linn")].map(|(a, b)| (a.into(), b.into())));
}

#[test]
fn r004_r005_a_history_is_sent_in_the_shape_the_wire_wants() {
    let call = |id: &str, arguments: &str| ContentBlock::ToolCall {
        id: id.into(),
        name: "read".into(),
        arguments: arguments.into(),
    };
    let result = |id: &str, content: Vec<ContentBlock>| ContentBlock::ToolResult {
        tool_call_id: id.into(),
        content,
        is_error: false,
    };
    let thought = ContentBlock::Reasoning { text: "hm".into(), signature: None };
    let picture = ContentBlock::Image { url: "data:image/png;base64,AA==".into() };
    let messages = [
        Message::user([ContentBlock::text("look")]),
        Message::assistant([thought.clone(), call("a", "{\"path\":1}"), call("b", "{\"pa"), call("c", "")]),
        Message::user([
            ContentBlock::text("and?"),
            result("a", vec![ContentBlock::text("A"), picture.clone()]),
            result("c", vec![]),
        ]),
        Message::assistant([ContentBlock::text("so")]),
        Message::user([picture]),
        Message { role: Role::System, content: vec![ContentBlock::text("remember")] },
    ];
    let tool = |name: &str| ToolSchema {
        name: name.into(),
        description: name.to_uppercase(),
        parameters: json!({ "type": "object" }),
    };
    let mut asked = request("m");
    asked.messages = messages.into_iter().map(Arc::new).collect();
    asked.system = Some("be brief".into());
    asked.tools = vec![tool("write"), tool("read")];
    asked.config.max_tokens = Some(50);
    asked.config.temperature = Some(0.5);
    asked.config.stop = Some(vec!["END".into()]);
    asked.config.effort = Some("high".into());
    let (_, _, body) = sent(endpoint(), asked.clone());
    let function = |arguments: &str| json!({ "name": "read", "arguments": arguments });
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } });
    assert_eq!(
        body["messages"],
        json!([
            { "role": "system", "content": "be brief" },
            { "role": "user", "content": "look" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "a", "type": "function", "function": function("{\"path\":1}") },
                { "id": "b", "type": "function", "function": function("{}") },
                { "id": "c", "type": "function", "function": function("{}") },
            ] },
            { "role": "tool", "tool_call_id": "b", "content": "The call was interrupted; there is no result." },
            { "role": "tool", "tool_call_id": "a", "content": "A" },
            { "role": "tool", "tool_call_id": "c", "content": "" },
            { "role": "user", "content": [image, { "type": "text", "text": "and?" }] },
            { "role": "assistant", "content": "so" },
            { "role": "user", "content": [image] },
            { "role": "system", "content": "remember" },
        ])
    );
    let function =
        |name: &str| json!({ "name": name, "description": name.to_uppercase(), "parameters": { "type": "object" } });
    assert_eq!(
        body["tools"],
        json!([
            { "type": "function", "function": function("read") },
            { "type": "function", "function": function("write") },
        ])
    );
    assert_eq!((&body["tool_choice"], &body["max_tokens"]), (&json!("auto"), &json!(50)));
    assert_eq!((&body["temperature"], &body["stop"]), (&json!(0.5), &json!(["END"])));
    assert_eq!(body.get("reasoning_effort"), None);

    // Hosts differ in what they want.
    asked.tools.push(tool("goal_write_plan"));
    let at = |url: &str| Endpoint { base_url: url.into(), ..endpoint() };
    let (_, _, kimi) = sent(at("https://api.kimi.com/v1"), asked.clone());
    assert_eq!((kimi.get("max_tokens"), &kimi["max_completion_tokens"]), (None, &json!(50)));
    assert_eq!(kimi["messages"][2]["reasoning_content"], "hm");
    assert_eq!(kimi["tool_choice"], json!({ "type": "function", "function": { "name": "goal_write_plan" } }));
    let (_, _, zhipu) = sent(at("https://api.z.ai/v4"), asked.clone());
    assert_eq!(zhipu.get("stream_options"), None);
    asked.config.model = "minimax-m2".into();
    let (_, _, proxy) = sent(endpoint(), asked);
    assert_eq!(proxy["messages"][2]["content"], "<think>hm</think>");
}

#[test]
fn what_is_known_of_a_model_fills_in_the_request() {
    let mut endpoint = Endpoint { base_url: "https://umans.ai/v1".into(), prefix: "u:".into(), ..endpoint() };
    let levels = vec!["low".to_owned(), "high".to_owned()];
    endpoint.models = vec![EndpointModel { id: "glm".into(), effort_levels: levels, max_tokens: Some(9) }];
    let mut asked = request("u:glm");
    asked.config.effort = Some("medium".into());
    let (_, _, body) = sent(endpoint.clone(), asked.clone());
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("glm"), &json!(9)));
    assert_eq!(body["reasoning_effort"], "high");

    run(async |root| {
        let transport = ScriptedTransport::new([good(), good()]);
        let (llm, _plugin) = mount(&root, endpoint, &transport).await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = told.clone();
        let _listener =
            root.on(move |it: &LlmEffortReplaced| seen.lock().unwrap().push((it.requested.clone(), it.used.clone())));
        drop(llm.stream(Arc::new(asked.clone()), None).await.unwrap());
        asked.config.effort = Some("HIGH".into());
        drop(llm.stream(Arc::new(asked), None).await.unwrap());
        assert_eq!(*told.lock().unwrap(), [("medium".to_owned(), "high".to_owned())]);
    });
}

#[test]
fn a_config_is_read_and_looked_at_before_it_is_used() {
    let config = json!({ "endpoints": [{
        "name": "e", "base_url": "https://h.invalid", "api_key": "sk-1", "headers": { "x-a": "sk-2" },
        "models": [{ "id": "m*", "effort_levels": ["low"] }], "idle_timeout_ms": 5,
    }] });
    let config: OpenAiConfig = serde_json::from_value(config).unwrap();
    assert_eq!(config.endpoints[0].model("m1").unwrap().effort_levels, ["low"]);
    // R139: what is shown of it holds no key.
    assert!(!format!("{config:?}").contains("sk-"));
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let config = OpenAiConfig { endpoints: vec![Endpoint::new("e", "nowhere", ["m"])], transport: None };
        let error = root.mount::<OpenAiPlugin>(config).unwrap().running().await.unwrap_err();
        assert!(format!("{error:#}").contains("`base_url` of endpoint `e`"), "{error:#}");
    });
}

#[test]
fn any_endpoint_can_be_asked_through_the_wire() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let transport = ScriptedTransport::new([good(), good()]);
        let config = OpenAiConfig { endpoints: Vec::new(), transport: Some(Arc::new(transport.clone())) };
        root.mount::<OpenAiPlugin>(config).unwrap().running().await.unwrap();
        let llm = root.get::<dyn Llm>().unwrap();
        assert_eq!((llm.wires().unwrap(), llm.models().unwrap()), (vec!["openai".to_owned()], vec![]));
        // The key and the address of the moment, which no adapter was registered with.
        for key in ["first", "second"] {
            let mut endpoint = Endpoint::new("of the moment", "https://h.invalid/d?api-version=1", ["*"]);
            endpoint.api_key = Some(key.into());
            endpoint.prefix = "p:".into();
            let wire = llm.wire("openai").unwrap().unwrap();
            let stream = wire.stream(Arc::new(endpoint), Arc::new(request("p:m"))).await.unwrap();
            assert!(stream.all(async |it| it.is_ok()).await);
            let sent = transport.requests().pop().unwrap();
            assert_eq!(sent.url, "https://h.invalid/d/chat/completions?api-version=1");
            assert_eq!(sent.headers.last().unwrap().1.expose_secret(), format!("Bearer {key}"));
            assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap()["model"], "m");
        }
    });
}

#[test]
fn the_plugin_goes_without_a_trace() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let transport = ScriptedTransport::new([good()]);
            let config = OpenAiConfig { endpoints: vec![endpoint()], transport: Some(Arc::new(transport)) };
            let plugin = ctx.mount::<OpenAiPlugin>(config).unwrap();
            plugin.running().await.unwrap();
            let llm = ctx.get::<dyn Llm>().unwrap();
            assert_eq!(llm.models().unwrap().len(), 1);
            let stream = llm.stream(Arc::new(request("m")), None).await.unwrap();
            assert!(stream.all(async |it| it.is_ok()).await);
            plugin.dispose().await.unwrap();
            assert!(llm.models().unwrap().is_empty());
        })
        .await;
    });
}
