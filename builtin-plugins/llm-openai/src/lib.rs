//! Asks models that speak the OpenAI-compatible wire: `POST {base}/chat/completions`, streamed.
//!
//! The plugin registers the wire, for whoever knows endpoints, and an adapter for each endpoint of its config. Framing, retries and limits are those of
//! [`linn_services::llm::wire`]; what is here is the request, how an endpoint wants to be told how hard to think, and what
//! the chunks of the stream mean.
//!
//! It knows no endpoint by itself, reads no environment, and lists no models that its config does not name.

#![forbid(unsafe_code)]

mod body;
mod decode;
mod dialect;
mod plugin;
mod usage;
mod wire;

pub use decode::{ChatDecoder, MAX_CALLS, MAX_WIRE_ARGUMENTS_BYTES};
pub use plugin::{OpenAiConfig, OpenAiPlugin};
