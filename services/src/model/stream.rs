//! What a model streams.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::CallId;
use crate::model::ContentBlock;
use crate::model::tagged::{self, Tagged};

/// What kind of block a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockType {
    /// Text.
    Text,
    /// Reasoning.
    Reasoning,
    /// A tool call.
    ToolCall,
}

/// One piece of a streamed answer.
///
/// An adapter sends usage before `Finish`, and nothing after it. `BlockEnd` is authoritative for its block, and `Discard`
/// takes back all that came before it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum StreamChunk {
    /// A block begins.
    BlockStart {
        /// Which block.
        index: u32,
        /// Its kind.
        block_type: BlockType,
    },
    /// More text of a block.
    TextDelta {
        /// Which block.
        index: u32,
        /// What to append.
        text: String,
    },
    /// More reasoning of a block.
    ReasoningDelta {
        /// Which block.
        index: u32,
        /// What to append.
        text: String,
    },
    /// More of a tool call.
    ToolCallDelta {
        /// Which block.
        index: u32,
        /// Id of the call; empty if the endpoint has not named it.
        id: CallId,
        /// Name of the tool, once it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What to append to the arguments.
        arguments_delta: String,
    },
    /// A block is complete.
    BlockEnd {
        /// Which block.
        index: u32,
        /// The whole block.
        block: ContentBlock,
    },
    /// What the call cost so far.
    Usage {
        /// The counts.
        usage: TokenUsage,
    },
    /// The answer ends.
    Finish {
        /// Why.
        reason: FinishReason,
    },
    /// The attempt that all chunks so far came from failed, and another one begins: none of them is part of the answer.
    /// Block indices begin anew.
    Discard,
}

/// The same once more, for reading.
#[derive(Deserialize)]
#[serde(remote = "StreamChunk", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum KnownChunk {
    BlockStart {
        index: u32,
        block_type: BlockType,
    },
    TextDelta {
        index: u32,
        text: String,
    },
    ReasoningDelta {
        index: u32,
        text: String,
    },
    ToolCallDelta {
        index: u32,
        id: CallId,
        #[serde(default)]
        name: Option<String>,
        arguments_delta: String,
    },
    BlockEnd {
        index: u32,
        block: ContentBlock,
    },
    Usage {
        usage: TokenUsage,
    },
    Finish {
        reason: FinishReason,
    },
    Discard,
}

impl Tagged for StreamChunk {
    const TAG: &'static str = "type";
    const WHAT: &'static str = "a piece of an answer";
    const KINDS: &'static [&'static str] =
        &["block-start", "text-delta", "reasoning-delta", "tool-call-delta", "block-end", "usage", "finish", "discard"];

    fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        KnownChunk::deserialize(deserializer)
    }
    fn other(_: serde_json::Value) -> Option<Self> {
        None
    }
}

impl<'de> Deserialize<'de> for StreamChunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::deserialize(deserializer)
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model is done.
    Stop,
    /// The model waits for tools.
    ToolCalls,
    /// The limit of the answer was reached.
    MaxTokens,
    /// The call was aborted.
    Aborted,
    /// The call failed.
    Error {
        /// In words.
        message: String,
        /// Stable code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// A reason that Linn does not know: an object with a `kind`.
    #[serde(untagged)]
    Other(serde_json::Value),
}

/// Tokens of one model call. The counts are disjoint: input excludes what was read from or written to a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Tokens read, not counting cached ones.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Of the output, tokens of reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}
