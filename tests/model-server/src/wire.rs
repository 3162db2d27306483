//! The two wire formats, as far as usual answers go.

use serde_json::{Value, json};

use crate::answer::Answer;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Chunks of `/chat/completions`.
    OpenAi,
    /// Events of `/messages`.
    Anthropic,
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn event(value: &Value) -> String {
    format!("event: {}\n{}", value["type"].as_str().unwrap_or_default(), data(value))
}

fn choice(delta: &Value, reason: Option<&str>) -> String {
    data(
        &json!({ "id": "c1", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] }),
    )
}

impl Wire {
    /// The frames of an answer that says `text`, a frame a piece, and costs 10 tokens in and 5 out.
    pub fn text_frames(self, text: &[&str]) -> Vec<String> {
        match self {
            Self::OpenAi => {
                let mut frames: Vec<_> = text.iter().map(|it| choice(&json!({ "content": it }), None)).collect();
                frames.extend(openai_end("stop"));
                frames
            }
            Self::Anthropic => {
                let deltas = text.iter().map(|it| json!({ "type": "text_delta", "text": it }));
                anthropic(&[(json!({ "type": "text", "text": "" }), deltas.collect())], "end_turn")
            }
        }
    }

    /// The frames of an answer that makes these calls: id, name and arguments.
    pub fn call_frames(self, calls: &[(&str, &str, Value)]) -> Vec<String> {
        match self {
            Self::OpenAi => {
                let call = |(at, (id, name, arguments)): (usize, &(&str, &str, Value))| {
                    let function = json!({ "name": name, "arguments": arguments.to_string() });
                    let call = json!({ "index": at, "id": id, "type": "function", "function": function });
                    choice(&json!({ "tool_calls": [call] }), None)
                };
                let mut frames: Vec<_> = calls.iter().enumerate().map(call).collect();
                frames.extend(openai_end("tool_calls"));
                frames
            }
            Self::Anthropic => {
                let blocks: Vec<_> = calls
                    .iter()
                    .map(|(id, name, arguments)| {
                        let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                        let delta = json!({ "type": "input_json_delta", "partial_json": arguments.to_string() });
                        (block, vec![delta])
                    })
                    .collect();
                anthropic(&blocks, "tool_use")
            }
        }
    }

    /// The answer that says `text`, a frame a piece.
    pub fn text(self, text: &[&str]) -> Answer {
        Answer::stream(self.text_frames(text))
    }

    /// The answer that makes these calls: id, name and arguments.
    pub fn calls(self, calls: &[(&str, &str, Value)]) -> Answer {
        Answer::stream(self.call_frames(calls))
    }
}

fn openai_end(reason: &str) -> [String; 3] {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    [
        choice(&json!({}), Some(reason)),
        data(&json!({ "id": "c1", "choices": [], "usage": usage })),
        "data: [DONE]\n\n".to_owned(),
    ]
}

fn anthropic(blocks: &[(Value, Vec<Value>)], reason: &str) -> Vec<String> {
    let message =
        json!({ "id": "m1", "role": "assistant", "content": [], "usage": { "input_tokens": 10, "output_tokens": 0 } });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": block }));
        events.extend(deltas.iter().map(|it| json!({ "type": "content_block_delta", "index": index, "delta": it })));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events
        .push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(event).collect()
}
