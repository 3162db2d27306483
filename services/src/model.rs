//! What goes to and comes from a language model.

mod content;
mod request;
mod stream;
mod tagged;

pub use content::{ContentBlock, HookContext, Message, MessageSource, Role, text_of};
pub use request::{EpochHeader, GenerateRequest, LlmCallConfig, ToolSchema};
pub use stream::{BlockType, FinishReason, StreamChunk, TokenUsage};
