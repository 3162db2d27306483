//! What adapters that speak to an endpoint over HTTP have in common, without the HTTP: framing, errors, retries, limits.
//!
//! An adapter brings a [`Transport`], which is all of the network there is, and a [`Decoder`] for the frames of its wire;
//! [`Calls`] asks, reads, and tries again. Time comes from the clock of the adapter's context.

mod adapter;
mod attempts;
mod calls;
mod effort;
mod endpoint;
mod failure;
mod hygiene;
mod numbers;
mod repair;
mod sse;
mod tally;
mod think;
mod transport;

pub use adapter::EndpointAdapter;
pub use attempts::{Backoff, MAX_HINT_MS, hint_ms};
pub use calls::{Calls, Decoder, Limits, Progress};
pub use effort::{is_effort_off, resolve_effort};
pub use endpoint::{Endpoint, EndpointError, EndpointModel, KeyKind};
pub use failure::{Failure, status_error, stream_error};
pub use hygiene::{MAX_ERROR_CHARS, REDACTED, clean_text, error_text};
pub use numbers::{Count, Lenient};
pub use repair::{arguments_object, arguments_text, unanswered};
pub use sse::{EventTooLarge, Frame, MAX_EVENT_BYTES, SseParser};
pub use tally::Blocks;
pub use think::{Piece, ThinkSplitter};
pub use transport::{Body, HttpRequest, HttpResponse, Transport, TransportError};
