//! Streams as they were seen in the wild, in any pieces.

use linn_services::model::{ContentBlock, FinishReason, StreamChunk, TokenUsage};
use linn_services_test::HttpAnswer;

use crate::support::{DONE, Outcome, ask, calls, delta, finish, stream};

fn is_well(outcome: &Outcome) {
    assert_eq!(outcome.error, None, "{outcome:?}");
    assert_eq!((outcome.n_requests, outcome.retries.len()), (1, 0));
    let n_ends = outcome.chunks.iter().filter(|it| matches!(it, StreamChunk::Finish { .. })).count();
    assert_eq!(n_ends, 1);
}

fn makes_calls(frames: &[String], expected: &[(&str, &str, &str)]) {
    let bytes = [frames.concat(), finish("tool_calls"), DONE.to_owned()].concat();
    stream(bytes.as_bytes(), |outcome| {
        is_well(outcome);
        assert_eq!(outcome.calls(), expected);
        assert_eq!(outcome.finish, FinishReason::ToolCalls);
        assert_eq!(outcome.text(), "");
    });
}

#[test]
fn r001_deltas_without_an_index_are_told_apart_by_id() {
    makes_calls(
        &[
            calls(r#"{"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}}"#),
            calls(r#"{"id":"call_b","type":"function","function":{"name":"read","arguments":"{\"path\":\"b.txt\"}"}}"#),
        ],
        &[("call_a", "read", r#"{"path":"a.txt"}"#), ("call_b", "read", r#"{"path":"b.txt"}"#)],
    );
}

#[test]
fn r001_deltas_without_index_and_id_go_to_the_last_call() {
    makes_calls(
        &[
            calls(r#"{"id":"call_a","function":{"name":"read","arguments":"{\"path\":"}}"#),
            calls(r#"{"function":{"arguments":"1}"}}"#),
            calls(r#"{"function":{"name":"list","arguments":"{\"x\":"}}"#),
            calls(r#"{"function":{"arguments":"2}"}}"#),
        ],
        &[("call_a", "read", r#"{"path":1}"#), ("call-1", "list", r#"{"x":2}"#)],
    );
}

#[test]
fn r002_later_deltas_carry_the_index_alone() {
    makes_calls(
        &[
            calls(r#"{"index":0,"id":"call_a","type":"function","function":{"name":"bash","arguments":""}}"#),
            calls(r#"{"index":0,"function":{"arguments":"{\"command\":"}}"#),
            calls(r#"{"index":"0","function":{"arguments":"\"ls\"}"}}"#),
        ],
        &[("call_a", "bash", r#"{"command":"ls"}"#)],
    );
}

#[test]
fn r003_pieces_of_two_calls_alternate() {
    makes_calls(
        &[
            calls(concat!(
                r#"{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":""}},"#,
                r#"{"index":1,"id":"call_b","type":"function","function":{"name":"read","arguments":""}}"#
            )),
            calls(r#"{"index":1,"function":{"arguments":"{\"path\":"}}"#),
            calls(r#"{"index":0,"function":{"arguments":"{\"path\":"}}"#),
            calls(r#"{"index":0,"function":{"arguments":"\"a\"}"}}"#),
            calls(r#"{"index":1,"function":{"arguments":"\"b\"}"}}"#),
        ],
        &[("call_a", "read", r#"{"path":"a"}"#), ("call_b", "read", r#"{"path":"b"}"#)],
    );
}

#[test]
fn r003_calls_that_share_an_index_are_told_apart_by_id() {
    makes_calls(
        &[
            calls(r#"{"index":0,"id":"call_a","function":{"name":"read","arguments":"{\"path\":1}"}}"#),
            calls(r#"{"index":0,"id":"call_b","function":{"name":"read","arguments":"{\"path\":"}}"#),
            calls(r#"{"index":0,"id":"call_b","function":{"name":"read","arguments":"2}"}}"#),
        ],
        &[("call_a", "read", r#"{"path":1}"#), ("call_b", "read", r#"{"path":2}"#)],
    );
}

#[test]
fn r004_arguments_as_an_object_become_their_text() {
    makes_calls(
        &[calls(
            r#"{"index":0,"id":"call_a","type":"function","function":{"name":"bash","arguments":{"command":"echo ok"}}}"#,
        )],
        &[("call_a", "bash", r#"{"command":"echo ok"}"#)],
    );
}

#[test]
fn r005_no_arguments_are_the_empty_object() {
    for arguments in [r#","arguments":null"#, r#","arguments":"""#, "", r#","arguments":{}"#, r#","arguments":" ""#] {
        let call = format!(r#"{{"index":0,"id":"call_a","type":"function","function":{{"name":"list"{arguments}}}}}"#);
        let bytes = [calls(&call), finish("tool_calls"), DONE.to_owned()].concat();
        stream(bytes.as_bytes(), |outcome| {
            is_well(outcome);
            let [("call_a", "list", made)] = outcome.calls()[..] else { panic!("{outcome:?}") };
            assert_eq!(made.trim(), "{}");
        });
    }
}

#[test]
fn r006_arguments_that_are_no_object_are_left_to_whoever_runs_the_tool() {
    for arguments in [r#"[\"ls\"]"#, r#"\"ls\""#, "7"] {
        let call = format!(r#"{{"index":0,"id":"call_a","function":{{"name":"bash","arguments":"{arguments}"}}}}"#);
        makes_calls(&[calls(&call)], &[("call_a", "bash", &arguments.replace('\\', ""))]);
    }
}

#[test]
fn r007_a_name_that_no_tool_can_have_is_left_to_whoever_knows_the_tools() {
    makes_calls(
        &[calls(concat!(
            r#"{"index":0,"id":"call_a","function":{"name":"todo/write","arguments":"{}"}},"#,
            r#"{"index":1,"id":"call_b","function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}}"#
        ))],
        &[("call_a", "todo/write", "{}"), ("call_b", "read", r#"{"path":"a.txt"}"#)],
    );
}

fn says(bytes: &[u8], text: &str) {
    stream(bytes, |outcome| {
        is_well(outcome);
        assert_eq!((outcome.text().as_str(), &outcome.finish), (text, &FinishReason::Stop));
        assert!(outcome.calls().is_empty());
    });
}

#[test]
fn r008_usage_comes_in_a_chunk_without_choices() {
    let usage =
        r#"data: {"id":"c1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}"#;
    let bytes = [&delta(r#"{"content":"hi"}"#), &finish("stop"), usage, "\n\n", DONE].concat();
    stream(bytes.as_bytes(), |outcome| {
        is_well(outcome);
        let expected = TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() };
        assert_eq!((outcome.text().as_str(), outcome.usage), ("hi", Some(expected)));
    });
}

#[test]
fn r009_null_is_nothing() {
    makes_calls(
        &[
            delta(r#"{"role":"assistant","content":null,"refusal":null,"tool_calls":null}"#),
            delta(r#"{"content":null,"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}"#),
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"error\":null}\n\n".to_owned(),
            "data: {\"choices\":null}\n\ndata: {\"choices\":[{\"delta\":null}]}\n\n".to_owned(),
        ],
        &[("call_a", "bash", r#"{"command":"ls"}"#)],
    );
}

#[test]
fn r010_no_blank_is_needed_behind_data() {
    says(
        b"data:{\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\ndata:{\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata:[DONE]\n\n",
        "hi",
    );
}

#[test]
fn r011_lines_end_in_any_way() {
    says(
        b"data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\r\n\r\ndata: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\r\rdata: [DONE]\r\r",
        "ab",
    );
}

#[test]
fn r012_comments_say_nothing() {
    let comments = ": PROCESSING\n\n:\n\n: ping - 1\n";
    let bytes = [comments, &delta(r#"{"content":"a"}"#), ":\n", &delta(r#"{"content":"b"}"#), &finish("stop"), DONE];
    says(bytes.concat().as_bytes(), "ab");
}

#[test]
fn r015_the_finish_is_enough() {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1,\"total_tokens\":6}}\n\n";
    let bytes = [&delta(r#"{"content":"ok"}"#), &finish("stop"), usage].concat();
    stream(bytes.as_bytes(), |outcome| {
        is_well(outcome);
        let usage = outcome.usage.unwrap();
        assert_eq!((outcome.text().as_str(), usage.input_tokens, usage.output_tokens), ("ok", 5, 1));
    });
    let no_usage = [delta(r#"{"content":"ok"}"#), finish("stop")].concat();
    says(no_usage.as_bytes(), "ok");
    // Neither a connection that breaks behind the finish nor one that stays open changes the answer.
    for answer in [HttpAnswer::stream([&no_usage]).dropped(), HttpAnswer::stream([&no_usage]).open()] {
        let outcome = ask(vec![answer]);
        is_well(&outcome);
        assert_eq!(outcome.text(), "ok");
        assert!(outcome.took_ms <= 2000, "{}", outcome.took_ms);
    }
}

#[test]
fn r016_an_empty_finish_reason_is_none() {
    let empty =
        "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"\"}]}\n\n";
    says([empty, &delta(r#"{"content":"b"}"#), &finish("stop"), DONE].concat().as_bytes(), "ab");
}

#[test]
fn r017_arguments_that_were_cut_are_not_mended() {
    makes_calls(
        &[calls(
            r#"{"index":0,"id":"call_a","type":"function","function":{"name":"write","arguments":"{\"content\":\"partial te"}}"#,
        )],
        &[("call_a", "write", r#"{"content":"partial te"#)],
    );
}

#[test]
fn r018_a_call_counts_whatever_the_finish_says() {
    let call = calls(
        r#"{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}}"#,
    );
    let bytes = [delta(r#"{"content":"Let me look. "}"#), call, finish("stop"), DONE.to_owned()].concat();
    stream(bytes.as_bytes(), |outcome| {
        is_well(outcome);
        assert_eq!(outcome.text(), "Let me look. ");
        assert_eq!(outcome.calls(), [("call_a", "read", r#"{"path":"a.txt"}"#)]);
        assert_eq!(outcome.finish, FinishReason::ToolCalls);
    });
}

#[test]
fn r019_an_answer_without_anything_is_asked_for_once_more() {
    let nothing = [finish("tool_calls"), DONE.to_owned()].concat();
    let answer = || HttpAnswer::stream([&nothing]);
    let outcome = ask(vec![answer(), answer(), answer()]);
    assert_eq!((outcome.n_requests, outcome.code()), (2, Some("EMPTY_ANSWER")));
    let thought = [delta(r#"{"reasoning_content":"hm"}"#), finish("stop"), DONE.to_owned()].concat();
    let good = [delta(r#"{"content":"ok"}"#), finish("stop"), DONE.to_owned()].concat();
    let outcome = ask(vec![HttpAnswer::stream([&thought]), HttpAnswer::stream([&good])]);
    assert_eq!((outcome.n_requests, outcome.error.as_ref(), outcome.text().as_str()), (2, None, "ok"));
    assert_eq!(outcome.content, [ContentBlock::text("ok")]);
    assert!(outcome.retries[0].4 && outcome.chunks.contains(&StreamChunk::Discard));
}

#[test]
fn r020_calls_with_one_id_are_two() {
    makes_calls(
        &[calls(concat!(
            r#"{"index":0,"id":"call_0","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},"#,
            r#"{"index":1,"id":"call_0","type":"function","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#
        ))],
        &[("call_0", "read", r#"{"path":"a"}"#), ("call_0-2", "read", r#"{"path":"b"}"#)],
    );
}

#[test]
fn r021_calls_without_an_id_get_one() {
    makes_calls(
        &[calls(concat!(
            r#"{"index":0,"id":"","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},"#,
            r#"{"index":1,"id":null,"type":"function","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#
        ))],
        &[("call-0", "read", r#"{"path":"a"}"#), ("call-1", "read", r#"{"path":"b"}"#)],
    );
}

#[test]
fn r022_a_character_may_be_cut_anywhere() {
    says(
        "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\u{597d} \u{1f642}\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".as_bytes(),
        "\u{597d} \u{1f642}",
    );
}

#[test]
fn half_a_surrogate_pair_is_one_character_and_ends_nothing() {
    let halves = [delta(r#"{"content":"a\ud83d"}"#), delta(r#"{"content":"\ude00 b \ud83d\ude00"}"#)];
    says([halves.concat(), finish("stop"), DONE.to_owned()].concat().as_bytes(), "a\u{fffd}\u{fffd} b \u{1f600}");
    let cut = r#"{"index":0,"id":"call_a","function":{"name":"read","arguments":"{\"path\":\"\ud83d\"}"}}"#;
    makes_calls(&[calls(cut)], &[("call_a", "read", "{\"path\":\"\u{fffd}\"}")]);
}

#[test]
fn r023_reasoning_has_several_names_and_is_no_text() {
    for thought in [
        r#"{"reasoning":"think"}"#,
        r#"{"reasoning_content":"think"}"#,
        r#"{"reasoning":"think","reasoning_details":[{"type":"reasoning.text","text":"think"}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"think"}]}"#,
        r#"{"content":"<think>think</think>"}"#,
    ] {
        let bytes = [delta(thought), delta(r#"{"content":"x"}"#), finish("stop"), DONE.to_owned()].concat();
        stream(bytes.as_bytes(), |outcome| {
            is_well(outcome);
            let reasoning = ContentBlock::Reasoning { text: "think".into(), signature: None };
            assert_eq!(outcome.content, [reasoning, ContentBlock::text("x")]);
            let n_thoughts = outcome.chunks.iter().filter(|it| matches!(it, StreamChunk::ReasoningDelta { .. }));
            assert_eq!(n_thoughts.count(), 1);
        });
    }
}

#[test]
fn a_thought_between_tags_may_be_cut_by_deltas() {
    let pieces = ["<th", "ink>a", "b</", "think", ">c <", "d"].map(|it| delta(&format!("{{\"content\":\"{it}\"}}")));
    let outcome = ask(vec![HttpAnswer::stream([[pieces.concat(), finish("stop"), DONE.to_owned()].concat()])]);
    let reasoning = ContentBlock::Reasoning { text: "ab".into(), signature: None };
    assert_eq!(outcome.content, [reasoning, ContentBlock::text("c <d")]);
}

#[test]
fn finish_reasons_are_told_in_our_words() {
    for (reason, told) in [
        ("length", FinishReason::MaxTokens),
        ("function_call", FinishReason::Stop),
        ("content_filter", FinishReason::Other(serde_json::json!({ "kind": "content-filter" }))),
    ] {
        let bytes = [delta(r#"{"content":"a"}"#), finish(reason), DONE.to_owned()].concat();
        assert_eq!(ask(vec![HttpAnswer::stream([bytes])]).finish, told);
    }
}

#[test]
fn r024_limits_end_the_stream_for_good() {
    let call = r#"{"index":4294967295,"id":"call_a","type":"function","function":{"name":"read","arguments":"{}"}}"#;
    stream(calls(call).as_bytes(), |outcome| {
        assert_eq!((outcome.code(), outcome.n_requests), (Some("STREAM_LIMIT"), 1), "{outcome:?}");
    });
    let begin = calls(r#"{"index":0,"id":"call_a","function":{"name":"read","arguments":""}}"#);
    let more = calls(&format!(r#"{{"index":0,"function":{{"arguments":"{}"}}}}"#, "x".repeat(1 << 20 >> 1)));
    let pieces = std::iter::once(begin).chain(std::iter::repeat_n(more, 20));
    let outcome = ask_unassembled(pieces.collect());
    assert_eq!(outcome, (Some("STREAM_LIMIT".to_owned()), 1));
    let many = (0..65).map(|n| calls(&format!(r#"{{"id":"call_{n}","function":{{"name":"read"}}}}"#)));
    assert_eq!(ask_unassembled(many.collect()), (Some("STREAM_LIMIT".to_owned()), 1));
}

/// Code of the error, and how often was asked; what came before is not looked at.
fn ask_unassembled(pieces: Vec<String>) -> (Option<String>, usize) {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let outcome = seen.clone();
    linn_bus_test::run(async move |root| {
        use futures_util::StreamExt as _;
        let transport = linn_services_test::ScriptedTransport::new([HttpAnswer::stream(pieces)]);
        let (llm, _plugin) = crate::support::mount(&root, crate::support::endpoint(), &transport).await;
        let stream = llm.stream(std::sync::Arc::new(crate::support::request("m")), None).await.unwrap();
        let errors: Vec<_> = stream.filter_map(async |it| it.err()).collect().await;
        *outcome.lock().unwrap() = Some((errors[0].code.clone(), transport.requests().len()));
    });
    let outcome = seen.lock().unwrap().take();
    outcome.unwrap()
}
