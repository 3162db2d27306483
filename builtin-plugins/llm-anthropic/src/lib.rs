//! Asks models that speak the Anthropic-compatible wire: `POST {base}/messages`, streamed.
//!
//! The plugin registers the wire, for whoever knows endpoints, and an adapter for each endpoint of its config. Framing, retries and limits are those of
//! [`linn_services::llm::wire`]; what is here is the request and what the events of the stream mean.
//!
//! It knows no endpoint by itself, reads no environment, and lists no models that its config does not name.

#![forbid(unsafe_code)]

mod body;
mod decode;
mod plugin;
mod wire;

pub use decode::{MAX_CALLS, MAX_WIRE_ARGUMENTS_BYTES, MessagesDecoder};
pub use plugin::{AnthropicConfig, AnthropicPlugin};
