//! Messages and the blocks they are made of.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::ids::{CallId, ToolName};
use crate::model::tagged::{self, Tagged};

/// One piece of a message. Plugins may bring kinds of their own, so readers need a default branch.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text for the other side.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought before it answered.
    Reasoning {
        /// The text.
        text: String,
        /// Proof of origin that some endpoints want back with the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// The model asks for a tool.
    ToolCall {
        /// Id of the call.
        id: CallId,
        /// Which tool.
        name: ToolName,
        /// The arguments as the model wrote them; JSON, if the model did right.
        arguments: String,
    },
    /// The answer to a tool call.
    ToolResult {
        /// The call it answers.
        tool_call_id: CallId,
        /// What the tool returned.
        content: Vec<ContentBlock>,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A picture.
    Image {
        /// A `data:` URL, or an address the endpoint can reach.
        url: String,
    },
    /// A kind that Linn does not know: an object with a `type`.
    #[serde(untagged)]
    Other(Value),
}

/// The same without the kinds that Linn does not know, for reading.
#[derive(Deserialize)]
#[serde(remote = "ContentBlock", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum KnownBlock {
    Text {
        text: String,
    },
    Reasoning {
        text: String,
        #[serde(default)]
        signature: Option<String>,
    },
    ToolCall {
        id: CallId,
        name: ToolName,
        arguments: String,
    },
    ToolResult {
        tool_call_id: CallId,
        content: Vec<ContentBlock>,
        #[serde(default)]
        is_error: bool,
    },
    Image {
        url: String,
    },
}

impl Tagged for ContentBlock {
    const TAG: &'static str = "type";
    const WHAT: &'static str = "a content block";
    const KINDS: &'static [&'static str] = ContentBlock::KINDS;

    fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        KnownBlock::deserialize(deserializer)
    }
    fn other(object: Value) -> Option<Self> {
        Some(Self::Other(object))
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::deserialize(deserializer)
    }
}

impl ContentBlock {
    /// Names of the kinds that Linn knows.
    pub const KINDS: &'static [&'static str] = &["text", "reasoning", "tool-call", "tool-result", "image"];

    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// The texts of all text blocks, one after the other.
pub fn text_of(content: &[ContentBlock]) -> String {
    content.iter().filter_map(ContentBlock::as_text).collect()
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The frame set for the model.
    System,
    /// The human, and what tools and plugins answer on the human's side.
    User,
    /// The model.
    Assistant,
}

/// One turn of speech in a model's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<ContentBlock>,
}

impl Message {
    /// A message of the user's side.
    pub fn user(content: impl Into<Vec<ContentBlock>>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// A message of the model.
    pub fn assistant(content: impl Into<Vec<ContentBlock>>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// Where a message came from. Plugins may bring kinds of their own, so readers need a default branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MessageSource {
    /// The human.
    User,
    /// A plugin.
    Plugin {
        /// Its name.
        plugin: String,
    },
    /// A kind that Linn does not know: an object with a `kind`.
    #[serde(untagged)]
    Other(#[serde(deserialize_with = "unknown_source")] Value),
}

fn unknown_source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match value.get("kind").and_then(Value::as_str) {
        Some("user" | "plugin") | None => {
            Err(D::Error::custom("a source is an object with a `kind`, and `plugin` names one"))
        }
        Some(_) => Ok(value),
    }
}

impl MessageSource {
    /// The source of what a plugin says.
    pub fn plugin(name: impl Into<String>) -> Self {
        Self::Plugin { plugin: name.into() }
    }

    /// The kind, as it is tagged.
    pub fn kind(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Plugin { .. } => "plugin",
            Self::Other(value) => value.get("kind").and_then(Value::as_str).unwrap_or_default(),
        }
    }
}

/// Content that a plugin adds to the conversation; it always says where it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookContext {
    /// What is added.
    pub content: Vec<ContentBlock>,
    /// Who adds it.
    pub source: MessageSource,
}
