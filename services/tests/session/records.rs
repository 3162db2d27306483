//! Records as JSON.

use linn_services::model::{BlockType, ContentBlock, FinishReason, MessageSource, StreamChunk, TokenUsage};
use linn_services::session::{
    AssistantChunk, Fact, Record, RecordSurface, RewindCause, SessionRewind, SurfaceOp, TurnEnd, TurnEndReason,
};
use serde_json::{Value, json};

use crate::{assistant, call, call_block, result, turn_start, user};

fn there_and_back(fact: impl Into<Fact>, surface: Option<RecordSurface>) -> Value {
    let record = Record { seq: 3, time_ms: 1_700_000_000_000, fact: fact.into(), surface };
    let line = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record, "{line}");
    // In whatever order the fields come.
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(serde_json::from_value::<Record>(value.clone()).unwrap(), record, "{line}");
    value
}

fn chunk(chunk: StreamChunk) -> AssistantChunk {
    AssistantChunk { turn: 1, step: 2, chunk }
}

#[test]
fn records_have_the_documented_shape() {
    let append = |source_seqs| Some(RecordSurface { op: SurfaceOp::Append, source_seqs });
    assert_eq!(
        there_and_back(user("hi"), append(Some(vec![1, 2]))),
        json!({"type": "user/message", "seq": 3, "time": 1_700_000_000_000_u64, "surfaceOp": "append",
            "sourceEventSeqs": [1, 2], "data": {"content": [{"type": "text", "text": "hi"}], "source": {"kind": "user"}}})
    );
    let replace = RecordSurface { op: SurfaceOp::Replace { start: 0, end: 2 }, source_seqs: None };
    let value = there_and_back(user("hi"), Some(replace));
    assert_eq!(value["surfaceOp"], json!({"op": "replace", "start": 0, "end": 2}));
    let value = there_and_back(SessionRewind { to: 0, cause: RewindCause::Reset }, None);
    assert_eq!(value["data"], json!({"to": 0, "cause": "reset"}));
    let reason = TurnEndReason::Error { step: 1, message: "no".into(), code: Some("X".into()) };
    let value = there_and_back(TurnEnd { turn: 1, reason }, None);
    assert_eq!(value["data"]["reason"], json!({"kind": "error", "step": 1, "message": "no", "code": "X"}));
    there_and_back(turn_start(1), None);
    there_and_back(call(1, 1, "c"), None);
    there_and_back(result(1, 1, "c"), append(None));
    there_and_back(Fact::Other { kind: "plugin/x".into(), data: json!({"b": [1.5, null], "a": "ü"}) }, None);
}

#[test]
fn every_chunk_and_block_comes_back() {
    let block = ContentBlock::ToolResult { tool_call_id: "c".into(), content: vec!["a".into()], is_error: true };
    let chunks = [
        StreamChunk::BlockStart { index: 0, block_type: BlockType::ToolCall },
        StreamChunk::TextDelta { index: 0, text: "a\n\"ü\u{1F600}".into() },
        StreamChunk::ReasoningDelta { index: 1, text: String::new() },
        StreamChunk::ToolCallDelta { index: 1, id: "c".into(), name: Some("n".into()), arguments_delta: "{".into() },
        StreamChunk::ToolCallDelta { index: 1, id: "".into(), name: None, arguments_delta: "}".into() },
        StreamChunk::BlockEnd { index: 2, block: call_block("c") },
        StreamChunk::BlockEnd { index: 2, block: block.clone() },
        StreamChunk::Usage { usage: TokenUsage { input_tokens: 1, cache_read_tokens: Some(2), ..Default::default() } },
        StreamChunk::Finish { reason: FinishReason::Error { message: "m".into(), code: None } },
        StreamChunk::Finish { reason: FinishReason::Other(json!({"kind": "new"})) },
    ];
    for it in chunks {
        there_and_back(chunk(it), None);
    }
    let unknown = ContentBlock::Other(json!({"type": "video", "url": "u", "n": 1}));
    let reasoning = ContentBlock::Reasoning { text: "r".into(), signature: Some("s".into()) };
    let image = ContentBlock::Image { url: "data:".into() };
    let content = vec![block, unknown, reasoning, image, call_block("c2"), "t".into()];
    let append = Some(RecordSurface { op: SurfaceOp::Append, source_seqs: None });
    there_and_back(assistant(1, 2, content), append);
}

#[test]
fn what_is_no_block_and_no_chunk_is_refused_with_a_reason() {
    let block = |value: Value| serde_json::from_value::<ContentBlock>(value).unwrap_err().to_string();
    assert!(block(json!({"type": "text"})).contains("missing field `text`"));
    assert!(block(json!({"text": "a"})).contains("missing field `type`"));
    assert!(block(json!({})).contains("missing field `type`"));
    assert!(block(json!({"type": 1})).contains("expected a text"));
    assert!(block(json!("text")).contains("a content block: an object with a `type`"));
    let chunk = serde_json::from_value::<StreamChunk>(json!({"type": "new"})).unwrap_err().to_string();
    assert!(chunk.contains("unknown variant `new`"), "{chunk}");
    // Fields that are not known are left out.
    let text: ContentBlock =
        serde_json::from_str(r#"{"extra": [1], "type": "text", "text": "a", "more": {}}"#).unwrap();
    assert_eq!(text, "a".into());
    let first: ContentBlock = serde_json::from_str(r#"{"type": "text", "extra": [1], "text": "a"}"#).unwrap();
    assert_eq!(first, "a".into());
    let source: MessageSource = serde_json::from_value(json!({"kind": "robot", "n": 1})).unwrap();
    assert_eq!(source.kind(), "robot");
}

#[test]
fn a_record_that_lacks_something_is_refused_with_its_name() {
    let read = |text: &str| serde_json::from_str::<Record>(text).unwrap_err().to_string();
    assert!(read("[]").contains("a record of a session log"));
    assert!(read(r#"{"seq":0,"time":0,"data":{}}"#).contains("missing field `type`"));
    assert!(read(r#"{"type":"turn/end","seq":0,"time":0}"#).contains("missing field `data`"));
    assert!(read(r#"{"type":"step/end","seq":0,"time":0,"data":{"turn":1}}"#).contains("missing field `step`"));
    assert!(read(r#"{"type":"x","data":1,"time":0}"#).contains("missing field `seq`"));
    assert!(read(r#"{"type":"x","seq":0,"time":0,"data":1,"surfaceOp":"prepend"}"#).contains("`append` is"));
}
