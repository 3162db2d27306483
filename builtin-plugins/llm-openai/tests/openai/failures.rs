//! What goes wrong, what is tried again, and what is told.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus_test::run;
use linn_services::model::{ContentBlock, StreamChunk};
use linn_services_test::{HttpAnswer, ScriptedTransport};

use crate::support::{DONE, ask, delta, endpoint, finish, mount, request, stream_as};

fn good() -> HttpAnswer {
    HttpAnswer::stream([delta(r#"{"content":"full"}"#), finish("stop"), DONE.to_owned()])
}

const PARTIAL: &str = r#"{"content":"Hel"}"#;

#[test]
fn r013_an_error_within_the_stream_is_never_a_success() {
    let error = "data: {\"choices\":[],\"error\":{\"code\":502,\"message\":\"upstream limit reached\"}}\n\n";
    let bytes = [&delta(PARTIAL), error].concat();
    let outcome = ask(vec![HttpAnswer::stream([&bytes]), HttpAnswer::stream([&bytes]), HttpAnswer::stream([&bytes])]);
    let failed = outcome.error.as_ref().unwrap();
    assert_eq!(failed.message, "provider stream error: upstream limit reached (502)");
    assert_eq!((failed.code.as_deref(), failed.status, failed.is_retryable), (Some("SERVER"), Some(502), true));
    assert_eq!(outcome.text(), "Hel");
    assert_eq!(outcome.n_requests, 3);
    let fatal = [&delta(PARTIAL), "data: {\"error\":\"no such thing\"}\n\n"].concat();
    stream_as(
        fatal.as_bytes(),
        |it| it,
        |outcome| {
            assert_eq!((outcome.text().as_str(), outcome.code(), outcome.n_requests), ("Hel", Some("STREAM_ERROR"), 1));
        },
    );
}

#[test]
fn r014_a_connection_that_closes_too_early_is_no_answer() {
    for end in [|it: HttpAnswer| it, HttpAnswer::dropped] {
        let answer = || end(HttpAnswer::stream([delta(PARTIAL)]));
        let outcome = ask(vec![answer(), answer(), answer()]);
        assert!(matches!(outcome.code(), Some("INCOMPLETE" | "STREAM_READ")), "{outcome:?}");
        // The part of the last attempt is kept.
        assert_eq!((outcome.text().as_str(), outcome.n_requests), ("Hel", 3));
    }
    let cut = delta(PARTIAL);
    let outcome = ask(vec![HttpAnswer::stream([&cut[..cut.len() - 9]]), good()]);
    assert_eq!((outcome.error.as_ref(), outcome.text().as_str()), (None, "full"));
}

#[test]
fn a_stream_that_breaks_after_partial_output_is_discarded_and_begun_anew() {
    let bytes = delta(PARTIAL);
    let outcome = ask(vec![HttpAnswer::stream([&bytes]).dropped(), good()]);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.content, [ContentBlock::text("full")]);
    let reason = "retryable stream error after partial output".to_owned();
    assert_eq!(outcome.retries, [(1, None, Some(reason), 500, true)]);
    assert_eq!(outcome.chunks.iter().position(|it| *it == StreamChunk::Discard), Some(2), "{:?}", outcome.chunks);
}

#[test]
fn a_stream_that_breaks_before_the_first_token_is_begun_anew() {
    for broken in [
        HttpAnswer::stream::<&str>([]),
        HttpAnswer::stream([": ping\n\n"]).dropped(),
        HttpAnswer::stream(["data: {nonsense\n\n"]),
        HttpAnswer::stream(["data: \"text\"\n\n"]),
        HttpAnswer::stream::<&str>([]).open(),
    ] {
        let outcome = ask(vec![broken, good()]);
        assert_eq!((outcome.error.as_ref(), outcome.text().as_str()), (None, "full"));
        let reason = "stream error before first token".to_owned();
        assert_eq!(outcome.retries, [(1, None, Some(reason), 500, false)]);
        assert!(!outcome.chunks.contains(&StreamChunk::Discard));
    }
}

#[test]
fn a_malformed_event_is_shown_and_fatal_after_output() {
    let bytes = [&delta(PARTIAL), "data: {nonsense\n\n"].concat();
    stream_as(
        bytes.as_bytes(),
        |it| it,
        |outcome| {
            assert_eq!(outcome.message(), "malformed provider stream event: {nonsense");
            assert_eq!((outcome.code(), outcome.n_requests), (Some("MALFORMED_RESPONSE"), 1));
            assert_eq!(outcome.text(), "Hel");
        },
    );
    let keyed = [&delta(PARTIAL), "data: {\"api_key\": sk-1\n\n"].concat();
    let outcome = ask(vec![HttpAnswer::stream([keyed])]);
    assert!(!outcome.message().contains("sk-1"), "{}", outcome.message());
}

#[test]
fn r025_a_stream_that_stalls_fails_within_its_limit() {
    let bytes = delta(r#"{"content":"a"}"#);
    let outcome = ask(vec![HttpAnswer::stream([bytes]).open(), good()]);
    assert_eq!((outcome.code(), outcome.n_requests), (Some("STALLED"), 1));
    assert_eq!(outcome.message(), "stream idle timeout (2s with no data)");
    assert_eq!((outcome.took_ms, outcome.text().as_str()), (2000, "a"));
}

#[test]
fn r025_a_stream_that_stalls_can_be_aborted() {
    run(async |root| {
        let transport = ScriptedTransport::new([HttpAnswer::stream([delta(PARTIAL)]).open()]);
        let (llm, _plugin) = mount(&root, endpoint(), &transport).await;
        let request = Arc::new(request("m"));
        let mut stream = llm.stream(request.clone(), None).await.unwrap();
        for _ in 0..2 {
            stream.next().await.unwrap().unwrap();
        }
        root.spawn(async move { request.signal.cancel() }).unwrap();
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.code.as_deref(), Some("ABORTED"));
        assert_eq!(root.clock().monotonic(), Duration::ZERO);
    });
}

#[test]
fn a_wait_for_the_next_attempt_can_be_aborted() {
    run(async |root| {
        let transport = ScriptedTransport::new([HttpAnswer::status(503, "Service Unavailable", ""), good()]);
        let (llm, _plugin) = mount(&root, endpoint(), &transport).await;
        let request = Arc::new(request("m"));
        let (signal, clock) = (request.signal.clone(), root.clock().clone());
        root.spawn(async move {
            clock.sleep(Duration::from_millis(100)).await;
            signal.cancel();
        })
        .unwrap();
        let error = llm.stream(request, None).await.err().unwrap();
        assert_eq!(error.code.as_deref(), Some("ABORTED"));
        assert_eq!((transport.requests().len(), root.clock().monotonic()), (1, Duration::from_millis(100)));
    });
}

#[test]
fn r026_the_endpoint_says_when_to_come_back() {
    let busy = |value| HttpAnswer::status(429, "Too Many Requests", "slow down").header("retry-after", value);
    let outcome = ask(vec![busy("1"), good()]);
    assert_eq!((outcome.error.as_ref(), outcome.text().as_str(), outcome.took_ms), (None, "full", 1000));
    assert_eq!(outcome.retries, [(1, Some(429), None, 1000, false)]);
    let outcome = ask(vec![busy("18000"), good()]);
    assert_eq!((outcome.n_requests, outcome.took_ms, outcome.retries.len()), (1, 0, 0));
    let message = "HTTP 429 Too Many Requests: slow down; the provider asks to wait 18000 s";
    assert_eq!((outcome.message(), outcome.code()), (message, Some("RATE_LIMIT")));
}

#[test]
fn r026_an_error_answer_without_an_end_is_read_for_a_while() {
    let endless = || HttpAnswer::status(429, "Too Many Requests", "slow").header("retry-after", "9999").open();
    let outcome = ask(vec![endless()]);
    assert!(outcome.message().starts_with("HTTP 429 Too Many Requests: slow"), "{}", outcome.message());
    assert!(outcome.took_ms <= 5000);
}

#[test]
fn a_request_that_is_not_taken_is_sent_up_to_four_times() {
    for (status, reason) in
        [(429, "Too Many Requests"), (408, "Request Timeout"), (500, "Internal Server Error"), (504, "Gateway Timeout")]
    {
        let answer = || HttpAnswer::status(status, reason, r#"{"error":{"message":"no"}}"#);
        let outcome = ask(vec![answer(), answer(), answer(), answer(), good()]);
        assert_eq!(outcome.message(), format!("HTTP {status} {reason}: no"));
        assert_eq!(
            outcome.retries,
            [500, 1000, 2000].map(|ms| {
                let attempt = match ms {
                    500 => 1,
                    1000 => 2,
                    _ => 3,
                };
                (attempt, Some(status), None, ms, false)
            })
        );
        assert_eq!((outcome.n_requests, outcome.took_ms), (4, 3500));
    }
}

#[test]
fn a_connection_that_cannot_be_made_is_tried_up_to_four_times() {
    let outcome = ask(vec![HttpAnswer::refused(), HttpAnswer::refused(), HttpAnswer::refused(), HttpAnswer::refused()]);
    assert_eq!(outcome.message(), "request failed after 4 attempts: connection refused");
    assert_eq!((outcome.code(), outcome.n_requests), (Some("TRANSPORT"), 4));
    assert_eq!(outcome.retries[0], (1, None, Some("transport error".to_owned()), 500, false));
    let outcome = ask(vec![HttpAnswer::refused(), good()]);
    assert_eq!((outcome.error.as_ref(), outcome.text().as_str()), (None, "full"));
}

#[test]
fn other_statuses_are_fatal_at_once() {
    for (status, reason, code) in [
        (400, "Bad Request", "INVALID_REQUEST"),
        (401, "Unauthorized", "AUTH"),
        (403, "Forbidden", "AUTH"),
        (404, "Not Found", "INVALID_REQUEST"),
        (307, "Temporary Redirect", "HTTP_307"),
    ] {
        let outcome = ask(vec![HttpAnswer::status(status, reason, "no"), good()]);
        assert_eq!((outcome.n_requests, outcome.retries.len(), outcome.code()), (1, 0, Some(code)));
        assert_eq!(outcome.message(), format!("HTTP {status} {reason}: no"));
    }
}

#[test]
fn r138_the_key_is_in_no_error() {
    for body in [
        r#"{"error":{"message":"Incorrect API key provided: hunter-2"}}"#,
        "no access for hunter-2",
        "Authorization: Bearer x",
    ] {
        let outcome = ask(vec![HttpAnswer::status(401, "Unauthorized", body)]);
        let expected = "HTTP 401 Unauthorized: provider returned a redacted authentication/error response";
        assert_eq!(outcome.message(), expected);
        assert!(!format!("{outcome:?}").contains("hunter-2"));
    }
    let told = "data: {\"error\":{\"message\":\"hunter-2 is used up\",\"code\":\"quota\"}}\n\n";
    let outcome = ask(vec![HttpAnswer::stream([told])]);
    assert!(!format!("{outcome:?}").contains("hunter-2"), "{outcome:?}");
}
