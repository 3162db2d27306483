//! Calls over a transport: what is tried again, what is told, and what becomes of a stream that broke.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus_test::{leak_check, run};
use linn_services::events::LlmRetry;
use linn_services::llm::LlmError;
use linn_services::llm::wire::{Calls, Decoder, Frame, HttpRequest, Limits, MAX_EVENT_BYTES, Progress};
use linn_services::model::{FinishReason, GenerateRequest, LlmCallConfig, StreamChunk};
use linn_services_test::{HttpAnswer, ScriptedTransport};

/// Takes each event as text; `end` is the last one, `fail` fails for now, and `fatal` for good.
#[derive(Default)]
struct Words {
    is_over: bool,
}

impl Decoder for Words {
    fn frame(&mut self, frame: Frame<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
        match std::str::from_utf8(frame.data).unwrap() {
            "end" => self.is_over = true,
            "fail" => return Err(LlmError::new("SERVER", "failed").retryable()),
            "fatal" => return Err(LlmError::new("STREAM_ERROR", "failed")),
            text => out.push_back(StreamChunk::TextDelta { index: 0, text: text.to_owned() }),
        }
        Ok(())
    }
    fn progress(&self) -> Progress {
        if self.is_over { Progress::Closed } else { Progress::Answering }
    }
    fn end(&mut self, out: &mut VecDeque<StreamChunk>) {
        out.push_back(StreamChunk::Finish { reason: FinishReason::Stop });
    }
}

fn events(words: &[&str]) -> HttpAnswer {
    HttpAnswer::stream(words.iter().map(|it| format!("data: {it}\n\n")))
}

fn http() -> HttpRequest {
    let secrets = vec!["hunter-2".into()];
    HttpRequest { url: "https://h.invalid".into(), headers: Vec::new(), body: "{}".into(), secrets }
}

/// What is streamed, in words, then what the retries tell, then how often was asked and how many milliseconds it took.
fn ask(answers: Vec<HttpAnswer>, limits: Limits) -> (Vec<String>, Vec<String>, usize, u128) {
    let seen = Arc::new(Mutex::new(None));
    let found = seen.clone();
    run(async move |root| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let retries = told.clone();
        let _listener = root
            .on(move |it: &LlmRetry| {
                let what = it.status.map_or_else(|| it.reason.clone().unwrap_or_default(), |it| it.to_string());
                let discard = if it.discard_partial { ", discard" } else { "" };
                retries.lock().unwrap().push(format!("{} after {}: {what}{discard}", it.backoff_ms, it.attempt));
            })
            .unwrap();
        let transport = ScriptedTransport::new(answers);
        let calls = Calls::new((*root).clone(), Arc::new(transport.clone()), limits);
        let request = GenerateRequest { config: LlmCallConfig::of_model("m"), ..GenerateRequest::default() };
        let mut streamed = Vec::new();
        match calls.stream(Arc::new(request), http(), Words::default).await {
            Err(error) => streamed.push(format!("{}: {error}", error.code.as_deref().unwrap())),
            Ok(mut stream) => {
                while let Some(next) = stream.next().await {
                    streamed.push(match next {
                        Ok(StreamChunk::TextDelta { text, .. }) => text,
                        Ok(StreamChunk::Finish { .. }) => "<finish>".to_owned(),
                        Ok(StreamChunk::Discard) => "<discard>".to_owned(),
                        Ok(other) => format!("{other:?}"),
                        Err(error) => format!("{}: {error}", error.code.as_deref().unwrap()),
                    });
                }
            }
        }
        let took_ms = root.clock().monotonic().as_millis();
        let told = told.lock().unwrap().clone();
        *found.lock().unwrap() = Some((streamed, told, transport.requests().len(), took_ms));
    });
    let found = seen.lock().unwrap().take();
    found.unwrap()
}

#[test]
fn a_stream_that_ends_well_is_passed_on_and_its_connection_is_let_go() {
    let (streamed, told, n_requests, took_ms) = ask(vec![events(&["a", "b", "end", "c"]).open()], Limits::default());
    assert_eq!(streamed, ["a", "b", "<finish>"]);
    assert_eq!((told.len(), n_requests, took_ms), (0, 1, 0));
}

#[test]
fn what_a_broken_attempt_said_is_discarded_when_the_next_one_is_there() {
    let reason = "retryable stream error after partial output, discard";
    for broken in [events(&["a", "fail"]), events(&["a"]).dropped(), events(&["a"])] {
        let (streamed, told, ..) = ask(vec![broken, events(&["b", "end"])], Limits::default());
        assert_eq!(streamed, ["a", "<discard>", "b", "<finish>"]);
        assert_eq!(told, [format!("500 after 1: {reason}")]);
    }
    // Twice in a row, and the last one is kept as the part that it is.
    let broken = || events(&["a", "fail"]);
    let (streamed, told, n_requests, took_ms) = ask(vec![broken(), broken(), broken()], Limits::default());
    assert_eq!(streamed, ["a", "<discard>", "a", "<discard>", "a", "SERVER: failed"]);
    assert_eq!((told.len(), n_requests, took_ms), (2, 3, 1500));
    // No attempt came of it: nothing is taken back.
    let refused = HttpAnswer::status(401, "Unauthorized", "no");
    let (streamed, ..) = ask(vec![broken(), refused], Limits::default());
    assert_eq!(streamed, ["a", "AUTH: HTTP 401 Unauthorized: no"]);
}

#[test]
fn an_attempt_that_said_nothing_has_nothing_to_discard() {
    let (streamed, told, ..) = ask(vec![events(&["fail"]), events(&["b", "end"])], Limits::default());
    assert_eq!(streamed, ["b", "<finish>"]);
    assert_eq!(told, ["500 after 1: stream error before first token"]);
}

#[test]
fn what_no_other_try_helps_is_told_at_once() {
    for (answer, expected) in [
        (events(&["a", "fatal"]), vec!["a", "STREAM_ERROR: failed"]),
        (events(&["fatal"]), vec!["STREAM_ERROR: failed"]),
        (
            HttpAnswer::status(404, "Not Found", "{\"error\":\"no model\"}"),
            vec!["INVALID_REQUEST: HTTP 404 Not Found: no model"],
        ),
        (HttpAnswer::status(500, "Oops", "hunter-2").header("retry-after", "61"), {
            vec![
                "SERVER: HTTP 500 Oops: provider returned a redacted authentication/error response; the provider asks to wait 61 s",
            ]
        }),
        // Endpoints that do not stream say so in JSON, or are no endpoints.
        (
            HttpAnswer::stream(["\n {\"error\": {\"mess", "age\": \"no such model\"}}"]),
            vec!["NOT_A_STREAM: the provider did not stream its answer: no such model"],
        ),
        (
            HttpAnswer::stream(["<html>login</html>"]),
            vec!["NOT_A_STREAM: the provider did not stream its answer: <html>login</html>"],
        ),
    ] {
        let (streamed, told, n_requests, _) = ask(vec![answer, events(&["b", "end"])], Limits::default());
        assert_eq!((streamed, told.len(), n_requests), (expected.into_iter().map(str::to_owned).collect(), 0, 1));
    }
}

#[test]
fn an_event_past_the_limit_is_not_tried_again() {
    let long = format!("data: {}\n\n", "x".repeat(MAX_EVENT_BYTES + 1));
    let (streamed, told, n_requests, _) = ask(vec![HttpAnswer::stream([long])], Limits::default());
    assert_eq!(streamed, ["STREAM_LIMIT: an event of the stream is larger than 1048576 bytes"]);
    assert_eq!((told.len(), n_requests), (0, 1));
}

#[test]
fn an_answer_of_nothing_is_asked_for_once_more_where_that_is_wanted() {
    let nothing = || events(&["end"]);
    assert_eq!(ask(vec![nothing()], Limits::default()).0, ["<finish>"]);
    let limits = Limits { retries_empty: true, ..Limits::default() };
    let (streamed, told, n_requests, _) = ask(vec![nothing(), nothing(), nothing()], limits);
    let error = "EMPTY_ANSWER: provider returned an empty response; retry also produced no usable assistant response";
    assert_eq!((streamed, n_requests), (vec![error.to_owned()], 2));
    let reason = "provider returned an empty response; retrying once and requiring either a structured tool call or visible response";
    assert_eq!(told, [format!("500 after 1: {reason}")]);
    assert_eq!(ask(vec![nothing(), events(&["b", "end"])], limits).0, ["b", "<finish>"]);
}

#[test]
fn r025_silence_ends_an_attempt() {
    let limits = Limits { idle_ms: 3000, ..Limits::default() };
    let (streamed, _, n_requests, took_ms) = ask(vec![events(&["a"]).open()], limits);
    assert_eq!(streamed, ["a", "STALLED: stream idle timeout (3s with no data)"]);
    assert_eq!((n_requests, took_ms), (1, 3000));
}

#[test]
fn a_call_leaves_nothing_behind() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let transport = ScriptedTransport::new([events(&["a"]).open(), HttpAnswer::status(503, "Busy", "")]);
            let calls = Calls::new(ctx.clone(), Arc::new(transport), Limits::default());
            let request = Arc::new(GenerateRequest::default());
            let mut stream = calls.stream(request.clone(), http(), Words::default).await.unwrap();
            assert!(stream.next().await.unwrap().is_ok());
            drop(stream);
            let signal = request.signal.clone();
            let waiting = calls.stream(request, http(), Words::default);
            let abort = async {
                ctx.sleep(Duration::from_millis(10)).await.unwrap();
                signal.cancel();
            };
            let (opened, ()) = futures_util::future::join(waiting, abort).await;
            assert_eq!(opened.err().unwrap().code.as_deref(), Some("ABORTED"));
        })
        .await;
    });
}
