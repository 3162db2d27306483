//! Keys that the harness was given are seen by nobody, whoever repeats them.

use std::sync::{Arc, Mutex};

use linn::bus::{Context, Fault, ListenerError, Next, Plugin, Svc};
use linn::config::{Config, MemoryFiles, Sources};
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::services::agent::rebuild_request;
use linn::services::approval::ApprovalMode;
use linn::services::events::{AgentOverlay, AgentRequest, AgentSessionPrefix, LlmStream};
use linn::services::llm::ChunkStream;
use linn::services::model::{ContentBlock, GenerateRequest, LlmCallConfig, Message};
use linn::services::prompt::{
    AssembleContext, Section, SystemPrompt, SystemPromptConfig, SystemPromptPlugin, Variable,
};
use linn::services::secrets::{SecretKeeper, Secrets};
use linn::services::session::Fact;
use linn::services::tools::{Tool, ToolExecution, ToolFailure, ToolOutput, Tools};
use serde_json::{Map, Value, json};

use crate::stage::{Heard, Stage, all_text, say};

/// A key in the configuration, one in a variable that the configuration names, one of a header, one of a search.
const KEYS: [&str; 4] = ["own-key-of-config-1", "own-key-of-variable-2", "own-key-of-header-3", "own-key-of-search-4"];

const CONFIG: &str = r#"{
    "providers": [
        {"name": "a", "base_url": "http://127.0.0.1:9/v1", "api_key": "own-key-of-config-1"},
        {"name": "b", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "SOME_KEY", "headers": {"x-key": "own-key-of-header-3"}}
    ],
    "search_keys": {"exa": "own-key-of-search-4"}
}"#;

/// The model repeats keys in words and in arguments, in pieces and whole, and has every tool of the test called.
const RECORDING: &str = r#"{"linn_recording":1}
{"request":{}}
{"chunk":{"type":"reasoning-delta","index":0,"text":"I know own-key-of"}}
{"chunk":{"type":"reasoning-delta","index":0,"text":"-config-1 by heart"}}
{"chunk":{"type":"text-delta","index":1,"text":"The key is own-key-of-vari"}}
{"chunk":{"type":"text-delta","index":1,"text":"able-2, and own-key-of-header-3."}}
{"chunk":{"type":"block-end","index":1,"block":{"type":"text","text":"The key is own-key-of-variable-2, and own-key-of-header-3."}}}
{"chunk":{"type":"tool-call-delta","index":2,"id":"c1","name":"leaks","argumentsDelta":"{\"how\":\"own-key-of-se"}}
{"chunk":{"type":"tool-call-delta","index":2,"id":"c1","argumentsDelta":"arch-4\"}"}}
{"chunk":{"type":"tool-call-delta","index":3,"id":"c2","name":"leaks","argumentsDelta":"{\"how\":\"fail\"}"}}
{"chunk":{"type":"tool-call-delta","index":4,"id":"c3","name":"leaks","argumentsDelta":"{\"how\":\"panic\"}"}}
{"chunk":{"type":"tool-call-delta","index":5,"id":"c4","name":"bash","argumentsDelta":"{\"command\":\"cat key.txt; cat key.txt >&2; exit 3\"}"}}
{"chunk":{"type":"tool-call-delta","index":6,"id":"c5","name":"read_file","argumentsDelta":"{\"path\":\"key.txt\"}"}}
{"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}
{"request":{}}
{"chunk":{"type":"text-delta","index":0,"text":"Done."}}
{"error":{"message":"the endpoint refused own-key-of-config-1","code":"AUTH"}}
{"request":{}}
{"chunk":{"type":"text-delta","index":0,"text":"Not reached."}}
{"chunk":{"type":"finish","reason":{"kind":"stop"}}}
"#;

/// Two steps, of which the first calls a tool.
const STEPS: &str = r#"{"linn_recording":1}
{"request":{}}
{"chunk":{"type":"tool-call-delta","index":0,"id":"c1","name":"knows","argumentsDelta":"{}"}}
{"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}
{"request":{}}
{"chunk":{"type":"text-delta","index":0,"text":"Done."}}
{"chunk":{"type":"finish","reason":{"kind":"stop"}}}
"#;

/// A plugin with a tool that tells every key it knows, in its result, its error or its panic.
struct Leaky;

impl Plugin for Leaky {
    const NAME: &'static str = "leaky";
    type Config = ();
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, (): (), tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let tool = Tool::new("leaks", "Tells keys.", async |arguments: Map<String, Value>, _: ToolExecution| {
            let all = KEYS.join(" ");
            match arguments["how"].as_str() {
                Some("fail") => Err(ToolFailure::msg(format!("it failed with {all}"))),
                Some("panic") => panic!("it panicked with {all}"),
                _ => Ok(ToolOutput::from(all.clone()).with_meta(json!({ "keys": [all] }))),
            }
        });
        tools.register(ctx, tool)?;
        Ok(())
    }
}

/// A plugin with a tool whose words for the model hold a key.
struct Described;

impl Plugin for Described {
    const NAME: &'static str = "described";
    type Config = ();
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, (): (), tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let description = format!("Knows {}.", KEYS[1]);
        let tool = Tool::new("knows", &description, async |_: Map<String, Value>, _: ToolExecution| {
            Ok::<_, ToolFailure>(ToolOutput::from("yes"))
        });
        tools.register(ctx, tool)?;
        Ok(())
    }
}

fn config(stage: &Stage) -> Config {
    let file = "/h/.config/catalyst-code/config.json";
    let sources = Sources {
        home: Some("/h".into()),
        variables: [("SOME_KEY", KEYS[1])].into_iter().collect(),
        ..Sources::in_memory(stage.path("work"), MemoryFiles::new([(file, CONFIG)]))
    };
    let config = Config::load(sources, &linn::built_in_entries());
    assert!(config.problems().is_empty(), "{:?}", config.problems());
    config
}

/// Says where a key stands in a text, if one does.
#[track_caller]
fn assert_clean(what: &str, text: &str) {
    for key in KEYS {
        // A part of it would be enough to know the rest.
        for part in [key, &key[..key.len() - 2]] {
            if let Some(at) = text.find(part) {
                let from = text.floor_char_boundary(at.saturating_sub(200));
                panic!("{what} holds {part}: {}", &text[from..text.ceil_char_boundary((at + 60).min(text.len()))]);
            }
        }
    }
}

#[tokio::test]
async fn r138_r139_a_key_that_the_harness_was_given_is_in_no_event_no_log_no_session_and_no_debug_output() {
    let stage = Stage::new();
    std::fs::write(stage.path("work/key.txt"), KEYS.join("\n")).unwrap();
    let keeper = SecretKeeper::new();
    let config = config(&stage);
    let listing = config.listing().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_clean("the configuration", &format!("{config:?} {listing:?}"));
    let gate = ApprovalGateConfig { mode: ApprovalMode::Never, ..ApprovalGateConfig::default() };
    let harness = stage
        .builder(RECORDING)
        .config(config)
        .secrets(keeper.clone())
        .plugin::<ApprovalGatePlugin>(gate)
        .plugin::<Leaky>(())
        .build()
        .await
        .unwrap();
    let heard = Heard::on(harness.context());
    let handle = stage.agent(&harness, "main").await;
    let agent = handle.agent();

    // What a human pastes is not kept either, and a listener that fails with it is told without it.
    say(agent, &format!("My key is {}.", KEYS[0])).await;
    let failing = |_: &AgentRequest| Err::<LlmCallConfig, _>(Fault::msg(format!("no request with {}", KEYS[2])));
    let failing = harness.context().on(failing).unwrap();
    say(agent, "again").await;
    failing.dispose();

    let records = agent.session().records_from(0);
    let results: Vec<String> = records
        .iter()
        .filter_map(|it| match &it.fact {
            Fact::ToolResult(it) => Some(format!("{} {:?}", it.call_id, it.content)),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 5, "{results:?}");
    for result in &results {
        assert!(result.contains("[redacted]"), "a result that never held a key proves nothing: {result}");
    }
    let kinds: Vec<&str> = records.iter().map(|it| it.fact.kind()).collect();
    assert_eq!(kinds.iter().filter(|it| **it == "turn/end").count(), 2, "{kinds:?}");
    let log = records.iter().map(|it| serde_json::to_string(it).unwrap()).collect::<String>();
    assert!(log.contains("[redacted]") && log.contains("My key is [redacted]."), "{log}");
    assert_clean("the log", &log);
    for message in agent.session().messages() {
        assert_clean("the history", &serde_json::to_string(&message).unwrap());
    }
    assert_clean("debug output", &format!("{harness:?} {:?} {keeper:?} {agent:?}", agent.session()));

    handle.dispose().await;
    harness.shutdown().await.unwrap();
    let events = heard.events();
    assert!(events.iter().any(|(name, _)| *name == "agent/error"), "{events:?}");
    for (name, data) in events {
        assert_clean(name, &data.to_string());
    }
    let files = all_text(&stage.path("sessions"));
    assert!(files.contains("turn/end"), "{files}");
    assert_clean("the files of sessions", &files);
}

/// What models were asked.
#[derive(Default)]
struct Asked(Mutex<Vec<Arc<GenerateRequest>>>);

impl Asked {
    async fn note(&self, call: &LlmStream, next: Next<'_, LlmStream>) -> Result<ChunkStream, ListenerError> {
        self.0.lock().unwrap().push(call.request.clone());
        next.run().await
    }
}

/// What stands in front of the history, and what is shown for one request, is text of strangers too: it may come from files.
#[tokio::test]
async fn r138_r139_a_key_in_the_system_text_a_tool_the_prefix_or_an_overlay_reaches_neither_the_model_nor_the_log() {
    let stage = Stage::new();
    let (half, rest) = KEYS[0].split_at(9);
    let prompt = SystemPromptConfig { persona: format!("Use {}{{{{rest}}}}.", half), ..SystemPromptConfig::default() };
    let harness = stage
        .builder(STEPS)
        .config(config(&stage))
        .plugin::<SystemPromptPlugin>(prompt)
        .plugin::<Described>(())
        .build()
        .await
        .unwrap();
    let ctx = harness.context();
    let system = ctx.require::<dyn SystemPrompt>().unwrap();
    system.variable(ctx, "rest", Variable::new(move |_: &AssembleContext| Some(rest.to_owned()))).unwrap();
    system.section(ctx, Section::fixed("notes", 10, format!("Notes: {}", KEYS[1]))).unwrap();
    ctx.on(|_: &AgentSessionPrefix| vec![Message::user([ContentBlock::text(format!("Before all: {}", KEYS[2]))])])
        .unwrap();
    ctx.on(|it: &AgentOverlay| {
        it.add(vec![Message::user([ContentBlock::text(format!("For this once: {}", KEYS[3]))])], "test");
    })
    .unwrap();
    let asked = Arc::<Asked>::default();
    ctx.on_with(&asked, Asked::note).unwrap();
    let heard = Heard::on(ctx);
    let handle = stage.agent(&harness, "main").await;
    let (agent, session) = (handle.agent(), handle.agent().session());
    say(agent, "go").await;

    let requests = std::mem::take(&mut *asked.0.lock().unwrap());
    assert_eq!(requests.len(), 2);
    for (step, request) in (1..).zip(&requests) {
        let asked = serde_json::to_value(&**request).unwrap();
        for place in [
            "Use [redacted].",
            "Notes: [redacted]",
            "Before all: [redacted]",
            "For this once: [redacted]",
            "Knows [redacted]",
        ] {
            assert!(asked.to_string().contains(place), "{place}: {asked}");
        }
        assert_clean("a request", &asked.to_string());
        let rebuilt = serde_json::to_value(rebuild_request(session, 1, step).unwrap()).unwrap();
        assert_eq!(rebuilt, asked, "the log tells what was sent");
    }
    let records = session.records_from(0);
    let headers = records.iter().filter(|it| it.fact.kind().starts_with("request/header")).count();
    assert_eq!(headers, 1, "what was taken out is no change of the header");
    assert_clean("the log", &records.iter().map(|it| serde_json::to_string(it).unwrap()).collect::<String>());
    for (name, data) in heard.events() {
        assert_clean(name, &data.to_string());
    }
    handle.dispose().await;
    harness.shutdown().await.unwrap();
}

#[tokio::test]
async fn r139_a_key_that_is_given_while_the_harness_runs_is_kept_as_well() {
    use linn::services::settings::Settings;

    let stage = Stage::new();
    let files = MemoryFiles::default();
    let sources = Sources { home: Some("/h".into()), ..Sources::in_memory(stage.path("work"), files) };
    let harness =
        stage.builder(RECORDING).config(Config::load(sources, &linn::built_in_entries())).build().await.unwrap();
    let secrets = harness.context().require::<dyn Secrets>().unwrap().keeper().unwrap();
    assert_eq!(secrets.redact("own-key-of-search-4"), "own-key-of-search-4");
    let settings = harness.context().require::<dyn Settings>().unwrap();
    settings.save_search_key("exa", Some("own-key-of-search-4".into())).await.unwrap();
    assert_eq!(secrets.redact("own-key-of-search-4"), "[redacted]");
    harness.shutdown().await.unwrap();
}
