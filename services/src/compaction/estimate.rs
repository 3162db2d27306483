//! How many tokens something takes, by estimate.

use crate::model::{ContentBlock, Message, ToolSchema};

/// Tokens of a message beside its content.
const MESSAGE_TOKENS: u64 = 8;

/// Tokens of a picture.
const IMAGE_TOKENS: u64 = 768;

/// Estimates tokens by counting characters.
///
/// ```
/// use linn_services::compaction::TokenEstimator;
///
/// assert_eq!(TokenEstimator::default().text("nine char"), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenEstimator {
    /// How many characters make a token, at least 1.
    pub chars_per_token: u64,
}

impl Default for TokenEstimator {
    /// Four characters a token.
    fn default() -> Self {
        Self { chars_per_token: 4 }
    }
}

impl TokenEstimator {
    /// Tokens of a text.
    pub fn text(self, text: &str) -> u64 {
        (text.chars().count() as u64).div_ceil(self.chars_per_token.max(1))
    }

    /// Tokens of a block.
    pub fn block(self, block: &ContentBlock) -> u64 {
        match block {
            ContentBlock::Text { text } | ContentBlock::Reasoning { text, .. } => self.text(text),
            ContentBlock::ToolCall { name, arguments, .. } => self.text(name.as_str()) + self.text(arguments),
            ContentBlock::ToolResult { content, .. } => content.iter().map(|it| self.block(it)).sum(),
            ContentBlock::Image { .. } => IMAGE_TOKENS,
            other => serde_json::to_string(other).map_or(0, |it| self.text(&it)),
        }
    }

    /// Tokens of a message.
    pub fn message(self, message: &Message) -> u64 {
        MESSAGE_TOKENS + message.content.iter().map(|it| self.block(it)).sum::<u64>()
    }

    /// Tokens of what a model learns of tools.
    pub fn tools(self, tools: &[ToolSchema]) -> u64 {
        serde_json::to_string(tools).map_or(0, |it| if tools.is_empty() { 0 } else { self.text(&it) })
    }
}
