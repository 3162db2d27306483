//! What becomes of the chunks of a stream.

use std::sync::Arc;

use linn_services::llm::{Answer, Assembler, LlmError, MAX_ARGUMENTS_BYTES};
use linn_services::model::{BlockType, ContentBlock, FinishReason, Message, StreamChunk, TokenUsage};

fn start(index: u32, block_type: BlockType) -> StreamChunk {
    StreamChunk::BlockStart { index, block_type }
}
fn text(index: u32, text: &str) -> StreamChunk {
    StreamChunk::TextDelta { index, text: text.into() }
}
fn reasoning(index: u32, text: &str) -> StreamChunk {
    StreamChunk::ReasoningDelta { index, text: text.into() }
}
fn call(index: u32, id: &str, name: Option<&str>, arguments: &str) -> StreamChunk {
    let name = name.map(str::to_owned);
    StreamChunk::ToolCallDelta { index, id: id.into(), name, arguments_delta: arguments.into() }
}
fn end(index: u32, block: ContentBlock) -> StreamChunk {
    StreamChunk::BlockEnd { index, block }
}
fn finish(reason: FinishReason) -> StreamChunk {
    StreamChunk::Finish { reason }
}
fn called(id: &str, name: &str, arguments: &str) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

fn try_assemble(history: &[Arc<Message>], chunks: &[StreamChunk]) -> Result<Answer, LlmError> {
    let mut assembler = Assembler::new();
    for chunk in chunks {
        assembler.push(chunk)?;
    }
    Ok(assembler.finish(history))
}

fn assemble(chunks: &[StreamChunk]) -> Answer {
    try_assemble(&[], chunks).unwrap()
}

fn content(chunks: &[StreamChunk]) -> Vec<ContentBlock> {
    assemble(chunks).message.content
}

#[test]
fn lm_02_blocks_that_alternate_stand_in_the_order_of_first_sight() {
    let chunks = [
        start(7, BlockType::Text),
        call(2, "a", Some("read"), "{\"p\":"),
        text(7, "one "),
        call(5, "b", Some("list"), "{"),
        call(2, "a", None, "1}"),
        text(7, "two"),
        call(5, "b", None, "}"),
    ];
    let expected = [ContentBlock::text("one two"), called("a", "read", "{\"p\":1}"), called("b", "list", "{}")];
    assert_eq!(content(&chunks), expected);
}

#[test]
fn lm_02_a_delta_opens_its_block() {
    let thought = ContentBlock::Reasoning { text: "hm".into(), signature: None };
    assert_eq!(content(&[reasoning(0, "hm"), text(1, "yes")]), [thought, ContentBlock::text("yes")]);
}

#[test]
fn lm_02_a_second_start_of_a_block_is_ignored() {
    let chunks = [start(0, BlockType::Text), text(0, "a"), start(0, BlockType::ToolCall), text(0, "b")];
    assert_eq!(content(&chunks), [ContentBlock::text("ab")]);
}

#[test]
fn lm_02_the_first_end_of_a_block_is_authoritative() {
    let chunks = [
        text(0, "what was streamed"),
        end(0, ContentBlock::text("what it is")),
        end(0, ContentBlock::text("what it is not")),
    ];
    assert_eq!(content(&chunks), [ContentBlock::text("what it is")]);
}

#[test]
fn lm_02_a_block_may_consist_of_its_end() {
    let signed = ContentBlock::Reasoning { text: String::new(), signature: Some("sealed".into()) };
    assert_eq!(content(&[end(3, signed.clone())]), [signed]);
}

#[test]
fn lm_02_deltas_behind_the_end_of_their_block_are_ignored() {
    let chunks =
        [end(0, ContentBlock::text("done")), text(0, " late"), reasoning(0, "late"), call(0, "x", None, "late")];
    assert_eq!(content(&chunks), [ContentBlock::text("done")]);
}

#[test]
fn lm_02_nothing_counts_behind_the_finish() {
    let usage = TokenUsage { input_tokens: 1, ..TokenUsage::default() };
    let late = TokenUsage { input_tokens: 9, ..TokenUsage::default() };
    let answer = assemble(&[
        text(0, "a"),
        StreamChunk::Usage { usage },
        finish(FinishReason::MaxTokens),
        text(0, "b"),
        StreamChunk::Usage { usage: late },
        finish(FinishReason::Stop),
    ]);
    assert_eq!(answer.message.content, [ContentBlock::text("a")]);
    assert_eq!((answer.usage, answer.finish), (Some(usage), FinishReason::MaxTokens));
}

#[test]
fn lm_02_a_delta_of_another_kind_is_an_error_that_names_both() {
    let error = try_assemble(&[], &[text(4, "a"), call(4, "x", Some("read"), "{}")]).unwrap_err();
    assert_eq!(error.code.as_deref(), Some("MALFORMED_RESPONSE"));
    assert_eq!(error.message, "the model streamed a tool-call delta for block 4, which is a text block");
    assert!(!error.is_retryable);
}

#[test]
fn lm_03_a_stream_without_a_finish_has_stopped() {
    assert_eq!(assemble(&[text(0, "a")]).finish, FinishReason::Stop);
    assert_eq!(assemble(&[]).finish, FinishReason::Stop);
}

#[test]
fn usage_told_last_counts() {
    let told = |n| StreamChunk::Usage { usage: TokenUsage { output_tokens: n, ..TokenUsage::default() } };
    assert_eq!(assemble(&[told(1), told(5)]).usage.unwrap().output_tokens, 5);
}

#[test]
fn empty_blocks_are_left_out() {
    let chunks =
        [start(0, BlockType::Text), text(1, ""), start(2, BlockType::Reasoning), end(3, ContentBlock::text(""))];
    assert_eq!(content(&chunks), []);
}

#[test]
fn arguments_stay_as_the_model_wrote_them() {
    let torn = "{\"content\": \"partial te";
    assert_eq!(content(&[call(0, "a", Some("write"), torn)]), [called("a", "write", torn)]);
}

#[test]
fn r018_a_call_counts_whatever_the_finish_is_called() {
    let chunks = [text(0, "Let me look. "), call(1, "a", Some("read"), "{}"), finish(FinishReason::Stop)];
    assert_eq!(assemble(&chunks).finish, FinishReason::ToolCalls);
    let cut = [call(1, "a", Some("read"), "{}"), finish(FinishReason::MaxTokens)];
    assert_eq!(assemble(&cut).finish, FinishReason::MaxTokens);
}

#[test]
fn r019_a_finish_for_tools_without_a_call_is_an_empty_answer_that_stopped() {
    let answer = assemble(&[finish(FinishReason::ToolCalls)]);
    assert_eq!((answer.message.content, answer.finish), (vec![], FinishReason::Stop));
}

#[test]
fn r020_two_calls_of_one_id_get_different_ones_in_order() {
    let chunks =
        [call(0, "call_0", Some("read"), "{\"path\":\"a\"}"), call(1, "call_0", Some("read"), "{\"path\":\"b\"}")];
    let expected = [called("call_0", "read", "{\"path\":\"a\"}"), called("call_0-2", "read", "{\"path\":\"b\"}")];
    assert_eq!(content(&chunks), expected);
}

#[test]
fn r020_an_id_that_the_history_knows_is_not_given_again() {
    let history = [Arc::new(Message::assistant([called("call_0", "read", "{}"), called("call_0-2", "read", "{}")]))];
    let answer = try_assemble(&history, &[call(0, "call_0", Some("read"), "{}")]).unwrap();
    assert_eq!(answer.message.content, [called("call_0-3", "read", "{}")]);
}

#[test]
fn r021_calls_without_an_id_get_fresh_ones() {
    let chunks = [
        call(0, "", Some("read"), "{\"path\":\"a\"}"),
        call(1, "", Some("read"), "{\"path\":\"b\"}"),
        end(2, called("", "read", "{}")),
        call(3, "call-0", Some("read"), "{}"),
    ];
    let ids: Vec<_> = content(&chunks)
        .into_iter()
        .map(|it| match it {
            ContentBlock::ToolCall { id, .. } => id.as_str().to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["call-0", "call-1", "call-2", "call-0-2"]);
}

#[test]
fn r021_an_id_that_comes_late_counts_also_where_the_end_has_none() {
    let chunks = [call(0, "", Some("read"), "{"), call(0, "late", None, "}"), end(0, called("", "read", "{}"))];
    assert_eq!(content(&chunks), [called("late", "read", "{}")]);
}

#[test]
fn r024_an_absurd_index_costs_nothing() {
    assert_eq!(content(&[call(u32::MAX, "a", Some("read"), "{}")]), [called("a", "read", "{}")]);
}

#[test]
fn r024_endless_arguments_end_at_the_limit() {
    let piece = "x".repeat(1024);
    let mut assembler = Assembler::new();
    let n_taken = (0..10_000).take_while(|_| assembler.push(&call(0, "a", Some("read"), &piece)).is_ok()).count();
    assert_eq!(n_taken * 1024, MAX_ARGUMENTS_BYTES);
    let error = assembler.push(&call(0, "a", None, &piece)).unwrap_err();
    assert_eq!(error.code.as_deref(), Some("ANSWER_TOO_LARGE"));
    assert!(!error.is_retryable);
}

#[test]
fn r024_an_endless_answer_ends_at_the_limit() {
    let piece = "x".repeat(1 << 20);
    let mut assembler = Assembler::new();
    for index in 0..16 {
        assembler.push(&text(index, &piece)).unwrap();
    }
    assert_eq!(assembler.push(&text(0, "x")).unwrap_err().code.as_deref(), Some("ANSWER_TOO_LARGE"));
}

#[test]
fn what_stands_before_a_discard_is_no_part_of_the_answer() {
    let mut assembler = Assembler::new();
    let usage = TokenUsage { input_tokens: 9, ..TokenUsage::default() };
    for chunk in [
        StreamChunk::ReasoningDelta { index: 0, text: "hm".into() },
        StreamChunk::Usage { usage },
        StreamChunk::Discard,
        // Indices begin anew, for blocks of any kind.
        StreamChunk::TextDelta { index: 0, text: "so".into() },
        StreamChunk::Finish { reason: FinishReason::Stop },
    ] {
        let json = serde_json::to_string(&chunk).unwrap();
        assert_eq!(serde_json::from_str::<StreamChunk>(&json).unwrap(), chunk);
        assembler.push(&chunk).unwrap();
    }
    let answer = assembler.finish(&[]);
    assert_eq!((answer.message.content, answer.usage), (vec![ContentBlock::text("so")], None));
}
