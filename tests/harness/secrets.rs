//! Keys that the harness was given are seen by nobody, whoever repeats them.

use linn::bus::{Context, Fault, Plugin, Svc};
use linn::config::{Config, MemoryFiles, Sources};
use linn::plugins::approval::{ApprovalGateConfig, ApprovalGatePlugin};
use linn::services::approval::ApprovalMode;
use linn::services::events::AgentRequest;
use linn::services::model::LlmCallConfig;
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
