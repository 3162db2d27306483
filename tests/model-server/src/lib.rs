//! A model server on loopback that answers from a script, for tests that need a real connection.
//!
//! It speaks plain HTTP/1.1 and closes the connection behind each answer. A `POST` takes the next answer of the script; a
//! `GET` is answered by its path, and else told of one model, `mock-model`. What it was asked is kept. There are no delays: an answer waits at a [`Gate`]
//! until the test opens it, and the test waits until somebody has reached it.
//!
//! ```
//! use linn_model_server::{Answer, Gate, ModelServer, Wire};
//!
//! let gate = Gate::new();
//! let frames = Wire::OpenAi.text_frames(&["one ", "two"]);
//! let server = ModelServer::start([
//!     Answer::status("429 Too Many Requests", "slow down").header("retry-after", "1"),
//!     Answer::stream(frames[..1].to_vec()).and_wait(&gate).and(frames[1..].to_vec()),
//! ])?;
//! // Start a program with `server.base_url()`, and let the second half come when it has shown the first.
//! gate.open();
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! It understands no request: what it says is what the script says, right or wrong.

#![forbid(unsafe_code)]

mod answer;
mod gate;
mod http;
mod server;
mod wire;

pub use answer::{Answer, Framing};
pub use gate::Gate;
pub use http::Request;
pub use server::ModelServer;
pub use wire::Wire;
