//! Recordings through the plugin: written, replayed, compared, and gone.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use linn_bus::{BoxFuture, Clock, Mounted, Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_plugin_llm_replay::{
    Bundled, Exchange, Outcome, Recording, RecordingStore, ReplayConfig, ReplayError, ReplayMode, ReplayPlugin,
};
use linn_services::llm::{Adapter, Assembler, ChunkStream, Llm, LlmError, LlmPlugin};
use linn_services::model::{
    ContentBlock, FinishReason, GenerateRequest, LlmCallConfig, Message, StreamChunk, ToolSchema,
};
use serde_json::json;

/// Recordings in memory.
#[derive(Default)]
struct Shelf(Mutex<HashMap<String, String>>);

impl Shelf {
    fn with(name: &str, text: &str) -> Arc<Self> {
        Arc::new(Self(Mutex::new([(name.to_owned(), text.to_owned())].into())))
    }
    fn text(&self, name: &str) -> String {
        self.0.lock().unwrap().get(name).cloned().unwrap_or_default()
    }
}

impl RecordingStore for Shelf {
    fn load(&self, name: &str) -> Result<Option<String>, ReplayError> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }
    fn append(&self, name: &str, head: &str, lines: &str) -> Result<(), ReplayError> {
        if name == "full" {
            return Err(ReplayError::Io { what: "cannot write", file: name.into(), why: "no space left".into() });
        }
        let mut shelf = self.0.lock().unwrap();
        shelf.entry(name.to_owned()).or_insert_with(|| head.to_owned()).push_str(lines);
        Ok(())
    }
    fn whereabouts(&self, name: &str) -> String {
        format!("on the shelf, {name}")
    }
}

fn text(text: &str) -> StreamChunk {
    StreamChunk::TextDelta { index: 0, text: text.into() }
}
fn stop() -> StreamChunk {
    StreamChunk::Finish { reason: FinishReason::Stop }
}

fn request(model: &str, messages: &[&str]) -> GenerateRequest {
    let messages = messages.iter().map(|it| Arc::new(Message::user([ContentBlock::text(*it)]))).collect();
    GenerateRequest { config: LlmCallConfig::of_model(model), messages, ..GenerateRequest::default() }
}

fn tool(name: &str) -> ToolSchema {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    ToolSchema { name: name.into(), description: String::new(), parameters }
}

async fn mount(root: &Root, config: ReplayConfig) -> (Svc<dyn Llm>, Mounted<ReplayPlugin>) {
    root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
    let replay = root.mount::<ReplayPlugin>(config).unwrap();
    replay.running().await.unwrap();
    (root.get::<dyn Llm>().unwrap(), replay)
}

fn with_store(store: &Arc<Shelf>) -> ReplayConfig {
    ReplayConfig { store: Some(store.clone()), ..ReplayConfig::default() }
}

async fn ask(llm: &Svc<dyn Llm>, request: GenerateRequest) -> Result<Vec<StreamChunk>, LlmError> {
    let chunks: Vec<_> = llm.stream(Arc::new(request), None).await?.collect().await;
    chunks.into_iter().collect()
}

fn said(chunks: &[StreamChunk]) -> String {
    let text = |it: &StreamChunk| match it {
        StreamChunk::TextDelta { text, .. } => Some(text.clone()),
        _ => None,
    };
    chunks.iter().filter_map(text).collect()
}

fn code<T>(result: Result<T, LlmError>) -> (String, String) {
    let error = result.err().unwrap();
    (error.code.unwrap(), error.message)
}

/// Answers with what was asked last, a second a word, and fails when it is told to.
struct Echo(Arc<dyn Clock>);

impl Adapter for Echo {
    fn name(&self) -> &str {
        "echo"
    }
    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let said = request.messages.last().unwrap().content[0].as_text().unwrap().to_owned();
        let clock = self.0.clone();
        Box::pin(async move {
            if said == "refuse" {
                return Err(LlmError::new("RATE_LIMIT", "slow down").with_status(429).retryable());
            }
            let words: Vec<_> = said.split_inclusive(' ').map(str::to_owned).collect();
            let steps = words.into_iter().map(|it| match it.as_str() {
                "break" => Err(LlmError::new("SERVER", "it broke")),
                "again " => Ok(StreamChunk::Discard),
                it => Ok(text(it)),
            });
            let spoken = stream::iter(steps).then(move |step| {
                let pause = clock.sleep(Duration::from_secs(1));
                async move {
                    pause.await;
                    step
                }
            });
            Ok(ChunkStream::new(spoken.chain(stream::iter([Ok(stop())]))))
        })
    }
}

async fn recording(root: &Root, shelf: &Arc<Shelf>, name: &str) -> (Svc<dyn Llm>, Mounted<ReplayPlugin>) {
    let (llm, replay) = mount(root, ReplayConfig { record: Some(name.into()), ..with_store(shelf) }).await;
    llm.register(root, vec!["echo".into()], Arc::new(Echo(root.clock().clone()))).unwrap();
    (llm, replay)
}

#[test]
fn what_was_recorded_is_replayed_with_its_pauses() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, _replay) = recording(&root, &shelf, "tape").await;
        let first = ask(&llm, request("echo", &["one two"])).await.unwrap();
        let second = ask(&llm, request("echo", &["one two", "and three"])).await.unwrap();

        let before = root.clock().monotonic();
        assert_eq!(ask(&llm, request("replay:tape", &["one two"])).await.unwrap(), first);
        assert_eq!(root.clock().monotonic() - before, Duration::from_secs(2));
        assert_eq!(ask(&llm, request("replay:tape", &["one two", "and three"])).await.unwrap(), second);
        assert_eq!(said(&second), "and three");
        // Replays are not recorded.
        assert_eq!(Recording::parse("tape", &shelf.text("tape")).unwrap().exchanges.len(), 2);
    });
}

#[test]
fn an_answer_that_was_begun_anew_is_recorded_and_replayed_with_what_was_discarded() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, _replay) = recording(&root, &shelf, "tape").await;
        let first = ask(&llm, request("echo", &["broken again whole"])).await.unwrap();
        assert_eq!(first, [text("broken "), StreamChunk::Discard, text("whole"), stop()]);
        assert_eq!(ask(&llm, request("replay:tape", &["broken again whole"])).await.unwrap(), first);
        let recording = Recording::parse("tape", &shelf.text("tape")).unwrap();
        assert_eq!(recording.to_text(), shelf.text("tape"));
        let mut assembler = Assembler::new();
        for it in &recording.exchanges[0].chunks {
            assembler.push(&it.chunk).unwrap();
        }
        assert_eq!(assembler.finish(&[]).message.content, [ContentBlock::text("whole")]);
    });
}

#[test]
fn a_recording_can_be_read_and_does_not_repeat_itself() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, _replay) = recording(&root, &shelf, "tape").await;
        let with_tool = |messages: &[&str]| GenerateRequest {
            tools: vec![tool("read")],
            system: Some("be brief".into()),
            ..request("echo", messages)
        };
        ask(&llm, with_tool(&["hi"])).await.unwrap();
        ask(&llm, with_tool(&["hi", "ho"])).await.unwrap();
        let text = shelf.text("tape");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], r#"{"linn_recording":1}"#);
        assert_eq!(lines[2], r#"{"after_ms":1000,"chunk":{"type":"text-delta","index":0,"text":"hi"}}"#);
        assert_eq!(lines[3], r#"{"chunk":{"type":"finish","reason":{"kind":"stop"}}}"#);
        let (digest, rest) = lines[4].split_at(r#"{"request":{"digest":"0123456789abcdef0123456789abcdef","#.len());
        assert!(digest.starts_with(r#"{"request":{"digest":""#), "{digest}");
        let expected = r#""model":"echo","keep_messages":1,"messages":[{"role":"user","content":[{"type":"text","text":"ho"}]}],"keep_tools":true,"keep_system":true}}"#;
        assert_eq!(rest, expected);
        let recording = Recording::parse("tape", &text).unwrap();
        assert_eq!(recording.to_text(), text);
        assert_eq!(recording.exchanges[1].request.messages.as_ref().unwrap().len(), 2);
        assert_eq!(recording.exchanges[1].request.system.as_deref(), Some("be brief"));
    });
}

#[test]
fn failures_and_streams_that_were_dropped_are_recorded_and_replayed() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, _replay) = recording(&root, &shelf, "tape").await;
        let refused = ask(&llm, request("echo", &["refuse"])).await.unwrap_err();
        let broken = ask(&llm, request("echo", &["it will break"])).await.unwrap_err();
        let mut dropped = llm.stream(Arc::new(request("echo", &["a b c"])), None).await.unwrap();
        dropped.next().await.unwrap().unwrap();
        drop(dropped);

        assert_eq!((refused.status, refused.is_retryable), (Some(429), true));
        assert_eq!(ask(&llm, request("replay:tape", &["refuse"])).await.unwrap_err(), refused);
        assert_eq!(ask(&llm, request("replay:tape", &["it will break"])).await.unwrap_err(), broken);
        let again = Arc::new(request("replay:tape", &["a b c"]));
        let mut stream = llm.stream(again.clone(), None).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), text("a "));
        // As it was: nobody knows what would have come, and only the signal ends it.
        root.spawn(async move { again.signal.cancel() }).unwrap();
        assert_eq!(code(stream.next().await.unwrap()).0, "ABORTED");
    });
}

#[test]
fn another_request_is_an_error_that_names_the_first_difference() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, replay) = recording(&root, &shelf, "tape").await;
        let asked =
            |messages: &[&str]| GenerateRequest { tools: vec![tool("read")], ..request("replay:tape", messages) };
        let recorded = GenerateRequest { tools: vec![tool("read")], ..request("echo", &["hi", "the weather is fine"]) };
        ask(&llm, recorded).await.unwrap();
        replay.dispose().await.unwrap();

        let replay = root.mount::<ReplayPlugin>(with_store(&shelf)).unwrap();
        replay.running().await.unwrap();
        for (request, difference) in [
            (
                asked(&["hi", "the weather is bad"]),
                "messages[1].content[0].text, byte 15:\n- \"the weather is fine\"\n+ \"the weather is bad\"",
            ),
            (
                asked(&["hi"]),
                "messages[1]:\n- {\"content\":[{\"text\":\"the weather is fine\",\"type\":\"text\"}],\"role\":\"user\"}\n+ nothing",
            ),
            (
                GenerateRequest { tools: vec![], ..asked(&["hi", "the weather is fine"]) },
                "tools[0]:\n- {\"description\":\"\",\"name\":\"read\"",
            ),
            (
                GenerateRequest { tools: vec![tool("write")], ..asked(&["hi", "the weather is fine"]) },
                "tools[0].name, byte 0:\n- \"read\"\n+ \"write\"",
            ),
        ] {
            let (code, message) = code(ask(&llm, request).await);
            assert_eq!(code, "REPLAY_MISMATCH");
            let expected = format!("request 1 is not the one of recording `tape`, which differs at {difference}");
            assert!(message.starts_with(&expected), "{message}\n--- is not\n{expected}");
        }
        // None of them used the answer up.
        assert_eq!(said(&ask(&llm, asked(&["hi", "the weather is fine"])).await.unwrap()), "the weather is fine");
    });
}

#[test]
fn what_is_asked_side_by_side_finds_its_answer_in_any_order() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, _replay) = recording(&root, &shelf, "tape").await;
        for words in ["one", "two", "two"] {
            ask(&llm, request("echo", &[words])).await.unwrap();
        }
        for words in ["two", "one", "two"] {
            assert_eq!(said(&ask(&llm, request("replay:tape", &[words])).await.unwrap()), words);
        }
        let (code, message) = code(ask(&llm, request("replay:tape", &["one"])).await);
        assert_eq!(code, "RECORDING_USED_UP");
        assert_eq!(message, "recording `tape` is used up: it answers 3 requests, and one more was made");
    });
}

const TWO: &str = concat!(
    "{\"linn_recording\":1,\"about\":\"two answers\"}\n\n",
    "{\"request\":{\"says\":\"weather\"}}\n{\"after_ms\":9000,\"chunk\":{\"type\":\"text-delta\",\"index\":0,\"text\":\"fine\"}}\n{\"end\":\"finished\"}\n",
    "{\"request\":{}}\n{\"chunk\":{\"type\":\"text-delta\",\"index\":0,\"text\":\"bye\"}}\n{\"chunk\":{\"type\":\"finish\",\"reason\":{\"kind\":\"stop\"}}}",
);

#[test]
fn lenient_replay_answers_in_order_whatever_is_asked() {
    run(async |root| {
        let config = ReplayConfig {
            mode: ReplayMode::Lenient,
            delay_percent: 0,
            repeat: true,
            ..with_store(&Shelf::with("two", TWO))
        };
        let (llm, _replay) = mount(&root, config).await;
        for answer in ["fine", "bye", "fine"] {
            assert_eq!(said(&ask(&llm, request("replay:two", &["anything"])).await.unwrap()), answer);
        }
        assert_eq!(root.clock().monotonic(), Duration::ZERO);
    });
}

#[test]
fn a_recording_written_by_hand_says_what_it_wants() {
    run(async |root| {
        let (llm, _replay) =
            mount(&root, ReplayConfig { delay_percent: 10, ..with_store(&Shelf::with("two", TWO)) }).await;
        assert_eq!(said(&ask(&llm, request("replay:two", &["how is the weather?"])).await.unwrap()), "fine");
        assert_eq!(root.clock().monotonic(), Duration::from_millis(900));
        assert_eq!(said(&ask(&llm, request("replay:two", &["so long"])).await.unwrap()), "bye");
    });
    let recording = Recording::parse("two", TWO).unwrap();
    let asked = request("m", &["what time is it?"]);
    let difference = recording.exchanges[0].request.difference(&asked, true).unwrap();
    assert_eq!(difference.to_string(), "the text of the last message:\n- \"weather\"\n+ \"what time is it?\"");
}

#[test]
fn the_model_counts_where_it_does_not_name_the_recording() {
    let request_of = |model| request(model, &["hi"]);
    let exchange = Exchange {
        request: linn_plugin_llm_replay::RecordedRequest::of(&request_of("gpt")),
        chunks: vec![],
        outcome: Outcome::Finished,
    };
    assert_eq!(exchange.request.difference(&request_of("gpt"), false), None);
    assert_eq!(exchange.request.difference(&request_of("replay:x"), true), None);
    let difference = exchange.request.difference(&request_of("gpt-2"), false).unwrap();
    assert_eq!(difference.place, "model, byte 3");
}

#[test]
fn a_digest_alone_tells_two_requests_apart() {
    let mut recorded = linn_plugin_llm_replay::RecordedRequest::of(&request("gpt", &["hi"]));
    (recorded.messages, recorded.tools) = (None, None);
    assert_eq!(recorded.difference(&request("gpt", &["hi"]), false), None);
    assert_eq!(recorded.difference(&request("gpt", &["ho"]), false).unwrap().place, "digest, byte 0");
}

fn parse_error(text: &str) -> (&'static str, String) {
    let error = Recording::parse("tape", text).unwrap_err();
    (error.code(), error.to_string())
}

const HEAD: &str = "{\"linn_recording\":1}\n";

#[test]
fn a_later_version_is_named_whatever_else_is_new_in_it() {
    let (code, message) = parse_error("{\"linn_recording\":2,\"compressed\":true}\n\u{1}\u{2}");
    assert_eq!(code, "RECORDING_NEWER");
    assert_eq!(message, "recording `tape` is version 2, newer than supported (1); update Linn to replay it");
}

#[test]
fn damage_is_named_with_its_line() {
    let cases = [
        ("", 1, "the first line of a recording says"),
        ("{}\n", 1, "the first line of a recording says"),
        ("{\"linn_recording\":0}\n", 1, "the first line of a recording says"),
        ("\n\nhello\n", 3, "the first line of a recording says"),
        (&format!("{HEAD}{{\"chnk\":1}}\n"), 2, "unknown field `chnk`"),
        (
            &format!("{HEAD}{{\"chunk\":{{\"type\":\"finish\",\"reason\":{{\"kind\":\"stop\"}}}}}}\n"),
            2,
            "belongs to no request",
        ),
        (&format!("{HEAD}{{\"request\":{{\"keep_messages\":2}}}}\n"), 2, "keeps more messages"),
        (&format!("{HEAD}{{}}\n"), 2, "a line holds one of"),
        (&format!("{HEAD}{HEAD}"), 2, "only the first line"),
        // A line that is cut off in the middle of the file is not the end of a write.
        (&format!("{HEAD}{{\"request\":{{\n{{\"end\":\"dropped\"}}\n"), 2, "EOF"),
    ];
    for (text, line, why) in cases {
        let (code, message) = parse_error(text);
        assert_eq!(code, "RECORDING_DAMAGED", "{text}");
        assert!(message.starts_with(&format!("recording `tape` is damaged at line {line}: ")), "{message}");
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_torn_recording_says_so_at_every_place_it_can_be_torn() {
    let whole = format!(
        "{HEAD}{{\"request\":{{}}}}\n{{\"chunk\":{{\"type\":\"text-delta\",\"index\":0,\"text\":\"hi\"}}}}\n{{\"end\":\"finished\"}}\n"
    );
    assert_eq!(Recording::parse("tape", &whole).unwrap().exchanges.len(), 1);
    for cut in HEAD.len() + 1..whole.len() - 1 {
        let (code, _) = parse_error(&whole[..cut]);
        assert!(["RECORDING_TORN", "RECORDING_UNFINISHED"].contains(&code), "cut at {cut}: {code}");
    }
    let (code, message) = parse_error(&whole[..whole.len() - 4]);
    assert_eq!((code, message.contains("cut off in line 4")), ("RECORDING_TORN", true), "{message}");
}

#[test]
fn a_recording_that_ends_too_early_names_the_request_without_an_end() {
    let request = "{\"request\":{}}\n";
    let expected = "recording `tape` ends too early: the answer to request 1, from line 2 on, has no end";
    for text in [format!("{HEAD}{request}"), format!("{HEAD}{request}{request}{{\"end\":\"finished\"}}\n")] {
        assert_eq!(parse_error(&text), ("RECORDING_UNFINISHED", expected.to_owned()));
    }
}

#[test]
fn a_recording_that_is_not_there_names_what_there_is() {
    run(async |root| {
        let bundled = vec![Bundled { name: "mine", text: TWO }];
        let (llm, _replay) = mount(&root, ReplayConfig { bundled, ..with_store(&Arc::default()) }).await;
        let (code, message) = code(ask(&llm, request("replay:nope", &["hi"])).await);
        assert_eq!(code, "RECORDING_NOT_FOUND");
        let expected = "there is no recording `nope`; bundled are: hello, mine; looked for the file on the shelf, nope";
        assert_eq!(message, expected);
        assert_eq!(said(&ask(&llm, request("replay:mine", &["weather"])).await.unwrap()), "fine");
    });
}

#[test]
fn every_bundled_recording_can_be_replayed() {
    for bundled in linn_plugin_llm_replay::BUNDLED {
        assert!(!Recording::parse(bundled.name, bundled.text).unwrap().exchanges.is_empty(), "{}", bundled.name);
    }
    run(async |root| {
        let (llm, _replay) = mount(&root, ReplayConfig::default()).await;
        let answer = said(&ask(&llm, request("replay:hello", &["hi"])).await.unwrap());
        assert!(answer.starts_with("Hello!"), "{answer}");
    });
}

#[test]
fn recordings_are_files_with_or_without_their_extension() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    run(async |root| {
        let record = Some("new.jsonl".to_owned());
        let (llm, _replay) =
            mount(&root, ReplayConfig { folder: path.clone(), record, ..ReplayConfig::default() }).await;
        llm.register(&root, vec!["echo".into()], Arc::new(Echo(root.clock().clone()))).unwrap();
        ask(&llm, request("echo", &["one"])).await.unwrap();
        ask(&llm, request("echo", &["two"])).await.unwrap();
        std::fs::create_dir(folder.path().join("new")).unwrap();
        assert_eq!(said(&ask(&llm, request("replay:new", &["one"])).await.unwrap()), "one");
        let whole = format!("replay:{path}/new.jsonl");
        assert_eq!(said(&ask(&llm, request(&whole, &["two"])).await.unwrap()), "two");
        let (code, message) = code(ask(&llm, request("replay:gone", &["hi"])).await);
        assert_eq!(code, "RECORDING_NOT_FOUND");
        assert!(message.ends_with(&format!("{path}/gone and {path}/gone.jsonl")), "{message}");
        std::fs::write(folder.path().join("latin"), b"\xff\n").unwrap();
        assert_eq!(self::code(ask(&llm, request("replay:latin", &["hi"])).await).0, "RECORDING_IO");
    });
}

#[test]
fn a_recording_that_cannot_be_written_breaks_no_call() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, _replay) = recording(&root, &shelf, "full").await;
        for _ in 0..2 {
            assert_eq!(said(&ask(&llm, request("echo", &["one"])).await.unwrap()), "one");
        }
        assert_eq!(shelf.text("full"), "");
    });
}

#[test]
fn what_streams_on_behind_the_end_of_the_plugin_is_not_recorded() {
    run(async |root| {
        let shelf = Arc::new(Shelf::default());
        let (llm, replay) = recording(&root, &shelf, "tape").await;
        let mut stream = llm.stream(Arc::new(request("echo", &["a b"])), None).await.unwrap();
        stream.next().await.unwrap().unwrap();
        replay.dispose().await.unwrap();
        let rest: Vec<_> = stream.collect().await;
        assert_eq!(rest, [Ok(text("b")), Ok(stop())]);
        assert_eq!(shelf.text("tape"), "");
    });
}

#[test]
fn the_plugin_goes_without_a_trace() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let config = ReplayConfig { record: Some("tape".into()), ..with_store(&Arc::default()) };
            let replay = ctx.mount::<ReplayPlugin>(config).unwrap();
            replay.running().await.unwrap();
            let llm = ctx.get::<dyn Llm>().unwrap();
            assert!(said(&ask(&llm, request("replay:hello", &["hi"])).await.unwrap()).starts_with("Hello!"));
            replay.dispose().await.unwrap();
            assert_eq!(code(ask(&llm, request("replay:hello", &["hi"])).await).0, "NO_ADAPTER");
        })
        .await;
    });
}

#[test]
fn the_config_is_read_from_words() {
    let config: ReplayConfig =
        serde_json::from_value(json!({"mode": "lenient", "delay_percent": 0, "folder": "/tapes"})).unwrap();
    assert_eq!((config.mode, config.delay_percent, config.folder.as_str()), (ReplayMode::Lenient, 0, "/tapes"));
    assert!(serde_json::from_value::<ReplayConfig>(json!({"mdoe": "lenient"})).is_err());
}
